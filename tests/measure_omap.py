"""Many keys in one object's omap, and many objects in a pool, on the durable stores, one OSD each (measure.py omap)."""
import json
import os
import subprocess

from measured import HERE, ceph, cpu_seconds, names, note, quiet, spread, table

CLIENT = os.path.join(HERE, "omap_client.py")
KEYS = 1_000_000
OBJECTS = 100_000


def omap(make, options):
    rows = []
    for number in range(options.rounds):
        for factory in make if number % 2 == 0 else make[::-1]:
            system = factory()
            try:
                system.up("durable", 1, whole=True)
                ceph(system, "osd", "pool", "create", "omap", "32")
                for row in steps(system):
                    note(f"[{number + 1}/{options.rounds}] {system.name} {row['step']}: {row['count'] / row['seconds']:.0f}/s, "
                         f"{row['cpu_us']:.1f} us of CPU each")
                    rows.append({"system": system.name, **row})
            finally:
                system.down()
    return rows


def steps(system):
    """Each step's time, and the OSD's CPU until it has nothing left to do."""
    argv = ["/usr/bin/python3", CLIENT, system.conf, "omap", str(KEYS), str(OBJECTS)]
    pids = system.osd_pids()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        for _ in range(int(client.stdout.readline() or 0)):
            quiet(pids)
            before = cpu_seconds(pids)
            client.stdin.write("go\n")
            client.stdin.flush()
            line = client.stdout.readline()
            if not line:
                break
            row = json.loads(line)
            quiet(pids)
            yield {**row, "cpu_us": (cpu_seconds(pids) - before) / row["count"] * 1e6}
    if client.returncode:
        raise RuntimeError(f"{system.name}: the client ended with {client.returncode}")


def print_omap(rows):
    print("One object's omap, and objects of a byte; durable stores, one OSD (median, range)")
    body = []
    for step in dict.fromkeys(row["step"] for row in rows):
        for name in names(rows):
            some = [row for row in rows if (row["system"], row["step"]) == (name, step)]
            body.append((f"{some[0]['count']} {step}", name, spread([row["seconds"] for row in some], 2),
                         spread([row["count"] / row["seconds"] for row in some], 0),
                         spread([row["cpu_us"] for row in some], 1)))
    table(("", "system", "seconds", "a second", "CPU us each"), body)
