"""Ceph's own model checkers, which hold what they read against what they wrote, while the cluster is killed under them.

Their programs come with Debian's packages of 18.2 and 20.2; without those releases there is nothing to run.
"""
import random
import subprocess
import time

from harness import BOUND, Failure, equal, say

# Operations of ceph_test_rados with the shares that Ceph's own suite gives them for snapshots.
OPERATIONS = {"read": 100, "write": 50, "write_excl": 50, "delete": 50, "setattr": 25, "rmattr": 25, "snap_create": 50,
              "snap_remove": 50, "rollback": 50, "copy_from": 50}
FSX_OPERATIONS = 6000


def with_programs(t):
    """The newest release whose test programs can be had, or None."""
    return max((release for release in t.releases if release != "16.2"), default=None)


def checker(client, t, pool, seconds):
    """Starts Ceph's model checker on the pool. It ends by itself."""
    shares = [word for name, share in OPERATIONS.items() for word in ("--op", name, str(share))]
    with open(t.path("checker.log"), "wb") as log:
        return client.start("env", f"CEPH_CLIENT_ID={t.seed}", "ceph_test_rados", "--pool", pool, "--max-ops", "100000000",
                            "--max-seconds", str(seconds), "--objects", "100", "--max-in-flight", "16",
                            "--size", "1000000", "--min-stride-size", "100000", "--max-stride-size", "200000", *shares,
                            stdout=log, stderr=subprocess.STDOUT)


def kill_until(t, cluster, process, seconds, pause):
    """kill -9 and start again, with random pauses, until `seconds` are over. Gives how often."""
    dice, end, kills = random.Random(f"{t.seed}/kills"), time.monotonic() + seconds, 0
    while time.monotonic() < end and process.poll() is None:
        time.sleep(dice.uniform(pause / 2, pause * 3 / 2))
        cluster.kill()
        cluster.up()
        kills += 1
    return kills


def ends_well(t, process, seconds):
    try:
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired as e:
        raise Failure(f"the checker did not end within {seconds} s") from e
    finally:
        process.kill()
        process.wait()
    with open(t.path("checker.log"), "rb") as log:
        text = log.read().decode(errors="replace")
    equal(code, 0, f"the checker's end ({text[-1500:]})")
    return text


def check(t, store, seconds, pause):
    release = with_programs(t)
    if not release:
        return
    cluster = t.cluster("--store", store, "--osds", "2")
    client = t.client(cluster, release)
    client.ceph("osd", "pool", "create", "model", "8")
    process = checker(client, t, "model", seconds)
    try:
        kills = kill_until(t, cluster, process, seconds, pause)
        text = ends_well(t, process, seconds + 10 * BOUND)
    finally:
        process.kill()
        process.wait()
    done = text.count(": done (")
    say(f"    {store}: {seconds} s of ceph_test_rados of {release}, {kills} kills, {done} operations: clean")


def test_ceph_test_rados_finds_nothing_over_kills(t):
    check(t, "block", *((3600, 60) if t.soak else (15, 5)))


def test_ceph_test_rados_finds_nothing_over_kills_on_simple(t):
    check(t, "simple", 600, 30)


def test_twenty_seeds_of_fsx_on_images_with_clones_and_flatten(t):
    release = with_programs(t)
    if not release:
        return
    cluster = t.cluster("--store", "block", "--osds", "2")
    client = t.client(cluster, release)
    client.ceph("osd", "pool", "create", "images", "8")
    client.run("rbd", "pool", "init", "images")
    for seed in range(1, 21):
        began = time.monotonic()
        client.run("ceph_test_librbd_fsx", "-q", "-W", "-R", "-p", "1000", "-P", "/tmp", "-t", "1", "-N",
                   str(FSX_OPERATIONS), "-S", str(seed), "-l", "10000000", "images", f"fsx{seed}", timeout=3600)
        say(f"    fsx, seed {seed}: {FSX_OPERATIONS} operations, clean, {time.monotonic() - began:.0f} s")


test_ceph_test_rados_finds_nothing_over_kills_on_simple.soak_only = True
test_twenty_seeds_of_fsx_on_images_with_clones_and_flatten.soak_only = True
