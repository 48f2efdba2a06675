"""kill -9 under a verifying writer, restart, and new clients: what was acknowledged is there and nothing is torn.

In every round the cluster is killed under a writer (kill_writer.py) and started again; a new process reads
everything (kill_reader.py), and the next round's writer is a new process again, whose transaction ids start at 1.
bdev_debug_volatile_cache makes a missing flush show: what no flush covered is gone with the process.
"""
import contextlib
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import kill_model
from harness import BOUND, Failure, HERE, PYTHON, equal, expect, say, until

POOL = "objects"
# What a real Ceph's manager makes for itself.
MANAGERS_POOLS = ("device_health_metrics", ".mgr")
# The stores whose acknowledgements last.
DURABLE = ("simple", "block")
OBJECTS = [f"o{i:02}" for i in range(30)]
REPOSITORY = os.path.dirname(os.path.dirname(HERE))


class Lost(Failure):
    """Something acknowledged is gone, torn or mixed."""


class Journal:
    """What one writer noted; read on while it grows."""

    def __init__(self, path):
        self.path, self.position = path, 0
        self.submitted, self.acknowledged = {}, set()
        self.pools = {}
        self.epoch = self.global_id = 0

    def read(self):
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as f:
            f.seek(self.position)
            for line in f:
                if not line.endswith(b"\n"):
                    break
                self.position += len(line)
                self.take(line.decode().split())
        return self

    def take(self, fields):
        what, rest = fields[0], fields[1:]
        if what == "s":
            self.submitted.setdefault(rest[1], []).append((int(rest[0]), rest[2], int(rest[3]), int(rest[4])))
        elif what == "a":
            expect(int(rest[1]) >= 0, f"operation {rest[0]} was refused with {rest[1]}")
            self.acknowledged.add(int(rest[0]))
        elif what in ("ps", "pa", "rs", "ra"):
            self.pools[rest[0]] = what
        elif what == "e":
            expect(int(rest[0]) >= self.epoch, f"the OSD map went from epoch {self.epoch} to {rest[0]}")
            self.epoch = int(rest[0])
        elif what == "i":
            self.global_id = int(rest[0])


class Rounds:
    """A cluster, what its objects hold, and what was promised about pools, epochs and global ids."""

    def __init__(self, t, cluster, seed):
        self.t, self.cluster, self.client, self.seed = t, cluster, t.client(cluster), seed
        self.random = random.Random(f"{seed}/rounds")
        self.state = {name: None for name in OBJECTS}
        self.pools, self.gone_pools, self.pool_ids = {POOL}, set(), {}
        self.epoch, self.global_ids = 0, set()
        self.operations = 0
        # A place of its own: a test may make several of these.
        self.dir = tempfile.mkdtemp(prefix="rounds", dir=t.dir)
        self.client.ceph("osd", "pool", "create", POOL, "16")

    def start_writer(self, number):
        sizes = os.path.join(self.dir, f"sizes{number}")
        with open(sizes, "w", encoding="ascii") as f:
            json.dump({name: None if c is None else len(c) for name, c in self.state.items()}, f)
        journal = Journal(os.path.join(self.dir, f"journal{number}"))
        argv = [*self.cluster.prefix, PYTHON, os.path.join(HERE, "kill_writer.py"), self.client.conf, POOL,
                journal.path, str(number), str(self.seed), sizes]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE), journal

    def wait_for_acks(self, writer, journal, count):
        """Until that many more operations are acknowledged than are now."""
        count += len(journal.read().acknowledged)
        until(lambda: len(journal.read().acknowledged) >= count or writer.poll() is not None,
              f"{count} acknowledged writes; there are {len(journal.acknowledged)}", step=0.005)
        if writer.poll() is not None:
            raise Failure(f"the writer ended: {writer.stderr.read().decode()[-1000:]}")

    def round(self, number, up_args, stay_connected=False):
        writer, journal = self.start_writer(number)
        try:
            self.wait_for_acks(writer, journal, self.random.randrange(len(OBJECTS), 500))
            time.sleep(self.random.random() * 0.01)
            self.cluster.kill()
            if not stay_connected:
                writer.kill()
                writer.wait()
            self.cluster.up(*up_args)
            if stay_connected:
                self.wait_for_acks(writer, journal, 200)
                try:
                    _, words = writer.communicate(b"stop\n", timeout=BOUND)
                except subprocess.TimeoutExpired as e:
                    raise Failure(f"a client that stayed connected did not finish its writes within {BOUND} s") from e
                equal(writer.returncode, 0, f"the writer's end ({words.decode()[-500:]})")
        finally:
            writer.kill()
            writer.wait()
        journal.read()
        if stay_connected:
            for name, operations in journal.submitted.items():
                missing = [o[0] for o in operations if o[0] not in journal.acknowledged]
                expect(not missing, f"{name}: operations {missing} were never acknowledged")
        self.verify(number, journal)
        return journal

    def verify(self, number, journal):
        out = os.path.join(self.dir, f"read{number}")
        os.mkdir(out)
        try:
            done = subprocess.run([*self.cluster.prefix, PYTHON, os.path.join(HERE, "kill_reader.py"),
                                   self.client.conf, POOL, out, *OBJECTS], capture_output=True, timeout=BOUND)
        except subprocess.TimeoutExpired as e:
            raise Failure(f"round {number}: reading everything did not end within 60 s") from e
        if done.returncode:
            raise Lost(f"round {number}: reading everything: {done.stderr.decode()[-1000:]}")
        found = json.loads(done.stdout)
        self.check_ids(number, journal, found)
        self.check_pools(number, journal, found["pools"])
        actual = {name: None for name in self.state}
        for path in glob.glob(os.path.join(out, "*")):
            with open(path, "rb") as f:
                actual[os.path.basename(path)] = f.read()
            os.unlink(path)
        there = sorted(name for name, content in actual.items() if content is not None)
        equal(found["listing"], there, f"round {number}: the listing beside the objects that can be read")
        for name in sorted(actual):
            self.check_object(number, name, actual[name], journal)
        self.state = actual
        self.operations += len(journal.acknowledged)

    def check_object(self, number, name, actual, journal):
        """It holds what it held after its last acknowledged operation, or after a later one that was submitted."""
        operations = journal.submitted.get(name, [])
        acknowledged = [i for i, o in enumerate(operations) if o[0] in journal.acknowledged]
        least = acknowledged[-1] + 1 if acknowledged else 0
        state, allowed = self.state.get(name), []
        for i in range(len(operations) + 1):
            if i >= least:
                if state == actual:
                    return
                allowed.append(state)
            if i < len(operations):
                op, kind, offset, length = operations[i]
                state = kill_model.apply(state, kind, offset, kill_model.data(name, number, op, length))
        history = " ".join(f"{o[0]}{'' if o[0] in journal.acknowledged else '?'}:{o[1]}@{o[2]}+{o[3]}"
                           for o in operations[max(0, least - 4):])
        raise Lost(f"round {number}: {name} holds {kill_model.writers_of(actual)}; allowed were "
                   f"{' or '.join(kill_model.writers_of(s) for s in allowed)}; its last operations (? not "
                   f"acknowledged): {history}")

    def check_ids(self, number, journal, found):
        least = max(self.epoch, journal.epoch)
        if found["epoch"] < least:
            raise Lost(f"round {number}: the OSD map is at epoch {found['epoch']}, a client had seen {least}")
        self.epoch = found["epoch"]
        for global_id in (journal.global_id, found["global_id"]):
            if global_id in self.global_ids:
                raise Lost(f"round {number}: global id {global_id} was given twice")
            self.global_ids.add(global_id)

    def check_pools(self, number, journal, found):
        found = {name: i for name, i in found.items() if name not in MANAGERS_POOLS}
        unsure = set()
        for name, last in journal.pools.items():
            self.pools.discard(name)
            if last == "pa":
                self.pools.add(name)
            elif last == "ra":
                self.gone_pools.add(name)
            else:
                unsure.add(name)
        lost, back = self.pools - set(found), self.gone_pools & set(found)
        if lost or back:
            raise Lost(f"round {number}: pools that were made are missing: {sorted(lost)}, "
                       f"pools that were removed are back: {sorted(back)}")
        equal(set(found) - self.pools - unsure, set(), f"round {number}: pools that nobody made")
        for name, pool_id in found.items():
            equal(self.pool_ids.setdefault(name, pool_id), pool_id, f"round {number}: the id of pool {name}")
        self.pools = set(found)
        for name in sorted(self.pools - {POOL}):
            self.client.ceph("osd", "pool", "rm", name, name, "--yes-i-really-really-mean-it")
            self.pools.discard(name)
            self.gone_pools.add(name)


def up_args(t, number, seed, store, several_shards=False):
    """Half of the rounds let a subset of the unflushed blocks reach the disk."""
    args = ["--store", store, "--set", "bdev_debug_volatile_cache=true"]
    if several_shards:
        # Both shards on one core in every other round.
        args += ["--osds", "1", "--osd-size", "1GiB", "--cores", str(2 - number % 2)]
    else:
        args += ["--cores", str(t.cores or 1)]
    return args + (["--set", f"bdev_debug_volatile_leak_seed={seed * 1000 + number + 1}"] if number % 2 else [])


def kill_rounds(t, cluster, rounds, stay_connected=False, store="simple", several_shards=False, more=()):
    """A start's settings hold until the next kill, so round N runs with the settings of N, and with `more`."""
    def args(number):
        return up_args(t, number, t.seed, store, several_shards) + list(more)
    cluster.up(*args(0))
    run = Rounds(t, cluster, t.seed)
    for number in range(rounds):
        run.round(number, args(number + 1), stay_connected)
    return run


def test_nothing_acknowledged_is_lost_through_kill_9(t):
    rounds = 50 if t.soak else 10
    for store in DURABLE:
        run = kill_rounds(t, t.cluster(start=False), rounds, store=store)
        say(f"       {store}: {rounds} rounds, {run.operations} acknowledged writes, {len(run.global_ids)} clients")


def test_a_store_of_two_shards_loses_nothing_through_kill_9(t):
    cluster = t.cluster(start=False)
    run = kill_rounds(t, cluster, 20 if t.soak else 4, store="block", several_shards=True)
    cluster.stop()
    argv = cluster.argv("store", "dump", cluster.dir, "-f", "json")
    done = subprocess.run(argv, capture_output=True, timeout=BOUND, check=True)
    shards = json.loads(done.stdout)["osd.0"]["shards"]
    expect(len(shards) == 2 and all(len(shard["collections"]) > 1 for shard in shards), f"the shards: {shards}")
    say(f"       {run.operations} acknowledged writes")


def test_logs_apart_lose_nothing_through_kill_9(t):
    """Each file loses what no flush of it covered, or keeps a part of that, by itself."""
    logs = [word for osd in range(3) for word in ("--log-device", t.path(f"log{osd}"))]
    run = kill_rounds(t, t.cluster(start=False), 20 if t.soak else 4, store="block", more=logs)
    say(f"       {run.operations} acknowledged writes")


def test_a_client_that_stays_connected_finishes_its_writes(t):
    for store in DURABLE:
        kill_rounds(t, t.cluster(start=False), 10 if t.soak else 2, stay_connected=True, store=store)


def test_the_verifier_notices_what_is_lost_torn_or_mixed(t):
    """The judge itself, without a cluster."""
    run, journal = object.__new__(Rounds), Journal(t.path("none"))
    base = kill_model.data("o", 0, 1, 9000)
    run.state = {"o": base}
    for line in ("s 1 o write 4096 8192", "a 1 0", "s 2 o append 0 5000", "s 3 o full 0 100"):
        journal.take(line.split())
    first = kill_model.apply(base, "write", 4096, kill_model.data("o", 1, 1, 8192))
    second = first + kill_model.data("o", 1, 2, 5000)
    third = kill_model.data("o", 1, 3, 100)
    for good in (first, second, third):
        run.check_object(1, "o", good, journal)
    for what, bad in (("lost", base), ("gone", None), ("torn", first[:8192] + base[8192:].ljust(4096, b"\0")),
                      ("applied twice", second + kill_model.data("o", 1, 2, 5000)), ("mixed", third + first[100:]),
                      ("a bit turned", bytes([first[0] ^ 1]) + first[1:]), ("half an append", second[:-1])):
        try:
            run.check_object(1, "o", bad, journal)
        except Lost:
            continue
        raise Failure(f"{what}: not noticed")


def left_out_flushes():
    """{feature: package} of every flush that can be left out; the program's own feature where it has one."""
    found = {}
    for manifest in sorted(glob.glob(os.path.join(REPOSITORY, "crates", "*", "*", "Cargo.toml"))):
        with open(manifest, encoding="utf-8") as f:
            for feature in re.findall(r"^(skip-flush-[a-z0-9-]+)\s*=", f.read(), re.MULTILINE):
                package = os.path.basename(os.path.dirname(manifest))
                if found.get(feature) != "loligo":
                    found[feature] = package
    return found


def build_without(package, feature):
    target = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target")), "left-out")
    packages = ["-p", "loligo"] + ([] if package == "loligo" else ["-p", package])
    done = subprocess.run(["cargo", "build", "--release", "-q", *packages, "--features", f"{package}/{feature}",
                           "--target-dir", target], cwd=REPOSITORY, capture_output=True, timeout=1800)
    expect(done.returncode == 0, f"building with {feature}: {done.stderr.decode()[-2000:]}")
    return os.path.join(target, "release", "loligo")


def test_every_flush_that_is_left_out_fails_the_kill_test(t):
    found = left_out_flushes()
    expect(found, "no skip-flush feature in any crate")
    for feature, package in found.items():
        program = build_without(package, feature)
        for store in DURABLE:
            if (feature, store) == ("skip-flush-osd-metadata", "block"):
                continue  # It has one device.
            cluster = t.cluster(start=False)
            cluster.loligo = program
            try:
                kill_rounds(t, cluster, 20, store=store)
            except Failure as noticed:
                say(f"       {feature}, {store}: noticed: {str(noticed)[:700]}")
            else:
                raise Failure(f"{feature}, {store}: 20 rounds went by and nobody noticed (seed {t.seed})")
            finally:
                cluster.stop()


test_every_flush_that_is_left_out_fails_the_kill_test.soak_only = True

# What the block store makes durable and a kill of the process can show: the barrier, flags of `up`, and rounds. The others guard
# moments that a kill hardly hits, or what an earlier process left in a device's own cache; the simulated disk shows all of
# them (crates/storage/blockstore/tests/it/barriers.rs).
BARRIERS = [("Record", [], 20), ("RecordData", [], 20), ("RecordLog", ["--log-device"], 20), ("Seal", [], 20),
            ("CheckpointPages", [], 150)]


def test_a_block_store_that_leaves_out_a_barrier_fails_the_kill_test(t):
    program = build_without("loligo", "leave-out-barrier")
    # The program passes the rounds when it leaves out nothing.
    for barrier, flags, rounds in [("", [], 5), *BARRIERS]:
        cluster = t.cluster(start=False)
        cluster.loligo = program
        more = [word for flag in flags for osd in range(3) for word in (flag, t.path(f"log{osd}-{barrier}"))]
        try:
            with leaving_out(barrier):
                kill_rounds(t, cluster, rounds, store="block", more=more)
        except Failure as noticed:
            expect(barrier, f"nothing is left out, and still: {noticed}")
            say(f"       {barrier}: noticed: {str(noticed)[:300]}")
        else:
            expect(not barrier, f"{barrier}: {rounds} rounds went by and nobody noticed (seed {t.seed})")
        finally:
            cluster.stop()


@contextlib.contextmanager
def leaving_out(barrier):
    """The programs that are started in it read this."""
    if barrier:
        os.environ["LOLIGO_LEAVE_OUT_BARRIER"] = barrier
    try:
        yield
    finally:
        os.environ.pop("LOLIGO_LEAVE_OUT_BARRIER", None)


test_a_block_store_that_leaves_out_a_barrier_fails_the_kill_test.soak_only = True

if __name__ == "__main__":
    sys.exit("run.py runs the tests")
