"""How long single writes wait in a long run: both systems side by side, each under the same open loop (measure.py latency)."""
import json
import os
import subprocess

from measured import ceph, cpu_seconds, names, note, quiet, table

# Milliseconds from which a second counts as one in which writes stalled.
STALL_MS = 100


def begin(system, program, options):
    """Planned writes of new 4 KiB objects: a stall is seen by all that were planned meanwhile."""
    argv = [program, "bench", "-p", "bench", str(options.seconds), "write", "-b", "4096", "--rate", str(options.rate),
            "--no-cleanup", "-f", "json"]
    return subprocess.Popen(argv, env={**os.environ, "CEPH_CONF": system.conf}, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)


def result(system, out, cpu):
    run = json.loads(out)
    latency, operations = run["total"]["latency_us"], run["total"]["operations"]
    worst = [second["latency_us"]["max"] / 1e3 for second in run["per_second"] if second["operations"]]
    row = {"system": system.name, "operations": operations, "rate": run["total"]["operations_per_second"],
           "cpu_us_per_op": cpu / operations * 1e6, "partial": run["why_partial"],
           "stalled_seconds": sum(ms >= STALL_MS for ms in worst), "seconds": len(worst)}
    row.update({key: latency[key] / 1e3 for key in ("p50", "p99", "p99.9", "max")})
    note(f"{system.name}: {operations} writes, p50 {row['p50']:.2f} ms, p99.9 {row['p99.9']:.2f} ms, "
         f"at most {row['max']:.0f} ms")
    return row


def latency(make, options):
    systems, runs = [factory() for factory in make], []
    program = os.path.abspath(options.loligo) if options.loligo else "loligo"
    try:
        for system in systems:
            system.up("durable", 1, whole=True)
            ceph(system, "osd", "pool", "create", "bench", "32")
        for system in systems:
            quiet(system.osd_pids())
        before = [cpu_seconds(system.osd_pids()) for system in systems]
        runs = [begin(system, program, options) for system in systems]
        outputs = [run.communicate(timeout=options.seconds + 300)[0] for run in runs]
        spent = [cpu_seconds(system.osd_pids()) - earlier for system, earlier in zip(systems, before)]
        return [result(system, out, cpu) for system, out, cpu in zip(systems, outputs, spent)]
    finally:
        for run in runs:
            run.kill()
        for system in systems:
            system.down()


def print_latency(rows):
    print(f"4 KiB writes of new objects, planned evenly, the systems side by side: milliseconds from a write's planned start, and "
          f"seconds with one of {STALL_MS} ms or more")
    table(("one OSD, durable store", "writes", "a second", "CPU us/op", "p50", "p99", "p99.9", "max", "stalled"),
          [(name, str(row["operations"]), f"{row['rate']:.0f}", f"{row['cpu_us_per_op']:.1f}",
            *(f"{row[key]:.2f}" for key in ("p50", "p99", "p99.9", "max")),
            f"{row['stalled_seconds']} of {row['seconds']}")
           for name in names(rows) for row in rows if row["system"] == name])
    for row in rows:
        if row["partial"]:
            print(f"{row['system']}: measured in part: {row['partial']}")
