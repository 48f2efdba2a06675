"""Modelled devices below OSDs: the device layer against the model's figures, and a store that is as slow as its disk."""
import os
import subprocess
import sys

from harness import expect, say

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "modelled.py")


def test_fio_over_the_device_layer_meets_the_models_figures(t):
    release = os.path.dirname(os.path.abspath(t.loligo))
    if not os.path.exists(os.path.join(release, "examples", "nbd")):
        print("not run: the example 'nbd' isn't built beside the program (make build)")
        return
    command = [sys.executable, SCRIPT, "--loligo", t.loligo, "--shell", "device", "--realtime", "--models", "disk-7200-write-back",
               "--patterns", "random-read", "random-write-flush", "--seconds", "8", "--warm-up", "1", "--check", "5"]
    env = {**os.environ, "CARGO_TARGET_DIR": os.path.dirname(release)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=env)
    expect(done.returncode == 0, f"{done.stdout}{done.stderr}")
    say(f"       {done.stdout.splitlines()[-1]}")


def test_an_osd_is_as_slow_as_its_disk(t):
    cluster = t.cluster("--store", "simple", "--osds", "1", "--set", "bdev_model=disk-7200")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "8")
    with open(t.path("data"), "wb") as f:
        f.write(b"x" * 4096)
    client.rados("-p", "p", "put", "first", t.path("data"))
    out = client.rados("-p", "p", "bench", "3", "write", "-b", "4096", "-t", "1", "--no-cleanup").text
    mean = float(next(line for line in out.splitlines() if "Average Latency" in line).split()[-1])
    # Data, then metadata, each flushed: seeks and rotations, which no file of this machine takes by itself.
    expect(0.015 < mean < 0.5, f"mean latency {mean} s on a modelled disk")


def test_a_model_that_cannot_be_is_refused(t):
    for args, words in (
        (["--store", "simple", "--set", "bdev_model=disk-720"], "is 'disk-7200' meant?"),
        (["--store", "mem", "--set", "bdev_model=ssd"], "bdev_model needs a store with a device"),
    ):
        cluster = t.cluster(start=False)
        refused = cluster.up("--osds", "1", *args, code=1)
        said = refused.text + refused.words + cluster.log()
        expect(words in said and "did not come up" not in said, said)


test_fio_over_the_device_layer_meets_the_models_figures.alone = True
