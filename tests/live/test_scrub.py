"""Scrubs, ordered and watched with stock clients: what is well, what is large, what is damaged, and what is mended."""
import json
import random
import time

from harness import equal, expect, until
from test_block_store import flip, loligo

DEFAULT = "osd_deep_scrub_large_omap_object_key_threshold"


def pg_stat(client, pgid):
    return next(pg for pg in client.ceph_json("pg", "ls")["pg_stats"] if pg["pgid"] == pgid)


def pgs_of(client, pool):
    return [pg["pgid"] for pg in client.ceph_json("pg", "ls-by-pool", pool)["pg_stats"]]


def scrubbed(client, stamp, before, words):
    """Waits until every PG of `before` (its stamps) was scrubbed since."""
    def newer():
        now = {pg["pgid"]: pg[stamp] for pg in client.ceph_json("pg", "ls")["pg_stats"]}
        return all(now[pgid] > then for pgid, then in before.items())
    until(newer, words)


def stamps(client, stamp, pgids):
    return {pgid: pg_stat(client, pgid)[stamp] for pgid in pgids}


def deep_scrub_pool(client, pool):
    before = stamps(client, "last_deep_scrub_stamp", pgs_of(client, pool))
    client.ceph("osd", "pool", "deep-scrub", pool)
    scrubbed(client, "last_deep_scrub_stamp", before, f"deep scrubs of {pool}")


def log_lines(client):
    return client.ceph("log", "last", "500", "debug", "cluster").text


def health(client):
    return client.ceph_json("health", "detail")["checks"]


def healthy(cluster, client, pool):
    client.ceph("osd", "pool", "create", pool, "4")
    client.ceph("osd", "pool", "application", "enable", pool, "rados")


def test_a_pg_an_osd_and_a_pool_are_scrubbed_when_they_are_told_to(t):
    cluster = t.cluster("--osds", "2")
    for client in t.clients(cluster):
        pool = f"p{client.release}"
        healthy(cluster, client, pool)
        for i in range(30):
            client.rados("-p", pool, "put", f"o{i}", "/etc/hostname")
        client.rados("-p", pool, "mksnap", "s")
        client.rados("-p", pool, "put", "o1", "/etc/passwd")
        pgids = pgs_of(client, pool)
        for verb, stamp in (("scrub", "last_scrub_stamp"), ("deep-scrub", "last_deep_scrub_stamp"), ("repair", "last_deep_scrub_stamp")):
            before = stamps(client, stamp, pgids[:1])
            said = client.ceph("pg", verb, pgids[0]).words
            expect(f"instructing pg {pgids[0]} on osd." in said and said.strip().endswith(f"to {verb}"), f"{verb}: {said!r}")
            scrubbed(client, stamp, before, f"pg {verb}")
            line = f"{pgids[0]} {verb} ok" + (", 0 fixed" if verb == "repair" else "")
            until(lambda line=line: line in log_lines(client), f"the line {line}")
        deep_scrub_pool(client, pool)
        before = stamps(client, "last_scrub_stamp", pgids)
        expect("instructed osd(s) 0,1 to scrub" in client.ceph("osd", "scrub", "all").words, "osd scrub all")
        scrubbed(client, "last_scrub_stamp", before, "osd scrub all")
        before = stamps(client, "last_deep_scrub_stamp", pgids[:1])
        told = client.ceph_json("tell", pgids[0], "deep-scrub" if client.release != "16.2" else "deep_scrub")
        equal(told["deep"], True, "tell deep-scrub")
        scrubbed(client, "last_deep_scrub_stamp", before, "tell deep-scrub")
        equal(health(client), {}, f"checks after scrubs, {client.release}")
        query = client.ceph_json("pg", pgids[0], "query")
        stat = pg_stat(client, pgids[0])
        equal(query["info"]["history"]["last_deep_scrub"], stat["last_deep_scrub"], "the query's last deep scrub")


def test_large_omaps_are_a_warning_until_they_are_gone(t):
    cluster = t.cluster("--osds", "1")
    for client in t.clients(cluster):
        pool = f"p{client.release}"
        healthy(cluster, client, pool)
        for n in range(12):
            client.rados("-p", pool, "setomapval", "large", f"key{n}", "value")
        client.rados("-p", pool, "setomapval", "small", "key", "value")
        deep_scrub_pool(client, pool)
        expect("LARGE_OMAP_OBJECTS" not in health(client), "12 keys are not many")
        sums = [pg["stat_sum"] for pg in client.ceph_json("pg", "ls-by-pool", pool)["pg_stats"]]
        equal(sum(s["num_omap_keys"] for s in sums), 13, "keys")
        equal(sum(s["num_omap_bytes"] for s in sums), 13 * 5, "bytes of values")
        df = next(p["stats"] for p in client.ceph_json("df", "detail")["pools"] if p["name"] == pool)
        # The store counts keys, too.
        names = 10 * len("key0") + 2 * len("key10") + len("key")
        equal([df[name] for name in ("stored_omap", "omap_bytes_used", "stored")], 3 * [65 + names], "ceph df")
        client.ceph("config", "set", "osd", DEFAULT, "10")
        deep_scrub_pool(client, pool)
        found = until(lambda: health(client).get("LARGE_OMAP_OBJECTS"), "LARGE_OMAP_OBJECTS")
        equal(found["severity"], "HEALTH_WARN", "severity")
        equal(found["summary"]["message"], "1 large omap objects", "summary")
        equal([d["message"] for d in found["detail"]],
              [f"1 large objects found in pool '{pool}'",
               "Search the cluster log for 'Large omap object found' for more details."], "detail")
        line = next(line for line in log_lines(client).splitlines() if "Large omap object found." in line and f":{':' * 2}large:head" in line)
        expect(line.endswith("Key count: 12 Size (bytes): 60"), line)
        client.rados("-p", pool, "rm", "large")
        deep_scrub_pool(client, pool)
        until(lambda: "LARGE_OMAP_OBJECTS" not in health(client), "no large omap any more")
        client.ceph("config", "rm", "osd", DEFAULT)


def test_damaged_data_are_found_by_a_deep_scrub_and_never_given(t):
    cluster = t.cluster("--osds", "1", "--store", "block", "--set", "osd_max_scrubs=1")
    client = t.client(cluster)
    healthy(cluster, client, "p")
    with open(t.path("data"), "wb") as f:
        f.write(random.Random(5).randbytes(4 << 20))
    for name in ("whole", "damaged"):
        client.rados("-p", "p", "put", name, t.path("data"))
    cluster.stop()
    dump = json.loads(loligo(cluster, "store", "dump", cluster.dir, "--osd", "0", "--object", "damaged", "-f", "json"))
    extent = dump["osd.0"]["objects"][0]["extents"][0]
    flip(cluster.metadata(0), extent["device_offset"] + 77)
    cluster.up()
    until(lambda: client.ceph_json("status")["pgmap"]["num_pgs"] == 4, "the PGs")
    pgid = client.ceph_json("osd", "map", "p", "damaged")["pgid"]
    before = stamps(client, "last_scrub_stamp", [pgid])
    client.ceph("pg", "scrub", pgid)
    scrubbed(client, "last_scrub_stamp", before, "a scrub that reads no data")
    equal(health(client), {}, "it finds nothing")
    deep_scrub_pool(client, "p")
    checks = until(lambda: health(client) if "PG_DAMAGED" in health(client) else None, "PG_DAMAGED")
    equal(checks["OSD_SCRUB_ERRORS"]["summary"]["message"], "1 scrub errors", "OSD_SCRUB_ERRORS")
    equal(checks["PG_DAMAGED"]["detail"][0]["message"], f"pg {pgid} is active+clean+inconsistent, acting [0]", "PG_DAMAGED")
    lines = log_lines(client)
    expect("candidate had a read error" in lines and f"{pgid} deep-scrub 1 errors" in lines, lines)
    failed = client.rados("-p", "p", "get", "damaged", t.path("got"), code=None)
    expect(failed.code != 0 and "Input/output error" in failed.words, f"reading it: {failed.code} {failed.words}")
    client.rados("-p", "p", "get", "whole", t.path("got"))
    # Nobody has another copy: a repair says so. The data come back by being written again.
    before = stamps(client, "last_deep_scrub_stamp", [pgid])
    client.ceph("pg", "repair", pgid)
    scrubbed(client, "last_deep_scrub_stamp", before, "a repair")
    until(lambda: "failed_repair" in pg_stat(client, pgid)["state"], "failed_repair")
    client.rados("-p", "p", "put", "damaged", t.path("data"))
    deep_scrub_pool(client, "p")
    until(lambda: health(client) == {}, f"health after the object was written again: {health(client)}")
    equal(pg_stat(client, pgid)["state"], "active+clean", "state")


def test_scrubs_of_the_schedule_keep_to_hours_of_local_time(t):
    ahead = 7
    cluster = t.cluster(start=False)
    cluster.up("--osds", "1", env={"TZ": f"TEST-{ahead}"})
    client = t.client(cluster)
    healthy(cluster, client, "p")

    def window(first):
        """Two hours, so that a new one that begins meanwhile is among them."""
        client.ceph("config", "set", "osd", "osd_scrub_begin_hour", str(first % 24))
        client.ceph("config", "set", "osd", "osd_scrub_end_hour", str((first + 2) % 24))
    hour = int(time.time()) // 3600 + ahead
    window(hour + 3)
    client.ceph("config", "set", "osd", "osd_scrub_interval_randomize_ratio", "0")
    client.ceph("config", "set", "osd", "osd_scrub_min_interval", "1")
    before = stamps(client, "last_scrub_stamp", pgs_of(client, "p"))
    until(lambda: all(s["eligible"] for s in client.ceph_json("tell", "osd.0", "dump_scrubs")), "every PG is due")
    one = min(before)
    client.ceph("pg", "scrub", one)
    scrubbed(client, "last_scrub_stamp", {one: before[one]}, "an order has no hours")
    others = {pgid: stamp for pgid, stamp in before.items() if pgid != one}
    equal(stamps(client, "last_scrub_stamp", others), others, "no other scrub outside the hours")
    window(hour)
    scrubbed(client, "last_scrub_stamp", before, "scrubs in the hours of the process's zone")
    client.ceph("config", "set", "osd", "osd_scrub_end_hour", "24", code=22)
