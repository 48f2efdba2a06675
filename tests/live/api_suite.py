#!/usr/bin/env python3
"""Ceph's own test programs (Debian's package ceph-test), and which of their tests must pass on a cluster of ours.

tests/api-allow.txt is made of what the same programs pass on a stock cluster of their release that loads all object
classes. This makes it anew for one release (an hour; needs root and that release's root, see tests/peers/peer-root.sh):

    python3 tests/live/api_suite.py record 18.2 [PROGRAM...]
"""
import collections
import contextlib
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile

from harness import Client, HERE, expect

ALLOW = os.path.join(os.path.dirname(HERE), "api-allow.txt")
RELEASES = ("18.2", "20.2")
# What makes every class callable, and room for the pools that the programs make.
SETTINGS = {"osd_class_load_list": "*", "osd_class_default_list": "*", "mon_max_pg_per_osd": "5000"}
RESULT = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([\w/]+\.[\w/]+)", re.MULTILINE)
# A line of the list is a test with the releases that must pass it, or a pattern of tests with why they are left out, of
# the releases that it names or of all.
LINE = re.compile(r"^(?P<program>\w+) (?P<test>\S+)(?P<releases>(?: \d+\.\d+)*)(?: ! (?P<reason>.+))?$")


class Allow:
    """tests/api-allow.txt: for each program the tests of each release, and the patterns that are left out."""

    def __init__(self, path=ALLOW):
        self.tests = collections.defaultdict(lambda: collections.defaultdict(set))
        self.left_out = collections.defaultdict(dict)
        with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as f:
            for line in (line.strip() for line in f):
                if not line or line.startswith("#"):
                    continue
                found = LINE.match(line)
                expect(found, f"{path}: neither a test with its releases nor a pattern with a reason: {line!r}")
                releases = found["releases"].split()
                expect(releases or found["reason"], f"{path}: no release: {line!r}")
                if found["reason"]:
                    self.left_out[found["program"]][found["test"]] = (releases, found["reason"])
                else:
                    self.tests[found["program"]][found["test"]] |= set(releases)

    def of(self, program, release):
        """The tests of `program` that must pass with the clients of `release`."""
        return sorted(test for test, releases in self.tests[program].items() if release in releases
                      and not self.is_left_out(program, release, test))

    def is_left_out(self, program, release, test):
        return any(fnmatch.fnmatchcase(test, pattern) and (not releases or release in releases)
                   for pattern, (releases, _) in self.left_out[program].items())

    def record(self, program, release, passed):
        for releases in self.tests[program].values():
            releases.discard(release)
        for test in passed:
            if not self.is_left_out(program, release, test):
                self.tests[program][test].add(release)

    def write(self, path=ALLOW):
        with open(path, encoding="ascii") as f:
            head = [line for line in f if line.startswith("#")]
        with open(path, "w", encoding="ascii") as f:
            f.writelines(head)
            for program in sorted(set(self.tests) | set(self.left_out)):
                f.write("\n")
                f.writelines(f"{' '.join([program, pattern, *releases])} ! {reason}\n"
                             for pattern, (releases, reason) in sorted(self.left_out[program].items()))
                f.writelines(f"{program} {test} {' '.join(sorted(releases))}\n"
                             for test, releases in sorted(self.tests[program].items()) if releases)


def results(output):
    """Of a program's output, each test's result. A test that failed is named again at the end, with the same word."""
    return {test: result for result, test in RESULT.findall(output)}


def run(client, program, tests, seconds):
    """Runs the tests of one program. Gives what is wrong, a line for each test; nothing if all passed."""
    ran = client.run("timeout", str(seconds), program, f"--gtest_filter={':'.join(tests)}", code=None,
                     timeout=seconds + 60)
    got = results(ran.text)
    wrong = [f"{client.release} {program} {test}: {got.get(test, 'did not run or did not end')}"
             for test in tests if got.get(test) != "OK"]
    if ran.code != 0 and not wrong:
        wrong.append(f"{client.release} {program}: all passed, but it ended with code {ran.code}")
    if wrong:
        wrong.append(excerpt(ran.text, wrong))
    return wrong


def excerpt(output, wrong):
    """The lines around the first failure, for a reader who has only the log."""
    lines = output.splitlines()
    at = next((i for i, line in enumerate(lines) if "Failure" in line or line.startswith("[  FAILED")), len(lines))
    return "\n".join(lines[max(0, at - 3):at + 12] or wrong)


def record(release, programs):
    allow = Allow()
    directory = tempfile.mkdtemp(prefix="loligo-stock-")
    script = ["bash", os.path.join(os.path.dirname(HERE), "peers", "ceph-cluster.sh")]
    # The script shortens names for the sake of file systems; some tests want Ceph's own limits.
    settings = {**SETTINGS, "osd_max_object_name_len": "2048", "osd_max_object_namespace_len": "256"}
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key} = {value}")]
    try:
        subprocess.run([*script, "start", directory, "--release", release, "--store", "memstore", "--base-port", "27000",
                        *conf], check=True)
        client = Client(release, os.path.join(directory, "ceph.conf"))
        for program in programs or sorted(set(allow.tests) | set(allow.left_out)):
            ran = client.run("timeout", "1800", program, "--gtest_filter=-*EC*", code=None, timeout=1900)
            passed = [test for test, result in results(ran.text).items() if result == "OK"]
            print(f"{program}: {len(passed)} passed, code {ran.code}", flush=True)
            allow.record(program, release, passed)
            allow.write()
    finally:
        subprocess.run([*script, "stop", directory], check=False)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] != "record" or sys.argv[2] not in RELEASES:
        sys.exit(__doc__)
    record(sys.argv[2], sys.argv[3:])
