"""When a run of the lab ends: with its budget, whatever its trials show, and it stays ended when it is started again."""
import os
import signal
import subprocess

from harness import BOUND, equal, expect, until
from test_lab import lab, records, run_study

STUDY = """
name: ends
title: A study with a budget
systems:
  - name: ours
    loligo: {store: mem}
    osds: 1
workloads:
  - name: bench
    rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: [write], pg_num: 8}
parametric:
  # Each write takes 20 ms longer: nobody can miss that, and it must not end the run.
  slow: {osd: {osd_debug_inject_dispatch_delay_probability: 1, osd_debug_inject_dispatch_delay_duration: 0.02}}
design: {blocks: %d, defaults_per_block: 2, confirm: %s%s}
"""


def run(t, name, blocks, confirm, stop):
    done, out = run_study(t, name, STUDY % (blocks, confirm, stop))
    return done, records(out)


def test_a_budget_ends_a_run_after_whole_blocks_and_it_stays_ended(t):
    done, records = run(t, "budget", 4, "yes", ", stop: {budget: 1}")
    expect("more than is left of the budget" in done.stderr, done.stderr[-800:])
    equal([r["block"] for r in records], [0, 0, 0], "one block is always run, and no more")
    equal({r["outcome"]["status"] for r in records}, {"ok"}, "how trials ended")
    again, records = run(t, "budget", 4, "yes", ", stop: {budget: 1}")
    expect("more than is left of the budget" in again.stderr, again.stderr[-800:])
    equal(len(records), 3, "trials after another start")


def test_an_effect_that_is_sure_ends_nothing_and_is_confirmed(t):
    done, records = run(t, "sure", 2, "yes", "")
    equal([(r["block"], r["confirms"]) for r in records], [(0, False)] * 3 + [(1, False)] * 3 + [(2, True)] * 3 + [(3, True)] * 3,
          "blocks: the plan's, and as many to confirm")
    expect("run once more to confirm" in done.stderr, done.stderr[-800:])
    with open(os.path.join(t.path("sure"), "report.html"), encoding="utf-8") as f:
        expect("confirmed by 2 more trials" in f.read(), "the report says that the colour was confirmed")


def test_a_second_run_in_the_same_directory_is_refused(t):
    study, out = t.path("twice.yaml"), t.path("twice")
    with open(study, "w", encoding="utf-8") as f:
        f.write(STUDY % (3, "no", ""))
    first = subprocess.Popen([t.loligo, "lab", "run", study, "--out", out], cwd=t.dir,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: os.path.exists(os.path.join(out, "trials.jsonl")), "a trial begins")
        refused = lab(t, "run", study, "--out", out, code=1)
        expect("another run uses" in refused.stderr, refused.stderr[-800:])
        first.send_signal(signal.SIGINT)
        equal(first.wait(BOUND), 130, "the exit code of a run that was stopped")
    finally:
        first.kill()
        first.wait()
