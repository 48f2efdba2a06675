"""What tools change in stores: another kind of store, a PG in a file, a larger file; killed at any point, nothing is lost."""
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import time

import harness
from harness import BOUND, equal, expect, until
from test_block_store import compressible, loligo, loop_device, put_bytes, same

POOL = "p"


def put_some(t, client, count, size):
    """Objects with data, attributes and an omap, some of them in a snapshot with other bytes."""
    path = t.path("given")
    for n in range(count):
        with open(path, "wb") as f:
            f.write(random.Random(n).randbytes(size))
        client.rados("-p", POOL, "put", f"o{n}", path)
    client.rados("-p", POOL, "setxattr", "o0", "color", "blue")
    for n in range(30):
        client.rados("-p", POOL, "setomapval", "o1", f"key{n}", "v" * n)
    client.rados("-p", POOL, "mksnap", "before")
    with open(path, "r+b") as f:
        f.seek(size // 2)
        f.write(b"other bytes")
    client.rados("-p", POOL, "put", "o0", path)
    client.rados("-p", POOL, "truncate", "o2", "1000")


def out_of(cluster, *args):
    """What a subcommand writes to standard output."""
    return subprocess.run(cluster.argv(*args), capture_output=True, timeout=BOUND, check=True).stdout.decode()


def contents(t, client):
    """All that a client reads: what `rados export` writes, and the snapshot's objects."""
    path = t.path("contents")
    client.rados("-p", POOL, "export", path)
    with open(path, "rb") as f:
        all_bytes = [f.read()]
    os.remove(path)
    for name in ("o0", "o1", "o2"):
        client.rados("-p", POOL, "-s", "before", "get", name, path)
        with open(path, "rb") as f:
            all_bytes.append(f.read())
    return all_bytes


def write_again(t, client):
    """Every object takes a write, beside its snapshot."""
    for n in range(12):
        client.rados("-p", POOL, "put", f"o{n}", t.path("given"))
    with open(t.path("given"), "rb") as given:
        client.rados("-p", POOL, "get", "o3", t.path("got"))
        with open(t.path("got"), "rb") as got:
            expect(given.read() == got.read(), "an object that was written again")


def killed_after(cluster, seconds, *args):
    """Whether a subcommand was still there to be killed."""
    with subprocess.Popen(cluster.argv(*args), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        running = process.poll() is None
        process.kill()
        return running


def beside_an_unfinished_conversion(t, cluster, client, before, *convert):
    """Kills conversions, starts the cluster, and has clients read what they read before. Whether they could: once the first OSD's
    new store takes the old one's place, that OSD waits for the rest of the conversion."""
    def there(name):
        return os.path.exists(os.path.join(cluster.dir, "osd.0", name))
    # Each try goes on from where the last one ended: two that were copying are enough, and more might come to the end.
    copying, seconds = 0, 0.0
    while copying < 2 and there("meta.redb") and not there("converted"):
        seconds += 0.01
        expect(killed_after(cluster, seconds, *convert), "no conversion was killed: it had its end before")
        copying += there("converting")
    cluster.up()
    if not there("converted"):
        equal(contents(t, client), before, "what clients read beside a conversion that is not at its end")
        return True
    until(lambda: "its conversion to the store 'block' did not get to its end" in client.ceph("health", "detail").text,
          "the OSD says what it waits for")
    return False


def test_simple_stores_become_block_stores_though_the_conversion_is_killed(t):
    cluster = t.cluster(start=False)
    cluster.up("--store", "simple", "--osds", "2", "--osd-size", "1GiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    put_some(t, client, 12, 4 << 20)
    before = contents(t, client)
    convert = ("store", "convert", cluster.dir)
    if harness.STORE not in (None, "simple"):
        cluster.kill()
        expect("a block store already" in loligo(cluster, *convert), "there is nothing to convert")
        return
    expect("in use" in loligo(cluster, *convert, code=1), "beside the running cluster")
    cluster.kill()
    if beside_an_unfinished_conversion(t, cluster, client, before, *convert):
        # What was begun may be changed before it goes on.
        client.rados("-p", POOL, "truncate", "o5", "70000")
        client.rados("-p", POOL, "setomapval", "o6", "later", "value")
        before = contents(t, client)
    cluster.kill()
    with open(os.path.join(cluster.dir, "cluster.json"), encoding="utf-8") as f:
        kept = json.load(f)
    left = [store == "simple" for store in kept.get("osd_stores") or 2 * [kept["store"]]]
    expect(any(left), "nothing is left to convert: the kills came too late")
    done = json.loads(subprocess.run(cluster.argv(*convert, "--keep", "-f", "json"), capture_output=True,
                                     timeout=BOUND, check=True).stdout)
    equal([done[osd]["converted"] for osd in ("osd.0", "osd.1")], left, f"what was converted: {done}")
    for osd, was_left in zip(("osd.0", "osd.1"), left):
        expect(not was_left or os.path.exists(done[osd]["old_store"]), f"the old store of {osd} is kept")
    expect("a block store already" in loligo(cluster, *convert), "a second time")
    equal(sorted(os.listdir(os.path.join(cluster.dir, "osd.0"))), ["block", "lock"], "files of an OSD")
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep", "--repair"), "the new stores")
    cluster.up()
    equal(contents(t, client), before, "what clients read of the block stores")
    equal(client.ceph_json("osd", "metadata", "0")["osd_objectstore"], "block", "the OSD's store")
    write_again(t, client)


def test_simple_stores_become_block_stores_on_devices_with_their_logs_apart(t):
    disks = [loop_device(t, f"disk{n}", 600 << 20) for n in range(2)]
    logs = [loop_device(t, "log0", 64 << 20), t.path("log1")]
    cluster = t.cluster(start=False)
    cluster.up("--store", "simple", "--osds", "2", "--osd-size", "1GiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    put_some(t, client, 12, 4 << 20)
    before = contents(t, client)
    cluster.kill()
    if harness.STORE not in (None, "simple"):
        return
    convert = ("store", "convert", cluster.dir)
    named = [word for n in range(2) for word in ("--device", disks[n], "--log-device", logs[n])]
    subprocess.run(["mkfs.ext4", "-q", disks[1]], check=True)
    for words, says in (
            (named, f"{disks[1]} holds data"),
            (named[:4], "--device is named 1 times for 2 OSDs"),
            ([*named[:4], *named[:4]], "is named twice"),
            (["--osd", "0", "--device", logs[0], "--log-device", logs[0]], "it can be one of them"),
            (["--osd", "0", "--device", t.path("disk0")], "is no block device"),
            (["--osd", "1", "--device", logs[0]], "name a larger device")):
        said = loligo(cluster, *convert, *words, code=1)
        expect(says in said, f"{words}: {said}")
    expect(not os.path.exists(logs[1]), "a refused conversion has made a log")
    named += ["--overwrite", disks[1]]
    beside_an_unfinished_conversion(t, cluster, client, before, *convert, *named)
    cluster.kill()
    # In the first OSD's last steps, too, or the second one's copy.
    kills = sum(killed_after(cluster, seconds, *convert, *named) for seconds in (0.1, 0.13, 0.16, 0.2))
    expect(kills > 0, "no conversion was killed later: each had its end before")
    done = subprocess.run(cluster.argv(*convert, *named, "-f", "json"), capture_output=True, timeout=BOUND)
    expect(done.returncode == 0, f"the conversion that is not killed: {done.stderr!r}")
    done = json.loads(done.stdout)
    for n in range(2):
        equal((done[f"osd.{n}"]["device"], done[f"osd.{n}"]["log_device"]), (disks[n], logs[n]), f"places of osd.{n}")
        equal(sorted(os.listdir(os.path.join(cluster.dir, f"osd.{n}"))), ["block", "block.wal", "lock"], "files of an OSD")
    said = loligo(cluster, *convert, "--osd", "0", "--device", logs[0], code=1)
    expect(f"has a block store already, on {disks[0]} with its log on {logs[0]}" in said, said)
    with open(os.path.join(cluster.dir, "cluster.json"), encoding="utf-8") as f:
        kept = json.load(f)
    equal((kept["store"], kept["devices"], kept["log_devices"], kept["osd_size"]), ("block", disks, logs, 600 << 20),
          "what the directory remembers")
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep", "--repair"), "the new stores")
    # As a cluster that was made there.
    flags = named[:8]
    cluster.up("--store", "block", *flags)
    equal(contents(t, client), before, "what clients read of the block stores")
    told = client.ceph_json("osd", "metadata", "0")
    equal((told["osd_objectstore"], told["bluefs_wal_dev_node"]), ("block", logs[0]), "osd.0's store")
    until(lambda: client.ceph_json("osd", "df")["nodes"][0]["kb"] < 600 << 10, "the OSD reports its device's size")
    write_again(t, client)
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    said = loligo(cluster, "start", cluster.dir, "--osd", "1", "--replace", "--yes-i-really-mean-it")
    expect("its device is written over" in said, said)
    both_up(client)
    loligo(cluster, "stop", cluster.dir)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "one of before and one made anew")


def test_a_conversion_overwrites_no_other_part_of_the_cluster(t):
    if harness.STORE not in (None, "simple"):
        return
    cluster = t.cluster(start=False)
    cluster.up("--store", "simple", "--osds", "2", "--osd-size", "1GiB")
    cluster.stop()
    loligo(cluster, "store", "convert", cluster.dir, "--osd", "1")
    # A store that is not checked is not known to be sound.
    said = loligo(cluster, "store", "fsck", cluster.dir, code=1)
    expect("osd.0: it has the store 'simple'" in said and "osd.1: no problem" in said, said)
    done = subprocess.run(cluster.argv("store", "fsck", cluster.dir, "-f", "json"), capture_output=True, timeout=BOUND, check=False)
    found = json.loads(done.stdout)
    equal((done.returncode, found["osd.1"]["problems"]), (1, []), "the store that is checked")
    expect("'simple'" in found["osd.0"]["error"], found)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--osd", "1"), "the store alone that is checked")
    store, link, log = os.path.join(cluster.dir, "osd.1", "block"), t.path("link"), t.path("log")
    os.link(store, link)
    conf = os.path.join(cluster.dir, "ceph.conf")
    for path, says in ((store, "has a part of osd.1's store"), (link, "has a part of osd.1's store"),
                       (conf, "is a part of the cluster"),
                       (os.path.join(cluster.dir, "osd.0", "block"), "is a part of the cluster")):
        said = loligo(cluster, "store", "convert", cluster.dir, "--osd", "0", "--log-device", path, "--overwrite", path, code=1)
        expect(says in said, f"{path}: {said}")
    loligo(cluster, "store", "convert", cluster.dir, "--osd", "0", "--log-device", log)
    said = loligo(cluster, "store", "fsck", cluster.dir, "--deep")
    expect("no problem" in said, said)


def test_tools_say_that_two_osds_stores_were_exchanged(t):
    cluster = t.cluster("--store", "block", "--osds", "2", "--osd-size", "1GiB")
    cluster.stop()
    paths = [os.path.join(cluster.dir, f"osd.{osd}", "block") for osd in range(2)]

    def exchange():
        os.rename(paths[0], t.path("kept"))
        os.rename(paths[1], paths[0])
        os.rename(t.path("kept"), paths[1])

    exchange()
    said = loligo(cluster, "store", "fsck", cluster.dir, code=1)
    for osd, path in enumerate(paths):
        expect(f"osd.{osd}: {path} is the store of osd.{1 - osd} " in said, said)
    for command in (("fsck", cluster.dir, "--repair"), ("expand", cluster.dir, "--osd", "0", "--size", "2GiB"),
                    ("log", cluster.dir, "--osd", "0", "--to", t.path("log")),
                    ("import", cluster.dir, "--osd", "0", "--file", "/dev/null"),
                    ("export", cluster.dir, "--osd", "0", "--pg", "1.0", "--file", t.path("pg"))):
        said = loligo(cluster, "store", *command, code=1)
        expect(f"{paths[0]} is the store of osd.1 " in said, f"{command}: {said}")
    cluster.up(code=cluster.ALONE)
    for osd, path in enumerate(paths):
        said = f"osd.{osd} failed and is down: its store can't be used: {path} is the store of osd.{1 - osd} "
        expect(said in cluster.said, f"a start: {cluster.said}")
    cluster.stop()
    exchange()
    said = loligo(cluster, "store", "fsck", cluster.dir)
    equal(said.count("no problem"), 2, "the stores in their places")


def pgs_of(cluster, osd):
    listed = json.loads(out_of(cluster, "store", "list", cluster.dir, "--osd", str(osd), "-f", "json"))
    return [row["pg"] for row in listed]


def objects_of(cluster, osd):
    listed = json.loads(loligo(cluster, "store", "list", cluster.dir, "--osd", str(osd), "-f", "json"))
    return {row["pg"]: row["objects"] for row in listed}


def with_pgs(t, *args):
    """A cluster whose osd.1 is stopped, what its clients read before that, and the PGs of osd.1."""
    cluster = t.cluster("--store", "block", "--osds", "2", "--osd-size", "1GiB", *args)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    put_some(t, client, 12, 300_000)
    before = contents(t, client)
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    return cluster, client, before, pgs_of(cluster, 1)


def both_up(client):
    until(lambda: client.ceph_json("osd", "stat")["num_up_osds"] == 2, "two OSDs up")


def test_pgs_go_through_files_into_a_new_store(t):
    pgs_go_through_files(t)


def test_pgs_go_through_files_where_the_logs_lie_apart(t):
    pgs_go_through_files(t, "--log-device", t.path("log0"), "--log-device", t.path("log1"))


def test_the_list_of_a_pgs_objects_has_their_keys_and_namespaces(t):
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "1GiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "1")
    client.rados("-p", POOL, "--object-locator", "place", "-N", "ns", "put", "name", "/etc/hostname")
    client.rados("-p", POOL, "put", "plain", "/etc/hostname")
    loligo(cluster, "stop", cluster.dir)
    (pg,) = pgs_of(cluster, 0)
    listed = json.loads(loligo(cluster, "store", "list", cluster.dir, "--osd", "0", "--pg", pg, "-f", "json"))
    equal(sorted((row["name"], row["key"], row["namespace"]) for row in listed),
          [("name", "place", "ns"), ("plain", "", "")], "objects, their keys and namespaces")


def test_a_pg_that_is_imported_is_compressed_as_its_pool_says(t):
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "1GiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "1")
    client.ceph("osd", "pool", "set", POOL, "compression_mode", "force")
    for name in ("a", "b"):
        put_bytes(t, client, name, compressible(1 << 20))
    loligo(cluster, "stop", cluster.dir)
    of, file = (cluster.dir, "--osd", "0"), t.path("pg")
    space = lambda: json.loads(loligo(cluster, "store", "dump", *of, "-f", "json"))["osd.0"]["space"]
    before = space()
    equal(before["data_compressed_original"], 2 << 20, "what was compressed")
    [pg] = pgs_of(cluster, 0)
    loligo(cluster, "store", "export", *of, "--pg", pg, "--file", file)
    loligo(cluster, "store", "remove", *of, "--pg", pg, "--yes-i-really-mean-it")
    equal(space()["data_compressed"], 0, "what is compressed without the PG")
    loligo(cluster, "store", "import", *of, "--file", file)
    equal(space()["data_compressed_original"], 2 << 20, "what was compressed again")
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "after the import")
    cluster.up()
    for name in ("a", "b"):
        same(t, client, name)


def removes_a_pg(t, cluster, pg):
    """Removes a PG of osd.1, which does not run, and puts it back from the file that an export has written."""
    of = ("store", "remove", cluster.dir, "--pg", pg, "--osd")
    yes, before = "--yes-i-really-mean-it", pgs_of(cluster, 1)
    expect("--yes-i-really-mean-it" in loligo(cluster, *of, "1", code=1), "a removal that is not confirmed")
    expect("in use" in loligo(cluster, *of, "0", yes, code=1), "a store that is in use")
    equal(pgs_of(cluster, 1), before, "PGs after removals that were refused")
    killed_after(cluster, 0.02, *of, "1", yes)
    if pg in pgs_of(cluster, 1):
        said = json.loads(loligo(cluster, *of, "1", yes, "-f", "json"))
        equal(said["pg"], pg, "what was removed")
    equal(pgs_of(cluster, 1), [other for other in before if other != pg], "PGs after the removal")
    expect("is not in the store" in loligo(cluster, *of, "1", yes, code=1), "a PG that is not there")
    loligo(cluster, "store", "import", cluster.dir, "--osd", "1", "--file", t.path(f"pg-{pg}"))
    equal(sorted(pgs_of(cluster, 1)), sorted(before), "PGs after the import")


def pgs_go_through_files(t, *args):
    cluster, client, before, pgs = with_pgs(t, *args)
    osd = ("--osd", "1")
    expect(len(pgs) > 2, f"PGs of osd.1: {pgs}")
    of = ("store", "export", cluster.dir, *osd)
    listed = objects_of(cluster, 1)
    expect(sum(listed.values()) > 0, f"objects and clones of osd.1: {listed}")
    # As an export leaves it that was killed.
    left = t.path(f"pg-{pgs[0]}.unfinished")
    with open(left, "wb") as f:
        f.write(bytes(1 << 20))
    for pg in pgs:
        said = json.loads(loligo(cluster, *of, "--pg", pg, "--file", t.path(f"pg-{pg}"), "-f", "json"))
        equal(said["objects"], listed[pg], f"objects of {pg} in the file, as the list counts them")
    expect(not os.path.exists(left), "what an export left is written over")
    expect("already" in loligo(cluster, "store", "import", cluster.dir, *osd, "--file", t.path(f"pg-{pgs[0]}"), code=1),
           "a PG that is there")
    expect("not in the store" in loligo(cluster, *of, "--pg", "99.0", "--file", t.path("no"), code=1), "no such PG")
    expect(not os.path.exists(t.path("no")), "no file of a PG that is not there")
    said = loligo(cluster, *of, "--pg", pgs[0], "--file", t.path(f"pg-{pgs[1]}"), code=1)
    expect("exists already" in said, f"a file that is there: {said}")
    said = loligo(cluster, "store", "list", cluster.dir, *osd, "--pg", "99.0", code=1)
    expect("PG 99.0 is not in the store" in said, said)
    # osd.0 runs, so its store can't be opened: the command says so, and lists the PGs of osd.1.
    said = loligo(cluster, "store", "list", cluster.dir, code=1)
    expect("osd.0: " in said and all(f"osd.1   {pg} " in said for pg in pgs), f"the PGs of all stores: {said}")
    removes_a_pg(t, cluster, pgs[0])
    # A new disk.
    loligo(cluster, "start", cluster.dir, *osd, "--replace", "--yes-i-really-mean-it")
    both_up(client)
    loligo(cluster, "stop", cluster.dir, *osd)
    into = ("store", "import", cluster.dir, *osd)
    there = pgs_of(cluster, 1)
    expect(not set(there) & set(pgs), f"PGs of the new store: {there}")
    with open(t.path(f"pg-{pgs[0]}"), "rb") as f:
        whole = f.read()
    for name, damaged, says in (
            ("cut", whole[:len(whole) // 2], "ends at byte"), ("nothing", b"", "no export"),
            ("flipped", whole[:len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1:],
             "damaged")):
        with open(t.path(name), "wb") as f:
            f.write(damaged)
        said = loligo(cluster, *into, "--file", t.path(name), code=1)
        expect(says in said, f"{name}: {said}")
        equal(pgs_of(cluster, 1), there, f"after a file that is {name}")
    killed = 0
    for n, pg in enumerate(pgs):
        killed += killed_after(cluster, 0.02 * n, *into, "--file", t.path(f"pg-{pg}"))
        listed = json.loads(loligo(cluster, "store", "list", cluster.dir, *osd, "-f", "json"))
        unfinished = [row["pg"] for row in listed if not row["finished"]]
        expect(set(unfinished) <= {pg}, f"PGs that are not whole after the import of {pg}: {unfinished}")
        with open(t.path(f"pg-{pg}"), "rb") as f:
            done = subprocess.run(cluster.argv(*into, "--file", "-"), stdin=f, capture_output=True, timeout=BOUND)
        # The one before may have come to its end.
        expect(done.returncode == 0 or b"already" in done.stderr, f"{pg}: {done.stdout!r} {done.stderr!r}")
    expect(killed > 0, "no import was killed")
    equal(sorted(pgs_of(cluster, 1)), sorted(there + pgs), "PGs after the imports")
    loligo(cluster, "start", cluster.dir, *osd)
    both_up(client)
    equal(contents(t, client), before, "what clients read of the imported PGs")
    write_again(t, client)
    cluster.kill()
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the store with imports")
    # Another cluster's pools are others.
    other = t.cluster("--store", "block", "--osds", "1", "--osd-size", "256MiB")
    other.stop()
    said = loligo(other, "store", "import", other.dir, "--osd", "0", "--file", t.path(f"pg-{pgs[0]}"), code=1)
    expect("--other-cluster" in said, f"another cluster: {said}")


def test_a_pg_of_another_cluster_brings_its_epochs_and_snapshots(t):
    """Refused, with words that say what to do, where the map is older or snapshots' ids would be given twice; then no new
    snapshot is mixed up with those that came."""
    args = ("--store", "block", "--osds", "1", "--osd-size", "256MiB")
    clusters = [t.cluster(*args), t.cluster(*args)]
    (first, second), (of_first, of_second) = clusters, [t.client(cluster) for cluster in clusters]
    for client in (of_first, of_second):
        client.ceph("osd", "pool", "create", POOL, "1")
    image, shots = f"{POOL}/image", ("", "@one", "@two")
    of_first.run("rbd", "create", image, "--size", "8M")
    for shot in ("@one", "@two", None):
        with open(t.path("data"), "wb") as f:
            f.write(os.urandom(100_000))
        of_first.rados("-p", POOL, "put", "beside", t.path("data"))
        of_first.run("rbd", "bench", image, "--io-type", "write", "--io-size", "64K", "--io-total", "8M", "--io-pattern", "rand")
        if shot:
            of_first.run("rbd", "snap", "create", "--no-progress", image + shot)
    read = lambda client: [client.run("rbd", "export", "--no-progress", image + shot, "-").out for shot in shots]
    before = read(of_first)
    for _ in range(12):
        of_first.ceph("osd", "set", "noout")
        of_first.ceph("osd", "unset", "noout")
    details = lambda client: (client.ceph_json("osd", "dump")["epoch"], client.ceph_json("osd", "pool", "ls", "detail")[0]["snap_seq"])
    epoch, snap_seq = details(of_first)

    def again(cluster):
        cluster.stop()
        cluster.up()

    # The PG of a pool that is not complete would be made anew.
    flags = lambda: of_second.ceph_json("osd", "pool", "ls", "detail")[0]["flags_names"]
    until(lambda: "creating" not in flags(), "the pool is complete")
    first.stop()
    second.stop()
    at = ("--osd", "0")
    loligo(first, "store", "export", first.dir, *at, "--pg", "1.0", "--file", t.path("pg"))
    loligo(second, "store", "remove", second.dir, *at, "--pg", "1.0", "--yes-i-really-mean-it")
    bring = ("store", "import", second.dir, *at, "--file", t.path("pg"), "--other-cluster")
    said = loligo(second, *bring, code=1)
    found = re.search(r"in epoch (\d+) of its cluster.*ceph osd set noout", said)
    expect(found and int(found[1]) >= epoch, said)
    epoch = int(found[1])
    second.up()
    while details(of_second)[0] < epoch:
        of_second.ceph("osd", "set", "noout")
        of_second.ceph("osd", "unset", "noout")
    again(second)
    second.stop()
    said = loligo(second, *bring, code=1)
    expect(f"ceph osd pool set {POOL} snap_seq" in said, said)
    second.up()
    of_second.ceph("osd", "pool", "set", POOL, "snap_seq", str(snap_seq))
    refused = of_second.ceph("osd", "pool", "set", POOL, "snap_seq", str(snap_seq - 1), code=22)
    expect("only rise" in refused.words, refused.words)
    again(second)
    second.stop()
    loligo(second, *bring)
    second.up()
    expect(read(of_second) == before, "the image and its snapshots")
    of_second.run("rbd", "snap", "create", "--no-progress", f"{image}@three")
    of_second.run("rbd", "bench", image, "--io-type", "write", "--io-size", "64K", "--io-total", "8M", "--io-pattern", "seq")
    names = [shot["name"] for shot in of_second.run("rbd", "snap", "ls", image, "--format", "json").json()]
    equal(names, ["one", "two", "three"], "snapshots")
    expect(read(of_second)[1:] == before[1:], "snapshots that came, beside a new one")


def test_an_osds_store_from_an_older_backup_makes_no_pg_anew(t):
    """A PG that it never had is unknown, as one whose only copy is gone, and not empty."""
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "256MiB")
    client = t.client(cluster)
    flags = lambda: [pool["flags_names"] for pool in client.ceph_json("osd", "pool", "ls", "detail")]
    complete = lambda: until(lambda: not any("creating" in names for names in flags()), "the pools are complete")
    states = lambda: {pg["pgid"]: pg["state"] for pg in client.ceph_json("pg", "ls")["pg_stats"]}
    client.ceph("osd", "pool", "create", "before", "1")
    client.rados("-p", "before", "put", "x", "/etc/passwd")
    complete()
    cluster.stop()
    osd, backup = os.path.join(cluster.dir, "osd.0"), t.path("backup")
    shutil.copytree(osd, backup, symlinks=True)
    cluster.up()
    client.ceph("osd", "pool", "create", "after", "1")
    client.rados("-p", "after", "put", "x", "/etc/passwd")
    complete()
    cluster.stop()
    shutil.rmtree(osd)
    shutil.move(backup, osd)
    # Without that the OSD does not serve: test_failures.py.
    cluster.up("--set", "osd_allow_older_store=true")
    until(lambda: states()["1.0"] == "active+clean", "the PG of the backup serves")
    client.rados("-p", "before", "get", "x", t.path("x"))
    # An order to make it would have come with the OSD's start.
    time.sleep(3)
    equal(states()["2.0"], "unknown", "a PG that is lost")
    client.ceph("osd", "force-create-pg", "2.0", "--yes-i-really-mean-it")
    until(lambda: states()["2.0"] == "active+clean", "the PG that is given up is made anew")


def test_pgs_are_saved_from_a_store_whose_log_is_damaged(t):
    """Its OSD refuses it. What is left is listed, checked and exported, if that is asked for, and goes into a new store."""
    cluster, client, before, pgs = with_pgs(t)
    osd = ("--osd", "1")
    label = json.loads(loligo(cluster, "store", "dump", cluster.dir, *osd, "-f", "json"))["osd.1"]["label"]
    with open(cluster.metadata(1), "r+b") as f:
        # Behind the label and two superblocks; the last record is what the OSD notes when it stops.
        f.seek(3 * 4096)
        log = f.read(label["log_bytes"])
        last = max(at for at in range(0, len(log), 512) if log[at:at + 512].strip(b"\0"))
        f.seek(3 * 4096 + last)
        f.write(bytes(512))

    def head():
        with open(cluster.metadata(1), "rb") as f:
            return f.read(64 << 20)
    damaged = head()
    said = loligo(cluster, "start", cluster.dir, *osd, code=1)
    expect("the log is corrupt" in said and "export --damaged" in said, said)
    said = loligo(cluster, "store", "fsck", cluster.dir, *osd, "--deep", code=1)
    expect("the log is corrupt" in said and "nothing is mended" in said and "objects read" in said, said)
    said = loligo(cluster, "store", "fsck", cluster.dir, *osd, "--repair", code=1)
    expect("nothing was mended" in said, said)
    shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, *osd, "-f", "json", code=1))["osd.1"]
    expect("the log is corrupt" in shown["damage"][0] and shown["space"] is None, shown)
    listed = subprocess.run(cluster.argv("store", "list", cluster.dir, *osd, "-f", "json"), capture_output=True, timeout=BOUND)
    equal((listed.returncode, [row["pg"] for row in json.loads(listed.stdout)]), (0, pgs), f"PGs that are left: {listed.stderr!r}")
    expect(b"may be older" in listed.stderr, listed.stderr)
    of = ("store", "export", cluster.dir, *osd)
    said = loligo(cluster, *of, "--pg", pgs[0], "--file", t.path("refused"), code=1)
    expect("--damaged" in said and not os.path.exists(t.path("refused")), said)
    for pg in pgs:
        loligo(cluster, *of, "--pg", pg, "--file", t.path(f"pg-{pg}"), "--damaged")
    expect(head() == damaged, "the damaged store is not written to")
    loligo(cluster, "start", cluster.dir, *osd, "--replace", "--yes-i-really-mean-it")
    both_up(client)
    loligo(cluster, "stop", cluster.dir, *osd)
    for pg in pgs:
        loligo(cluster, "store", "import", cluster.dir, *osd, "--file", t.path(f"pg-{pg}"))
    loligo(cluster, "start", cluster.dir, *osd)
    both_up(client)
    equal(contents(t, client), before, "what clients read of the saved PGs")


def test_an_import_brings_back_nothing_of_snapshots_that_were_purged_meanwhile(t):
    cluster, client, _, pgs = with_pgs(t)
    osd = ("--osd", "1")
    loligo(cluster, "start", cluster.dir, *osd)
    both_up(client)
    write_again(t, client)
    client.rados("-p", POOL, "mksnap", "stays")
    write_again(t, client)
    loligo(cluster, "stop", cluster.dir, *osd)
    with_clones = objects_of(cluster, 1)
    for pg in pgs:
        loligo(cluster, "store", "export", cluster.dir, *osd, "--pg", pg, "--file", t.path(f"pg-{pg}"))
    loligo(cluster, "start", cluster.dir, *osd)
    both_up(client)
    client.rados("-p", POOL, "rmsnap", "before")
    until(lambda: client.ceph_json("osd", "dump")["removed_snaps_queue"] == [], "the snapshot is purged", 60)
    loligo(cluster, "stop", cluster.dir, *osd)
    trimmed = objects_of(cluster, 1)
    expect(sum(trimmed.values()) < sum(with_clones.values()), f"{with_clones} objects, then {trimmed}")
    for pg in pgs:
        loligo(cluster, "store", "remove", cluster.dir, *osd, "--pg", pg, "--yes-i-really-mean-it")
        loligo(cluster, "store", "import", cluster.dir, *osd, "--file", t.path(f"pg-{pg}"))
    equal(objects_of(cluster, 1), with_clones, "objects after the imports")
    loligo(cluster, "start", cluster.dir, *osd)
    both_up(client)

    def clones():
        listed = [client.rados("-p", POOL, "listsnaps", f"o{n}", "-f", "json").json()["clones"] for n in range(12)]
        return {tuple(s["id"] for s in clone["snapshots"]) for clones in listed for clone in clones}
    until(lambda: clones() == {(), (2,)}, "no clone is left of the snapshot that was purged", 30)
    loligo(cluster, "stop", cluster.dir, *osd)
    equal(objects_of(cluster, 1), trimmed, "objects once they are trimmed again")
    loligo(cluster, "start", cluster.dir, *osd)
    both_up(client)
    # What comes back while the OSD runs is found by a command, or in the interval of deep scrubs.
    client.ceph("tell", "osd.1", "scrub_purged_snaps")


def test_tools_that_may_open_few_files_say_so_and_find_no_damage(t):
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "256MiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "1")
    client.rados("-p", POOL, "put", "o0", "/etc/hostname")
    cluster.kill()
    for tool, extra in (("fsck", ()), ("dump", ()), ("list", ()), ("expand", ("--osd", "0"))):
        argv = cluster.argv("store", tool, cluster.dir, *extra)
        well = []
        for limit in range(4, 24):
            few = ["sh", "-c", 'ulimit -n "$0"; exec "$@"', str(limit), *argv]
            done = subprocess.run(few, capture_output=True, timeout=BOUND)
            said = done.stdout.decode() + done.stderr.decode()
            well.append(done.returncode == 0)
            if done.returncode:
                equal(done.returncode, 1, f"the exit code of {tool} with {limit} files")
                expect("Too many open files" in said and "ulimit -n" in said, f"{tool} with {limit} files: {said!r}")
            for word in ("damage", "mended", "what is left", "1 problem", "2 problems"):
                expect(word not in said, f"{tool} with {limit} files: {said!r}")
        expect(not well[0] and well[-1], f"{tool} fails with the fewest files alone: {well}")


def test_what_tools_say_to_a_closed_standard_output_is_not_lost_unnoticed(t):
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "256MiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "1")
    client.rados("-p", POOL, "put", "o0", "/etc/hostname")
    cluster.stop()
    of = (cluster.dir, "--osd", "0")
    [pg] = pgs_of(cluster, 0)
    for tool in (("export", *of, "--pg", pg, "--file", "-"), ("dump", *of), ("list", *of), ("fsck", *of, "-f", "json")):
        closed = ["sh", "-c", 'exec "$@" >&-', "sh", *cluster.argv("store", *tool)]
        done = subprocess.run(closed, capture_output=True, text=True, timeout=BOUND)
        equal((done.returncode, done.stderr), (1, "loligo: standard output: it is closed\n"), f"store {tool}")
    # What a start is for is the cluster.
    up = cluster.argv("up", "--dir", cluster.dir, "--detach", "--port", "0")
    subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *up], check=True, timeout=BOUND)
    client.rados("-p", POOL, "stat", "o0")


def test_a_store_grows_with_its_file(t):
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "256MiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    put_some(t, client, 8, 8 << 20)
    before = contents(t, client)
    kb = client.ceph_json("osd", "df")["nodes"][0]["kb"]
    expand = ("store", "expand", cluster.dir, "--osd", "0")
    expect("in use" in loligo(cluster, *expand, "--size", "1GiB", code=1), "beside the running cluster")
    cluster.kill()
    expect("nothing to do" in loligo(cluster, *expand), "a file that has not grown")
    expect("smaller" in loligo(cluster, *expand, "--size", "200MiB", code=1), "a smaller file")
    for seconds in (0.01, 0.05, 0.1):
        killed_after(cluster, seconds, *expand, "--size", "1GiB")
    loligo(cluster, *expand, "--size", "1GiB")
    said = loligo(cluster, *expand, "--size", "1032MiB")
    expect(f"{1032 << 20} bytes) now" in said and f"{1 << 30} bytes) before" in said, f"a little more: {said!r}")
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the store that has grown")
    cluster.up()
    equal(contents(t, client), before, "what clients read")
    until(lambda: client.ceph_json("osd", "df")["nodes"][0]["kb"] > 3 * kb, "the OSD reports its new size")
    # More than had room before.
    path = t.path("large")
    with open(path, "wb") as f:
        f.write(os.urandom(100 << 20))
    for n in range(4):
        client.rados("-p", POOL, "put", f"large{n}", path)
    cluster.kill()
    cluster.up()
    client.rados("-p", POOL, "get", "large3", t.path("got"))
    with open(path, "rb") as given, open(t.path("got"), "rb") as got:
        expect(given.read() == got.read(), "what lies behind the old end")
    cluster.kill()
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the store in use behind its old end")


def test_every_shard_of_a_store_grows_with_its_file(t):
    cluster = t.cluster("--store", "block", "--osds", "1", "--osd-size", "512MiB", "--cores", "2", "--set",
                        "osd_store_shards=2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    put_some(t, client, 8, 8 << 20)
    before = contents(t, client)
    kb = client.ceph_json("osd", "df")["nodes"][0]["kb"]
    cluster.kill()
    expand = ("store", "expand", cluster.dir, "--osd", "0")
    expect("nothing to do" in loligo(cluster, *expand), "a file that has not grown")
    said = loligo(cluster, *expand, "--size", str((512 << 20) + 8192), code=1)
    expect("8 KiB more are too few for its 2 shards" in said and "2 MiB" in said, said)
    file = os.path.join(cluster.dir, "osd.0", "block")
    equal(os.stat(file).st_size, 512 << 20, "the file after a refusal")
    moments = (0.001, 0.002, 0.004, 0.006, 0.01, 0.02, 0.04)
    killed = sum(killed_after(cluster, seconds, *expand, "--size", "1GiB") for seconds in moments)
    expect(killed > 0, "no growth was killed")
    cluster.up("--cores", "2")
    equal(contents(t, client), before, "what clients read of a store whose growth was killed")
    cluster.kill()
    loligo(cluster, *expand, "--size", "1GiB")
    os.truncate(file, 3 << 29)
    grown = json.loads(loligo(cluster, *expand, "-f", "json"))
    equal((grown["bytes_before"], grown["bytes"]), (1 << 30, 3 << 29), "the second growth")
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the store that has grown")
    shards = json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))["osd.0"]["shards"]
    equal([of["blocks"]["grown_to_bytes"] for of in shards], [[1 << 30, 3 << 29]] * 2, "the shards' ends")
    expect(all(of["blocks"]["all"] * 4096 > 740 << 20 for of in shards), f"the shards' blocks: {shards}")
    cluster.up("--cores", "2")
    equal(contents(t, client), before, "what clients read")
    until(lambda: client.ceph_json("osd", "df")["nodes"][0]["kb"] > 2.9 * kb, "the OSD reports its new size")
    # More than had room before, in each shard.
    path = t.path("large")
    with open(path, "wb") as f:
        f.write(os.urandom(50 << 20))
    for n in range(16):
        client.rados("-p", POOL, "put", f"large{n}", path)
    write_again(t, client)
    cluster.kill()
    cluster.up("--cores", "2")
    for n in range(16):
        client.rados("-p", POOL, "get", f"large{n}", t.path("got"))
        with open(path, "rb") as given, open(t.path("got"), "rb") as got:
            expect(given.read() == got.read(), f"large{n} after a kill")
    cluster.kill()
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the store that was filled")


def mounted(t, name, size):
    """A file system of this test's own."""
    device, at = loop_device(t, f"{name}.image", size), t.path(name)
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    os.mkdir(at)
    subprocess.run(["mount", device, at], check=True)
    t.cleanups.append(lambda: subprocess.run(["umount", at], check=False))
    return at


def remount(at, how, *more):
    subprocess.run(["mount", "-o", ",".join(("remount", how, *more)), at], check=True)


def hashes(at):
    """Of every file: what tools have written shows."""
    found = {}
    for path, _, names in os.walk(at):
        for name in names:
            file = os.path.join(path, name)
            if os.path.isfile(file) and not os.path.islink(file):
                with open(file, "rb") as f:
                    found[file] = hashlib.file_digest(f, "sha256").hexdigest()
    return found


def read_by_tools(t, cluster, kind):
    """All that tools say of stores that they only read."""
    said = [loligo(cluster, "store", "list", cluster.dir)]
    for osd in ("0", "1"):
        for pg in pgs_of(cluster, int(osd)):
            said.append(loligo(cluster, "store", "list", cluster.dir, "--osd", osd, "--pg", pg))
            for more in ([], ["--damaged"]):
                loligo(cluster, "store", "export", cluster.dir, "--osd", osd, "--pg", pg, "--file", t.path("pg"), *more)
                with open(t.path("pg"), "rb") as f:
                    said.append(hashlib.file_digest(f, "sha256").hexdigest())
                os.remove(t.path("pg"))
    if kind == "block":
        words = loligo(cluster, "store", "fsck", cluster.dir, "--deep")
        equal(words.count(": no problem"), 2, f"stores without a problem: {words}")
        said.append(loligo(cluster, "store", "dump", cluster.dir, "--object", "o0"))
        dumped = json.loads(out_of(cluster, "store", "dump", cluster.dir, "-f", "json"))
        said += [(osd, of["label"], of["space"]["bytes_used"], of["space"]["objects"]) for osd, of in dumped.items()]
    # Standard error says that it can't be written.
    return [re.sub("(?m)^loligo: .* can't be written .*\n", "", of) if isinstance(of, str) else of for of in said]


def is_rescued_from_a_mount(t, kind, *args):
    """Stores on a file system that is mounted read-only, whose log was not closed, are read without a write, and not changed."""
    at = mounted(t, "disk", 3 << 30)
    names = [word.replace("@", at) for word in args]
    cluster = t.cluster("--store", kind, "--osds", "2", "--osd-size", "512MiB", *names, directory=os.path.join(at, "c"))
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "4")
    put_some(t, client, 12, 300_000)
    same_disk = t.path("same")
    os.mkdir(same_disk)
    subprocess.run(["mount", "--bind", at, same_disk], check=True)
    t.cleanups.append(lambda: subprocess.run(["umount", same_disk], capture_output=True, check=False))
    remount(same_disk, "ro", "bind")
    for tool in (["list"], ["fsck"])[: 2 if kind == "block" else 1]:
        words = loligo(cluster, "store", *tool, os.path.join(same_disk, "c"), "--osd", "0", code=1)
        expect("in use" in words, f"a store that is served is read: {words}")
    subprocess.run(["umount", same_disk], check=True)
    before = contents(t, client)
    cluster.kill()
    remount(at, "ro")
    files = hashes(at)
    said = read_by_tools(t, cluster, kind)
    exported = t.path("exported")
    loligo(cluster, "store", "export", cluster.dir, "--osd", "0", "--pg", pgs_of(cluster, 0)[0], "--file", exported)
    words = loligo(cluster, "store", "list", cluster.dir, "--osd", "0")
    expect("can't be written (Read-only file system" in words and "nothing is changed" in words, words)
    equal(read_by_tools(t, cluster, kind), said, "what is read a second time")
    of = (cluster.dir, "--osd", "0")
    writing = [
        ["import", *of, "--file", exported], ["remove", *of, "--pg", "1.0", "--yes-i-really-mean-it"], ["convert", cluster.dir],
    ]
    if kind == "block":
        writing += [["fsck", cluster.dir, "--repair"], ["expand", *of, "--size", "600MiB"], ["log", *of, "--to", t.path("other")]]
    for command in [["store", *args] for args in writing] + [["mon", "rebuild", cluster.dir, "--force"]]:
        words = loligo(cluster, *command, code=1)
        expect("can't be written" in words and "remount,rw" in words, f"{command}: {words}")
    words = cluster.up(code=1).words
    expect("is mounted read-only" in words and "remount,rw" in words, words)
    equal(hashes(at), files, "files that nothing has written")
    remount(at, "rw")
    equal(read_by_tools(t, cluster, kind), said, "what is read where it can be written")
    cluster.up()
    equal(contents(t, client), before, "what clients read")
    cluster.stop()
    # Closed in order, it is read so, too.
    remount(at, "ro")
    files, said = hashes(at), read_by_tools(t, cluster, kind)
    equal(hashes(at), files, "files that nothing has written")
    remount(at, "rw")
    equal(read_by_tools(t, cluster, kind), said, "what is read where it can be written")


def test_block_stores_are_rescued_from_a_file_system_that_is_read_only(t):
    is_rescued_from_a_mount(t, "block")


def test_block_stores_with_logs_apart_are_rescued_from_a_file_system_that_is_read_only(t):
    is_rescued_from_a_mount(t, "block", "--log-device", "@/log0", "--log-device", "@/log1")


def test_simple_stores_are_rescued_from_a_file_system_that_is_read_only(t):
    is_rescued_from_a_mount(t, "simple")
