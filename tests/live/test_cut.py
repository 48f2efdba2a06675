"""Connections that end after the OSD did its work and before the client heard of it: each operation happens once.

Client and cluster sit in two network namespaces with a 127.0.0.1 of their own; cut_proxy.py joins them.
"""
import errno
import json
import os
import random
import subprocess
import sys

import namespaces
from harness import BOUND, Failure, HERE, PYTHON, Client, equal, expect, say

POOL = "cut"
OK, EXISTS, MISSING = 0, -errno.EEXIST, -errno.ENOENT


class Cut:
    """A cluster behind the proxy."""

    def __init__(self, t, *up):
        server, self.near = namespaces.network(t), namespaces.network(t)
        self.cluster = t.cluster(*up, prefix=server.prefix)
        # What stands beside the cluster speaks to it without the proxy.
        self.admin = Client("16.2", self.cluster.conf)
        self.far = server
        dump = json.loads(self.outside("ceph", "osd", "dump", "-f", "json").stdout)
        ports = [a["addr"].rsplit(":", 1)[1] for o in dump["osds"] for a in o["public_addrs"]["addrvec"]
                 if a["type"] == "v2"]
        self.outside("ceph", "osd", "pool", "create", POOL, "8")
        self.proxy = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "cut_proxy.py"), self.near.path, server.path,
             str(self.cluster.mon_addr()[1]), *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        t.cleanups.append(self.end)
        equal(self.hear(), {"ready": True}, "the proxy")

    def end(self):
        self.proxy.stdin.close()
        self.proxy.wait(BOUND)

    def hear(self):
        line = self.proxy.stdout.readline()
        expect(line, "the proxy ended")
        return json.loads(line)

    def order(self, **fields):
        self.proxy.stdin.write(json.dumps(fields).encode() + b"\n")
        self.proxy.stdin.flush()

    def report(self):
        self.order(report=True)
        while "cuts" not in (heard := self.hear()):
            pass
        return heard

    def outside(self, *args):
        """A command in the cluster's own namespace, without the proxy."""
        done = subprocess.run([*self.far.prefix, *self.admin.argv(*args)], capture_output=True, timeout=120)
        expect(done.returncode == 0, f"{args}: {done.returncode} {done.stdout[-300:]} {done.stderr[-2000:]}")
        return done

    def argv(self, *args):
        return [PYTHON, os.path.join(HERE, "cut_client.py"), args[0], self.cluster.conf, POOL, *map(str, args[1:])]

    def start(self, *args):
        """The client, behind the proxy."""
        return subprocess.Popen([*self.near.prefix, *self.argv(*args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process, what, seconds=60):
        try:
            out, words = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as e:
            process.kill()
            raise Failure(f"{what}: no end within {seconds} s; {self.report()}") from e
        expect(process.returncode == 0, f"{what}: {words.decode()[-1000:]}")
        return json.loads(out) if out else None

    def one(self, kind, *names):
        return self.finish(self.start("one", kind, *names), f"{kind} {names}")

    def beside(self, kind, name):
        return json.loads(self.outside(*self.argv("one", kind, name)).stdout)[0]


def drop_replies(t, cut, appends, cuts, seconds):
    r = random.Random(f"{t.seed}/cuts")
    # With repetition: some operations lose their reply twice.
    cut.order(plan=[r.randrange(appends) for _ in range(cuts)], seed=t.seed)
    cut.finish(cut.start("append", t.seed, appends), f"{appends} appends with {cuts} cuts", seconds)
    report = cut.report()
    equal((report["operations"], report["cuts"], report["left"]), (appends, cuts, 0), "operations, cuts, cuts left")
    cut.outside(*cut.argv("check", t.seed, appends))
    say(f"       {appends} appends, {cuts} cuts, {report['replies']} replies")


def test_each_append_is_there_once_though_replies_are_lost(t):
    appends, cuts = (10_000, 2000) if t.soak else (500, 100)
    drop_replies(t, Cut(t, "--store", "block"), appends, cuts, 600 if t.soak else 60)


def test_an_operation_whose_reply_was_lost_gets_its_first_answer_again(t):
    cut = Cut(t, "--store", "block")
    for times in (1, 3):
        for kind, answer, after in (("create", OK, OK), ("create", EXISTS, OK), ("remove", OK, MISSING),
                                    ("remove", MISSING, MISSING)):
            cut.order(plan=[0] * times)
            equal(cut.one(kind, "x"), [answer], f"{kind} whose reply was cut {times} times")
            equal(cut.report()["cuts"], times, "cuts")
            equal(cut.beside("stat", "x"), after, f"stat after {kind}")


def test_an_answer_stays_the_same_though_the_object_changed_before_the_resend(t):
    cut = Cut(t, "--store", "block")
    # (the other client prepares, the cut operation, its answer, the other client's change, the object in the end)
    for prepare, kind, answer, change, after in (
            ("create", "create", EXISTS, "remove", MISSING), (None, "create", OK, "remove", MISSING),
            ("create", "remove", OK, "create", OK), (None, "remove", MISSING, "create", OK)):
        case = f"{kind} answered {answer}, then {change} by another client"
        if prepare:
            equal(cut.beside(prepare, "x"), OK, prepare)
        cut.order(plan=[0], hold=True)
        client = cut.start("one", kind, "x")
        equal(cut.hear(), {"cut": 0}, case)
        equal(cut.beside(change, "x"), OK, case)
        cut.order(go=True)
        equal(cut.finish(client, case), [answer], f"{case}: the resend's answer")
        equal(cut.beside("stat", "x"), after, f"{case}: the object in the end")
        if after == OK:
            cut.beside("remove", "x")


def test_creates_of_many_objects_with_half_of_the_replies_lost(t):
    cut = Cut(t, "--store", "mem")
    count = 1000 if t.soak else 100
    r = random.Random(f"{t.seed}/creates")
    names = [f"n{r.randrange(count // 2)}" for _ in range(count)]
    cut.order(plan=r.sample(range(count), count // 2), seed=t.seed)
    expected = [EXISTS if name in names[:i] else OK for i, name in enumerate(names)]
    equal(cut.one("create", *names), expected, "the answers")
    equal(cut.report()["cuts"], count // 2, "cuts")
