"""The lab killed with SIGKILL at random moments, and the lab alone: what it started lives on. Gone on with, a run holds
the trials of an uninterrupted one, and nothing is left behind."""
import json
import os
import random
import subprocess
import time

from harness import BOUND, equal, expect, say
from leftovers import left_over

OURS = """
  - name: ours
    loligo: {store: mem}
    osds: 1
"""

ALL = OURS + """
  - name: image
    loligo: {store: simple}
    osds: 1
    place: {image: {size: 1G}}
  - name: ceph
    ceph: {release: 16.2, store: filestore}
    osds: 1
    place: {loop: {size: 3G, fs: xfs}}
    settings: {osd: {osd_journal_size: 512}}
"""

STUDY = """
name: killed
title: A tiny study to be killed
systems: %s
workloads:
  - name: bench
    rados_bench: {object_size: 4K, in_flight: 16, seconds: 1, phases: [write], pg_num: 8}
parametric:
  ms_crc_data: ["false"]
design: {blocks: %d, defaults_per_block: 1, confirm: no}
"""


def planned(t, study):
    """The ids of an uninterrupted run's trials."""
    done = subprocess.run([t.loligo, "lab", "run", study, "--dry-run"], capture_output=True, text=True, timeout=BOUND, check=True)
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("== ")]


def whole_lines(path):
    try:
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


def let_run(lab, trials, until_done, most_done, seconds):
    """Waits until so many trials are recorded, then for some time, but not until more than `most_done` are."""
    end, deadline = None, time.monotonic() + 600
    while lab.poll() is None:
        expect(time.monotonic() < deadline, f"no {until_done} trials within 600 s")
        done = len(whole_lines(trials))
        if end is None and done >= until_done:
            end = time.monotonic() + seconds
        if done >= most_done or end is not None and time.monotonic() >= end:
            return
        time.sleep(0.02)


def killed(t, systems, blocks, kills, longest):
    """Kills so many times, all along the run: each at a random number of trials done in a part of the run of its own,
    and then within one of the times in `longest`: short ones meet the start of a trial, or what is cleaned up after the
    kill before."""
    study, out = t.path("killed.yaml"), t.path("results")
    with open(study, "w", encoding="utf-8") as f:
        f.write(STUDY % (systems, blocks))
    ids, trials = planned(t, study), os.path.join(out, "trials.jsonl")
    moments = random.Random(t.seed)
    command, done, said = [t.loligo, "lab", "run", study, "--out", out], [], b""
    # Numbers drawn from the whole run would now and then all be 0.
    parts = [kill * (len(ids) - 1) // kills for kill in range(kills + 1)]
    after, met = [moments.randrange(first, max(first + 1, end)) for first, end in zip(parts, parts[1:])], set()
    for kill in range(kills + 1):
        lab = subprocess.Popen(command, cwd=t.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if kill < kills:
            let_run(lab, trials, after[kill], len(ids) - 1, moments.uniform(0.1, moments.choice(longest)))
            ended = lab.poll()
            lab.kill()
            _, said = lab.communicate(timeout=BOUND)
            expect(ended is None, f"start {kill + 1} ended before it was killed, with {ended}: {said[-800:]!r}")
        else:
            _, said = lab.communicate(timeout=60 * len(ids))
        records = whole_lines(trials)
        now = [r["id"] for r in records if r["outcome"]["status"] == "ok"]
        equal(now[:len(done)], done, "what was recorded stays")
        done = now
        met.add(len(done))
        say(f"   start {kill + 1}: {len(done)} of {len(ids)} trials done")
        if kill == 0 and os.path.exists(os.path.join(out, "run.json")):
            # Killed in the middle of a record, which is too short a moment to be met by chance. Before there is a run there are none.
            with open(trials, "a", encoding="utf-8") as f:
                f.write('{"format":1,"id":"b0.torn')
    expect(len(met - {0, len(ids)}) >= min(kills, 4) // 2, f"kills along the run, not at its start alone: {sorted(met)}")
    equal(sorted(done), sorted(ids), "each trial of an uninterrupted run is there, and once")
    equal([r["outcome"]["status"] for r in whole_lines(trials)], ["ok"] * len(ids), "how trials ended")
    with open(trials, encoding="utf-8") as f:
        expect("b0.torn" not in f.read(), "a torn line is left")
    expect(os.path.exists(os.path.join(out, "report.html")), f"no report: {said[-800:]!r}")
    exported = subprocess.run([t.loligo, "lab", "export", out], capture_output=True, text=True, timeout=BOUND, check=True)
    equal(exported.stdout.count("\n"), len(ids) + 1, "rows of the export")
    equal(left_over(t.dir), [], "what is left")
    equal(sorted(os.listdir(os.path.join(out, "work", "data"))) if os.path.isdir(os.path.join(out, "work", "data")) else [], [],
          "what is left of clusters")


def test_a_run_killed_at_random_moments_holds_the_trials_of_a_whole_one(t):
    killed(t, OURS, 3, 3, [1, 3])


def test_a_run_killed_twenty_times_on_every_kind_of_place_holds_the_trials_of_a_whole_one(t):
    killed(t, ALL, 4, 20, [3, 10, 30])


test_a_run_killed_twenty_times_on_every_kind_of_place_holds_the_trials_of_a_whole_one.soak_only = True
