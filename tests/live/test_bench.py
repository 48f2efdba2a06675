"""`loligo bench`: what it measures, what it leaves, what bad input and a failing cluster get, and that an open loop
shows a server that stalls."""
import json
import os
import signal
import subprocess
import time

from harness import BOUND, equal, expect, until

POOL = "p"
PARTIAL = 3


class Bench:
    """`loligo bench` on a cluster."""

    def __init__(self, t, cluster):
        self.loligo, self.conf = t.loligo, cluster.conf

    def argv(self, *args):
        return [self.loligo, "bench", "-c", self.conf, *args]

    def run(self, *args, code=0):
        done = subprocess.run(self.argv(*args), capture_output=True, timeout=BOUND)
        expect(done.returncode == code, f"bench {args}: code {done.returncode}, expected {code}: "
                                        f"{done.stdout[-800:]!r} {done.stderr[-800:]!r}")
        return done

    def json(self, *args, code=0):
        result = json.loads(self.run("-f", "json", *args, code=code).stdout)
        check(result)
        return result

    def error(self, *args, code=1):
        return self.run(*args, code=code).stderr.decode()

    def start(self, *args):
        return subprocess.Popen(self.argv("-f", "json", *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check(result):
    """What holds of every result."""
    for kind in ("total", "reads", "writes"):
        done = result[kind]
        counts = sum(count for _, count in done["latency_histogram_us"])
        equal(counts, done["operations"], f"{kind}: the histogram's operations")
        equal(done["bytes"], done["operations"] * result["block_size"], f"{kind}: bytes")
        latency = done["latency_us"]
        order = [latency[key] for key in ("min", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max")]
        if done["operations"]:
            expect(order == sorted(order), f"{kind}: percentiles {order}")
            expect(latency["min"] <= latency["mean"] <= latency["max"], f"{kind}: {latency}")
    equal(result["reads"]["operations"] + result["writes"]["operations"], result["total"]["operations"], "the sum")
    seconds = sum(second["operations"] for second in result["per_second"])
    equal(seconds, result["total"]["operations"], "the operations of all seconds")


def cluster_with_pool(t, *up, pools=(POOL,)):
    cluster = t.cluster("--store", "mem", "--osds", "2", *up)
    client = t.client(cluster)
    for pool in pools:
        client.ceph("osd", "pool", "create", pool, "8")
        client.ceph("osd", "pool", "application", "enable", pool, "rados")
    return cluster, client, Bench(t, cluster)


def objects(client, pool=POOL):
    return client.rados("-p", pool, "ls").text.split()


def at_rest(client):
    """Waits until a run that was ended writes no more: an OSD still performs what its client had sent."""
    seen = []

    def same_again():
        seen.append(objects(client))
        time.sleep(0.3)
        return seen[-1] == objects(client)
    until(same_again, "the writes of the run have ended")


def empty(client, what, pool=POOL):
    left = objects(client, pool)
    equal((len(left), left[:3]), (0, []), f"objects left after {what}")


def test_what_killed_runs_have_left_is_found_by_a_cleanup(t):
    cluster, client, bench = cluster_with_pool(t)
    # One in its measurement, the others while they prepare, or just after.
    for args in (("60", "write", "-b", "4096"), ("60", "mixed", "--objects", "256"),
                 ("60", "mixed", "--objects", "256", "--run-name", "mine")):
        running = bench.start("-p", POOL, *args)
        until(lambda: written(client), "the first objects")
        # What may be going on is not removed.
        said = bench.error("-p", POOL, "cleanup")
        expect("may be going on" in said and written(client), said)
        running.kill()
        running.communicate(timeout=BOUND)
        at_rest(client)
        if "--run-name" in args:
            bench.error("-p", POOL, "cleanup", "--run-name", "another")
            expect(written(client), "another run's objects are there")
            bench.run("-p", POOL, "cleanup", "--run-name", "mine")
        else:
            said = bench.run("-p", POOL, "cleanup").stdout.decode()
            expect("objects of a run that did not end (benchmark_data_" in said, said)
        empty(client, f"a cleanup after {args}")
    # Stock clients find them, too.
    running = bench.start("-p", POOL, "60", "write", "-b", "4096")
    until(lambda: written(client), "the first objects")
    running.kill()
    running.communicate(timeout=BOUND)
    at_rest(client)
    client.rados("-p", POOL, "cleanup", "--prefix", "benchmark_data")
    empty(client, "rados cleanup")
    # Ctrl-C while one prepares tells the prefix.
    running = bench.start("-p", POOL, "60", "mixed", "--objects", "4096")
    until(lambda: written(client), "the first objects")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=BOUND)
    expect(f"loligo bench cleanup -p {POOL} --prefix benchmark_data_" in err.decode(), f"{err[-500:]!r}")
    at_rest(client)
    bench.run("-p", POOL, "cleanup")
    empty(client, "a cleanup after Ctrl-C")
    # So does a run whose cluster dies meanwhile, within its own time limit.
    running = bench.start("-p", POOL, "60", "mixed", "--objects", "4096", "--timeout", "3")
    until(lambda: written(client), "the first objects")
    cluster.kill()
    _, err = running.communicate(timeout=BOUND)
    equal(running.returncode, 1, f"{err[-500:]!r}")
    expect(f"loligo bench cleanup -p {POOL} --prefix benchmark_data_" in err.decode(), f"{err[-500:]!r}")


def test_what_is_written_is_read_checked_and_removed(t):
    _, client, bench = cluster_with_pool(t)
    written = bench.json("-p", POOL, "1", "write", "-b", "4096", "-O", "16384", "-t", "8", "--no-cleanup")
    count = written["writes"]["operations"]
    expect(count > 0 and not written["partial"], f"{written['why_partial']}")
    equal(written["objects"][0]["state"], "kept", "the objects")
    names = objects(client)
    equal(len(names), -(-count // 4) + 1, "objects and the run's record")
    expect(all(n.startswith(written["objects"][0]["prefix"]) or n == "benchmark_last_metadata" for n in names),
           "their names")

    seq = bench.json("-p", POOL, "600", "seq", "-t", "8")
    equal(seq["reads"]["operations"], count, "each block is read once")
    equal((seq["objects"][0]["verified"], seq["wrong_data"]), (True, 0), "what was read")
    rand = bench.json("-p", POOL, "0.5", "rand", "-t", "64")
    expect(rand["reads"]["operations"] > 0 and rand["objects"][0]["state"] == "none", f"{rand['objects']}")
    small = bench.json("-p", POOL, "0.2", "rand", "-b", "512")
    equal(small["block_size"], 512, "a part of what was written")

    # Other bytes than were written are noticed.
    path = t.path("other")
    with open(path, "wb") as f:
        f.write(os.urandom(16384))
    for name in names:
        if "_object" in name:
            client.rados("-p", POOL, "put", name, path)
            break
    wrong = bench.json("-p", POOL, "600", "seq", code=PARTIAL)
    expect(wrong["wrong_data"] > 0 and "other bytes came" in wrong["why_partial"], f"{wrong['why_partial']}")
    bench.json("-p", POOL, "600", "seq", "--no-verify")

    bench.run("-p", POOL, "cleanup")
    empty(client, "cleanup")
    bench.json("-p", POOL, "0.3", "write", "-b", "4096")
    empty(client, "a run without --no-cleanup")


def test_rados_bench_and_this_one_read_each_other(t):
    _, client, bench = cluster_with_pool(t)
    bench.json("-p", POOL, "0.5", "write", "-b", "8192", "--no-cleanup", "--run-name", "ours")
    out = client.rados("-p", POOL, "bench", "1", "rand", "--no-verify", "--run-name", "ours").text
    expect("Total reads made" in out, out)
    client.rados("-p", POOL, "cleanup", "--run-name", "ours")
    empty(client, "rados cleanup of ours")

    client.rados("-p", POOL, "bench", "1", "write", "-b", "8192", "--no-cleanup", "--run-name", "theirs")
    done = bench.run("-f", "json", "-p", POOL, "600", "seq", "--run-name", "theirs")
    seq = json.loads(done.stdout)
    expect(seq["reads"]["operations"] > 0 and seq["block_size"] == 8192, f"{seq}")
    expect(b"was not compared" in done.stderr, f"what is in theirs is not known: {done.stderr!r}")
    bench.run("-p", POOL, "cleanup", "--run-name", "theirs")
    empty(client, "our cleanup of theirs")


def test_small_operations_within_large_objects(t):
    _, client, bench = cluster_with_pool(t, pools=("a", "b"))
    mixed = bench.json("-p", "a,b", "1", "mixed", "--reads", "75", "-b", "4K", "-O", "1M", "--objects", "4",
                       "-t", "8", "--no-cleanup", "--run-name", "m", "--instances", "4")
    share = mixed["reads"]["operations"] / mixed["total"]["operations"]
    expect(0.6 < share < 0.9 or mixed["total"]["operations"] < 100, f"{share} of the operations are reads")
    equal((mixed["object_size"], mixed["block_size"]), (1 << 20, 4096), "sizes")
    for pool in ("a", "b"):
        equal(len(objects(client, pool)), 2 * (4 + 1), "two instances' objects and records")
        for name in objects(client, pool):
            if "_object" in name:
                stat = client.rados("-p", pool, "stat", name).text
                expect("size 1048576" in stat, stat)
    # Its objects are there: a later run works on them, and another mode reads them.
    again = bench.json("-p", "a,b", "0.3", "randwrite", "-b", "4K", "-O", "1M", "--objects", "4", "--run-name", "m",
                       "--instances", "4")
    equal(again["reads"]["operations"], 0, "randwrite only writes")
    expect(all(o["state"] == "none" for o in again["objects"]), f"{again['objects']}")
    bench.json("-p", "a", "0.3", "rand", "--run-name", "m", "-b", "4K")
    bench.run("-p", "a,b", "cleanup", "--run-name", "m")
    empty(client, "cleanup", "a")
    empty(client, "cleanup", "b")
    # What an earlier run has left stays as it is.
    bench.json("-p", "a", "1", "write", "-b", "4K", "--objects", "5", "--no-cleanup")
    before = sorted(objects(client, "a"))
    fresh = bench.json("-p", "a", "0.3", "randwrite", "-b", "4K", "-O", "64K", "--objects", "2")
    equal(fresh["objects"][0]["state"], "removed", "objects that the run has made")
    equal(sorted(objects(client, "a")), before, "objects left")
    equal(bench.json("-p", "a", "1", "seq")["reads"]["operations"], 5, "the earlier run's objects")


def stalled(cluster, bench, *args):
    """A run of four seconds in whose middle the cluster's process stands still for one second."""
    pid = cluster.pid()
    running = bench.start("-p", POOL, "4", "rand", *args)
    # Its table begins when the measurement does.
    line = b""
    while b"sec" not in line:
        line = running.stderr.readline()
        expect(line, "the bench has ended before it began")
    time.sleep(1)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(pid, signal.SIGCONT)
    out, err = running.communicate(timeout=BOUND)
    equal(running.returncode, 0, f"the run: {err[-500:]!r}")
    result = json.loads(out)
    check(result)
    return result


def test_an_open_loop_shows_that_the_server_stalled(t):
    cluster, _, bench = cluster_with_pool(t)
    bench.json("-p", POOL, "1", "write", "-b", "4096", "--objects", "100", "--no-cleanup")
    rate = 200
    for arrivals in ("even", "poisson"):
        result = stalled(cluster, bench, "--rate", str(rate), "--arrivals", arrivals)
        latency, count = result["total"]["latency_us"], result["total"]["operations"]
        equal(result["latency_counts_from"], "planned start", "the loop")
        if arrivals == "even":
            equal(count, 4 * rate, "every planned operation is measured")
        # A quarter of the operations were planned in that second, and waited from 1 s down to nothing.
        expect(latency["max"] > 900_000, f"{arrivals}: the first one waited a second: {latency}")
        expect(latency["p99"] > 850_000, f"{arrivals}: p99 shows the second: {latency}")
        expect(latency["p90"] > 450_000, f"{arrivals}: a tenth waited longer than half a second: {latency}")
    # One operation in flight: only that one sees it, and the percentiles do not (coordinated omission).
    closed = stalled(cluster, bench, "-t", "1")
    expect(closed["total"]["operations"] > 200, f"{closed['total']}")
    latency = closed["total"]["latency_us"]
    expect(latency["max"] > 900_000 and latency["p99"] < 500_000, f"closed: {latency}")
    bench.run("-p", POOL, "cleanup")


def test_bad_input(t):
    cluster, _, bench = cluster_with_pool(t)
    for args, code, words in [
        (("-p", "nope", "1", "write"), 1, "pool 'nope' does not exist; there are: p"),
        (("-p", POOL, "1", "rand"), 1, "no objects of a bench to read (benchmark_last_metadata does not exist)"),
        (("-p", POOL, "1", "seq", "--run-name", "x"), 1, "write --no-cleanup --run-name x"),
        (("-p", POOL, "1", "wirte"), 2, "did you mean 'write'?"),
        (("-p", POOL, "1", "write", "-b", "3K", "-O", "4K"), 2, "is not a multiple of"),
        (("-p", POOL, "cleanup"), 1, "no run's record 'benchmark_last_metadata'; --prefix removes objects by name"),
        (("-p", POOL, "1", "write", "-m", "[v1:127.0.0.1:1/0]"), 1, "has no messenger 2 address"),
        (("-p", POOL, "1", "write", "-n", "nobody.x"), 1, "not an entity name"),
    ]:
        said = bench.error(*args, code=code)
        expect(words in said, f"{args}: {said}")
    said = bench.error("-p", POOL, "1", "write", "-m", "127.0.0.1:1", "--timeout", "1")
    expect("no monitor answered within 1 s" in said and "refused" in said, said)
    missing = subprocess.run([t.loligo, "bench", "-p", POOL, "1", "write", "-c", t.path("none.conf")],
                             capture_output=True, timeout=BOUND)
    expect(missing.returncode == 1 and b"none.conf" in missing.stderr, f"{missing}")
    # Bytes that are no record.
    cluster_client = t.client(cluster)
    path = t.path("junk")
    with open(path, "wb") as f:
        f.write(b"\xff" * 40)
    cluster_client.rados("-p", POOL, "put", "benchmark_last_metadata", path)
    said = bench.error("-p", POOL, "1", "rand")
    expect("is not the record of a bench" in said, said)


def test_a_cluster_that_fails_gives_partial_results(t):
    cluster, client, bench = cluster_with_pool(t, pools=(POOL, "gone", "full"))
    # A pool whose quota is reached.
    client.ceph("osd", "pool", "set-quota", "full", "max_objects", "20")
    full = until(lambda: full_run(bench), "a run that ends at the quota")
    expect("EDQUOT" in full["errors"] or "ENOSPC" in full["errors"], f"{full['errors']}")
    empty(client, "a run into a full pool", "full")

    # A pool that goes.
    running = bench.start("-p", "gone", "60", "write", "-b", "4096", "--timeout", "20")
    until(lambda: written(client, "gone"), "the first objects")
    client.ceph("osd", "pool", "rm", "gone", "gone", "--yes-i-really-really-mean-it")
    out, err = running.communicate(timeout=BOUND)
    equal(running.returncode, PARTIAL, f"{err[-500:]!r}")
    result = json.loads(out)
    check(result)
    equal((result["partial"], "ENOENT" in result["errors"]), (True, True), f"{result['why_partial']}")

    # Ctrl-C.
    running = bench.start("-p", POOL, "60", "write", "-b", "4096")
    until(lambda: written(client), "the first objects")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=BOUND)
    equal(running.returncode, PARTIAL, f"{err[-500:]!r}")
    result = json.loads(out)
    check(result)
    equal(result["why_partial"], "interrupted", "the reason")
    empty(client, "an interrupted run")

    # A cluster that dies.
    running = bench.start("-p", POOL, "60", "write", "-b", "4096", "--timeout", "3")
    until(lambda: written(client), "the first objects")
    cluster.kill()
    began = time.monotonic()
    out, err = running.communicate(timeout=BOUND)
    took = time.monotonic() - began
    equal(running.returncode, PARTIAL, f"{err[-500:]!r}")
    expect(took < 60, f"it ended {took:.0f} s after the cluster")
    result = json.loads(out)
    check(result)
    equal(list(result["errors"]), ["ETIMEDOUT"], "errors")
    prefix = result["objects"][0]["prefix"]
    expect(f"loligo bench cleanup -p {POOL} --prefix {prefix}" in err.decode(), f"{err[-500:]!r}")


def written(client, pool=POOL):
    """The objects of runs, without what says which runs there are."""
    return [name for name in objects(client, pool) if "_object" in name]


def full_run(bench):
    """A run into the pool `full`, once the cluster has noticed that it is full."""
    done = subprocess.run(bench.argv("-f", "json", "-p", "full", "3", "write", "-b", "4096", "-t", "2"),
                          capture_output=True, timeout=BOUND)
    return json.loads(done.stdout) if done.returncode == PARTIAL else None


def test_objects_of_a_killed_run_are_removed_by_their_prefix(t):
    _, client, bench = cluster_with_pool(t)
    running = bench.start("-p", POOL, "60", "write", "-b", "4096")
    names = until(lambda: written(client), "the first objects")
    running.kill()
    running.communicate(timeout=BOUND)
    prefix = names[0].rsplit("_object", 1)[0]
    path = t.path("kept")
    with open(path, "wb") as f:
        f.write(b"x")
    client.rados("-p", POOL, "put", "kept", path)
    said = bench.run("-p", POOL, "cleanup", "--prefix", prefix).stdout.decode()
    expect("removed" in said, said)
    equal(objects(client), ["kept"], "what is left")
