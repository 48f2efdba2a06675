"""Two clients beside each other: `rados bench` and `loligo bench` on the same cluster (measure.py client)."""
import os
import subprocess

from measured import Loligo, bench_totals, ceph, cpu_seconds, note, quiet, spread, table

DEPTHS = (16, 256)


def pin(pids, processor):
    """Keeps the threads that processes have now on one processor."""
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {processor})


def client_run(system, client, pool, kind, depth, options):
    pids = system.osd_pids()
    quiet(pids)
    program = ["rados", "-p", pool, "bench"] if client == "rados bench" else [
        os.path.abspath(options.loligo), "bench", "-p", pool]
    args = ["taskset", "-c", "1", *program, str(options.seconds), kind, "-t", str(depth)]
    if kind == "write":
        args += ["-b", "4096", "--no-cleanup"]
    # Ours compares what it reads, with bytes that rados bench does not know.
    elif client == "rados bench":
        args += ["--no-verify"]
    servers, children = cpu_seconds(pids), os.times()
    done = subprocess.run(args, env={**os.environ, "CEPH_CONF": system.conf}, capture_output=True, text=True,
                          timeout=options.seconds + 60, check=True)
    after = os.times()
    ops, took = bench_totals(done.stdout)
    own = after.children_user + after.children_system - children.children_user - children.children_system
    return {"system": system.name, "client": client, "kind": kind, "in_flight": depth, "ops_per_s": ops / took,
            "client_us_per_op": own / ops * 1e6, "server_us_per_op": (cpu_seconds(pids) - servers) / ops * 1e6}


def clients(make, options):
    rows = []
    for factory in make if options.loligo else []:
        system = factory()
        try:
            if isinstance(system, Loligo):
                system.up("mem", 1, "--cores", "1")
            else:
                system.up("mem", 1)
            pin(system.osd_pids(), 0)
            for number in range(options.rounds):
                for depth in DEPTHS:
                    both = ["rados bench", "loligo bench"]
                    for client in both if number % 2 == 0 else both[::-1]:
                        # Each reads what it has written.
                        pool = f"{client.split()[0]}{number}x{depth}"
                        ceph(system, "osd", "pool", "create", pool, "32")
                        for kind in ("write", "rand"):
                            row = client_run(system, client, pool, kind, depth, options)
                            note(f"[{number + 1}/{options.rounds}] {system.name} {client} {kind} x {depth}: "
                                 f"{row['ops_per_s']:.0f}/s, {row['client_us_per_op']:.1f} us of the client's CPU each, "
                                 f"{row['server_us_per_op']:.1f} us of the server's")
                            rows.append(row)
                        ceph(system, "osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
        finally:
            system.down()
    return rows


def print_clients(rows):
    print("MemStore, one OSD on one processor, the client on another, 4 KiB: microseconds of CPU per operation, "
          "operations a second (median, range)")
    body = []
    for key in dict.fromkeys((r["system"], r["kind"], r["in_flight"], r["client"]) for r in rows):
        some = [r for r in rows if (r["system"], r["kind"], r["in_flight"], r["client"]) == key]
        body.append((f"{key[0]}, {key[1]} x {key[2]}", key[3],
                     *(spread([r[k] for r in some], d) for k, d in
                       (("client_us_per_op", 1), ("server_us_per_op", 1), ("ops_per_s", 0)))))
    table(("", "client", "client us/op", "server us/op", "operations/s"), body)
