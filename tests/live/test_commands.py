"""The same commands against real Ceph and against a cluster of ours: exit codes, keys of JSON, headings of tables; and
the metrics for Prometheus: names, types, labels.

The commands are in command_script.py. What may differ is in command_deviations.txt, each with its reason; a line there
that no difference needs fails the test, too.
"""
import concurrent.futures
import contextlib
import fnmatch
import http.client
import itertools
import json
import os
import shlex

import metrics
from command_script import SCRIPT
from harness import BOUND, HERE, Client, Cluster, Failure, expect, say, until
from peer_cluster import PeerCluster

# Commands that only read run beside each other.
WORKERS = 3
# Refused for as long as the OSD is up.
OF_RUNNING_OSDS = ("$ osd purge 0 --force", "$ osd rm 0")
# Seconds for one command. Some of real Ceph's wait for what never comes.
COMMAND_BOUND = 120


def paths(value, at=""):
    """Every key of a JSON value by its place; items of a list share one."""
    found = set()
    if isinstance(value, dict):
        for key, inner in value.items():
            found.add(f"{at}.{key}")
            found |= paths(inner, f"{at}.{key}")
    elif isinstance(value, list):
        for inner in value:
            found |= paths(inner, f"{at}[]")
    return found


def topmost(keys):
    """The keys without those below others of them."""
    return {k for k in keys if not any(k != o and k.startswith((o + ".", o + "[")) for o in keys)}


class Run:
    """The script's run against one cluster: what came of each line."""

    def __init__(self, client, script):
        self.client, self.script = client, script
        self.results, self.names = [None] * len(script), {}

    def argv(self, line):
        return [word.format(**self.names) if "{" in word and word != "{}" else word for word in shlex.split(line[2:])]

    def one(self, line):
        forms = {"$": ["plain"], "|": ["plain"], "{": ["json"], "=": ["json"], "*": ["plain", "json"]}[line[0]]
        results = {}
        for form in forms:
            argv = self.argv(line) + (["-f", "json"] if form == "json" else [])
            try:
                done = self.client.ceph(*argv, code=None, timeout=COMMAND_BOUND)
                results[form] = (done.code, done.text, done.words)
            except Failure as failure:
                results[form] = (-1, "", str(failure)[:300])
        return results

    def note(self, number, line):
        self.results[number] = self.one(line)

    def prepare(self):
        """Two pools, and what lines name of them."""
        for line in ("$ osd pool create one 8", "$ osd pool create two 8 8 replicated"):
            code = self.one(line)["plain"][0]
            expect(code == 0, f"{line}: {code}")
        until(self.all_clean, f"every PG of {self.client.conf} clean", 300)
        self.all_up()
        dump = self.client.ceph_json("osd", "dump")
        self.names = {"poolid": next(p["pool"] for p in dump["pools"] if p["pool_name"] == "one"),
                      "uuid": dump["osds"][0]["uuid"]}

    def all_clean(self):
        """Ceph's manager hears of a new pool after the monitor answers: until then its PGs are in no count."""
        created = sum(pool["pg_num"] for pool in self.client.ceph_json("osd", "dump")["pools"])
        states = self.client.ceph_json("status")["pgmap"]["pgs_by_state"]
        return {s["state_name"]: s["count"] for s in states} == {"active+clean": created}

    def all_up(self):
        """What a command about an OSD answers depends on whether it is up."""
        def are_up():
            osds = self.client.ceph_json("osd", "stat")
            return osds["num_up_osds"] == osds["num_osds"]
        until(are_up, f"every OSD up in {self.client.conf}", 300)

    def all(self):
        self.prepare()
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            reading = []
            for number, line in enumerate(self.script):
                if line[0] in "$=":
                    for waiting in reading:
                        waiting.result()
                    reading = []
                    if line in OF_RUNNING_OSDS:
                        self.all_up()
                    self.results[number] = self.one(line)
                else:
                    reading.append(pool.submit(self.note, number, line))
            for waiting in reading:
                waiting.result()
        return self.results


def metrics_of(client, port, is_real):
    """The metrics of a cluster with a pool that has an object: their types and the labels of their samples."""
    if is_real:
        for option, value in (("server_addr", "127.0.0.1"), ("server_port", str(port)), ("exclude_perf_counters", "false")):
            client.ceph("config", "set", "mgr", f"mgr/prometheus/{option}", value, "--force")
        client.ceph("mgr", "module", "enable", "prometheus")
    client.ceph("osd", "pool", "create", "measured", "8")
    client.ceph("osd", "pool", "application", "enable", "measured", "rados")
    client.rados("-p", "measured", "create", "object")

    def scraped():
        with contextlib.suppress(OSError, http.client.HTTPException):
            types, samples = metrics.scrape(port, strict=not is_real)
            if any(name == "ceph_pool_objects" and value > 0 for (name, _), value in samples.items()):
                return types, samples
        return None
    types, samples = until(scraped, "the metrics have the pool's object", 300, 2)
    labels = {}
    for name, pairs in samples:
        labels.setdefault(name, set()).update(label for label, _ in pairs)
    return {name: (kind, labels.get(name, set())) for name, kind in types.items() if name in labels}


def metric_differences(theirs, ours):
    for name, (kind, labels) in sorted(theirs.items()):
        if name not in ours:
            yield "metrics", name, "the metric is missing"
        else:
            our_kind, our_labels = ours[name]
            if kind != our_kind:
                yield "metrics", f"{name} type", f"{kind}, ours {our_kind}"
            if labels - our_labels:
                yield "metrics", f"{name} labels", f"{sorted(labels)}, ours {sorted(our_labels)}"


def differences(script, theirs, ours):
    """What of theirs is not in ours: (command, what, both)."""
    for number, line in enumerate(script):
        for form, (code, text, words) in theirs[number].items():
            our_code, our_text, our_words = ours[number][form]
            if code != our_code:
                yield line[2:], "code", f"{code} ({words.strip()[:80]!r}), ours {our_code} ({our_words.strip()[:120]!r})"
            elif form == "json":
                try:
                    wanted = json.loads(text)
                except ValueError:
                    continue  # Ceph has text here, too.
                try:
                    missing = topmost(paths(wanted) - paths(json.loads(our_text)))
                except ValueError:
                    yield line[2:], "json", f"ours is no JSON: {our_text[:100]!r}"
                    continue
                for key in sorted(missing):
                    yield line[2:], key, "the key is missing"
            elif line[0] in "|*":
                heading, our_heading = (t.split("\n")[0].split() for t in (text, our_text))
                if heading != our_heading:
                    yield line[2:], "heading", f"{heading}, ours {our_heading}"


class Deviations:
    """command_deviations.txt: releases | command | what | reason; the second and third are patterns. Releases with a
    question mark: what Ceph answers there depends on the moment, so that the line need not be used."""

    def __init__(self, release):
        self.lines, self.used, self.by_chance = [], set(), set()
        with open(os.path.join(HERE, "command_deviations.txt"), encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if line.strip() and not line.startswith("#"):
                    releases, command, what, reason = (part.strip() for part in line.split("|", 3))
                    expect(reason, f"line {number} has a reason")
                    if release in releases.lstrip("?").split(","):
                        self.lines.append((number, command, what))
                        if releases.startswith("?"):
                            self.by_chance.add(number)

    def allows(self, command, what):
        allowed = False
        for number, commands, whats in self.lines:
            if match(command, commands) and match(what, whats):
                self.used.add(number)
                allowed = True
        return allowed

    def unused(self):
        return [f"line {n}: {c} | {w}" for n, c, w in self.lines if n not in self.used | self.by_chance]


def match(text, pattern):
    # Brackets are part of keys, not sets of letters.
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def compare(t, release):
    """Runs the script on both."""
    real = PeerCluster(release, t.path("real"))
    mine = Cluster(t.loligo, t.path("mine"))
    t.cleanups += [real.stop, mine.stop]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = []
        for cluster in (real, mine):
            def run(cluster=cluster):
                # A port of its own range: others take free ones meanwhile.
                port = PeerCluster.base_port + (95 if cluster is real else 96)
                cluster.up("--osds", "3", "--store", "mem", "--metrics", f"127.0.0.1:{port}")
                client = Client(release, cluster.conf)
                results = Run(client, SCRIPT).all()
                if os.environ.get("LOLIGO_TEST_KEEP"):
                    # To look at, and to write deviations from.
                    with open(os.path.join(cluster.dir, "commands.json"), "w", encoding="utf-8") as f:
                        json.dump(results, f)
                return results, metrics_of(client, port, cluster is real)
            runs.append(pool.submit(run))
        (theirs, their_metrics), (ours, our_metrics) = (run.result(timeout=BOUND * 30) for run in runs)
    deviations = Deviations(release)
    found = itertools.chain(differences(SCRIPT, theirs, ours), metric_differences(their_metrics, our_metrics))
    failures = [f"{command}: {what}: {both}" for command, what, both in found if not deviations.allows(command, what)]
    say(f"{len(SCRIPT)} commands, {len(deviations.used)} deviations of {release}")
    expect(not failures, f"{len(failures)} differences from {release}:\n" + "\n".join(failures))
    expect(not deviations.unused(), "deviations that are none any more:\n" + "\n".join(deviations.unused()))


def test_commands_answer_as_those_of_16_2(t):
    compare(t, "16.2")


def test_commands_answer_as_those_of_20_2(t):
    if "20.2" not in t.releases:
        return say("       not run: the clients of 20.2 are not asked for")
    return compare(t, "20.2")
