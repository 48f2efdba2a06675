"""What fails stays where it is: an OSD whose disk fails, and OSDs that are stopped, started and replaced by commands."""
import collections
import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

from harness import BOUND, equal, expect, until
from test_block_store import loop_device
from test_full import file_system, fill_with_others_data, small_xfs


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
        if cluster.metadata(1).endswith("block"):
            expect(f"{cluster.metadata(1)} failed" in cluster.log(), f"the file: {cluster.log()[-2000:]}")
        expect("Then `loligo start DIR --osd N` opens the store again" in cluster.log(), f"what to do: {cluster.log()[-2000:]}")
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


def test_a_write_that_finds_no_space_names_the_file_and_what_to_do(t):
    """No write of a store finds its file system full, but where a copy of its file shares the blocks."""
    below = small_xfs(t, "below", 400 << 20)
    cluster = t.cluster("--osds", "1", "--store", "block", "--osd-size", "64MiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "8")
    loligo(cluster, "stop", cluster.dir)
    home = os.path.join(cluster.dir, "osd.0")
    there = shutil.copytree(home, os.path.join(below, "osd.0"))
    shutil.rmtree(home)
    os.symlink(there, home)
    cluster.up()
    others = os.path.join(below, "others")
    block = cluster.metadata(0)
    subprocess.run(["cp", "--reflink=always", block, os.path.join(below, "copy")], check=True)
    fill_with_others_data(others)
    writer = client.start("rados", "-p", "p", "bench", "60", "write", "-b", "4096", stdout=subprocess.DEVNULL)
    try:
        until(lambda: status(cluster)["failed_osds"], "osd.0 fails")
    finally:
        writer.kill()
        writer.wait()
    said = status(cluster)["osds"]["0"]["reason"]
    expect(f"{block} failed at byte " in said and "No space left on device" in said, said)
    expect("make room on its file system. Then `loligo start DIR --osd N`" in said, said)
    os.remove(others)
    loligo(cluster, "start", cluster.dir, "--osd", "0")


def test_a_start_says_which_osd_it_waits_for(t):
    """Of a device that hangs."""
    below = small_xfs(t, "below", 400 << 20)
    devices = [loop_device(t, "disk", 80 << 20), loop_device(t, "below/disk", 80 << 20)]
    cluster = t.cluster("--osds", "2", *[word for device in devices for word in ("--device", device)])
    cluster.stop()
    thaw = functools.partial(subprocess.run, ["fsfreeze", "--unfreeze", below], check=False, capture_output=True)
    t.cleanups.append(thaw)
    subprocess.run(["fsfreeze", "--freeze", below], check=True)
    words = t.path("words")

    def said():
        with open(words, encoding="ascii") as f:
            return f.read()

    with open(words, "wb") as out, subprocess.Popen(cluster.argv("up", "--dir", cluster.dir, "--detach"), stderr=out) as start:
        try:
            until(lambda: "waiting for osd.1" in said() and " s so far" in said(), said)
            equal(start.poll(), None, "it waits")
        finally:
            thaw()
        equal(start.wait(BOUND), 0, "the start")


def test_the_monitor_goes_on_without_any_osd(t):
    cluster = t.cluster("--osds", "1", "--set", "bdev_debug_fail_file=fail")
    client = t.client(cluster)
    with open(os.path.join(cluster.dir, "osd.0", "fail"), "w", encoding="ascii"):
        pass
    client.ceph("osd", "pool", "create", "p", "8")
    until(lambda: osds_up(client) == set(), "osd.0 down", 20)
    equal(list(status(cluster)["failed_osds"]), ["0"], "failed OSDs of the status")
    loligo(cluster, "stop", cluster.dir)
    # At the next start it fails again, and says so: the monitor is alone.
    cluster.up("--set", "bdev_debug_fail_file=fail", code=cluster.ALONE)
    expect("Note: osd.0 failed and is down: " in cluster.said and "no OSD serves" in cluster.said, cluster.said)
    equal(list(status(cluster)["failed_osds"]), ["0"], "failed OSDs of the next status")
    os.remove(os.path.join(cluster.dir, "osd.0", "fail"))
    loligo(cluster, "start", cluster.dir, "--osd", "0")
    equal(osds_up(client), {0}, "OSDs up")


def pgs_by(client, pool):
    """The PGs of a pool, by their primary."""
    found = {}
    for pg in client.ceph_json("pg", "ls-by-pool", pool)["pg_stats"]:
        found.setdefault(pg["acting_primary"], set()).add(pg["pgid"])
    return found


def states(client, pool):
    return {pg["pgid"]: pg["state"] for pg in client.ceph_json("pg", "ls-by-pool", pool)["pg_stats"]}


def filled(client, pool="p", pg_num="16"):
    """A pool with an object on every OSD: names, by OSD."""
    client.ceph("osd", "pool", "create", pool, pg_num)
    names = homes(client, pool)
    for osd in names:
        client.rados("-p", pool, "put", names[osd][0], "/etc/hostname")
    return names


def threads_of(pid):
    """A process's threads by name, without those that come with load: io_uring's workers, and all but the first of a
    device's own, which stay as long as their OSD."""
    names = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as f:
            names.append(f.read().strip())
    lent = re.compile(r"iou-.*|bdev-(data|wal|db)-[1-9][0-9]*")
    return collections.Counter(name for name in names if not lent.fullmatch(name))


def test_one_osd_of_a_running_cluster_is_stopped_and_started(t):
    cluster = t.cluster("--osds", "3")
    client = t.client(cluster)
    names = filled(client)
    pid = cluster.pid()
    # A client that is in the middle of its work goes on where it was.
    writer = client.start("rados", "-p", "p", "bench", "8", "write", "-b", "4096", "-t", "8", "--no-cleanup",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for _ in range(3):
            expect("osd.1: stopped" in loligo(cluster, "stop", cluster.dir, "--osd", "1"), "stopped")
            equal(osds_up(client), {0, 2}, "OSDs up")
            equal(status(cluster)["osds"]["1"], {"state": "stopped"}, "the status of osd.1")
            expect("osd.1: stopped" in loligo(cluster, "status", cluster.dir), "osd.1 in the status")
            # At once, and with no failure: it said good-bye.
            expect("OSD_FAILED" not in client.ceph("health", "detail").text, "it has not failed")
            client.rados("-p", "p", "get", names[0][0], "-")
            expect("not running" in loligo(cluster, "stop", cluster.dir, "--osd", "1"), "stopped already")
            expect("osd.1: up" in loligo(cluster, "start", cluster.dir, "--osd", "1"), "started")
            equal(osds_up(client), {0, 1, 2}, "OSDs up")
            client.rados("-p", "p", "get", names[1][0], "-")
        expect("runs already" in loligo(cluster, "start", cluster.dir, "--osd", "1"), "started already")
        out, _ = writer.communicate(timeout=60)
        equal(writer.returncode, 0, f"the bench ({out!r})")
    finally:
        writer.kill()
        writer.wait()
    equal(cluster.pid(), pid, "the process")
    # Its connections and its threads end with it: the same again leaves no more of them.
    threads = threads_of(pid)
    files = len(os.listdir(f"/proc/{pid}/fd"))
    for _ in range(10):
        loligo(cluster, "stop", cluster.dir, "--osd", "2")
        loligo(cluster, "start", cluster.dir, "--osd", "2")
    # What makes a store's file grow may still be at it; what an OSD has left stays.
    until(lambda: threads_of(pid) <= threads,
          lambda: f"the threads of the OSDs that were stopped have ended; before {threads}, now {threads_of(pid)}")
    expect(len(os.listdir(f"/proc/{pid}/fd")) <= files + 3, "files are left open")
    # What is refused says why, with the exit code of a failure.
    expect("there is no osd.7" in loligo(cluster, "stop", cluster.dir, "--osd", "7", code=1), "no such OSD")
    said = loligo(cluster, "start", cluster.dir, "--osd", "1", "--replace", code=1)
    expect("stop it first" in said, said)
    # The process stops with an OSD that is stopped already.
    loligo(cluster, "stop", cluster.dir, "--osd", "0")
    loligo(cluster, "stop", cluster.dir)
    expect("not running" in loligo(cluster, "start", cluster.dir, "--osd", "1", code=1), "no process to ask")
    cluster.up()
    equal(osds_up(client), {0, 1, 2}, "OSDs up")


test_one_osd_of_a_running_cluster_is_stopped_and_started.both_cores = True


def test_an_osd_gets_an_empty_store_only_when_its_loss_is_accepted(t):
    cluster = t.cluster("--osds", "3")
    client = t.client(cluster)
    names = filled(client)
    mine = pgs_by(client, "p")[1]
    uuid = client.ceph_json("osd", "dump")["osds"][1]["uuid"]
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    said = loligo(cluster, "start", cluster.dir, "--osd", "1", "--replace", code=1)
    expect("objects would be lost" in said and "--yes-i-really-mean-it" in said, said)
    expect("stopped" == status(cluster)["osds"]["1"]["state"], "it keeps its store, and is not started")
    said = loligo(cluster, "start", cluster.dir, "--osd", "1", "--replace", "--yes-i-really-mean-it")
    expect("osd.1/replaced-1" in said and "force-create-pg" in said, said)
    equal(osds_up(client), {0, 1, 2}, "OSDs up")
    expect(client.ceph_json("osd", "dump")["osds"][1]["uuid"] != uuid, "another store has another UUID")
    # Nothing is made up: what it had is gone, and its PGs say so until they are given up.
    equal({pg for pg, state in states(client, "p").items() if "stale" in state}, mine, "stale PGs")
    client.rados("-p", "p", "get", names[0][0], "-")
    # Nor by a monitor that has heard of none of them.
    loligo(cluster, "stop", cluster.dir)
    cluster.up()
    active = lambda: {pg for pg, state in states(client, "p").items() if "active" in state}
    until(lambda: active() == set(states(client, "p")) - mine, "the PGs of the others active", 30)
    time.sleep(3)
    expect(not active() & mine, "lost PGs were made again")
    for pg in mine:
        expect("--yes-i-really-mean-it" in client.ceph("osd", "force-create-pg", pg, code=1).words, "it asks first")
        client.ceph("osd", "force-create-pg", pg, "--yes-i-really-mean-it")
    until(lambda: set(states(client, "p").values()) == {"active+clean"}, "all PGs active", 30)
    gone = client.rados("-p", "p", "get", names[1][0], "-", code=1).words
    expect("No such file" in gone, gone)
    client.rados("-p", "p", "put", names[1][0], "/etc/hostname")
    # The former store belongs to nobody any more.
    loligo(cluster, "stop", cluster.dir)
    store, aside = os.path.join(cluster.dir, "osd.1"), os.path.join(cluster.dir, "aside")
    os.rename(store, aside)
    os.rename(os.path.join(aside, "replaced-1"), store)
    cluster.up()
    reason = status(cluster)["osds"]["1"]["reason"]
    expect("the store belongs to osd.1 (" in reason or "is the store of osd.1 (" in reason, reason)
    equal(osds_up(client), {0, 2}, "OSDs up")


def described(cluster):
    with open(os.path.join(cluster.dir, "cluster.json"), encoding="utf-8") as f:
        return json.load(f)


class Replacing:
    """A cluster with objects on each of its OSDs, of which osd.1 is given an empty store, in vain."""

    def __init__(self, t, *args, osds=3, **kw):
        self.osds = set(range(osds))
        self.cluster = t.cluster("--osds", str(osds), *args, **kw)
        self.client = t.client(self.cluster)
        self.names = filled(self.client)
        self.uuid = self.uuids()[1]
        loligo(self.cluster, "stop", self.cluster.dir, "--osd", "1")

    def uuids(self):
        return [osd["uuid"] for osd in self.client.ceph_json("osd", "dump")["osds"]]

    def replace(self, **kw):
        return loligo(self.cluster, "start", self.cluster.dir, "--osd", "1", "--replace", "--yes-i-really-mean-it", **kw)

    def fails(self, *words):
        """A replacement fails, and says why; the OSD is the same as before to the monitor and in the directory."""
        said = self.replace(code=1)
        self.is_the_same()
        expect(all(word in said for word in ("osd.1 keeps its store", *words)), said)

    def is_the_same(self):
        equal((self.uuids()[1], described(self.cluster)["osd_uuids"][1]), (self.uuid, self.uuid), "the OSD's UUID")
        equal([name for name in os.listdir(self.directory()) if name.startswith(("replaced-", "replacing-"))], [], "what is moved aside")
        tree = self.client.ceph("osd", "tree").text
        expect("destroyed" not in tree, tree)

    def directory(self):
        return os.path.join(self.cluster.dir, "osd.1")

    def goes_on(self):
        """Started as any, it has all its objects."""
        loligo(self.cluster, "start", self.cluster.dir, "--osd", "1")
        self.serves()

    def serves(self):
        equal(osds_up(self.client), self.osds, "OSDs up")
        for osd in self.names:
            self.client.rados("-p", "p", "get", self.names[osd][0], "-")
        until(lambda: set(states(self.client, "p").values()) == {"active+clean"}, "all PGs active", 30)


def test_an_osd_keeps_its_store_where_no_new_one_can_be_made(t):
    places = t.path("places")
    os.mkdir(places)
    logs = [os.path.join(places, f"log{osd}") for osd in range(3)]
    named = [word for log in logs for word in ("--log-device", log)]
    of = Replacing(t, "--store", "block", "--osd-size", "256MiB", *named)
    log, away = logs[1], logs[1] + ".away"
    obstacle = os.path.join(of.cluster.dir, "cluster.json.new")

    # Another process has the log.
    with open(log, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        of.fails(log, "in use")
    of.goes_on()

    # What is in the log's place is none, or is another's.
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    os.rename(log, away)
    os.mkdir(log)
    of.fails(log, "neither a block device nor a file")
    os.rmdir(log)
    with open(log, "w", encoding="ascii") as f:
        f.write("years of work")
    of.fails(log, "holds data")
    with open(log, encoding="ascii") as f:
        equal(f.read(), "years of work", "what was refused")
    os.remove(log)
    os.symlink(t.path("nothing"), log)
    of.fails(log, "No such file")
    os.remove(log)
    # There is none. That of the new store, which is given up again, goes with it.
    os.mkdir(obstacle)
    of.fails("cluster.json")
    os.rmdir(obstacle)
    expect(not os.path.exists(log), "a log was left behind")
    os.rename(away, log)
    of.goes_on()

    # The file system that it lies on is not there.
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    os.rename(places, places + ".away")
    of.fails(log, "its directory is not there")
    os.rename(places + ".away", places)
    of.goes_on()

    # Nor that of the OSD's directory, or another process has that.
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    with open(os.path.join(of.directory(), "lock"), "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        of.fails(of.directory(), "in use")
    os.rename(of.directory(), t.path("moved"))
    os.symlink(t.path("unmounted"), of.directory())
    said = of.replace(code=1)
    expect("osd.1 keeps its store" in said and f"{of.directory()} is a link that leads to nothing" in said, said)
    os.remove(of.directory())
    os.rename(t.path("moved"), of.directory())
    of.is_the_same()
    of.goes_on()

    # The command can't put back a log that it has written over, and says so.
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    os.mkdir(obstacle)
    said = of.replace(code=1)
    expect("osd.1 has no store now" in said and f"{log} is written over" in said and "--replace" in said, said)
    os.rmdir(obstacle)
    of.is_the_same()
    expect("with an empty store" in of.replace(), "an empty store")
    equal(osds_up(of.client), of.osds, "OSDs up")


# The logs of the other stores have no places of their own.
test_an_osd_keeps_its_store_where_no_new_one_can_be_made.default_store_only = True


def test_an_osd_keeps_its_store_where_its_device_can_not_be_had(t):
    device, link = loop_device(t, "disk", 256 << 20), t.path("device")
    os.symlink(device, link)
    other = loop_device(t, "disk0", 256 << 20)
    of = Replacing(t, "--device", other, "--device", link, "--set", "bdev_debug_fail_file=fail", osds=2)
    os.remove(link)
    of.fails(link, "there is no device")
    small = loop_device(t, "small", 16 << 20)
    os.symlink(small, link)
    of.fails(link, "can't be made in 16 MiB")
    os.remove(link)
    os.symlink(device, link)
    # The directory leads to another one than the cluster's description names.
    at = os.path.join(of.directory(), "block")
    os.remove(at)
    os.symlink(device, at)
    of.fails(at, "leads to", link)
    of.goes_on()
    os.remove(at)
    os.symlink(link, at)
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    of.goes_on()

    # A device that fails while a store is made on it has the former one no more.
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    fail = os.path.join(of.directory(), "fail")
    with open(fail, "w", encoding="ascii"):
        pass
    said = of.replace(code=1)
    expect("osd.1 has no store now" in said and f"{link} is written over" in said and "--replace" in said, said)
    of.is_the_same()
    os.remove(fail)
    expect("with an empty store" in of.replace(), "an empty store")
    equal(osds_up(of.client), of.osds, "OSDs up")
    expect(of.uuids()[1] != of.uuid, "another store has another UUID")


# The other stores have no devices.
test_an_osd_keeps_its_store_where_its_device_can_not_be_had.default_store_only = True


def test_an_osd_keeps_its_store_where_there_is_no_room_for_another(t):
    below = file_system(t, "below", "340m")
    of = Replacing(t, "--store", "block", "--osd-size", "96MiB", "--preallocate", directory=os.path.join(below, "c"))
    of.fails("no space", of.directory())
    of.goes_on()


# The other stores have no image files that are written whole.
test_an_osd_keeps_its_store_where_there_is_no_room_for_another.default_store_only = True


def test_a_replacement_whose_osd_fails_before_it_is_up_puts_the_former_store_back(t):
    of = Replacing(t, "--set", "bdev_debug_fail_file=fail")
    files, fail = sorted(os.listdir(of.directory())), os.path.join(of.directory(), "fail")
    of.client.ceph("osd", "set", "noup")
    words = ("start", of.cluster.dir, "--osd", "1", "--replace", "--yes-i-really-mean-it")
    with subprocess.Popen(of.cluster.argv(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        until(lambda: described(of.cluster)["osd_uuids"][1] != of.uuid, "another store is described", step=0.01)
        until(lambda: os.path.exists(os.path.join(of.directory(), "replaced-1")), "the former store is kept", step=0.01)
        with open(fail, "w", encoding="ascii"):
            pass
        # A map is written.
        of.client.ceph("osd", "set", "noscrub")
        said = process.communicate(timeout=60)[0].decode()
    equal(process.returncode, 1, said)
    expect("osd.1 keeps its store" in said and "osd.1 failed" in said, said)
    of.is_the_same()
    equal(sorted(os.listdir(of.directory())), files, "the OSD's files")
    for flag in ("noup", "noscrub"):
        of.client.ceph("osd", "unset", flag)
    of.goes_on()


def test_a_store_is_replaced_whose_log_has_moved_unnoticed(t):
    """As `loligo store log` leaves it that is killed before the directory's description names the log's new place."""
    disks, logs = ([loop_device(t, f"{name}{osd}", 256 << 20) for osd in range(2)] for name in ("disk", "log"))
    named = [word for disk, log in zip(disks, logs) for word in ("--device", disk, "--log-device", log)]
    of = Replacing(t, *named, osds=2)
    loligo(of.cluster, "stop", of.cluster.dir)
    description, moved, link = os.path.join(of.cluster.dir, "cluster.json"), t.path("moved"), os.path.join(of.directory(), "block.wal")
    with open(description, encoding="utf-8") as f:
        before = f.read()
    loligo(of.cluster, "store", "log", of.cluster.dir, "--osd", "1", "--to", moved)
    with open(description, "w", encoding="utf-8") as f:
        f.write(before)
    of.cluster.up()
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    equal(os.readlink(link), moved, "the log before")
    said = of.replace()
    expect("with an empty store" in said, said)
    equal((os.readlink(link), os.path.exists(moved)), (logs[1], False), "the log of the new store, and of the former one")
    equal(osds_up(of.client), of.osds, "OSDs up")
    loligo(of.cluster, "stop", of.cluster.dir)
    expect("no problem" in loligo(of.cluster, "store", "fsck", of.cluster.dir, "--osd", "1", "--deep"), "the new store")


# The other stores have no logs.
test_a_store_is_replaced_whose_log_has_moved_unnoticed.default_store_only = True


def test_a_replacement_that_is_killed_leaves_the_former_store(t):
    of = Replacing(t, "--store", "block", "--osd-size", "768MiB", "--preallocate", osds=2)
    files = sorted(os.listdir(of.directory()))
    words = ("start", of.cluster.dir, "--osd", "1", "--replace", "--yes-i-really-mean-it")
    with subprocess.Popen(of.cluster.argv(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        new = os.path.join(of.directory(), "block")
        is_made = lambda: any(name.startswith("replacing-") for name in os.listdir(of.directory())) and os.path.exists(new)
        until(is_made, "a new store is being made", step=0.002)
        of.cluster.kill()
        process.kill()
    expect(sorted(os.listdir(of.directory())) != files, "the replacement came to its end before")
    of.cluster.up()
    of.is_the_same()
    equal(sorted(os.listdir(of.directory())), files, "the OSD's files")
    of.serves()
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    said = of.replace()
    expect("osd.1/replaced-1" in said, said)
    equal([name for name in os.listdir(of.directory()) if name.startswith("repl")], ["replaced-1"], "what is moved aside")
    equal(osds_up(of.client), of.osds, "OSDs up")


# The other stores have no image files that are written whole: their making has no length.
test_a_replacement_that_is_killed_leaves_the_former_store.default_store_only = True


def test_a_replacement_that_fails_late_puts_the_former_store_back(t):
    # As many ports as there are daemons: none is left where one is taken away.
    first = 65535 - 4
    of = Replacing(t, "--port", str(first))
    files = sorted(os.listdir(of.directory()))
    host, port = described(of.cluster)["osd_addrs"][1].rsplit(":", 1)
    with socket.create_server((host, int(port))):
        of.fails("no free port")
    equal(sorted(os.listdir(of.directory())), files, "the OSD's files")
    of.goes_on()
    # When the new store is there, and the monitor has heard of it: the description can't be written.
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    obstacle = os.path.join(of.cluster.dir, "cluster.json.new")
    os.mkdir(obstacle)
    of.fails("cluster.json")
    os.rmdir(obstacle)
    equal(sorted(os.listdir(of.directory())), files, "the OSD's files")
    of.goes_on()
    # An OSD that was given up before stays so.
    loligo(of.cluster, "stop", of.cluster.dir, "--osd", "1")
    of.client.ceph("osd", "destroy", "1", "--yes-i-really-mean-it")
    os.mkdir(obstacle)
    said = of.replace(code=1)
    expect("cluster.json" in said, said)
    os.rmdir(obstacle)
    expect("destroyed" in of.client.ceph("osd", "tree").text, "it is destroyed")
    expect("destroyed" in loligo(of.cluster, "start", of.cluster.dir, "--osd", "1", code=1), "it takes an empty store")
    expect("with an empty store" in of.replace(), "an empty store")
    equal(osds_up(of.client), of.osds, "OSDs up")


def test_a_store_that_can_not_be_opened_costs_only_its_osd(t):
    cluster = t.cluster("--osds", "3")
    client = t.client(cluster)
    names = filled(client)
    # Killed, the map still shows it up.
    cluster.kill()
    meta = cluster.metadata(2)
    os.rename(meta, meta + ".away")
    cluster.up()
    expect("Note: osd.2 failed and is down" in cluster.said, cluster.said)
    until(lambda: osds_up(client) == {0, 1}, "osd.2 down", 20)
    client.rados("-p", "p", "get", names[0][0], "-")
    reason = status(cluster)["osds"]["2"]
    expect(reason["state"] == "failed" and "its store can't be used" in reason["reason"], reason)
    expect("osd.2 failed: its store can't be used" in cluster.log(), "the reason in the log")
    detail = client.ceph("health", "detail").text
    expect("OSD_DOWN" in detail and "osd.2 failed: its store can't be used" in detail, detail)
    said = loligo(cluster, "start", cluster.dir, "--osd", "2", code=1)
    expect("its store can't be used" in said, said)
    # Well again, it is opened and joins.
    os.rename(meta + ".away", meta)
    loligo(cluster, "start", cluster.dir, "--osd", "2")
    equal(osds_up(client), {0, 1, 2}, "OSDs up")
    client.rados("-p", "p", "get", names[2][0], "-")
    expect("OSD_FAILED" not in client.ceph("health", "detail").text, "it has not failed any more")


def test_a_cluster_of_which_no_store_can_be_opened_begins_again(t):
    cluster = t.cluster("--osds", "2", "--store", "block")
    client = t.client(cluster)
    filled(client)
    loligo(cluster, "stop", cluster.dir)
    for osd in range(2):
        with open(cluster.metadata(osd), "r+b") as f:
            # The log: behind the label and two superblocks.
            f.seek(3 * 4096)
            f.write(os.urandom(1 << 20))
    # The monitor starts alone, and says of each OSD what is wrong.
    cluster.up(code=cluster.ALONE)
    for osd in range(2):
        expect(f"Note: osd.{osd} failed and is down: its store can't be used: " in cluster.said, cluster.said)
    expect("no OSD serves" in cluster.said and f"loligo start {cluster.dir} --osd N" in cluster.said, cluster.said)
    expect("--replace" in cluster.said, f"the way out: {cluster.said}")
    of_status = status(cluster)["osds"]
    equal([of_status[osd]["state"] for osd in ("0", "1")], ["failed", "failed"], "states")
    until(lambda: osds_up(client) == set(), "no OSD up", 20)
    detail = client.ceph("health", "detail").text
    expect(all(f"osd.{osd} failed: its store can't be used" in detail for osd in range(2)), detail)
    # What the message names works.
    for osd in range(2):
        said = loligo(cluster, "start", cluster.dir, "--osd", str(osd), "--replace", "--yes-i-really-mean-it")
        expect("with an empty store" in said, said)
    equal(osds_up(client), {0, 1}, "OSDs up")
    client.ceph("osd", "pool", "create", "again", "8")
    client.rados("-p", "again", "put", "o", "/etc/hostname")
    loligo(cluster, "stop", cluster.dir)
    cluster.up()
    expect("failed" not in cluster.said, cluster.said)
    client.rados("-p", "again", "get", "o", "-")


def test_a_log_that_was_lost_after_a_stop_in_order_is_noticed(t):
    """Its records were acknowledged: none is taken for one that a power loss left unwritten."""
    cluster = t.cluster("--osds", "3", "--store", "block")
    client = t.client(cluster)
    filled(client)

    def zero_log(osd):
        with open(cluster.metadata(osd), "r+b") as f:
            # Behind the label and two superblocks.
            f.seek(3 * 4096)
            f.write(bytes(1 << 20))

    loligo(cluster, "stop", cluster.dir)
    zero_log(0)
    cluster.up()
    expect("osd.0 failed and is down" in cluster.said and "the log is corrupt" in cluster.said, cluster.said)
    client.rados("-p", "p", "put", "later", "/etc/hostname")
    # The command stops one OSD; then SIGTERM ends the whole process.
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    zero_log(1)
    said = loligo(cluster, "start", cluster.dir, "--osd", "1", code=1)
    expect("the log is corrupt" in said, said)
    cluster.kill(signal.SIGTERM)
    zero_log(2)
    said = loligo(cluster, "store", "fsck", cluster.dir, "--osd", "2", code=1)
    expect("the log is corrupt" in said, said)


def test_a_newest_superblock_that_was_lost_is_noticed(t):
    """Without it, and without its copy, all that was written since the one before would not count."""
    cluster = t.cluster("--osds", "1", "--store", "block")
    client = t.client(cluster)
    filled(client)
    loligo(cluster, "stop", cluster.dir)
    label = json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))["osd.0"]["label"]
    cluster.up()
    client.rados("-p", "p", "put", "later", "/etc/hostname")
    cluster.kill(signal.SIGKILL)
    with open(cluster.metadata(0), "r+b") as f:
        # Two places behind the label; the generation is behind checksum, length, magic, features, store and shard.
        def generation(place):
            f.seek(place + 32)
            return int.from_bytes(f.read(8), "little")

        newest = max((4096, 8192), key=generation)
        # The copies are behind the log.
        for place in (newest, newest + 2 * 4096 + label["log_bytes"]):
            f.seek(place)
            f.write(bytes(4096))
    cluster.up(code=cluster.ALONE)
    said = cluster.said
    expect("osd.0 failed" in said and "shard 0" in said and "the newest superblock was lost" in said, said)
    loligo(cluster, "stop", cluster.dir)
    # All that was acknowledged can be saved.
    shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, "--object", "later", "-f", "json", code=1))["osd.0"]
    equal(shown["objects"][0]["bytes"], os.path.getsize("/etc/hostname"), "the last object that was written")
    expect("the newest superblock was lost" in shown["damage"][0], shown)


def test_a_failed_disk_is_replaced_while_the_others_serve(t):
    cluster = t.cluster("--osds", "3", "--set", "bdev_debug_fail_file=fail")
    client = t.client(cluster)
    names = filled(client)
    fail = os.path.join(cluster.dir, "osd.1", "fail")
    with open(fail, "w", encoding="ascii"):
        pass
    writer = client.start("rados", "-p", "p", "put", names[1][-1], "/etc/hostname")
    try:
        until(lambda: osds_up(client) == {0, 2}, "osd.1 down", 20)
        until(lambda: "osd.1 failed: " in client.ceph("health", "detail").text, "the reason in the health", 10)
        os.remove(fail)
        said = loligo(cluster, "start", cluster.dir, "--osd", "1", "--replace", "--yes-i-really-mean-it")
        expect("with an empty store" in said, said)
        for pg in pgs_by(client, "p")[1]:
            client.ceph("osd", "force-create-pg", pg, "--yes-i-really-mean-it")
        # The write that waited all the time is done in the new PG.
        equal(writer.wait(60), 0, "the write")
    finally:
        writer.kill()
        writer.wait()
    client.rados("-p", "p", "get", names[1][-1], "-")


def test_the_memory_store_is_replaced_and_never_started_again_silently(t):
    cluster = t.cluster("--osds", "2", "--store", "mem")
    client = t.client(cluster)
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    said = loligo(cluster, "start", cluster.dir, "--osd", "1", code=1)
    expect("keeps nothing" in said and "--replace" in said, said)
    # No PG was ever on it, so nothing has to be accepted.
    loligo(cluster, "start", cluster.dir, "--osd", "1", "--replace")
    equal(osds_up(client), {0, 1}, "OSDs up")


def talk(cluster, request):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(BOUND)
        sock.connect(os.path.join(cluster.dir, "loligo.sock"))
        sock.sendall(request)
        out = b""
        while part := sock.recv(65536):
            out += part
        return out


def test_the_control_socket_answers_ceph_loligo_and_silence(t):
    cluster = t.cluster("--osds", "1")
    client = t.client(cluster)
    at = os.path.join(cluster.dir, "loligo.sock")
    equal(client.ceph("daemon", at, "version").json()["version"], "16.2.15", "version")
    equal(client.ceph("daemon", at, "status", "-f", "json").json()["osdmap"]["num_up_osds"], 1, "status")
    expect("config show" in client.ceph("daemon", at, "help").json(), "help")
    equal(client.ceph("daemon", at, "config", "get", "osd_max_object_size").json(),
          {"osd_max_object_size": "134217728"}, "an option")
    expect("cluster" in client.ceph("daemon", at, "perf", "dump").json(), "perf dump")
    said = client.ceph("daemon", at, "fs", "new").text
    expect(said.startswith("ERROR: (95)") and "'fs new'" in said and "yet" in said, said)
    # Anything in Ceph's form has an answer with its length before it, also what is no command.
    for request in (b"0\0", b"{\0", b'{"prefix": "fly"}\0', b'{"prefix": 7}\0', b"\xff\xfe\0", b"version\n"):
        answer = talk(cluster, request)
        length, = struct.unpack(">I", answer[:4])
        equal(length, len(answer) - 4, f"the length before the answer to {request!r}")
        expect(answer[4:].startswith(b"ERROR: ("), answer)
    # A plain connect gets the status, and so does the line that `loligo status` sends.
    equal(json.loads(talk(cluster, b""))["osds_up"], 1, "the status without a request")
    answer = json.loads(talk(cluster, b'{"loligo": 1, "request": "status"}\n'))
    equal((answer["ok"], answer["status"]["osds_up"]), (True, 1), "the status by a request")
    answer = json.loads(talk(cluster, b'{"loligo": 99, "request": "status"}\n'))
    expect(not answer["ok"] and "99" in answer["error"], answer)
    # Far too much is cut off, and harms nobody.
    expect(talk(cluster, b"x" * 60000 + b"\n")[4:].startswith(b"ERROR"), "a long line")
    equal(json.loads(talk(cluster, b""))["osds_up"], 1, "the status afterwards")


def damage_pg(cluster, osd, pg):
    """Damages what a simple store keeps of a PG: the PG's info, which has the PG's id in it, fails its checksum from then on."""
    pool, seed = pg.split(".")
    # pg_info_t begins with a pg_t: version, pool, seed, preferred OSD.
    pattern = struct.pack("<BqIi", 1, int(pool), int(seed, 16), -1)
    path = os.path.join(cluster.dir, f"osd.{osd}", "meta.redb")
    with open(path, "r+b") as f:
        text = f.read()
        at = text.find(pattern)
        expect(at >= 0, f"no info of pg {pg} in {path}")
        while at >= 0:
            f.seek(at + 1)
            f.write(bytes([text[at + 1] ^ 0x55]))
            at = text.find(pattern, at + 1)


def test_a_failed_pg_holds_its_clients_back_and_costs_no_other(t):
    # Two requests fill the budget.
    settings = ("--set", "osd_client_message_cap=2")
    cluster = t.cluster("--store", "simple", "--osds", "2", *settings)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "8")
    by_pg = {}
    for i in range(40):
        found = client.ceph_json("osd", "map", "p", f"o{i}")
        if found["acting_primary"] == 0:
            by_pg.setdefault(found["pgid"], []).append(f"o{i}")
    bad, good = sorted(by_pg, key=lambda pg: -len(by_pg[pg]))[:2]
    for name in by_pg[bad] + by_pg[good]:
        client.rados("-p", "p", "put", name, "/etc/hostname")
    loligo(cluster, "stop", cluster.dir)
    damage_pg(cluster, 0, bad)
    cluster.up(*settings)
    equal(osds_up(client), {0, 1}, "OSDs up")
    until(lambda: states(client, "p")[bad] == "down", "the failed PG's state", 30)
    detail = client.ceph("health", "detail").text
    expect(f"pg {bad} is" in detail and ": it failed: " in detail, detail)
    expect(f"pg {bad} has stopped: " in client.ceph("log", "last", "50").text, "the reason in the cluster log")
    # More clients than the budget has room for wait for the failed PG, and nobody else for them.
    log = t.path("objecter")
    waiting = [client.start("rados", "-p", "p", "get", by_pg[bad][0], "-", "--debug-objecter", "20",
                            "--log-file", f"{log}.{i}", stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
               for i in range(6)]
    try:
        for i in range(6):
            def blocked(i=i):
                with contextlib.suppress(OSError), open(f"{log}.{i}", encoding="utf-8") as f:
                    return "handle_osd_backoff" in f.read()
                return False
            until(blocked, "a backoff", 30)
        for name in by_pg[good]:
            client.rados("-p", "p", "get", name, "-", timeout=30)
            client.rados("-p", "p", "put", name, "/etc/hostname", timeout=30)
        equal([w.poll() for w in waiting], [None] * 6, "they wait")
    finally:
        for w in waiting:
            w.kill()
            w.wait()
    expect({state for pg, state in states(client, "p").items() if pg != bad} == {"active+clean"}, "the other PGs")
    # With its pool it leaves the map, but not the store, and that is told; a start tries again, and says what keeps it from that.
    client.ceph("osd", "pool", "rm", "p", "p", "--yes-i-really-really-mean-it")
    until(lambda: f"osd.0 keeps pg {bad}: it had failed" in client.ceph("health", "detail").text, "the PG that is left", 30)
    expect(f"pg {bad} can't be removed: " in client.ceph("log", "last", "50").text, "the reason in the cluster log")
    loligo(cluster, "stop", cluster.dir, "--osd", "0")
    loligo(cluster, "start", cluster.dir, "--osd", "0")
    why = f"osd.0 keeps pg {bad}: its own records can't be removed: damaged store: "
    until(lambda: why in client.ceph("health", "detail").text, "why it is left", 30)
    loligo(cluster, "stop", cluster.dir, "--osd", "0")
    said = loligo(cluster, "store", "remove", cluster.dir, "--osd", "0", "--pg", bad, "--yes-i-really-mean-it", code=1)
    expect("is there in part" in said and "damaged store: " in said, said)
    loligo(cluster, "start", cluster.dir, "--osd", "0", "--replace", "--yes-i-really-mean-it")
    until(lambda: "PG_NOT_REMOVED" not in client.ceph("health", "detail").text, "nothing is left", 30)


# It knows where redb has a PG.
test_a_failed_pg_holds_its_clients_back_and_costs_no_other.default_store_only = True


def test_a_store_of_an_older_backup_does_not_serve_unless_it_is_asked_for(t):
    cluster = t.cluster("--osds", "2", "--osd-size", "64MiB")
    client = t.client(cluster)
    names = filled(client)
    cluster.stop()
    now, backup = os.path.join(cluster.dir, "osd.1"), t.path("backup")
    subprocess.run(["cp", "-a", "--sparse=always", now, backup], check=True)
    cluster.up()
    # Acknowledged, and not in the backup.
    client.rados("-p", "p", "put", names[1][1], "/etc/hostname")
    cluster.stop()
    os.rename(now, t.path("newer"))
    os.rename(backup, now)

    def is_refused(said):
        expect("Note: osd.1 failed" in said and "its store is older than what it has acknowledged" in said, said)
        expect("--set osd_allow_older_store=true" in said, said)
        reason = status(cluster)["osds"]["1"]["reason"]
        expect("older than what it has acknowledged" in reason, reason)
        equal(osds_up(client), {0}, "OSDs that are up")

    # Also at a second start: what it was told by the first has not made it newer.
    for _ in range(2):
        cluster.up()
        is_refused(cluster.said)
        cluster.stop()
    os.rename(now, backup)
    os.rename(t.path("newer"), now)
    cluster.up()
    client.rados("-p", "p", "get", names[1][1], t.path("got"))
    cluster.stop()
    os.rename(now, t.path("newer"))
    os.rename(backup, now)
    cluster.up("--set", "osd_allow_older_store=true")
    equal(osds_up(client), {0, 1}, "OSDs that are up")
    client.rados("-p", "p", "get", names[1][0], t.path("got"))
    client.rados("-p", "p", "get", names[1][1], t.path("got"), code=1)
    cluster.stop()
    cluster.up()
    equal(osds_up(client), {0, 1}, "once accepted it is the OSD's store")
