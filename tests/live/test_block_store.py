"""The block store: damage is seen and named, tools look at it only while nothing else does, and each file is its OSD's."""
import json
import os
import re
import signal
import subprocess
import time

from harness import BOUND, equal, expect, until

POOL = "p"
SIZE = 8 << 20


def loligo(cluster, *args, code=0):
    """What a subcommand writes, to standard output and standard error."""
    done = subprocess.run(cluster.argv(*args), capture_output=True, timeout=BOUND)
    expect(done.returncode == code, f"{args}: code {done.returncode}, expected {code}: {done.stdout!r} {done.stderr!r}")
    return done.stdout.decode() + done.stderr.decode()


def started(t, *args):
    cluster = t.cluster("--store", "block", *args)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    return cluster, client


def put(t, client, name):
    path = t.path(name)
    with open(path, "wb") as f:
        f.write(os.urandom(SIZE))
    client.rados("-p", POOL, "put", name, path)


def same(t, client, name):
    path = t.path("got")
    client.rados("-p", POOL, "get", name, path)
    with open(path, "rb") as got, open(t.path(name), "rb") as given:
        expect(got.read() == given.read(), f"the bytes of {name}")


def flip(path, offset):
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 0x10]))
        os.fsync(f.fileno())


def test_objects_whose_names_are_no_text_are_found_as_they_are_listed(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "1GiB")
    # Both look the same as text.
    names = [os.fsdecode(name) for name in (b"odd\xff", b"odd\xfe", b"100%/a:b#")]
    with open(t.path("given"), "wb") as f:
        f.write(b"x")
    for name in names:
        client.rados("-p", POOL, "put", name, t.path("given"))
    loligo(cluster, "stop", cluster.dir)
    dump = lambda name: json.loads(loligo(cluster, "store", "dump", cluster.dir, "--object", name, "-f", "json"))["osd.0"]["objects"]
    listed = json.loads(loligo(cluster, "store", "list", cluster.dir, "--osd", "0", "-f", "json"))
    objects = [row["object"] for pg in listed
               for row in json.loads(loligo(cluster, "store", "list", cluster.dir, "--osd", "0", "--pg", pg["pg"], "-f", "json"))]
    equal(len(objects), 3, f"objects that are listed: {objects}")
    for shown in objects:
        equal([found["object"] for found in dump(shown)], [shown], "the object that is named as it is listed")
    equal({found["object"] for name in names for found in dump(name)}, set(objects), "objects by the bytes of their names")
    expect(any("odd%ff" in shown for shown in objects), f"the list has names of their own: {objects}")


def test_a_byte_that_flips_on_the_device_is_an_error_and_never_data(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "1GiB")
    for name in ("good", "bad"):
        put(t, client, name)
    said = loligo(cluster, "store", "fsck", cluster.dir, code=1)
    expect("osd.0" in said and "in use" in said, f"a check beside the OSD: {said}")
    loligo(cluster, "stop", cluster.dir)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "a store without damage")
    shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, "--osd", "0", "--object", "bad", "-f", "json"))
    said = loligo(cluster, "store", "dump", cluster.dir, "--osd", "0", "--object", "bad")
    expect("{" not in said and "device_offset: " in said and said.startswith("osd.0:\n"), f"a plain form: {said!r}")
    said = loligo(cluster, "store", "dump", cluster.dir, "--object", "nowhere", code=1)
    expect("no store here has an object 'nowhere'" in said, said)
    extents = shown["osd.0"]["objects"][0]["extents"]
    equal(sum(extent["bytes"] for extent in extents), SIZE, "bytes of all extents")
    with open(t.path("bad"), "rb") as given, open(cluster.metadata(0), "rb") as device:
        for extent in extents:
            given.seek(extent["offset"])
            device.seek(extent["device_offset"])
            expect(given.read(extent["bytes"]) == device.read(extent["bytes"]), f"the bytes of {extent}")
    # In the middle of the object's third megabyte.
    extent = next(e for e in extents if e["offset"] <= 5 << 19 < e["offset"] + e["bytes"])
    flip(cluster.metadata(0), extent["device_offset"] + (5 << 19) - extent["offset"] + 77)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir), "the metadata is whole")
    said = loligo(cluster, "store", "fsck", cluster.dir, "--deep", code=1)
    expect("1 problem" in said and ":bad:" in said, f"the object that is damaged: {said}")
    cluster.up()
    same(t, client, "good")
    failed = client.rados("-p", POOL, "get", "bad", t.path("got"), code=None)
    expect(failed.code != 0 and "Input/output error" in failed.words, f"reading it: {failed.code} {failed.words}")
    # Written anew it is well.
    put(t, client, "bad")
    same(t, client, "bad")
    loligo(cluster, "stop", cluster.dir)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "after it was written again")


def test_a_map_that_flipped_on_the_device_comes_from_the_monitor(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "256MiB")
    put(t, client, "o")
    for flag in ("noout", "noin", "noscrub"):
        client.ceph("osd", "set", flag)
    epoch = client.ceph_json("osd", "dump")["epoch"]
    loligo(cluster, "stop", cluster.dir)
    # A log is moved when what is in it has gone to its place.
    loligo(cluster, "store", "log", cluster.dir, "--osd", "0", "--to", t.path("log"))
    # The stop made another epoch.
    for name in (f"inc_osdmap.{epoch - 1}", f"inc_osdmap.{epoch + 1}"):
        shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, "--osd", "0", "--object", name, "-f", "json"))
        flip(cluster.metadata(0), shown["osd.0"]["objects"][0]["extents"][0]["device_offset"] + 77)
    cluster.up()
    same(t, client, "o")
    expect("is fetched from a monitor" in cluster.log(), cluster.log())
    client.ceph("osd", "unset", "noout")
    warnings = cluster.log().count("is fetched from a monitor")
    cluster.kill()
    cluster.up()
    same(t, client, "o")
    equal(cluster.log().count("is fetched from a monitor"), warnings, "what was fetched is stored")


def test_a_file_of_another_osd_or_one_that_was_cut_costs_its_osd_alone(t):
    cluster, client = started(t, "--osds", "3", "--osd-size", "256MiB")
    put(t, client, "o")
    cluster.kill()
    files = [os.path.join(cluster.dir, f"osd.{osd}", "block") for osd in range(3)]
    os.rename(files[1], files[1] + ".away")
    os.link(files[0], files[1])
    os.truncate(files[2], 100 << 20)
    cluster.up()
    osds = json.loads(loligo(cluster, "status", cluster.dir, "-f", "json"))["cluster"]["osds"]
    expect("is the store of osd.0" in osds["1"]["reason"], osds)
    expect("100 MiB" in osds["2"]["reason"] and "the file was made shorter" in osds["2"]["reason"], osds)
    equal(osds["0"]["state"], "active", "the OSD whose file is whole")
    os.remove(files[1])
    os.rename(files[1] + ".away", files[1])
    loligo(cluster, "start", cluster.dir, "--osd", "1")
    until(lambda: client.ceph_json("osd", "stat")["num_up_osds"] == 2, "two OSDs up")


def test_a_store_keeps_its_shards_whatever_cores_serve_it(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "1GiB", "--set", "osd_store_shards=3", "--cores", "2")
    names = [f"o{n}" for n in range(6)]
    for name in names:
        put(t, client, name)
    for cores in ("1", "2"):
        cluster.kill()
        cluster.up("--cores", cores)
        for name in names:
            same(t, client, name)
    loligo(cluster, "stop", cluster.dir)
    shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))["osd.0"]
    equal(shown["label"]["shards"], 3, "shards in the label")
    pgs = sorted(name for shard in shown["shards"] for name in shard["collections"])
    expect(len(pgs) == len(set(pgs)) and all(shard["collections"] for shard in shown["shards"]), shown["shards"])
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "every shard is whole")
    # A store is as large as its shards together.
    equal(shown["label"]["bytes"], 1 << 30, "bytes of the store")
    expect(0.85 * 2 ** 30 < shown["space"]["bytes_total"] < 2 ** 30, shown["space"])
    # A smaller store has one shard.
    small, _ = started(t, "--osds", "1", "--osd-size", "256MiB", "--cores", "2")
    expect("--cores 2: 1 will serve" in small.log(), "a core for each shard at most")


def test_an_interrupted_bench_of_a_store_removes_it(t):
    for sig, moment in ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.0)):
        at = t.path(f"bench-{sig}")
        with subprocess.Popen([t.loligo, "store", "bench", at, "--seconds", "60", "--store-size", "256MiB"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as bench:
            until(lambda there=at: os.path.exists(there), "the store is made")
            time.sleep(moment)
            bench.send_signal(sig)
            said = bench.communicate(timeout=BOUND)
        equal((bench.returncode, os.path.exists(at)), (128 + sig, False), f"after signal {sig}: {said}")


def test_the_other_stores_are_refused_by_the_tools(t):
    cluster = t.cluster("--store", "mem", "--osds", "1")
    cluster.stop()
    expect("'mem'" in loligo(cluster, "store", "fsck", cluster.dir, code=1), "another store")


def loop_device(t, name, size, *options):
    """A block device over a file."""
    path = t.path(name)
    with open(path, "wb") as f:
        f.truncate(size)
    done = subprocess.run(["losetup", "--find", "--show", *options, path], capture_output=True, check=True)
    device = done.stdout.decode().strip()
    t.cleanups.append(lambda: subprocess.run(["losetup", "--detach", device], check=False))
    return device


def refused(cluster, *args):
    done = cluster.up("--port", "0", *args, code=1)
    expect(not os.path.exists(os.path.join(cluster.dir, "cluster.json")), "a refused start leaves no cluster")
    return done.words


def test_a_first_start_that_fails_leaves_nothing_on_its_devices(t):
    devices = [loop_device(t, f"disk{n}", 256 << 20) for n in range(2)]
    subprocess.run(["mkfs.ext4", "-q", devices[1]], check=True)
    named = [word for device in devices for word in ("--device", device)]
    cluster = t.cluster(start=False)
    expect(f"{devices[1]} holds data" in refused(cluster, *named), "a device with a file system")
    # So the first one is free for another start, without a word of overwriting.
    cluster.up("--port", "0", "--device", devices[0])


def test_preallocation_is_for_new_image_files(t):
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "256MiB", "--preallocate")
    given = lambda: os.stat(cluster.metadata(0)).st_blocks * 512
    expect(given() >= 256 << 20, f"{given()} bytes of a file that was written whole")
    cluster.stop()
    cluster.up("--port", "0", "--preallocate")
    expect(given() >= 256 << 20, f"{given()} bytes at the next start")
    other = t.cluster("--store", "block", "--osds", "1", "--osd-size", "1GiB")
    other.stop()
    words = other.up("--port", "0", "--preallocate", code=1).words
    expect("--preallocate" in words and "new directory" in words, words)


def test_what_a_store_can_not_be_made_on_is_named_with_the_reason_and_the_remedy(t):
    cluster = t.cluster(start=False)
    small = loop_device(t, "small", 1 << 20)
    words = refused(cluster, "--osds", "1", "--device", small)
    expect(f"{small} has 1 MiB" in words and "at least 64 MiB" in words and "--device" in words, words)
    expect("--osd-size" not in words, words)
    # The device ends in the middle of a sector.
    odd = loop_device(t, "odd", 300_000_000, "--sector-size", "4096")
    bytes_of_device = 300_000_000 // 512 * 512
    for more in (), ("--overwrite", odd):
        words = refused(cluster, "--osds", "1", "--device", odd, *more)
        expect(f"{odd} has {bytes_of_device} bytes" in words and "sectors of 4096" in words, words)
        expect(f"from byte {bytes_of_device // 4096 * 4096} on" in words and "make it longer or shorter" in words, words)
    data = os.path.join(cluster.dir, "osd.0", "block")
    for log, says in ((data, "has the store's data"), (f"{data}.wal", "is a part of the cluster")):
        words = refused(cluster, "--osds", "1", "--log-device", log)
        expect(f"{log} {says}" in words and "place" in words, words)
    for size in "100P", "4E":
        words = refused(cluster, "--osds", "1", "--osd-size", size)
        expect("a block store has 64 PiB at most" in words and "name a smaller size" in words and "damaged" not in words, words)
    cluster.up("--osds", "1")


def test_a_store_bench_of_nothing_is_refused(t):
    for option in "depth", "objects", "seconds", "pgs":
        done = subprocess.run([t.loligo, "store", "bench", t.path("bench"), f"--{option}", "0"], capture_output=True, timeout=BOUND)
        equal((done.returncode, f"--{option}" in done.stderr.decode()), (2, True), f"--{option} 0: {done.stderr!r}")


def test_an_image_file_gives_back_what_is_deleted(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "4GiB")
    given = lambda: os.stat(cluster.metadata(0)).st_blocks * 512 >> 20
    client.rados("-p", POOL, "bench", "60", "write", "--max-objects", "256", "--no-cleanup", "--run-name", "x")
    expect(given() >= 1024, f"{given()} MiB for 1 GiB of objects")
    client.rados("-p", POOL, "cleanup", "--run-name", "x")
    until(lambda: given() < 400, "the file is smaller")


def is_free(device):
    try:
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))
    except OSError:
        return False
    return True


def test_block_devices_are_used_whole_and_never_over_what_they_hold(t):
    devices = [loop_device(t, f"disk{n}", (256 + 64 * n) << 20) for n in range(2)]
    named = [word for device in devices for word in ("--device", device)]
    subprocess.run(["mkfs.ext4", "-q", devices[1]], check=True)
    cluster = t.cluster(start=False)
    expect(f"{devices[1]} holds data" in refused(cluster, *named), "a device with a file system")
    mounted = t.path("mounted")
    os.mkdir(mounted)
    subprocess.run(["mount", devices[1], mounted], check=True)
    try:
        words = refused(cluster, *named, "--overwrite", devices[0], "--overwrite", devices[1])
        expect("in use" in words, f"a device that is mounted: {words}")
    finally:
        subprocess.run(["umount", mounted], check=True)
    # The kernel may let go of the device some time after that.
    until(lambda: is_free(devices[1]), "the device is not in use")
    cluster.up(*named, "--overwrite", devices[0], "--overwrite", devices[1])
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    for name in ("a", "b", "c"):
        put(t, client, name)
    sizes = [osd["kb"] for osd in client.ceph_json("osd", "df")["nodes"]]
    expect(sizes[0] < sizes[1] <= 320 << 10, f"each OSD is as large as its device: {sizes}")
    # While they are used, another cluster can't have them.
    other = t.cluster(start=False)
    words = refused(other, *named, "--overwrite", devices[0], "--overwrite", devices[1])
    expect("in use" in words, f"a device of a running cluster: {words}")
    cluster.kill()
    expect("holds data" in refused(other, *named), "a device of a cluster that does not run")
    cluster.up()
    for name in ("a", "b", "c"):
        same(t, client, name)
    # An empty store in place of one: on the same device.
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    loligo(cluster, "start", cluster.dir, "--osd", "1", "--replace", "--yes-i-really-mean-it")
    loligo(cluster, "stop", cluster.dir)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the stores on devices")


def test_a_block_device_is_discarded_as_the_monitors_option_says(t):
    device = loop_device(t, "disk", 1 << 30)
    cluster = t.cluster(start=False)
    cluster.up("--port", "0", "--osds", "1", "--device", device)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    taken = lambda: os.stat(t.path("disk")).st_blocks * 512 >> 20

    def comes_and_goes(run):
        """Writes objects and removes them: what the file below the device has with them."""
        client.rados("-p", POOL, "bench", "60", "write", "--max-objects", "64", "--no-cleanup", "--run-name", run)
        with_objects = taken()
        client.rados("-p", POOL, "cleanup", "--run-name", run)
        return with_objects

    expect(comes_and_goes("first") >= 256, f"{taken()} MiB for 256 MiB of objects")
    # As long as a store that discards takes at most.
    time.sleep(6)
    expect(taken() >= 256, f"{taken()} MiB: nothing is discarded by default")
    said = client.ceph("config", "set", "osd", "bdev_enable_discard", "true").words
    expect("restart" not in said, said)
    until(lambda: client.ceph("tell", "osd.0", "config", "get", "bdev_enable_discard").json() == {"bdev_enable_discard": "true"},
          "the OSD knows it")
    before = comes_and_goes("second")
    until(lambda: taken() <= before - 200, f"{before} MiB with the objects")
    # The same after a start, which knows nothing of the monitor's options before the store is open.
    cluster.stop()
    cluster.up()
    before = comes_and_goes("third")
    until(lambda: taken() <= before - 200, f"{before} MiB with the objects after a start")
    client.ceph("config", "set", "osd", "bdev_enable_discard", "false")
    time.sleep(1)
    before = comes_and_goes("fourth")
    time.sleep(6)
    equal(taken(), before, "MiB when it is off again")


def test_less_memory_for_osds_is_given_back_at_once(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "2GiB")
    client.rados("-p", POOL, "bench", "60", "write", "-b", "32768", "-t", "16", "--max-objects", "16000", "--no-cleanup")
    client.rados("-p", POOL, "bench", "5", "seq", "-t", "16")
    resident = lambda: cluster.rss_bytes() >> 20
    before = resident()
    expect(before > 280, f"{before} MiB with what was read in the cache")
    client.ceph("config", "set", "osd", "osd_memory_target", "64M")
    until(lambda: resident() < before * 2 // 3, lambda: f"{before} MiB before, {resident()} now", 20)


def test_what_a_store_has_in_memory_stands_in_its_pools(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "1GiB")
    client.rados("-p", POOL, "bench", "10", "write", "-b", "65536", "-t", "16", "--max-objects", "500", "--no-cleanup")
    for _ in range(2):
        client.rados("-p", POOL, "bench", "10", "seq", "-t", "16")
    told = client.ceph("tell", "osd.0", "dump_mempools").json()
    path = os.path.join(cluster.dir, "osd.0.asok")
    by_socket = client.run("ceph", "daemon", path, "dump_mempools").json()
    for mempool in told["mempool"], by_socket["mempool"]:
        pools = mempool["by_pool"]
        for name, items, size in (("alloc", 1, 1024), ("cache_data", 100, 100 << 16), ("cache_onode", 500, 500 * 100),
                                  ("cache_meta", 5, 5 << 12)):
            pool = pools[f"bluestore_{name}"]
            expect(pool["items"] >= items and pool["bytes"] >= size, f"{name}: {pool}")
        expect({"bluestore_txc", "bluestore_cache_other", "bluestore_writing_deferred"} <= pools.keys(), pools)
        for what in "items", "bytes":
            equal(mempool["total"][what], sum(pool[what] for pool in pools.values()), what)
    client.ceph("tell", "osd.0", "cache", "drop")

    def cached():
        pools = client.ceph("tell", "osd.0", "dump_mempools").json()["mempool"]["by_pool"]
        return [pools[f"bluestore_cache_{name}"]["items"] for name in ("data", "onode")]

    until(lambda: cached() == [0, 0], lambda: f"data and onodes that are left: {cached()}")
    client.rados("-p", POOL, "bench", "10", "seq", "-t", "16")
    expect(min(cached()) > 0, "what is read after it is kept")


def test_a_device_that_is_read_only_or_gone_is_said_to_be(t):
    device = loop_device(t, "disk", 256 << 20)
    cluster = t.cluster(start=False)
    cluster.up("--port", "0", "--osds", "1", "--device", device)
    cluster.stop()
    block = cluster.metadata(0)
    # The loop device keeps the flag, and another test may get it.
    t.cleanups.append(lambda: subprocess.run(["blockdev", "--setrw", device], check=False))
    subprocess.run(["blockdev", "--setro", device], check=True)
    cluster.up(code=cluster.ALONE)
    expect("osd.0 failed" in cluster.said, cluster.said)
    cluster.stop()
    for words in (
        loligo(cluster, "store", "expand", cluster.dir, "--osd", "0", code=1),
        cluster.said,
        # It can be read all the same.
        loligo(cluster, "store", "list", cluster.dir, "--osd", "0"),
    ):
        expect("block can't be written (the device is read-only)" in words, words)
    other = t.cluster(start=False)
    words = refused(other, "--osds", "1", "--device", device, "--overwrite", device)
    expect(f"{device} can't be written (the device is read-only)" in words, words)
    subprocess.run(["blockdev", "--setrw", device], check=True)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir), "a device that can be written again")
    os.remove(block)
    os.symlink("/dev/loligo-gone", block)
    words = loligo(cluster, "store", "fsck", cluster.dir, code=1)
    expect("are on /dev/loligo-gone, which is not there" in words, words)


def test_a_device_that_was_overwritten_is_nothing_else_any_more(t):
    # A partition table has a second copy at the end; with its log apart, a store writes nothing between its superblocks.
    disk, log = loop_device(t, "disk", 600 << 20), loop_device(t, "log", 64 << 20)
    marks = [(64 << 10, os.SEEK_SET, b"_BHRfS_M"), (-512, os.SEEK_END, b"EFI PART")]
    for device in (disk, log):
        with open(device, "r+b") as file:
            for offset, whence, mark in marks:
                file.seek(offset, whence)
                file.write(mark)
    cluster = t.cluster(start=False)
    cluster.up("--device", disk, "--log-device", log, "--overwrite", disk, "--overwrite", log)
    cluster.stop()
    for device in (disk, log):
        with open(device, "rb") as file:
            for offset, whence, mark in marks:
                file.seek(offset, whence)
                equal(file.read(len(mark)), bytes(len(mark)), f"what was at {offset} of {device}")


def test_a_log_device_that_the_log_has_left_holds_nothing(t):
    # As large as the log: it is written to the device's end.
    device = loop_device(t, "log", (8 << 20) + 4096)
    cluster, client = started(t, "--osds", "1", "--osd-size", "256MiB")
    cluster.stop()
    move = ("store", "log", cluster.dir, "--osd", "0")
    loligo(cluster, *move, "--to", device)
    cluster.up()
    client.rados("-p", POOL, "bench", "30", "write", "-b", "4096", "-t", "16", "--no-cleanup", "--max-objects", "15000")
    cluster.stop()
    with open(device, "rb") as file:
        file.seek(-(1 << 20), os.SEEK_END)
        expect(any(file.read()), "the log was written to its end")
    loligo(cluster, *move, "--beside-data")
    loligo(cluster, *move, "--to", device)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the store")


def test_what_objects_names_and_maps_take_is_metadata_to_ceph_osd_df(t):
    _, client = started(t, "--osds", "1", "--set", "osd_mon_report_interval=0.2")
    client.ceph("osd", "pool", "set", POOL, "size", "1", "--yes-i-really-mean-it")

    def used(*kinds):
        node = client.ceph_json("osd", "df")["nodes"][0]
        return [node[f"kb_used{kind}"] for kind in kinds]

    until(lambda: used("")[0] > 0, "the OSD reports its space")
    data, meta = used("_data", "_meta")
    client.rados("-p", POOL, "bench", "20", "write", "-b", "4096", "-t", "16", "--max-objects", "500", "--no-cleanup")
    # The data are counted exactly; maps of the cluster that come meanwhile are objects, too.
    until(lambda: 2000 <= used("_data")[0] - data <= 2100, f"500 objects of 4 KiB beside {data} KiB")
    whole, now_data, omap, now_meta = used("", "_data", "_omap", "_meta")
    expect(now_meta > meta + 200, f"metadata of 500 objects: {meta} before and {now_meta}")
    expect(abs(whole - now_data - omap - now_meta) <= 2, f"the parts of {whole}: {now_data}, {omap}, {now_meta}")


def test_how_scattered_the_free_space_is_is_said_by_the_osd_and_offline(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "256MiB", "--cores", "2", "--set", "osd_store_shards=2")

    def rated():
        told = client.ceph("tell", "osd.0", "bluestore", "allocator", "score", "block").json()
        at = os.path.join(cluster.dir, "osd.0.asok")
        asked = client.ceph("daemon", at, "bluestore", "allocator", "fragmentation", "block").json()
        return told["fragmentation_rating"], asked["fragmentation_rating"]

    score, fragmentation = rated()
    expect(0 <= score < 0.1 and 0 <= fragmentation < 0.01, f"of an empty store: {score}, {fragmentation}")
    client.rados("-p", POOL, "bench", "3", "write", "-b", "4096", "-t", "16", "--no-cleanup", "--max-objects", "6000")
    names = client.rados("-p", POOL, "ls").text.split()
    for at in range(0, len(names), 400):
        client.rados("-p", POOL, "rm", *names[at:at + 400:2])
    until(lambda: rated()[0] > score + 0.02 and rated()[1] > fragmentation, lambda: f"with holes: {rated()}, {score} before")
    loligo(cluster, "stop", cluster.dir)
    of_shards = [shard["blocks"] for shard in json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))["osd.0"]["shards"]]
    expect(all(0 < blocks["fragmentation_score"] < 1 and 0 < blocks["fragmentation"] < 1 for blocks in of_shards), f"offline: {of_shards}")


def compressible(size):
    """Bytes of which one in three is random, sixteen at a time."""
    block = b"".join(os.urandom(16) + b"a" * 32 for _ in range(1 << 12))
    return (block * (size // len(block) + 1))[:size]


def put_bytes(t, client, name, data):
    path = t.path(name)
    with open(path, "wb") as f:
        f.write(data)
    client.rados("-p", POOL, "put", name, path)


def pool_df(client, name=POOL):
    pools = client.ceph_json("df", "detail")["pools"]
    return next(pool["stats"] for pool in pools if pool["name"] == name)


def test_a_pools_data_are_compressed_and_survive_a_kill(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "1GiB", "--set", "osd_mon_report_interval=0.2")
    put_bytes(t, client, "plain", compressible(SIZE))
    client.ceph("osd", "pool", "set", POOL, "compression_mode", "aggressive")
    refused = client.ceph("osd", "pool", "set", POOL, "compression_algorithm", "snappy", code=None)
    expect(refused.code == 22 and "'snappy' is not one of lz4, zstd" in refused.words, refused.words)
    put_bytes(t, client, "lz4", compressible(SIZE))
    client.ceph("osd", "pool", "set", POOL, "compression_algorithm", "zstd")
    put_bytes(t, client, "zstd", compressible(SIZE))
    put(t, client, "noise")
    names = ("plain", "lz4", "zstd", "noise")
    until(lambda: pool_df(client)["compress_under_bytes"] == 2 * SIZE, "two objects are compressed")
    stats = pool_df(client)
    expect(SIZE // 2 < stats["compress_bytes_used"] < 3 * SIZE // 2, stats)
    equal(stats["bytes_used"], 4 * SIZE - 2 * SIZE + stats["compress_bytes_used"], "what the pool takes")
    text = client.ceph("df", "detail").text
    expect("16 MiB" in text and "USED COMPR" in text, text)
    cluster.kill()
    cluster.up()
    for name in names:
        same(t, client, name)
    # Over a part of it, across blobs, and a read of that.
    client.rados("-p", POOL, "put", "lz4", t.path("noise"), "--offset", str(100_000))
    with open(t.path("lz4"), "rb") as f, open(t.path("noise"), "rb") as noise:
        data = f.read()[:100_000] + noise.read()
    with open(t.path("lz4"), "wb") as f:
        f.write(data)
    same(t, client, "lz4")
    client.ceph("osd", "pool", "mksnap", POOL, "s")
    client.rados("-p", POOL, "rm", "zstd")
    client.rados("-p", POOL, "-s", "s", "get", "zstd", t.path("got"))
    with open(t.path("got"), "rb") as got, open(t.path("zstd"), "rb") as given:
        expect(got.read() == given.read(), "the snapshot's bytes")
    loligo(cluster, "stop", cluster.dir)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "after all of it")
    shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, "--osd", "0", "--object", "plain", "-f", "json"))
    expect(all("compressed" not in extent for extent in shown["osd.0"]["objects"][0]["extents"]), shown)
    shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, "--osd", "0", "--object", "lz4", "-f", "json"))
    packed = [e["compressed"] for e in shown["osd.0"]["objects"][0]["extents"] if "compressed" in e]
    expect(packed and packed[0]["algorithm"] == "lz4" and packed[0]["bytes"] < 64 << 10, shown)


def test_a_thin_image_takes_what_was_written(t):
    """What `ceph df` and `rados df` say of holes, of what clones share, and of blocks that no one needs any more."""
    cluster, client = started(t, "--osds", "2", "--osd-size", "1GiB", "--set", "osd_mon_report_interval=0.2")
    unit, written, step = 4096, 40, 10 << 20
    with open(t.path("thin"), "wb") as f:
        for n in range(written):
            f.seek(n * step + (1 << 20))
            f.write(os.urandom(unit))
        f.truncate(written * step)
    client.run("rbd", "import", "--sparse-size", "4K", t.path("thin"), f"{POOL}/thin")
    data, of_headers = written * unit, 64 << 10

    def takes(words, stored, used=None, pool=POOL, more=of_headers):
        used = stored if used is None else used

        def is_said():
            stats = pool_df(client, pool)
            of_rados = client.rados("df", "-f", "json").json()["pools"]
            by_rados = next(int(found["size_bytes"]) for found in of_rados if found["name"] == pool)
            return (stored <= stats["stored"] <= stored + more and used <= stats["bytes_used"] <= used + more
                    and by_rados == stats["bytes_used"])

        until(is_said, f"{words}: {stored} stored and {used} used")

    takes("a thin image", data)
    client.run("rbd", "snap", "create", f"{POOL}/thin@one")
    client.run("rbd", "snap", "protect", f"{POOL}/thin@one")
    client.run("rbd", "clone", f"{POOL}/thin@one", f"{POOL}/child")
    takes("with a clone", data)
    client.run("rbd", "flatten", "--no-progress", f"{POOL}/child")
    takes("flattened", 2 * data)
    cluster.kill()
    cluster.up()
    takes("after a kill", 2 * data)
    client.run("rbd", "snap", "unprotect", f"{POOL}/thin@one")
    client.run("rbd", "snap", "purge", "--no-progress", f"{POOL}/thin")
    client.run("rbd", "rm", "--no-progress", f"{POOL}/thin")
    takes("one removed", data)
    # Without holes it is the objects' sizes that are stored, and whole blocks that are used.
    client.ceph("osd", "pool", "create", "small", "8")
    for n in range(3):
        client.rados("-p", "small", "put", f"small{n}", "/etc/hostname")
    takes("small objects", 3 * os.path.getsize("/etc/hostname"), 3 * unit, pool="small", more=0)
    ids = {pool["name"]: str(pool["id"]) for pool in client.ceph_json("df")["pools"]}
    used = {ids[name]: pool_df(client, name)["data_bytes_used"] for name in (POOL, "small")}
    cluster.stop()
    dumps = json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))
    found = [dump["space"]["data_by_pool"] for dump in dumps.values()]
    equal({pool: sum(of.get(pool, 0) for of in found) for pool in used}, used, "what the stores count")
    loligo(cluster, "store", "fsck", cluster.dir)


def test_omaps_are_counted_as_they_change(t):
    """What `ceph df`, `ceph osd df` and `ceph pg dump` say of omaps, without a deep scrub."""
    cluster, client = started(t, "--osds", "2", "--osd-size", "1GiB", "--set", "osd_mon_report_interval=0.2")
    with open(t.path("value"), "wb") as f:
        f.write(os.urandom(100 << 10))
    entry, others = len("key0") + (100 << 10), 2

    def are(words, count):
        stored = count * entry

        def is_said():
            stats, osds = pool_df(client), client.ceph_json("osd", "df")
            dumped = client.ceph_json("pg", "dump", "osds")
            by_osd = sum(osd["statfs"]["omap_allocated"] for osd in dumped.get("osd_stats", dumped))
            in_kib = sum(osd["kb_used_omap"] for osd in osds["nodes"])
            return (stats["stored_omap"] == stats["omap_bytes_used"] == stats["stored"] == stored
                    and by_osd == stored and stored // 1024 - others <= in_kib <= stored // 1024)

        until(is_said, f"{words}: {stored} bytes of omaps")

    are("nothing", 0)
    for n in range(8):
        client.rados("-p", POOL, "setomapval", f"object{n % 3}", f"key{n}", "--input-file", t.path("value"))
    are("set", 8)
    client.rados("-p", POOL, "setomapval", "object0", "key0", "--input-file", t.path("value"))
    are("set again", 8)
    cluster.kill()
    cluster.up()
    are("after a kill", 8)
    client.rados("-p", POOL, "rmomapkey", "object0", "key0")
    are("without a key", 7)
    client.rados("-p", POOL, "rm", "object1")
    are("without an object", 4)
    pool = next(str(pool["id"]) for pool in client.ceph_json("df")["pools"] if pool["name"] == POOL)
    cluster.stop()
    dumps = json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))
    found = [dump["space"]["omaps_by_pool"].get(pool, 0) for dump in dumps.values()]
    equal(sum(found), 4 * entry, "what the stores count")
    loligo(cluster, "store", "fsck", cluster.dir)


def test_hints_and_options_say_what_is_compressed(t):
    cluster, client = started(t, "--osds", "1", "--osd-size", "1GiB", "--set", "osd_mon_report_interval=0.2")
    # Not by --set, which counts more than what the monitor keeps.
    client.ceph("config", "set", "osd", "bluestore_compression_mode", "passive")
    put_bytes(t, client, "unhinted", compressible(SIZE))
    for image, hint in (("good", "compressible"), ("bad", "incompressible")):
        client.run("rbd", "create", f"{POOL}/{image}", "--size", "8M")
        client.run("rbd", "bench", f"{POOL}/{image}", "--io-type", "write", "--io-size", "64K", "--io-total", "8M",
                   "--io-pattern", "seq", f"--rbd_compression_hint={hint}")
    until(lambda: pool_df(client)["compress_under_bytes"] == SIZE, "the image with the hint is compressed, and nothing else")
    client.ceph("config", "set", "osd", "bluestore_compression_mode", "force")
    put_bytes(t, client, "forced", compressible(SIZE))
    until(lambda: pool_df(client)["compress_under_bytes"] == 2 * SIZE, "the option takes effect at once")
    refused = client.ceph("config", "set", "osd", "bluestore_compression_algorithm", "zlib", code=None)
    expect(refused.code == 22 and "not one of lz4, zstd" in refused.words, refused.words)


def test_other_stores_say_that_they_do_not_compress(t):
    cluster = t.cluster("--store", "simple", "--osds", "1")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    said = client.ceph("osd", "pool", "set", POOL, "compression_mode", "force").words
    expect("no effect on osd.0" in said, said)


def damage_leaves(path, names):
    """Flips a byte of each leaf of objects, of now and of earlier, that has one of these in its first block."""
    # No name that is the beginning of another, which may be in a leaf that the OSD can't begin without.
    wanted = re.compile(b"(" + "|".join(map(re.escape, names)).encode() + b")(?![0-9])")
    with open(path, "rb") as f:
        at, found = 0, []
        while block := f.read(4096):
            # The page's level, how many entries it has, and the first key's length and table.
            is_leaf = block[0] == 0 and block[3:5] == b"\0\0" and block[6:10] == b"\0\0\0o"
            if is_leaf and wanted.search(block):
                found.append(at)
            at += 4096
    expect(found, f"no leaf has any of {names}")
    for at in found:
        flip(path, at + 20)


def test_of_a_removed_pool_only_what_lies_in_an_unreadable_leaf_stays(t):
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "1GiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "1")
    client.rados("-p", POOL, "bench", "2", "write", "-b", "4096", "--max-objects", "1000", "--no-cleanup")
    pg = client.ceph_json("osd", "map", POOL, "any")["pgid"]
    loligo(cluster, "stop", cluster.dir)
    of = (cluster.dir, "--osd", "0")
    objects = json.loads(loligo(cluster, "store", "list", *of, "--pg", pg, "-f", "json"))
    expect(len(objects) > 200, f"{len(objects)} objects")
    # A log that moves is empty: everything is in the tree.
    loligo(cluster, "store", "log", *of, "--to", t.path("log"))
    # Neighbours in the list: more than a leaf has.
    some = [row["name"] for row in objects[len(objects) // 2:][:100]]
    damage_leaves(os.path.join(cluster.dir, "osd.0", "block"), some)
    cluster.up()
    client.ceph("osd", "pool", "rm", POOL, POOL, "--yes-i-really-really-mean-it")
    told = re.compile(f"osd.0 keeps pg {pg}: ([0-9]+) gaps? in its list can't be read: damaged store: ")
    found = until(lambda: told.search(client.ceph("health", "detail").text), "what is left of the PG", 30)
    gaps = int(found[1])
    loligo(cluster, "stop", *of)
    # The same from outside: nothing else is left.
    remove = ("store", "remove", *of, "--pg", pg, "--yes-i-really-mean-it")
    said = json.loads(loligo(cluster, *remove, "-f", "json", code=1).splitlines()[0])
    equal((said["pg"], said["objects"]), (pg, 0), "what is removed")
    equal((said["left"]["objects"], said["left"]["gaps"]), (0, gaps), "what is left")
    said = loligo(cluster, *remove, code=1)
    expect(f"{gaps} gap" in said and "--replace" in said, said)
    # An OSD goes on with it, and says so again.
    loligo(cluster, "start", *of)
    until(lambda: told.search(client.ceph("health", "detail").text), "what is left of the PG after a start", 30)
    loligo(cluster, "stop", *of)
    loligo(cluster, "start", *of, "--replace", "--yes-i-really-mean-it")
    until(lambda: "PG_NOT_REMOVED" not in client.ceph("health", "detail").text, "nothing is left", 30)
