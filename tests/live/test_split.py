"""A pool's number of PGs grows while clients write: 8, 13, 32, 100, with kill -9 in between. What places its PGs anew
without their objects is refused."""
import json
import re
import subprocess

from harness import equal, expect, until
from test_kill import DURABLE, POOL, Rounds, up_args

NUMBERS = (17, 32, 100)


def pool_of(client, pool):
    return next(p for p in client.ceph_json("osd", "pool", "ls", "detail") if p["pool_name"] == pool)


def all_clean(client):
    states = client.ceph_json("status")["pgmap"]["pgs_by_state"]
    return [s["state_name"] for s in states] == ["active+clean"]


def objects_of(client, pool):
    pools = client.rados("df", "-f", "json").json()["pools"]
    return next(int(p["num_objects"]) for p in pools if p["name"] == pool)


def test_pg_num_rises_under_rados_bench(t):
    for turn, store in enumerate(("simple", "block", "mem")):
        cluster = t.cluster("--osds", "1", "--store", store, "--set", "osd_mon_report_interval=0.5")
        for client in t.clients_in_turn(cluster, turn):
            pool = f"b{client.release.replace('.', '')}"
            client.ceph("osd", "pool", "create", pool, "8")
            bench = client.start("rados", "-p", pool, "bench", "6", "write", "-b", "4096", "-t", "4",
                                 "--no-cleanup", "--run-name", "r", stdout=subprocess.PIPE)
            for pg_num in ("13", "32", "100"):
                until(lambda: objects_of(client, pool) > 0 and all_clean(client), "every PG active and clean")
                done = client.ceph("osd", "pool", "set", pool, "pg_num", pg_num)
                expect(f"pg_num to {pg_num}" in done.words, done.words)
                until(lambda n=pg_num: pool_of(client, pool)["pg_num"] == int(n), f"pg_num {pg_num}")
            out = bench.communicate(timeout=60)[0].decode()
            equal(bench.returncode, 0, f"the end of rados bench: {out[-500:]}")
            slowest = float(next(line.split(":")[1] for line in out.splitlines() if line.startswith("Max latency")))
            expect(slowest < 8, f"a write took {slowest} s: its client did not learn that its PG was split")
            written = int(next(line.split(":")[1] for line in out.splitlines()
                               if line.startswith("Total writes made")))
            until(lambda: all_clean(client), "every PG active and clean")
            until(lambda: objects_of(client, pool) >= written, f"{written} objects counted")
            listed = [n for n in client.rados("-p", pool, "ls").text.split() if n.startswith("benchmark_data")]
            expect(len(listed) == len(set(listed)) >= written, f"{len(listed)} listed, {written} written")
            client.rados("-p", pool, "bench", "2", "seq", "-t", "16", "--run-name", "r")
            equal(client.ceph_json("osd", "pool", "get", pool, "pgp_num")["pgp_num"], 100, "pgp_num with one OSD")
            client.rados("-p", pool, "cleanup", "--run-name", "r")
            until(lambda: objects_of(client, pool) == 0, "every object removed, and counted so")
            client.ceph("osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
        cluster.stop()


def test_pgp_num_stays_where_it_would_move_data(t):
    cluster = t.cluster("--osds", "3", "--store", "mem")
    for client in t.clients(cluster):
        pool = f"m{client.release.replace('.', '')}"
        client.ceph("osd", "pool", "create", pool, "8")
        until(lambda: all_clean(client), "every PG active and clean")
        for n in range(40):
            client.rados("-p", pool, "create", f"o{n}")
        done = client.ceph("osd", "pool", "set", pool, "pg_num", "24")
        expect("pgp_num stays 8" in done.words, done.words)
        until(lambda: all_clean(client), "every PG active and clean")
        equal(sorted(client.rados("-p", pool, "ls").text.split()), sorted(f"o{n}" for n in range(40)), "the listing")
        for n in range(40):
            client.rados("-p", pool, "stat", f"o{n}")
        refused = client.ceph("osd", "pool", "set", pool, "pgp_num", "24", code=None)
        expect(refused.code != 0 and "can't be moved" in refused.words, refused.words)
        refused = client.ceph("osd", "pool", "set", pool, "pg_num", "8", code=None)
        expect(refused.code != 0 and "can't be merged" in refused.words, refused.words)
        client.ceph("osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")


class Placed:
    """A pool of 8 PGs with objects, which are not to be lost by changes of where its PGs are."""

    def __init__(self, client, pool, *rule):
        self.client, self.pool = client, pool
        client.ceph("osd", "pool", "create", pool, "8", "8", "replicated", *rule)
        self.wait()
        for n in range(40):
            client.rados("-p", pool, "put", f"o{n}", "-", stdin=f"{n}".encode())

    def wait(self):
        until(lambda: all_clean(self.client), "every PG active and clean")

    def set(self, var, value):
        self.client.ceph("osd", "pool", "set", self.pool, var, value)

    def refused(self, var, value):
        refused = self.client.ceph("osd", "pool", "set", self.pool, var, value, code=95)
        expect(re.search(r"pg \S+ would leave osd\.\d.*data can't be moved", refused.words), refused.words)
        return refused.words

    def check(self, pool=None):
        self.wait()
        for n in range(40):
            equal(self.client.rados("-p", pool or self.pool, "get", f"o{n}", "-").text, str(n), f"o{n}")


def one_osd_s_rule(client):
    """A rule that places everything on osd.0."""
    client.ceph("osd", "crush", "rm-device-class", "osd.0")
    client.ceph("osd", "crush", "set-device-class", "own", "osd.0")
    client.ceph("osd", "crush", "rule", "create-replicated", "one", "default", "osd", "own")


def test_a_rule_that_would_move_data_is_refused(t):
    cluster = t.cluster("--osds", "3", "--store", "mem")
    one_osd_s_rule(t.client(cluster))
    for client in t.clients(cluster):
        pool = f"r{client.release.replace('.', '')}"
        spread = Placed(client, pool)
        words = spread.refused("crush_rule", "one")
        spread.check()
        # The way that the refusal names.
        create, copy = re.search(r"\((ceph osd pool create [^)]*)\).*\((rados cppool [^)]*)\)", words).groups()
        client.ceph(*create.replace("NEW", f"{pool}new").split()[1:])
        client.rados(*copy.replace("NEW", f"{pool}new").split()[1:])
        spread.check(f"{pool}new")
        # Under its own rule a lower pgp_num moves nothing, under the other it would.
        together = Placed(client, f"{pool}one", "one")
        together.set("pgp_num", "3")
        together.refused("crush_rule", "replicated_rule")
        together.check()
        together.set("pgp_num", "8")
        together.check()


def test_what_brings_pgs_back_to_their_objects_is_not_refused(t):
    cluster = t.cluster("--osds", "3", "--store", "mem")
    one_osd_s_rule(t.client(cluster))
    for client in t.clients(cluster):
        placed = Placed(client, f"b{client.release.replace('.', '')}")
        weight = next(n["crush_weight"] for n in client.ceph_json("osd", "tree")["nodes"] if n["name"] == "osd.1")
        for changes in ([("pgp_num", "3", "8")],
                        [("crush_rule", "one", "replicated_rule")],
                        [("crush_rule", "one", "replicated_rule"), ("pgp_num", "3", "8")]):
            for osd in ("osd.1", "osd.2"):
                client.ceph("osd", "crush", "reweight", osd, "0")
            for var, there, _ in changes:
                placed.set(var, there)
            for osd in ("osd.1", "osd.2"):
                client.ceph("osd", "crush", "reweight", osd, str(weight))
            states = client.ceph_json("status")["pgmap"]["pgs_by_state"]
            expect(any("down" in s["state_name"] for s in states), f"PGs are away: {states}")
            for var, _, back in reversed(changes):
                placed.set(var, back)
            placed.check()


def test_what_took_pgs_from_their_objects_is_undone_after_a_restart(t):
    cluster = t.cluster("--osds", "3", "--store", "block", "--osd-size", "256MiB")
    client = t.client(cluster)
    placed = Placed(client, "p")
    weight = next(n["crush_weight"] for n in client.ceph_json("osd", "tree")["nodes"] if n["name"] == "osd.1")
    for end in (cluster.stop, cluster.kill):
        for osd in ("osd.1", "osd.2"):
            client.ceph("osd", "crush", "reweight", osd, "0")
        placed.set("pgp_num", "3")
        for osd in ("osd.1", "osd.2"):
            client.ceph("osd", "crush", "reweight", osd, str(weight))
        states = client.ceph_json("status")["pgmap"]["pgs_by_state"]
        expect(any("down" in s["state_name"] for s in states), f"PGs are away: {states}")
        for _ in range(2):
            end()
            cluster.up()
        until(lambda: {s["state_name"] for s in client.ceph_json("status")["pgmap"]["pgs_by_state"]} == {"active+clean", "down"},
              "they are shown as away")
        # It is refused until the OSDs have said which PGs they serve.
        back = ("osd", "pool", "set", "p", "pgp_num", "8")
        until(lambda: "would leave" not in client.ceph(*back, code=None).words, "the change is taken")
        equal(pool_of(client, "p")["pg_placement_num"], 8, "pgp_num")
        placed.check()


class Growing(Rounds):
    """Rounds in which the pool gets more PGs under the writer, shortly before the kill."""

    def __init__(self, *args):
        super().__init__(*args)
        self.numbers = list(NUMBERS)

    def wait_for_acks(self, writer, journal, count):
        super().wait_for_acks(writer, journal, count)
        if self.numbers:
            self.client.ceph("osd", "pool", "set", POOL, "pg_num", str(self.numbers.pop(0)))
            # Some of the kills come while PGs are being split.
            super().wait_for_acks(writer, journal, self.random.choice((0, 0, 1, 50)))


def grow(t, store, stay_connected):
    cluster = t.cluster(start=False)
    cluster.up(*up_args(t, 0, t.seed, store))
    run = Growing(t, cluster, t.seed)
    for number in range(len(NUMBERS) + 1):
        run.round(number, up_args(t, number + 1, t.seed, store), stay_connected)
    until(lambda: all_clean(run.client), "every PG active and clean")
    equal(pool_of(run.client, POOL)["pg_num"], NUMBERS[-1], "pg_num")
    dump = run.client.ceph_json("pg", "dump", "pgs_brief")
    pgs = dump["pg_stats"] if isinstance(dump, dict) else dump
    equal(len([pg for pg in pgs if pg["pgid"].startswith(f"{run.pool_ids[POOL]}.")]), NUMBERS[-1], json.dumps(pgs)[:500])
    cluster.stop()


def test_nothing_acknowledged_is_lost_when_kills_meet_splits(t):
    for store in DURABLE:
        grow(t, store, stay_connected=False)


def test_clients_that_stay_connected_follow_their_objects_through_splits_and_kills(t):
    for store in DURABLE:
        grow(t, store, stay_connected=True)


for both in (test_pg_num_rises_under_rados_bench, test_nothing_acknowledged_is_lost_when_kills_meet_splits):
    both.both_cores = True
