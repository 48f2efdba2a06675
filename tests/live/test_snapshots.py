"""Snapshots of pools by rados of every release: taken, read, rolled back to, listed, removed and trimmed."""
from harness import equal, expect, until

DATA = b"first" * 3000


def put(client, t, pool, name, data):
    source = t.path("in")
    with open(source, "wb") as f:
        f.write(data)
    client.rados("-p", pool, "put", name, source)


def get(client, t, pool, name, snap=None):
    back = t.path("out")
    at = () if snap is None else ("-s", snap)
    got = client.rados("-p", pool, *at, "get", name, back, code=None)
    if got.code != 0:
        expect("No such file" in got.words, f"get {name} at {snap}: {got.words}")
        return None
    with open(back, "rb") as f:
        return f.read()


def usage(client, pool):
    pools = client.rados("df", "-f", "json").json()["pools"]
    return next(p for p in pools if p["name"] == pool)


def clones(client, pool):
    return int(usage(client, pool)["num_object_clones"])


def take_and_change(t, client, pool):
    """Two snapshots: `one` with object a, `two` with a changed, b, and c that is removed since."""
    put(client, t, pool, "a", DATA)
    client.rados("-p", pool, "setxattr", "a", "k", "old")
    client.rados("-p", pool, "mksnap", "one")
    put(client, t, pool, "a", b"second")
    client.rados("-p", pool, "setxattr", "a", "k", "new")
    put(client, t, pool, "b", b"b")
    put(client, t, pool, "c", b"c")
    client.rados("-p", pool, "mksnap", "two")
    put(client, t, pool, "a", b"third")
    client.rados("-p", pool, "rm", "c")


def check(t, client, pool):
    equal([get(client, t, pool, "a", s) for s in ("one", "two", None)], [DATA, b"second", b"third"], "a")
    equal([get(client, t, pool, "b", s) for s in ("one", "two", None)], [None, b"b", b"b"], "b")
    equal([get(client, t, pool, "c", s) for s in ("one", "two", None)], [None, b"c", None], "c")
    equal(client.rados("-p", pool, "-s", "one", "getxattr", "a", "k").text.split()[-1], "old",
          "an attribute at a snapshot")


def test_pool_snapshots_are_taken_read_rolled_back_and_trimmed(t):
    for store in ("simple", "block", "mem"):
        cluster = t.cluster("--store", store, "--set", "osd_mon_report_interval=0.5")
        for client in t.clients(cluster):
            pool = f"s{client.release.replace('.', '')}"
            client.ceph("osd", "pool", "create", pool, "8")
            take_and_change(t, client, pool)
            check(t, client, pool)
            named = client.rados("-p", pool, "lssnap").text
            expect("one" in named and "two" in named and "2 snaps" in named, named)
            listed = client.rados("-p", pool, "listsnaps", "a", "-f", "json").json()
            equal([(str(c["id"]), [s["id"] for s in c["snapshots"]]) for c in listed["clones"]],
                  [("1", [1]), ("2", [2]), ("head", [])], f"{client.release}: listsnaps")
            until(lambda: clones(client, pool) == 3, "three clones are reported", 15)
            client.rados("-p", pool, "rollback", "a", "one")
            client.rados("-p", pool, "rollback", "c", "two")
            client.rados("-p", pool, "rollback", "b", "one")
            equal([get(client, t, pool, name) for name in "abc"], [DATA, None, b"c"], "after the rollback")
            equal(client.rados("-p", pool, "getxattr", "a", "k").text.strip(), "old", "an attribute comes back too")
            for snap in ("one", "two"):
                client.rados("-p", pool, "rmsnap", snap)
            expect("0 snaps" in client.rados("-p", pool, "lssnap").text, "no snapshot is left")
            until(lambda: clones(client, pool) == 0, f"clones are trimmed: {usage(client, pool)}", 30)
            until(lambda: client.ceph_json("osd", "dump")["removed_snaps_queue"] == [], "the queue is empty", 30)
            equal(sorted(client.rados("-p", pool, "ls").text.split()), ["a", "c"], "no whiteout is left")
            equal([get(client, t, pool, name) for name in "abc"], [DATA, None, b"c"], "heads stay")
            twice = client.ceph("osd", "pool", "mksnap", pool, "three")
            expect(f"created pool {pool} snap three" in twice.words, twice.words)
            client.ceph("osd", "pool", "rmsnap", pool, "three")
        cluster.stop()


test_pool_snapshots_are_taken_read_rolled_back_and_trimmed.both_cores = True


def test_snapshots_and_their_trimming_survive_kills(t):
    # Each start is given them again: they hold for one.
    slow_trims = ("--set", "osd_snap_trim_sleep=1", "--set", "osd_pg_max_concurrent_snap_trims=1",
                  "--set", "osd_mon_report_interval=0.5")
    cluster = t.cluster("--store", "block", *slow_trims)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "4")
    take_and_change(t, client, "p")
    for n in range(40):
        put(client, t, "p", f"o{n}", b"x")
    client.rados("-p", "p", "mksnap", "three")
    for n in range(40):
        client.rados("-p", "p", "rm", f"o{n}")
    cluster.kill()
    cluster.up(*slow_trims)
    check(t, client, "p")
    client.rados("-p", "p", "rmsnap", "three")
    until(lambda: "snaptrim" in client.ceph("pg", "stat").text, "trimming is under way", 30)
    cluster.kill()
    cluster.up()
    check(t, client, "p")
    until(lambda: clones(client, "p") == 3, f"trimming goes on: {usage(client, 'p')}", 60)
    check(t, client, "p")
    equal(sorted(client.rados("-p", "p", "ls").text.split()), ["a", "b", "c"],
          "c is a whiteout, which Ceph lists too")
