"""Modelled disks: fio sees on a loop device what the model gives, and a run that is killed leaves nothing of them."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys

from harness import BOUND, equal, expect, say, until

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "modelled.py")

STUDY = """
name: killed
title: A run that is killed while its disks are modelled
systems:
  - name: filestore
    ceph: {release: 16.2, store: filestore}
    osds: 1
    place: {modelled: {model: disk-7200, size: 8G, fs: {kind: xfs, mkfs: -f, mount: noatime}}}
    journal: {modelled: {model: ssd, size: 2G, parameters: {flush_us: 50}}}
workloads:
  - name: bench
    rados_bench: {object_size: 4K, in_flight: 16, seconds: 1, phases: [write], pg_num: 8}
design: {blocks: 1, defaults_per_block: 1, confirm: no}
"""


def missing():
    lacks = [p for p in ("fio", "losetup", "mkfs.xfs") if not shutil.which(p)]
    if not os.path.exists("/dev/fuse"):
        lacks.append("/dev/fuse")
    if lacks:
        say(f"  not run: this machine has no {', '.join(lacks)}")
    return lacks


def mounts(below):
    with open("/proc/self/mounts", encoding="utf-8") as f:
        return [line.split()[1] for line in f if line.split()[1].startswith(below + "/")]


def loops(below):
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path, encoding="utf-8") as f:
                found += [text for text in [f.read().strip()] if text.startswith(below + "/")]
        except FileNotFoundError:
            pass
    return found


def servers(below):
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "device" in words and any(word.startswith(below + "/") for word in words):
            found.append(path)
    return found


def test_fio_sees_the_models_own_figures(t):
    if missing():
        return
    done = subprocess.run(
        [sys.executable, SCRIPT, "--loligo", t.loligo, "--shell", "fuse", "--models", "disk-7200",
         "--patterns", "random-read", "random-write-flush", "--seconds", "6", "--warm-up", "1", "--check", "5"],
        capture_output=True, text=True, timeout=150, check=False)
    equal(done.returncode, 0, f"fio against the model: {done.stdout} {done.stderr}")
    say(f"       {done.stdout.splitlines()[-1]}")


def test_the_overhead_of_a_modelled_disk_is_measured(t):
    if missing():
        return
    done = subprocess.run([t.loligo, "lab", "device", "--overhead", "--json"], capture_output=True, text=True, timeout=BOUND,
                          check=False, env={**os.environ, "TMPDIR": t.dir})
    equal(done.returncode, 0, f"measuring the overhead: {done.stderr}")
    overhead = json.loads(done.stdout)
    equal(sorted(overhead), ["flush_overhead_us", "mib_overhead_us", "overhead_us"], "what is measured")
    expect(0 < overhead["overhead_us"] <= 2000, f"microseconds through FUSE and a loop device: {overhead}")
    left = os.path.realpath(t.dir)
    equal((mounts(left), loops(left), servers(left), glob.glob(t.path("loligo-overhead-*"))), ([], [], [], []), "what is left")


def test_a_killed_run_leaves_no_modelled_disk(t):
    if missing():
        return
    study, out = t.path("killed.yaml"), t.path("results")
    work = os.path.join(os.path.realpath(out), "work")
    with open(study, "w", encoding="utf-8") as f:
        f.write(STUDY)
    command = [t.loligo, "lab", "run", study, "--out", out]
    quiet = {"cwd": t.dir, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    on_xfs = os.path.join(work, "data", "osd.0")
    # Beside the disks is the one through which their transport overhead was measured.
    disks = [os.path.join(work, "modelled", name) for name in ("journal.0", "osd.0", "overhead")]
    first = subprocess.Popen(command, **quiet)
    try:
        until(lambda: on_xfs in mounts(work) and sorted(loops(work)) == disks, "xfs on a modelled disk, and a journal")
    finally:
        first.kill()
        first.wait()
    expect(len(servers(work)) == 3 and mounts(work), "a killed run leaves its disks: else this test shows nothing")
    again = subprocess.Popen(command, **quiet)
    try:
        # The next start cleans up before it makes anything; that it got to its own disks shows that it did.
        seen = servers(work)
        until(lambda: servers(work) and not set(seen) & set(servers(work)), "the new run's own disks")
        again.send_signal(signal.SIGINT)
        equal(again.wait(BOUND), 130, "the exit code of a run that was stopped")
    finally:
        again.kill()
        again.wait()
    equal((mounts(work), loops(work), servers(work)), ([], [], []), "what is left")


test_fio_sees_the_models_own_figures.alone = True
test_the_overhead_of_a_modelled_disk_is_measured.alone = True
