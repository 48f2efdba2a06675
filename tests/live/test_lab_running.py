"""The lab on a cluster that runs already: it is measured, and is afterwards as it was."""
import json
import os
import signal
import subprocess

from harness import BOUND, equal, expect, until

STUDY = """
name: there
title: A cluster that runs already
systems:
  - {name: there, running: {conf: %s}}
workloads:
  - name: bench
    rados_bench: {instances: 2, object_size: 4K, in_flight: 8, seconds: 2, phases: [write, rand_read], pg_num: 8}
design: {blocks: 1, defaults_per_block: 1, confirm: no}
"""


def test_a_running_cluster_is_measured_and_left_as_it_was(t):
    cluster = t.cluster("--store", "mem", "--osds", "1")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "lab0", "8")
    client.rados("-p", "lab0", "put", "mine", "-", stdin=b"kept")
    with open(cluster.conf, encoding="utf-8") as f:
        conf = f.read()
    study, out = t.path("there.yaml"), t.path("results")
    with open(study, "w", encoding="utf-8") as f:
        f.write(STUDY % cluster.conf)
    argv = [t.loligo, "lab", "run", study, "--out", out]

    def pools():
        return sorted(client.ceph("osd", "pool", "ls").text.split())

    first = subprocess.Popen(argv, cwd=t.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    t.cleanups.append(lambda: (first.kill(), first.wait(BOUND)))
    until(lambda: len(pools()) == 3, "the lab's pools", step=0.2)
    expect(all(p.startswith("loligo-lab-") for p in pools() if p != "lab0"), f"{pools()}")
    first.send_signal(signal.SIGKILL)
    first.wait(BOUND)

    # The next start removes what the killed one left, and runs the trial to its end.
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=t.dir)
    equal(done.returncode, 0, done.stderr[-1500:])
    with open(os.path.join(out, "trials.jsonl"), encoding="utf-8") as f:
        record = [json.loads(line) for line in f][-1]
    equal((record["outcome"]["status"], record["parameters"]["program"]), ("ok", "running"), f"{record['outcome']}")
    equal([m["phase"] for m in record["measurements"]], ["write", "rand_read"], "phases")
    equal(pools(), ["lab0"], "pools after the run")
    equal(client.rados("-p", "lab0", "get", "mine", "-").out, b"kept", "what was there before")
    with open(cluster.conf, encoding="utf-8") as f:
        equal(f.read(), conf, "the cluster's ceph.conf")
    expect(cluster.pid(), "the cluster still runs")


def test_a_running_cluster_that_does_not_answer_starts_nothing(t):
    cluster = t.cluster("--store", "mem", "--osds", "1")
    cluster.stop()
    study, out = t.path("there.yaml"), t.path("none")
    with open(study, "w", encoding="utf-8") as f:
        f.write(STUDY % cluster.conf)
    done = subprocess.run([t.loligo, "lab", "run", study, "--out", out], capture_output=True, text=True, timeout=120,
                          cwd=t.dir)
    equal(done.returncode, 1, done.stderr[-800:])
    expect("the running cluster of" in done.stderr and "nothing was started" in done.stderr, done.stderr)
test_a_running_cluster_that_does_not_answer_starts_nothing.soak_only = True  # it waits for a connection's bound
