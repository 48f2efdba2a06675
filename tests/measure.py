#!/usr/bin/env python3
"""Start time, idle memory and MemStore CPU per operation of loligo and of real Ceph, in one run on this machine.

usage: measure.py --loligo PROGRAM [--peer 16.2|18.2|20.2] [--rounds 5] [--seconds 3] [--json FILE] start|idle|cpu|images|client|store|written|latency|omap|aged|all

start  seconds from the command to HEALTH_OK and to the first acknowledged write, as clients that are loaded
       already see it; three OSDs on the durable store (ours: block, Ceph's: BlueStore)
idle   resident memory (MiB) of the same clusters some seconds after their start, without clients
cpu    4 KiB writes and random reads with `rados bench`, 16 and 256 in flight, one OSD on MemStore each: CPU of the
       OSD (ours: of the whole process, monitor included) per operation. Both systems by turns, medians and range
       of the rounds.
images 4 KiB random writes and reads of an image by fio's rbd engine, 16 in flight; a snapshot of it; a clone's first
       writes, and its flattening. One OSD on the durable store each, its file written whole: rates, CPU per
       operation, seconds.
client 4 KiB random reads and writes, 16 and 256 in flight, by `rados bench` and by `loligo bench` on the same cluster,
       one OSD on MemStore each, servers on one processor and the client on another: CPU of client and OSD per operation
store  objects of 4 KiB, 128 KiB and 4 MiB written and read at random with `rados bench`, 1, 16 and 256 in flight, one OSD
       on the durable store each, its file written whole; ours on MemStore beside them: rates, latency, CPU
written  bytes to the device for each byte that a client wrote, from an empty store to its clean stop
latency  how long single 4 KiB writes wait in a long run (--seconds 1800), both systems side by side at the same --rate
omap   a million keys of one object inserted, listed and removed; 100,000 objects written and listed: seconds, CPU
aged   4 KiB random writes of an image on a device of 2 GiB, 2 GiB each time, eleven times: whether the last are slower
Needs root (Ceph's daemons) and Debian 12's Ceph packages; another peer needs its root (tests/peers/peer-root.sh).
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import measured
from measured import (Ceph, Loligo, bench_totals, ceph, cpu_seconds, names, note, quiet, rados_bench, rss_mib, spread,
                      table, touch_memory)
import measure_aged
import measure_clients
import measure_images
import measure_latency
import measure_omap
import measure_store

FIRST_WRITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "live", "first_write.py")
DEPTHS = (16, 256)


def measure_start(system):
    """Seconds to HEALTH_OK and to the first acknowledged write."""
    argv = ["/usr/bin/python3", FIRST_WRITE, system.conf, "first", f"127.0.0.1:{system.port}", "3"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
        clients.stdout.readline()
        began = time.monotonic()
        clients.stdin.write("go\n")
        clients.stdin.flush()
        system.up("durable", 3)
        line = clients.stdout.readline()
        if not line:
            sys.exit(f"{system.name}: the first clients failed")
        times = json.loads(line)
    return times["healthy"] - began, times["wrote"] - began


def starts(make, options):
    rows = []
    for number in range(options.rounds):
        for factory in make:
            system = factory()
            try:
                healthy, wrote = measure_start(system)
                note(f"[{number + 1}/{options.rounds}] {system.name}: HEALTH_OK after {healthy:.2f} s, first write {wrote:.2f} s")
                rows.append({"system": system.name, "healthy_s": healthy, "first_write_s": wrote})
            finally:
                system.down()
    return rows


def idle(make, options):
    rows = []
    for factory in make:
        system = factory()
        try:
            system.up("durable", 3)
            time.sleep(options.settle)
            parts = {name: rss_mib(pid) for name, pid in system.pids().items()}
            rows.append({"system": system.name, "parts_mib": parts, "total_mib": sum(parts.values())})
            note(f"{system.name}: " + ", ".join(f"{n} {m:.0f} MiB" for n, m in parts.items()))
        finally:
            system.down()
    return rows


def bench(system, pool, kind, depth, seconds):
    pids = system.osd_pids()
    quiet(pids)
    before = cpu_seconds(pids)
    ops, took = bench_totals(rados_bench(system, pool, kind, 4096, depth, seconds))
    # A bench that ends lists and closes; what the server does for that counts too, for both systems alike.
    return {"system": system.name, "kind": kind, "in_flight": depth, "ops_per_s": ops / took,
            "cpu_us_per_op": (cpu_seconds(pids) - before) / ops * 1e6}


def cpu(make, options):
    rows, systems = [], [factory() for factory in make]
    try:
        for system in systems:
            system.up("mem", 1)
        for number in range(options.rounds):
            touch_memory()
            for depth in DEPTHS:
                # Who comes first changes, so that neither always meets the warmer machine.
                for system in systems if number % 2 == 0 else systems[::-1]:
                    pool = f"bench{number}x{depth}"
                    ceph(system, "osd", "pool", "create", pool, "32")
                    for kind in ("write", "rand"):
                        row = bench(system, pool, kind, depth, options.seconds)
                        note(f"[{number + 1}/{options.rounds}] {system.name} {kind} x {depth}: "
                             f"{row['ops_per_s']:.0f}/s, {row['cpu_us_per_op']:.1f} us of CPU each")
                        rows.append(row)
                    ceph(system, "osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
    finally:
        for system in systems:
            system.down()
    return rows


def print_start(rows):
    print("Seconds from the command to... (median, range)")
    table(("three OSDs, durable store", "HEALTH_OK", "first acknowledged write"),
          [(n, *(spread([r[k] for r in rows if r["system"] == n], 2) for k in ("healthy_s", "first_write_s")))
           for n in names(rows)])


def print_idle(rows):
    print("Resident memory when idle, MiB")
    table(("three OSDs, durable store", "total", "parts"),
          [(r["system"], f"{r['total_mib']:.0f}", ", ".join(f"{n} {m:.0f}" for n, m in r["parts_mib"].items()))
           for r in rows])


def print_cpu(rows):
    print("MemStore, one OSD, 4 KiB: microseconds of server CPU per operation, operations a second (median, range)")
    body, first = [], names(rows)[0]
    for kind, depth in dict.fromkeys((r["kind"], r["in_flight"]) for r in rows):
        base = None
        for name in names(rows):
            some = [r for r in rows if (r["system"], r["kind"], r["in_flight"]) == (name, kind, depth)]
            cost = [r["cpu_us_per_op"] for r in some]
            base = base or statistics.median(cost)
            body.append((f"{kind} x {depth}", name, spread(cost, 1), f"{statistics.median(cost) / base:.2f}",
                         spread([r["ops_per_s"] for r in some], 0)))
    table(("", "system", "CPU us/op", f"times {first}'s", "operations/s"), body)


MEASURES = {"start": (starts, print_start), "idle": (idle, print_idle), "cpu": (cpu, print_cpu),
            "images": (measure_images.images, measure_images.print_images),
            "store": (measure_store.store, measure_store.print_store),
            "latency": (measure_latency.latency, measure_latency.print_latency),
            "omap": (measure_omap.omap, measure_omap.print_omap),
            "aged": (measure_aged.aged, measure_aged.print_aged),
            "written": (measure_store.written, measure_store.print_written),
            "client": (measure_clients.clients, measure_clients.print_clients)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*MEASURES, "all"])
    parser.add_argument("--loligo", help="the program; without it only the peers are measured")
    parser.add_argument("--peer", action="append", help="a release of Ceph, several times if wanted [16.2]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of one bench")
    parser.add_argument("--settle", type=int, default=10, help="seconds before idle memory is read")
    parser.add_argument("--store", default="block", help="Loligo's durable store [block]")
    parser.add_argument("--image-gib", type=int, default=4, help="the size of an image [4]")
    parser.add_argument("--store-gib", type=int, default=10,
                        help="the size of a store's file that is written whole; Ceph's OSD removes pools so slowly that `store` may need 20 [10]")
    parser.add_argument("--size", action="append", choices=measure_store.SIZES,
                        help="objects that `store` writes and reads, several times if wanted [all]")
    parser.add_argument("--in-flight", action="append", type=int,
                        help="requests that `store` has under way, several times if wanted [1, 16 and 256]")
    parser.add_argument("--rate", type=int, default=600, help="writes a second of `latency`, to each system [600]")
    parser.add_argument("--json", help="a file for every single result")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("measure.py: Ceph's daemons need root; run it as root")
    measured.WHOLE_BYTES = options.store_gib << 30
    place = tempfile.mkdtemp(prefix="loligo-measure-")
    make = [lambda: Loligo(os.path.abspath(options.loligo), place, options.store)] if options.loligo else []
    make += [lambda release=release: Ceph(release, place) for release in options.peer or ["16.2"]]
    results = {}
    try:
        for what in MEASURES if options.what == "all" else [options.what]:
            results[what] = MEASURES[what][0](make, options)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    for what, rows in results.items():
        MEASURES[what][1](rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
