"""A store that fills up: clients are held back and told, nothing breaks, and deleting makes room again."""
import contextlib
import itertools
import os
import shutil
import subprocess
import time

from harness import BOUND, equal, expect, until
from test_health import checks

POOL = "p"


def fill(client, path):
    """Writes objects until the cluster says that it is full. Gives the names of those that were acknowledged, and the
    writer that was under way then: it may wait for space or be served yet."""
    written = []
    while True:
        writer = client.start("rados", "-p", POOL, "put", f"o{len(written)}", path)
        until(lambda w=writer: ended(w) or "OSD_FULL" in checks(client), "a write's end, or OSD_FULL", 600)
        if writer.poll() is not None:
            equal(writer.returncode, 0, f"the write of o{len(written)}")
            written.append(f"o{len(written)}")
            expect(len(written) < 100, "more was written than the OSD has")
        else:
            return written, writer


def ended(writer):
    try:
        writer.wait(2)
    except subprocess.TimeoutExpired:
        return False
    return True


def same(client, t, name, data):
    got = t.path("got")
    client.rados("-p", POOL, "get", name, got)
    with open(got, "rb") as f:
        expect(f.read() == data, f"{name} differs")


def fills_up(t, size, objects, *up):
    """A cluster of one OSD is filled with objects of `size` bytes; `objects` is the range in which their number lies."""
    path, data = t.path("data"), os.urandom(size)
    with open(path, "wb") as f:
        f.write(data)
    up = (*up, "--osds", "1")
    cluster = t.cluster(*up, "--set", "osd_mon_report_interval=0.2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    client.ceph("osd", "pool", "application", "enable", POOL, "rados")
    written, under_way = fill(client, path)
    waiting = [under_way]
    try:
        expect(objects[0] <= len(written) <= objects[1], f"{up}: {len(written)} objects of {size} bytes")
        # The monitor says it of the pools with its next tick.
        until(lambda: "POOL_FULL" in checks(client), "POOL_FULL")
        found = checks(client)
        equal(found["OSD_FULL"]["severity"], "HEALTH_ERR", f"{found}")
        expect("shard" not in str(found["OSD_FULL"]), f"a store of one shard: {found}")
        equal(found["POOL_FULL"]["severity"], "HEALTH_WARN", f"{found}")
        expect("full" in client.ceph("osd", "pool", "ls", "detail").text, "the pool's flag")
        # A writer that comes now is held back: it has the map in which the pool is full.
        waiting.append(client.start("rados", "-p", POOL, "put", "patient", path))
        # Reads go on, and all of it is there.
        for name in written[::10]:
            same(client, t, name, data)
        expect(waiting[1].poll() is None, "the pool is full, and a write that began then has ended")
        # Writers that wait go on when there is room.
        deleted = len(written) // 3
        for name in written[:deleted]:
            client.rados("-p", POOL, "rm", name, "--force-full")
        until(lambda: not checks(client), "no checks")
        equal([w.wait(BOUND) for w in waiting], [0, 0], "the writers that waited")
    finally:
        for writer in waiting:
            writer.kill()
    same(client, t, "patient", data)
    if "mem" not in up:
        cluster.kill()
        cluster.up(*up)
        expected = [*written[deleted:], f"o{len(written)}", "patient"]
        equal(sorted(client.rados("-p", POOL, "ls").text.split()), sorted(expected), "objects")
    cluster.stop()


def test_a_full_osd_holds_writes_back_until_something_is_deleted(t):
    for store in ("simple", "block", "mem"):
        fills_up(t, 4 << 20, (50, 63), "--store", store, "--osd-size", "256MiB")


def test_a_full_osd_on_a_slow_disk_holds_writes_back_too(t):
    """Each object takes seconds to write: no test may take that for an end."""
    slow = ("--set", "bdev_model=ssd", "--set", "bdev_model_parameters=write_mb_s=4,flush_us=100000")
    fills_up(t, 16 << 20, (5, 7), "--store", "simple", "--osd-size", "128MiB", *slow)


def test_a_full_osd_holds_large_omap_values_back_too(t):
    """The block store counts metadata several times: values that come together must not reach into the reserve, where they
    are refused."""
    cluster = t.cluster("--osds", "1", "--store", "block", "--osd-size", "256MiB",
                        "--set", "osd_mon_report_interval=0.2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    bench = client.start("rados", "-p", POOL, "bench", "60", "write", "--write-omap", "-b", str(4 << 20), "-t", "16",
                         "--no-cleanup", stdout=subprocess.DEVNULL)
    try:
        until(lambda: "OSD_FULL" in checks(client), "OSD_FULL")
        time.sleep(2)
        expect(bench.poll() is None, "a value was refused")
        # More come while these are being removed: the store is asked for its space again and again, between writes that it does not
        # have yet.
        written = client.rados("-p", POOL, "ls").text.split()
        for name in written:
            client.rados("-p", POOL, "rm", name, "--force-full")
        until(lambda: not checks(client) or len(client.rados("-p", POOL, "ls").text.split()) > 3, "more values")
        expect(bench.poll() is None, "a value was refused when there was room again")
    finally:
        bench.kill()
        bench.wait(BOUND)
    cluster.stop()


def test_an_image_can_be_removed_from_an_osd_that_is_full_down_to_its_reserve(t):
    cluster = t.cluster("--osds", "1", "--osd-size", "256MiB", "--set", "osd_mon_report_interval=0.2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    client.run("rbd", "pool", "init", POOL)
    for image in ("first", "image"):
        client.run("rbd", "create", f"{POOL}/{image}", "--size", "64M")
    # Ceph's 16.2 makes the list of what is being removed with the first removal: a full pool takes no new object.
    client.run("rbd", "rm", f"{POOL}/first")
    client.run("rbd", "bench", "--io-type", "write", "--io-size", "1M", "--io-total", "32M", f"{POOL}/image")
    client.run("rbd", "snap", "create", f"{POOL}/image@snap")
    # What waits for room takes all of it but the reserve.
    writer = client.start("rados", "-p", POOL, "bench", "600", "write", "-b", "65536", "-t", "64", "--no-cleanup",
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: {"OSD_FULL", "POOL_FULL"} <= checks(client).keys(), "OSD_FULL and POOL_FULL")
        for args in (("snap", "rm", f"{POOL}/image@snap"), ("rm", f"{POOL}/image")):
            said = client.run("rbd", *args).words
            expect("(28)" not in said, f"rbd {args}: {said}")
    finally:
        writer.kill()
        writer.wait(BOUND)
    equal(client.run("rbd", "ls", POOL).text, "", "the images that are left")
    until(lambda: "OSD_FULL" not in checks(client), "no OSD_FULL")


def file_system(t, name, size):
    """A small file system, which ends with the test."""
    below = t.path(name)
    os.mkdir(below)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", below], check=True)
    t.cleanups.append(lambda: subprocess.run(["umount", below], check=False))
    return below


def test_a_full_disk_below_the_cluster_is_a_full_osd_and_not_its_end(t):
    """The image is sparse: the file system below has less than it promises."""
    for store in ("simple", "block"):
        full_disk_below(t, store)


def full_disk_below(t, store):
    below = file_system(t, f"below-{store}", "300m")
    path = t.path("data")
    with open(path, "wb") as f:
        f.write(os.urandom(4 << 20))
    cluster = t.cluster("--store", store, "--osds", "1", "--osd-size", "1GiB",
                        "--set", "osd_mon_report_interval=0.2", directory=os.path.join(below, "c"))
    expect("1 OSDs of 1 GiB may grow to 1 GiB, but" in cluster.said, f"what up said: {cluster.said!r}")
    client = t.client(cluster)
    equal(checks(client), {}, "an empty cluster is not full")
    client.ceph("osd", "pool", "create", POOL, "8")
    client.ceph("osd", "pool", "application", "enable", POOL, "rados")
    written, waiting = fill(client, path)
    t.cleanups.append(waiting.kill)
    expect(30 <= len(written) <= 70, f"{len(written)} objects of 4 MiB in 300 MiB")
    found = checks(client)
    detail = found["OSD_FILE_SYSTEM_FULL"]["detail"][0]["message"]
    expect("osd.0 may take 1 GiB" in detail, f"what is full is said: {detail}")
    for name in written[:20]:
        client.rados("-p", POOL, "rm", name, "--force-full")
    until(lambda: "OSD_FULL" not in checks(client), "no OSD_FULL")
    equal(waiting.wait(BOUND), 0, "the writer that waited")
    client.rados("-p", POOL, "put", "again", path)


def test_writers_that_fill_a_file_system_leave_the_monitor_some_of_it(t):
    below = file_system(t, "below", "300m")
    cluster = t.cluster("--osds", "2", "--osd-size", "1GiB", directory=os.path.join(below, "c"))
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    client.ceph("osd", "pool", "application", "enable", POOL, "rados")
    writer = client.start("rados", "-p", POOL, "bench", "60", "write", "-b", "1M", "-t", "8", "--no-cleanup")
    t.cleanups.append(writer.kill)
    until(lambda: "OSD_FULL" in checks(client), "OSD_FULL", 60)
    # Longer than the monitor waits for a file system that is full.
    time.sleep(6)
    system = os.statvfs(below)
    free = system.f_bavail * system.f_frsize
    expect(free > 8 << 20, f"{free} bytes are left")
    # What is left of the file system may have gone from one OSD's share to the other's meanwhile.
    until(lambda: "OSD_FULL" in checks(client), "the monitor answers that an OSD is full")
    writer.kill()
    writer.wait(BOUND)
    loligo_stop = subprocess.run(cluster.argv("stop", cluster.dir), capture_output=True, timeout=BOUND)
    equal(loligo_stop.returncode, 0, f"stop: {loligo_stop.stderr!r}")
    cluster.up()
    for name in client.rados("-p", POOL, "ls").text.split():
        client.rados("-p", POOL, "rm", name, "--force-full")
    until(lambda: "OSD_FULL" not in checks(client), "no OSD_FULL")


def test_an_image_that_grows_on_a_nearly_full_file_system_keeps_its_data(t):
    """Between what it has are holes, which it gave back: it may ask for these again, and give back no other part."""
    below = file_system(t, "below", "400m")
    cluster = t.cluster("--osds", "1", "--osd-size", "1GiB", directory=os.path.join(below, "c"))
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    client.ceph("osd", "pool", "application", "enable", POOL, "rados")
    client.rados("-p", POOL, "bench", "20", "write", "-b", "128K", "-t", "16", "--max-objects", "1500", "--no-cleanup", timeout=60)
    names = sorted(client.rados("-p", POOL, "ls").text.split())
    client.rados("-p", POOL, "rm", *(name for name in names[::2] if name.startswith("benchmark_data")), timeout=60)
    stop = cluster.argv("stop", cluster.dir)
    subprocess.run(stop, check=True, capture_output=True, timeout=BOUND)
    cluster.up()
    image = os.path.join(cluster.dir, "osd.0", "block")

    def has():
        return os.stat(image).st_blocks * 512

    def is_swept():
        before = has()
        time.sleep(2)
        return has() == before < 250 << 20

    # An OSD that was started gives back what is free in its image.
    until(is_swept, lambda: f"the image gives back what it has no use for: {has()} bytes", 60)
    system = os.statvfs(below)
    with open(os.path.join(below, "foreign"), "wb") as f:
        os.posix_fallocate(f.fileno(), 0, system.f_bavail * system.f_frsize - (26 << 20))
    writer = client.start("rados", "-p", POOL, "bench", "15", "write", "-b", "64K", "-t", "4", "--no-cleanup")
    t.cleanups.append(writer.kill)
    until(lambda: "OSD_FULL" in checks(client) or writer.poll() is not None, "OSD_FULL, or the writer's end", 60)
    time.sleep(4)
    writer.kill()
    writer.wait(BOUND)
    subprocess.run(stop, check=True, capture_output=True, timeout=BOUND)
    for deep in ["--deep"], []:
        fsck = subprocess.run(cluster.argv("store", "fsck", cluster.dir, *deep), capture_output=True, text=True, timeout=BOUND)
        equal(fsck.returncode, 0, f"fsck: {fsck.stdout} {fsck.stderr}")


def test_the_fullest_shard_of_a_store_is_told_before_it_is_full(t):
    """A pool of one PG lies in one shard of two: the OSD is nearly full with that, though half of its store is free."""
    path = t.path("data")
    with open(path, "wb") as f:
        f.write(os.urandom(4 << 20))
    cluster = t.cluster("--osds", "1", "--cores", "2", "--osd-size", "512MiB", "--set", "osd_store_shards=2",
                        "--set", "osd_mon_report_interval=0.2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "1", "--autoscale-mode", "off")
    client.ceph("osd", "pool", "application", "enable", POOL, "rados")
    written = 0
    while "OSD_NEARFULL" not in checks(client):
        expect(written < 62, f"nothing is nearly full: {checks(client)}")
        client.rados("-p", POOL, "put", f"o{written}", path, timeout=30)
        written += 1
        # The OSD reports every 0.2 s: near the limit no write may come too soon for that.
        time.sleep(0.6 if written > 45 else 0)
    expect(written > 40, f"{written} objects of 4 MiB filled 256 MiB nearly")
    found = until(lambda: [line["message"] for line in checks(client)["OSD_NEARFULL"]["detail"] if "shard" in line["message"]],
                  lambda: f"the shard is named: {checks(client)}")
    expect(found[0].startswith("osd.0: shard ") and "of its store's 2 is " in found[0], found[0])
    expect("in its shard; more PGs in the pools" in found[0], found[0])
    equal(checks(client)["OSD_NEARFULL"]["summary"]["message"], "1 nearfull osd(s)", "OSDs that are counted")
    used = client.ceph_json("osd", "df")["nodes"][0]["utilization"]
    expect(used < 60, f"{used}% of the store are in use")
    for n in range(20):
        client.rados("-p", POOL, "rm", f"o{n}")
    until(lambda: "OSD_NEARFULL" not in checks(client), "no OSD_NEARFULL")


def test_osds_of_one_file_system_count_its_space_once(t):
    below = file_system(t, "below", "400m")
    cluster = t.cluster("--store", "simple", "--osds", "3", "--osd-size", "1TiB", directory=os.path.join(below, "c"))
    client = t.client(cluster)
    stats = until(lambda: (s := client.ceph_json("df")["stats"])["total_bytes"] and s, "space in ceph df")
    expect(200 << 20 < stats["total_bytes"] < 420 << 20, f"three OSDs on 400 MiB: {stats}")
    equal(checks(client), {}, "an empty cluster is not full")


def fill_with_others_data(path):
    """Other programs take every byte of the file system."""
    with open(path, "wb", buffering=0) as f:
        for step in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    f.write(bytes(step))
        os.fsync(f.fileno())


def small_ext4(t, name, size):
    """A small ext4, without blocks kept for root, which ends with the test."""
    return on_image(t, name, size, "mkfs.ext4", "-q", "-m", "0")


def small_xfs(t, name, size):
    """The same of an XFS, in which files can share blocks."""
    return on_image(t, name, max(size, 320 << 20), "mkfs.xfs", "-q")


def small_btrfs(t, name, size):
    """The same of a btrfs, which copies what is written over where a file has no other flag."""
    return on_image(t, name, max(size, 320 << 20), "mkfs.btrfs", "-q")


def on_image(t, name, size, *mkfs):
    image, below = t.path(f"{name}.image"), t.path(name)
    with open(image, "wb") as f:
        f.truncate(size)
    os.mkdir(below)
    subprocess.run([*mkfs, image], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", image, below], check=True)
    t.cleanups.append(lambda: subprocess.run(["umount", below], check=False))
    return below


def test_a_disk_that_others_fill_ends_the_process_with_its_reason_and_no_loss(t):
    for of in small_ext4, lambda t, name, _: file_system(t, name, "200m"):
        process_on_a_full_disk(t, of(t, f"below{t.clusters}", 200 << 20))


def test_a_full_btrfs_ends_the_process_with_its_reason_and_no_loss(t):
    """It has room for what is written in place alone: not for the lock's few bytes, with which a start begins."""
    refusal = ("can't be written, for its file system is full", "make room there")
    process_on_a_full_disk(t, small_btrfs(t, "below", 320 << 20), refusal)


def test_what_is_written_over_is_written_in_place_on_a_btrfs(t):
    below = small_btrfs(t, "below", 320 << 20)
    for store, files in ("block", ["block"]), ("simple", ["block", "meta.redb"]):
        cluster = t.cluster("--store", store, "--osds", "1", "--osd-size", "64MiB", directory=os.path.join(below, store))
        for name in ["mon/state.redb", "end"] + [f"osd.0/{file}" for file in files]:
            listed = subprocess.run(["lsattr", os.path.join(cluster.dir, name)], check=True, capture_output=True, text=True).stdout
            expect("C" in listed.split()[0], f"{store}, {name}: {listed}")
        cluster.stop()


def test_no_write_of_a_store_finds_a_btrfs_full(t):
    """What it has allocated is written in place, and not copied."""
    below = small_btrfs(t, "below", 320 << 20)
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "64MiB", directory=os.path.join(below, "c"))
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    cluster.stop()
    # The monitor's state grows.
    mon = os.path.join(cluster.dir, "mon")
    shutil.move(mon, t.path("mon"))
    os.symlink(t.path("mon"), mon)
    cluster.up()
    client.run("rbd", "create", "--size", "8M", f"{POOL}/image")
    write = lambda: client.run("rbd", "bench", "--io-type", "write", "--io-size", "4K", "--io-total", "24M", "--io-pattern", "rand",
                               f"{POOL}/image", timeout=60)
    write()
    fill_with_others_data(os.path.join(below, "others"))
    write()
    expect("OSD_FAILED" not in checks(client) and "OSD_DOWN" not in checks(client), checks(client))


def process_on_a_full_disk(t, below, refusal=("no space in ", "make room on its file system")):
    cluster = t.cluster("--osds", "1", "--osd-size", "64MiB", directory=os.path.join(below, "c"))
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    data = os.urandom(1 << 20)
    path = t.path("data")
    with open(path, "wb") as f:
        f.write(data)
    for i in range(8):
        client.rados("-p", POOL, "put", f"o{i}", path)
    others = os.path.join(below, "others")
    fill_with_others_data(others)
    # A change of the monitor's, and another where its file had room for that one.
    number = itertools.count()

    def has_ended():
        if cluster.pid() is None:
            return True
        change = client.start("ceph", "config-key", "set", f"k{next(number)}", "x" * 10000)
        t.cleanups.append(change.kill)
        until(lambda: change.poll() is not None or cluster.pid() is None, "a change, or the process's end")
        return False

    until(has_ended, "the process ends")

    def status():
        done = subprocess.run(cluster.argv("status", cluster.dir), capture_output=True, text=True, timeout=BOUND)
        equal(done.returncode, 3, "status")
        return done.stdout

    said = status()
    expect("not running" in said and "last failure: " in said, f"status: {said!r}")
    expect("the monitor's state can't be written: its file system is full" in said, f"status: {said!r}")
    foreground = subprocess.run(cluster.argv("up", "--dir", cluster.dir), capture_output=True, text=True, timeout=BOUND)
    for refused in cluster.up(code=1).words, foreground.stderr:
        expect(all(words in refused for words in refusal), f"up on a full disk: {refused!r}")
    equal(status(), said, "the reason stays until a start succeeds")
    os.remove(others)
    cluster.up()
    expect("Note: the process before this one failed: " in cluster.said, cluster.said)
    for i in range(8):
        same(client, t, f"o{i}", data)
    cluster.stop()
    expect("last failure" not in status(), "a failure of long ago is no news")
