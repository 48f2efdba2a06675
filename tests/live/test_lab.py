"""The lab from its command line: a tiny study on Loligo from start to report, stopped on the way and gone on with."""
import glob
import json
import os
import shutil
import signal
import subprocess
import time

from harness import BOUND, equal, expect, until

STUDIES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "studies")

TINY = """
name: tiny
title: A tiny study
systems:
  - name: ours
    loligo: {store: mem}
    osds: 1
workloads:
  - name: bench
    rados_bench: {object_size: 4K, in_flight: 16, seconds: 1, phases: [write, rand_read], pg_num: 8}
parametric:
  ms_crc_data: ["false"]
  filestore_op_threads: [8]
design: {blocks: 2, defaults_per_block: 1, confirm: no}
"""


def lab(t, *args, code=0, timeout=120):
    done = subprocess.run([t.loligo, "lab", *args], capture_output=True, text=True, timeout=timeout, cwd=t.dir)
    expect(done.returncode == code, f"lab {args}: code {done.returncode}, expected {code}: {done.stdout[-1500:]} {done.stderr[-1500:]}")
    return done


def run_study(t, name, study):
    """Runs the text of a study. Gives what the lab said, and where its results are."""
    path, out = t.path(name + ".yaml"), t.path(name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(study)
    return lab(t, "run", path, "--out", out), out


def records(path):
    with open(os.path.join(path, "trials.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def test_every_study_can_be_planned(t):
    studies = sorted(glob.glob(os.path.join(STUDIES, "*.yaml")))
    expect(len(studies) >= 10, f"{studies}")
    for study in studies:
        done = lab(t, "run", study, "--dry-run")
        conf = done.stdout.split("== b0.", 1)[-1]
        expect(conf != done.stdout and ("[global]" in conf or "[osd]" in conf), f"{study}: {done.stdout[-500:]}")


def test_a_study_is_stopped_goes_on_and_is_reported(t):
    study, out = t.path("tiny.yaml"), t.path("results")
    with open(study, "w", encoding="utf-8") as f:
        f.write(TINY)
    first = subprocess.Popen([t.loligo, "lab", "run", study, "--out", out], cwd=t.dir,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: os.path.exists(os.path.join(out, "trials.jsonl")) and records(out), "a trial")
        time.sleep(0.5)
        first.send_signal(signal.SIGINT)
        equal(first.wait(BOUND), 130, "the exit code of a run that was stopped")
    finally:
        first.kill()
        first.wait()
    before = len(records(out))
    done = lab(t, "run", study, "--out", out)
    expect("are done already" in done.stderr, done.stderr[-800:])
    last = {r["id"]: r for r in records(out)}
    equal(sorted(r["outcome"]["status"] for r in last.values()), ["ok"] * 4, "trials: nothing to tune is left out")
    expect(len(records(out)) <= before + 4, "what was done was not run again")
    for record in last.values():
        write = record["measurements"][0]
        expect(write["operations"] > 100 and write["cpu"]["server_us_per_op"] > 0, f"{write}")
    with open(os.path.join(out, "report.html"), encoding="utf-8") as f:
        page = f.read()
    expect("A tiny study" in page and "nothing to tune" in page and "http://" not in page.replace("http://www.w3.org", ""),
           "the report")
    lab(t, "compare", out, out)
    expect(lab(t, "export", out).stdout.count("\n") >= 9, "a row a measurement")
    equal(glob.glob(os.path.join(out, "work", "data", "*")), [], "what is left of clusters")


def test_a_study_with_mistakes_starts_nothing(t):
    study = t.path("wrong.yaml")
    with open(study, "w", encoding="utf-8") as f:
        f.write(TINY.replace("in_flight: 16", "in_flite: 16").replace("ms_crc_data", "ms_crc_dta"))
    done = lab(t, "run", study, "--out", t.path("none"), code=1)
    expect("in_flite" in done.stderr and "in_flight" in done.stderr, done.stderr)
    expect("nothing was started" in done.stderr and not os.path.exists(t.path("none")), done.stderr)


LADDER = """
name: ladder
title: A tiny ladder
systems:
  - {name: ours, loligo: {store: mem}, osds: 1}
workloads:
  - name: climb
    fio:
      engine: rados
      block_size: 4K
      size: 4M
      seconds: 1
      phases: [rand_write]
      pg_num: 8
      ladder: {depths: {from: 1, to: 4}, rates: [0.5], target: {percentile: 90, latency: 1s}}
design: {blocks: 1, defaults_per_block: 1, confirm: no}
"""


def test_a_ladder_finds_the_saturation_and_the_highest_rate(t):
    _, out = run_study(t, "ladder", LADDER)
    [record] = records(out)
    equal(record["outcome"]["status"], "ok", f"the trial: {record['outcome']}")
    steps = [(m["step"], m) for m in record["measurements"]]
    depths = [s["in_flight"] for s, _ in steps if s["rate"] is None]
    equal(depths[:2], [1, 2], "depths")
    [best] = [m for s, m in steps if s["found"] == "saturation"]
    rates = [s["rate"] for s, _ in steps if s["rate"]]
    expect(abs(rates[0] / best["ops_per_s"] - 0.5) < 0.02, f"half of {best['ops_per_s']}: {rates}")
    for step, m in steps:
        if step["held"]:
            expect(m["ops_per_s"] > 0.97 * step["rate"], f"held, yet {m['ops_per_s']} of {step['rate']}")
        expect(m["latency"]["histogram"]["buckets"] and m["cpu"]["server_us_per_op"] > 0, f"{m}")
    equal(len([s for s, _ in steps if s["found"] == "held_rate"]), 1, "a highest rate for so weak a target")
    with open(os.path.join(out, "report.html"), encoding="utf-8") as f:
        page = f.read()
    for words in ["CLOSED LOOP", "OPEN LOOP", "rand_write.saturation", "rand_write.held_rate", "p90 1.00 s"]:
        expect(words in page, f"{words!r} in the report")
    expect(lab(t, "export", out).stdout.count("held_rate") >= 1, "the column")
    again = t.path("ladder-again")
    shutil.copytree(out, again, ignore=shutil.ignore_patterns("work"))
    done = lab(t, "history", out, out, again, "--out", t.path("history"))
    expect("is named twice" in done.stderr, done.stderr)
    expect("2 charts as SVG" in done.stdout and len(glob.glob(t.path("history/*.svg"))) == 2, done.stdout[-500:])
    equal(len(glob.glob(t.path("history/*.png"))), 2 if "as SVG and PNG in" in done.stdout else 0, done.stdout[-500:])


OPEN = """
name: open
title: A fixed rate
systems:
  - {name: ours, loligo: {store: mem}, osds: 1}
workloads:
  - name: open
    loligo_bench: {instances: 2, pg_num: 8, block_size: 4K, size: 8M, in_flight: 4, seconds: 2, rate: 200,
                   phases: [write, rand_write, rand_read, read]}
design: {blocks: 1, defaults_per_block: 1, confirm: no}
"""


def test_loligo_bench_is_a_load_at_a_rate(t):
    _, out = run_study(t, "open", OPEN)
    [record] = records(out)
    equal((record["outcome"]["status"], record["parameters"]["load"]), ("ok", "loligo bench"), "the trial")
    phases = {m["phase"]: m for m in record["measurements"]}
    equal(sorted(phases), ["rand_read", "rand_write", "read", "write"], "phases")
    for name, phase in phases.items():
        # Random arrivals: 400 in two seconds, give or take four times their square root.
        expect(320 <= phase["operations"] <= 480, f"{name}: {phase['operations']} operations")
        counts = sum(count for _, count in phase["latency"]["histogram"]["buckets"])
        equal(counts, phase["operations"], f"{name}: the histogram's operations")


def test_words_that_nobody_reads_end_nothing(t):
    study = t.path("tiny.yaml")
    with open(study, "w", encoding="utf-8") as f:
        f.write(TINY)
    for words in (["lab", "run", study, "--dry-run"], ["options"], ["completions", "bash"]):
        for target, code, said in (("| head -n 1", 0, ""), ("> /dev/full", 1, "No space left on device"),
                                   (">&-", 1, "standard output: it is closed"), ("1<> /dev/null", 0, ""),
                                   ("1< /dev/null", 1, "standard output: it is open for reading alone")):
            line = f"set -o pipefail; {t.loligo} {' '.join(words)} {target}"
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=BOUND, check=False)
            equal(done.returncode, code, f"{line}: {done.stderr}")
            expect("panicked" not in done.stderr and said in done.stderr, f"{line}: {done.stderr}")


def about(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def test_ctrl_c_ends_what_has_started_nothing(t):
    pipe = t.path("pipe")
    os.mkfifo(pipe)
    for sent in (signal.SIGINT, signal.SIGTERM):
        waiting = subprocess.Popen([t.loligo, "lab", "run", pipe], stderr=subprocess.PIPE)
        try:
            # It looks out for signals, and sleeps where nobody writes to the pipe.
            until(lambda: int(about(waiting.pid)["SigCgt"], 16) & 2 and about(waiting.pid)["State"][0] == "S", "a blocked start")
            waiting.send_signal(sent)
            equal(waiting.wait(BOUND), 130, f"the exit code after {sent}")
        finally:
            waiting.kill()
            waiting.communicate()


ODD = ["x ; y", "a#b", "a\\b", "C:\\dir\\", '"abc', "'abc", '"a" b', '"q"', "a=b", "[osd]", "$pid", "0/0", "on", "010", "64K"]


def test_ceph_reads_each_value_as_it_is_written(t):
    study, conf = t.path("odd.yaml"), t.path("odd.conf")
    for value in ODD:
        # A JSON string is a YAML string too. Another option follows: a value must not swallow it.
        text = TINY.replace("loligo: {store: mem}", "ceph: {release: 16.2, store: memstore}").split("parametric:")[0]
        with open(study, "w", encoding="utf-8") as f:
            f.write(text + f"default: {{client: {{rbd_default_pool: {json.dumps(value)}, rbd_default_order: 23}}}}\n")
        plan = lab(t, "run", study, "--dry-run").stdout
        with open(conf, "w", encoding="utf-8") as f:
            f.write("# Written" + plan.split("# Written")[1].split("\n== ")[0])
        for name, wanted in (("rbd_default_pool", value), ("rbd_default_order", "23")):
            words = ["ceph-conf", "-c", conf, "--name", "client.admin", "--lookup", name]
            done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND, check=False)
            read = done.stdout.rstrip("\n")
            # It puts its own number in the place of $pid.
            expect(read == wanted or value == "$pid" and read.isdigit(), f"{value!r}: {name} is {read!r} {done.stderr}")


def test_what_can_not_be_exported_leaves_what_was_there(t):
    kept = t.path("good.csv")
    with open(kept, "w", encoding="utf-8") as f:
        f.write("kept")
    lab(t, "export", t.path("nothing"), "--out", kept, code=1)
    equal(open(kept, encoding="utf-8").read(), "kept", "the file")
