"""A pool's number of PGs grows while clients write: 8, 13, 32, 100, with kill -9 in between."""
import json
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
