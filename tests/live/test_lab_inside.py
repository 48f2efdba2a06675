"""What the lab sees inside of servers: flame graphs of Loligo, requests of its disk, the counters of real Ceph."""
import contextlib
import csv
import glob
import io
import json
import os
import subprocess

from harness import equal, expect
from test_lab import lab, records

STUDY = """
name: inside
title: A look inside
systems:
  - name: ours
    {system}
    osds: 1
workloads:
  - name: bench
    rados_bench: {{object_size: 4K, in_flight: 16, seconds: 2, phases: [write], pg_num: 8}}
design: {{blocks: 1, defaults_per_block: 1, confirm: no}}
"""


def run(t, system, *args):
    study, out = t.path("inside.yaml"), t.path("inside")
    with open(study, "w", encoding="utf-8") as f:
        f.write(STUDY.format(system=system))
    return lab(t, "run", study, "--out", out, *args), out


@contextlib.contextmanager
def tracefs():
    """Mounted meanwhile where it isn't and may be: the lab itself mounts nothing for that."""
    with open("/proc/self/mounts", encoding="utf-8") as f:
        there = any(line.split(" ")[2] == "tracefs" for line in f)
    place = "/sys/kernel/tracing"
    ours = not there and subprocess.run(["mount", "-t", "tracefs", "tracefs", place], capture_output=True,
                                        check=False).returncode == 0
    try:
        yield
    finally:
        if ours:
            subprocess.run(["umount", place], check=True)


def test_a_profiled_trial_leaves_a_flame_graph_and_is_no_sample(t):
    with tracefs():
        # Its core does all the work: with a store that has threads, few samples are of the OSD on a busy machine.
        done, out = run(t, "loligo: {store: block}", "--profile")
        if os.path.isdir("/sys/kernel/tracing/instances"):
            equal(glob.glob("/sys/kernel/tracing/instances/loligo-lab-*"), [], "trace buffers that are left")
    plain, profiled = sorted(records(out), key=lambda r: r["order"])
    equal([r["outcome"]["status"] for r in (plain, profiled)], ["ok", "ok"], "both trials")
    equal([r["profiled"] for r in (plain, profiled)], [False, True], "which of them is profiled")
    rows = list(csv.DictReader(io.StringIO(lab(t, "export", out).stdout)))
    equal([row["profiled"] for row in rows], ["no", "yes"], "the column 'profiled'")
    with open(os.path.join(out, "report.html"), encoding="utf-8") as f:
        page = f.read()
    expect("Trials: 1, of which 0 failed." in page, "the profiled trial is counted as one of the samples")
    if "no flame graphs here" in done.stdout:
        print("  no flame graph was looked for: " + next(l for l in done.stdout.splitlines() if "no flame" in l).strip())
    else:
        with open(os.path.join(out, "profiles", profiled["id"], "write.folded"), encoding="utf-8") as f:
            stacks = [line for line in f if not line.startswith("#")]
        expect(any(line.startswith("loligo;core-") and ("osd::" in line or "pg::" in line) for line in stacks),
               f"no function of an OSD in {len(stacks)} stacks: {stacks[:5]}")
        expect('class="flame"' in page, "the flame graph in the report")
        equal(len(glob.glob(os.path.join(out, "charts", "flame-*.svg"))), 1, "flame graphs beside the report")
    if "no seek plots here" in done.stdout:
        print("  no seek plot was looked for: " + next(l for l in done.stdout.splitlines() if "no seek" in l).strip())
    else:
        found = glob.glob(os.path.join(out, "profiles", profiled["id"], "write.*.json"))
        expect(found, "no requests were written down")
        with open(found[0], encoding="utf-8") as f:
            requests = json.load(f)
        expect(requests["note"] or sum(s["writes"] for s in requests["seconds"]) > 0, f"{str(requests)[:300]}")
    left = subprocess.run(["pgrep", "-f", os.path.join(out, "work")], capture_output=True, text=True, check=False)
    equal(left.stdout, "", "processes that are left")


def test_cephs_counters_stand_in_the_record(t):
    _, out = run(t, "ceph: {release: 16.2, store: memstore}")
    record, = records(out)
    equal(record["outcome"]["status"], "ok", record["outcome"]["error"])
    write, = record["measurements"]
    counters = write["counters"]
    expect(counters["osd.op"] >= write["operations"], f"{counters} for {write['operations']} operations")
    expect(0 < counters["osd.op_w_latency_ms"] < write["latency"]["mean_us"] / 1e3 * 1.5, f"{counters} {write['latency']}")
    with open(os.path.join(out, "counters", record["id"] + ".json"), encoding="utf-8") as f:
        everything = json.load(f)["write"]
    expect(len(everything) > 50 and everything["osd.0.osd.op"] == counters["osd.op"], f"{len(everything)} counters")
    with open(os.path.join(out, "report.html"), encoding="utf-8") as f:
        expect("osd.op_w_latency" in f.read(), "the counters in the report")


test_cephs_counters_stand_in_the_record.soak_only = True
