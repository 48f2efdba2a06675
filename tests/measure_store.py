"""The durable stores by size and depth, one OSD each, by turns: rates, latency, CPU an operation; bytes to the device a byte."""
import re
import subprocess
import tempfile

from measured import KernelThreads, WrittenBytes, bench_totals, ceph, cpu_seconds, names, note, quiet, rados_bench, spread, table, touch_memory

SIZES = {"4K": 4096, "128K": 131072, "4M": 4194304}
DEPTHS = (1, 16, 256)
# Objects of a phase at most: a pool must fit the device.
MOST_BYTES = 3 << 30
# Cells whose bytes to the device are counted, from an empty store to its clean stop.
COUNTED = (("4K", 1), ("4K", 16), ("128K", 16), ("4M", 16))


def most_objects(kind, size):
    return ["--max-objects", str(MOST_BYTES // SIZES[size])] if kind == "write" else []


def cell(system, kind, size, depth, seconds, pool):
    pids = system.osd_pids()
    quiet(pids)
    before, kernel = cpu_seconds(pids), KernelThreads()
    out = rados_bench(system, pool, kind, SIZES[size], depth, seconds, *most_objects(kind, size))
    ops, took = bench_totals(out)
    latency = float(re.search(r"Average Latency\(s\):\s+([\d.e+-]+)", out)[1]) * 1e3
    cost = (cpu_seconds(pids) - before) / ops * 1e6
    kernel_cost = kernel.cpu_seconds() / ops * 1e6
    note(f"{system.name} {kind} {size} x {depth}: {ops / took:.0f}/s, {latency:.2f} ms, {cost:.1f} us of CPU each, "
         f"{kernel_cost:.1f} of kernel threads")
    return {"system": system.name, "kind": kind, "size": size, "in_flight": depth, "ops_per_s": ops / took,
            "latency_ms": latency, "cpu_us_per_op": cost, "kernel_threads_us_per_op": kernel_cost}


def store(make, options):
    rows, systems = [], [(factory(), "durable") for factory in make]
    # A store without a disk: what of a latency is not the disk's.
    if options.loligo:
        memory = make[0]()
        memory.name = "loligo, mem"
        systems.append((memory, "mem"))
    try:
        for system, kind in systems:
            system.up(kind, 1, whole=kind == "durable")
        rows += [disk(options.seconds)]
        for number in range(options.rounds):
            for size in options.size or SIZES:
                for depth in options.in_flight or DEPTHS:
                    touch_memory()
                    for system, _ in systems if number % 2 == 0 else systems[::-1]:
                        rows += one_pool(system, f"bench{number}x{size}x{depth}", size, depth, options.seconds)
        rows.append(disk(options.seconds))
    finally:
        for system, _ in systems:
            system.down()
    return rows


def one_pool(system, pool, size, depth, seconds):
    ceph(system, "osd", "pool", "create", pool, "32")
    rows = [cell(system, kind, size, depth, seconds, pool) for kind in ("write", "rand")]
    ceph(system, "osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
    return rows


def disk(seconds):
    """What the disk itself gives: milliseconds of a 4 KiB write made durable, one at a time."""
    with tempfile.NamedTemporaryFile(prefix="loligo-measure-") as file:
        out = subprocess.run(["fio", "--name=disk", f"--filename={file.name}", "--size=1G", "--rw=randwrite", "--bs=4k",
                              "--ioengine=psync", "--direct=1", "--fdatasync=1", "--overwrite=1", "--time_based",
                              f"--runtime={seconds}", "--output-format=terse"], capture_output=True, text=True, check=True).stdout
    ms = 1e3 / float(out.split(";")[48])
    note(f"the disk: {ms:.2f} ms for a 4 KiB write and its flush")
    return {"system": "the disk", "kind": "write and flush", "ms": ms}


def print_store(rows):
    disks = [row["ms"] for row in rows if row["system"] == "the disk"]
    rows = [row for row in rows if row["system"] != "the disk"]
    print("Durable stores, one OSD, rados bench (median, range)")
    print(f"A 4 KiB write and its flush on the disk below: {', '.join(f'{ms:.2f}' for ms in disks)} ms before and after")
    body = []
    for key in dict.fromkeys((r["kind"], r["size"], r["in_flight"]) for r in rows):
        for name in names(rows):
            some = [r for r in rows if (r["system"], r["kind"], r["size"], r["in_flight"]) == (name, *key)]
            body.append(("{} {} x {}".format(*key), name, spread([r["ops_per_s"] for r in some], 0),
                         spread([r["latency_ms"] for r in some], 2), spread([r["cpu_us_per_op"] for r in some], 1),
                         spread([r["kernel_threads_us_per_op"] for r in some], 1)))
    table(("", "system", "operations/s", "mean latency, ms", "CPU us/op", "and of kernel threads"), body)


def written(make, options):
    """Each cell on a store of its own, counted until the store has stopped cleanly."""
    rows = []
    for number in range(options.rounds):
        for size, depth in COUNTED:
            for factory in make:
                rows.append(count(factory(), size, depth, options.seconds))
                note(f"[{number + 1}/{options.rounds}] {rows[-1]['system']} {size} x {depth}: "
                     f"{rows[-1]['bytes_per_byte']:.3f} bytes a byte of {rows[-1]['mib']:.0f} MiB")
    return rows


def count(system, size, depth, seconds):
    try:
        system.up("durable", 1, whole=True)
        ceph(system, "osd", "pool", "create", "counted", "32")
        quiet(system.osd_pids())
        with WrittenBytes(system.osd_pids()) as counter:
            ops, _ = bench_totals(rados_bench(system, "counted", "write", SIZES[size], depth, seconds,
                                              *most_objects("write", size)))
            system.stop()
            return {"system": system.name, "size": size, "in_flight": depth, "mib": ops * SIZES[size] / (1 << 20),
                    "bytes_per_byte": counter.bytes() / (ops * SIZES[size])}
    finally:
        system.down()


def print_written(rows):
    print("Bytes that the device was given for each byte of a client, from an empty store to its clean stop (median, range)")
    cells = list(dict.fromkeys((r["size"], r["in_flight"]) for r in rows))
    table(("", "system", "bytes a byte", "MiB of clients"),
          [("write {} x {}".format(*key), name, spread([r["bytes_per_byte"] for r in some], 3),
            spread([r["mib"] for r in some], 0))
           for key in cells for name in names(rows)
           if (some := [r for r in rows if (r["system"], r["size"], r["in_flight"]) == (name, *key)])])
