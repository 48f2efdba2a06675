"""OSDs that are marked out, stopped and taken in again: their PGs serve as soon as it is certain that no other OSD has served them."""
import subprocess

from harness import equal, expect, until

PGS = 32


def loligo(cluster, *args):
    done = subprocess.run(cluster.argv(*args), capture_output=True, timeout=60)
    equal(done.returncode, 0, f"loligo {' '.join(args)} ({done.stdout!r} {done.stderr!r})")


def states(client):
    """The PGs by their state."""
    counts = {}
    for pg in client.ceph_json("pg", "dump", "pgs")["pg_stats"]:
        counts[pg["state"]] = counts.get(pg["state"], 0) + 1
    return counts


def all_serve(client):
    until(lambda: states(client) == {"active+clean": PGS}, lambda: f"PGs that do not serve: {states(client)}", 30)


def up_and_in(client):
    return {o["osd"]: (o["up"], o["in"]) for o in client.ceph_json("osd", "dump")["osds"]}


class Objects:
    """Objects of a pool, on each OSD some."""

    def __init__(self, client, osds):
        client.ceph("osd", "pool", "create", "p", str(PGS))
        client.ceph("osd", "pool", "application", "enable", "p", "rados")
        all_serve(client)
        self.written = {}
        for i in range(6 * osds):
            self.write(client, f"o{i}", "first")
        homes = {client.ceph_json("osd", "map", "p", name)["acting_primary"] for name in self.written}
        equal(homes, set(range(osds)), "OSDs with objects")

    def write(self, client, name, data):
        client.rados("-p", "p", "put", name, "-", stdin=data.encode())
        self.written[name] = data

    def check(self, client):
        for name, data in self.written.items():
            equal(client.rados("-p", "p", "get", name, "-").text, data, name)

    def check_and_write(self, client, data):
        self.check(client)
        for name in self.written:
            self.write(client, name, data)
        self.check(client)


def restart(cluster):
    cluster.stop()
    cluster.up()


def test_an_osd_that_was_out_serves_again_though_others_were_restarted(t):
    cluster = t.cluster("--osds", "2")
    client = t.client(cluster)
    objects = Objects(client, 2)
    for turn in range(2):
        client.ceph("osd", "out", "1")
        if turn == 1:
            loligo(cluster, "stop", cluster.dir, "--osd", "1")
        restart(cluster)
        until(lambda: up_and_in(client) == {0: (1, 1), 1: (1, 0)}, lambda: f"osd.1 up and out: {up_and_in(client)}")
        client.ceph("osd", "in", "1")
        all_serve(client)
        objects.check_and_write(client, f"turn {turn}")
    expect("may have taken writes" not in cluster.log(), "no PG has waited")


test_an_osd_that_was_out_serves_again_though_others_were_restarted.both_cores = True


def test_an_osd_that_was_down_until_it_was_marked_out_serves_again_when_it_is_started(t):
    cluster = t.cluster("--osds", "3", "--set", "mon_osd_down_out_interval=1", "--set", "mon_osd_min_in_ratio=0")
    client = t.client(cluster)
    objects = Objects(client, 3)
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    until(lambda: up_and_in(client)[1] == (0, 0), lambda: f"osd.1 down and out: {up_and_in(client)}", 30)
    # Others that may have served in its place are alive in later intervals.
    loligo(cluster, "stop", cluster.dir, "--osd", "0")
    loligo(cluster, "start", cluster.dir, "--osd", "0")
    loligo(cluster, "start", cluster.dir, "--osd", "1")
    until(lambda: up_and_in(client)[1] == (1, 1), lambda: f"osd.1 up and in: {up_and_in(client)}", 30)
    all_serve(client)
    objects.check_and_write(client, "again")


def test_a_pg_waits_for_an_osd_that_may_have_served_it_until_that_is_started(t):
    cluster = t.cluster("--osds", "2")
    client = t.client(cluster)
    objects = Objects(client, 2)
    client.ceph("osd", "out", "1")
    restart(cluster)
    until(lambda: up_and_in(client) == {0: (1, 1), 1: (1, 0)}, lambda: f"osd.1 up and out: {up_and_in(client)}")
    loligo(cluster, "stop", cluster.dir, "--osd", "0")
    client.ceph("osd", "in", "1")
    until(lambda: "osd.0 may have taken writes since this one acted, and is down: start it" in cluster.log(),
          "the log says for whom PGs wait, and what helps")
    loligo(cluster, "start", cluster.dir, "--osd", "0")
    all_serve(client)
    objects.check_and_write(client, "again")


def test_a_pg_does_not_serve_while_another_osd_has_writes_that_it_lacks(t):
    """The other OSD got a copy by hand, and served it while this one was out."""
    cluster = t.cluster("--osds", "2")
    client = t.client(cluster)
    objects = Objects(client, 2)
    places = {name: client.ceph_json("osd", "map", "p", name) for name in objects.written}
    name = next(name for name, place in places.items() if place["acting_primary"] == 1)
    pg = places[name]["pgid"]
    client.ceph("osd", "out", "1")
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    file = t.path("pg")
    loligo(cluster, "store", "export", cluster.dir, "--osd", "1", "--pg", pg, "--file", file)
    # Whoever writes brings osd.0 the map that the file is of.
    objects.write(client, next(name for name, place in places.items() if place["acting_primary"] == 0), "first")
    cluster.stop()
    loligo(cluster, "store", "import", cluster.dir, "--osd", "0", "--file", file)
    cluster.up()
    # Its copy is as new as that of osd.1.
    equal(client.rados("-p", "p", "get", name, "-").text, "first", name)
    objects.write(client, name, "newer")
    for turn in range(2):
        client.ceph("osd", "in", "1")
        until(lambda: states(client) == {"active+clean": PGS - 1, "peering": 1}, lambda: f"one PG waits: {states(client)}", 30)
        until(lambda: f"pg {pg}: not served: osd.0 has served it since this one did" in cluster.log(), "the log says why")
        if turn == 0:
            restart(cluster)
            until(lambda: states(client) == {"active+clean": PGS - 1, "peering": 1}, lambda: f"still: {states(client)}", 30)
        # The way out that the log names.
        expect("`ceph osd out 1` lets osd.0 serve it" in cluster.log(), "the way out")
        client.ceph("osd", "out", "1")
        equal(client.rados("-p", "p", "get", name, "-").text, "newer", f"{name}, in turn {turn}")
