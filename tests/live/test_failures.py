"""What fails stays where it is: an OSD whose disk fails, and OSDs that are stopped, started and replaced by commands."""
import json
import os
import subprocess

from harness import equal, expect, until


def loligo(cluster, *args, code=0):
    done = subprocess.run(cluster.argv(*args), capture_output=True, timeout=60)
    equal(done.returncode, code, f"loligo {' '.join(args)} ({done.stdout!r} {done.stderr!r})")
    return (done.stdout + done.stderr).decode()


def status(cluster):
    return json.loads(loligo(cluster, "status", cluster.dir, "-f", "json"))["cluster"]


def osds_up(client):
    return {o["osd"] for o in client.ceph_json("osd", "dump")["osds"] if o["up"]}


def homes(client, pool, count=40):
    """Names of objects of a pool, by the OSD that has them."""
    found = {}
    for i in range(count):
        name = f"o{i}"
        found.setdefault(client.ceph_json("osd", "map", pool, name)["acting_primary"], []).append(name)
    return found


def test_an_osd_whose_disk_fails_ends_alone(t):
    cluster = t.cluster("--osds", "3", "--set", "bdev_debug_fail_file=fail")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "16")
    names = homes(client, "p")
    equal(set(names), {0, 1, 2}, "OSDs with objects")
    for osd in names:
        client.rados("-p", "p", "put", names[osd][0], "/etc/hostname")
    pid = cluster.pid()
    with open(os.path.join(cluster.dir, "osd.1", "fail"), "w", encoding="ascii"):
        pass
    # It learns of its disk at the next write, which nobody answers.
    writer = client.start("rados", "-p", "p", "put", names[1][-1], "/etc/hostname")
    try:
        until(lambda: osds_up(client) == {0, 2}, "osd.1 down", 20)
        for osd in (0, 2):
            client.rados("-p", "p", "put", names[osd][-1], "/etc/hostname")
            client.rados("-p", "p", "get", names[osd][0], "-")
        detail = client.ceph("health", "detail").text
        expect("OSD_DOWN" in detail and "osd.1" in detail, detail)
        last = until(lambda: "osd.1 failed: " in client.ceph("log", "last", "50").text, "the reason in the cluster log")
        expect(last, "the reason in the cluster log")
        expect("osd.1 failed: " in cluster.log(), f"the reason in the log: {cluster.log()[-2000:]}")
        equal(list(status(cluster)["failed_osds"]), ["1"], "failed OSDs of the status")
        expect("osd.1 failed: " in loligo(cluster, "status", cluster.dir), "the reason in the status")
        equal(cluster.pid(), pid, "the process")
    finally:
        writer.kill()
        writer.wait()
    loligo(cluster, "stop", cluster.dir)
    # What was durable is there when the disk is well again.
    os.remove(os.path.join(cluster.dir, "osd.1", "fail"))
    cluster.up("--set", "bdev_debug_fail_file=fail")
    equal(osds_up(client), {0, 1, 2}, "OSDs up")
    client.rados("-p", "p", "get", names[1][0], "-")


def test_the_monitor_goes_on_without_any_osd(t):
    cluster = t.cluster("--osds", "1", "--set", "bdev_debug_fail_file=fail")
    client = t.client(cluster)
    with open(os.path.join(cluster.dir, "osd.0", "fail"), "w", encoding="ascii"):
        pass
    client.ceph("osd", "pool", "create", "p", "8")
    until(lambda: osds_up(client) == set(), "osd.0 down", 20)
    equal(list(status(cluster)["failed_osds"]), ["0"], "failed OSDs of the status")
    loligo(cluster, "stop", cluster.dir)
    # At the next start it fails again, and says so.
    refused = cluster.up("--set", "bdev_debug_fail_file=fail", code=1)
    expect("osd.0" in refused.words, refused.words)
