"""Block images: fio's rbd engine, snapshots, clones and flattening, one OSD each, by turns with the peers."""
import json
import os
import subprocess
import time

from measured import ceph, cpu_seconds, names, note, quiet, spread, table

POOL = "images"
# What an image's loads are called in the results.
LOADS = ("random write", "random read", "clone's first writes")
STEPS = ("snapshot", "clone", "flatten")


def client(system, *args, timeout=1200):
    # librbd's cache would merge writes before the server sees them.
    environment = {**os.environ, "CEPH_CONF": system.conf, "CEPH_ARGS": "--rbd_cache=false"}
    done = subprocess.run(args, env=environment, capture_output=True, text=True,
                          timeout=timeout, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{system.name}: {' '.join(args)} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def rbd(system, *args):
    return client(system, "rbd", *args)


def load(system, name, image, way, seconds):
    """So many seconds of [fio]."""
    return fio(system, name, image, way, "--time_based", f"--runtime={seconds}", timeout=seconds + 300)


def fio(system, name, image, way, *args, timeout):
    """4 KiB, 16 in flight, through fio's rbd engine: operations a second, CPU of the server for each."""
    pids = system.osd_pids()
    quiet(pids)
    before = cpu_seconds(pids)
    out = client(system, "fio", "--name=load", "--ioengine=rbd", "--clientname=admin", f"--pool={POOL}",
                 f"--rbdname={image}", f"--rw={way}", "--bs=4k", "--iodepth=16", "--randrepeat=0",
                 "--output-format=json", *args, timeout=timeout)
    side = json.loads(out[out.index("{"):])["jobs"][0]["read" if "read" in way else "write"]
    cost = (cpu_seconds(pids) - before) / side["total_ios"] * 1e6
    note(f"{system.name} {name}: {side['iops']:.0f}/s, {cost:.1f} us of CPU each")
    return {"system": system.name, "load": name, "ops_per_s": side["iops"], "cpu_us_per_op": cost}


def step(system, name, *args):
    """Seconds that an rbd command takes, its client's start included."""
    began = time.monotonic()
    rbd(system, *args)
    took = time.monotonic() - began
    note(f"{system.name} {name}: {took:.2f} s")
    return {"system": system.name, "step": name, "seconds": took}


def image(system, mib):
    """An image whose every block is written: so no read finds a hole, and no write makes an object."""
    rbd(system, "create", f"{POOL}/whole", "--size", f"{mib}M", "--image-feature", "layering")
    rbd(system, "bench", "--io-type", "write", "--io-size", "4M", "--io-threads", "4", "--io-total", f"{mib}M",
        "--io-pattern", "seq", f"{POOL}/whole")
    note(f"{system.name}: an image of {mib} MiB is written")


def images(make, options):
    rows, systems = [], [factory() for factory in make]
    try:
        for system in systems:
            system.up("durable", 1, whole=True)
            ceph(system, "osd", "pool", "create", POOL, "32")
            rbd(system, "pool", "init", POOL)
            image(system, options.image_gib << 10)
        for number in range(options.rounds):
            for system in systems if number % 2 == 0 else systems[::-1]:
                for row in one_round(system, number, options.seconds):
                    rows.append(row)
    except subprocess.TimeoutExpired as expired:
        # What was measured before is worth its while, and the image is still in use.
        note(f"{system.name}: {expired.cmd[0]} did not end within {expired.timeout} s; the rounds end here")
    finally:
        for system in systems:
            system.down()
    return rows


def one_round(system, number, seconds):
    snapshot, clone = f"{POOL}/whole@s{number}", f"{POOL}/clone{number}"
    yield load(system, "random write", "whole", "randwrite", seconds)
    yield load(system, "random read", "whole", "randread", seconds)
    yield step(system, "snapshot", "snap", "create", snapshot)
    rbd(system, "snap", "protect", snapshot)
    yield step(system, "clone", "clone", snapshot, clone)
    yield load(system, "clone's first writes", f"clone{number}", "randwrite", seconds)
    yield step(system, "flatten", "flatten", "--no-progress", clone)
    # The next round begins on an image without snapshots.
    rbd(system, "rm", "--no-progress", clone)
    rbd(system, "snap", "unprotect", snapshot)
    rbd(system, "snap", "rm", "--no-progress", snapshot)


def print_images(rows):
    print("An image, every block written; one OSD, durable store; fio rbd, 4 KiB, 16 in flight (median, range)")
    table(("", "system", "operations/s", "CPU us/op"),
          [(kind, name, spread([r["ops_per_s"] for r in some], 0), spread([r["cpu_us_per_op"] for r in some], 1))
           for kind in LOADS for name in names(rows)
           if (some := [r for r in rows if (r["system"], r.get("load")) == (name, kind)])])
    print("Seconds of an rbd command, its start included (median, range)")
    table(("", "system", "seconds"),
          [(kind, name, spread([r["seconds"] for r in rows if (r["system"], r.get("step")) == (name, kind)], 2))
           for kind in STEPS for name in names(rows)])
