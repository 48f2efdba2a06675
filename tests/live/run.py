#!/usr/bin/env python3
"""Runs the live tests: unmodified Ceph clients against clusters of ours.

usage: run.py --loligo PROGRAM [--peers 16.2,18.2] [--soak] [--seed N] [--cores N] [--store STORE]
              [--lanes N] [NAME...]
A NAME picks tests whose name contains it. Needs root; cleans up after itself, also after a failure.

Tests run in lanes, several at a time: most of them wait more than they compute. A lane is a process with a network
namespace of its own, so no port of one is another's. What a test measures by the clock is marked `alone`, and runs when
the lanes have ended.
"""
import argparse
import glob
import importlib.util
import multiprocessing
import os
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True  # the tree is the user's

import harness  # noqa: E402  # pylint: disable=wrong-import-position
import namespaces  # noqa: E402  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))


def collect():
    tests = []
    for path in sorted(glob.glob(os.path.join(HERE, "test_*.py"))):
        name = os.path.basename(path)[:-3]
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        tests += [(f"{name}.{n}", f) for n, f in vars(module).items() if n.startswith("test_") and callable(f)]
    return tests


def run_one(name, function, options, cores):
    label = name if cores is None else f"{name} [--cores {cores}]"
    t = harness.Test(options.loligo, options.peers.split(","), options.soak, options.seed, cores)
    began = time.monotonic()
    try:
        function(t)
    except harness.Failure as failure:
        words = str(failure)
    except Exception:  # pylint: disable=broad-except
        words = traceback.format_exc()
    else:
        words = None
    finally:
        t.close()
    took = time.monotonic() - began
    verdict = f"{'ok    ' if words is None else 'FAILED'} {took:6.1f} s  {label}"
    # In one piece, for another lane says something too.
    harness.say(verdict if words is None else verdict + "\n    " + words.replace("\n", "\n    "))
    return words is None


def chosen(options):
    """The runs asked for: (name, function, cores)."""
    for name, function in collect():
        if options.names and not any(n in name for n in options.names):
            continue
        if getattr(function, "soak_only", False) and not options.soak:
            continue
        if getattr(function, "default_store_only", False) and options.store:
            continue
        # Every live test has a run with one core; those marked so have one with several too.
        for cores in [options.cores] if options.cores else [1, 2] if getattr(function, "both_cores", False) else [1]:
            yield name, function, cores


def lane(options, runs, taken, passed):
    """Runs what no other lane has taken."""
    namespaces.enter_own_network()
    while True:
        with taken.get_lock():
            number, taken.value = taken.value, taken.value + 1
        if number >= len(runs):
            return
        if run_one(*runs[number][:2], options, runs[number][2]):
            with passed.get_lock():
                passed.value += 1


def in_lanes(options, runs):
    """How many of the runs pass."""
    fork = multiprocessing.get_context("fork")
    taken, passed = fork.Value("i", 0), fork.Value("i", 0)
    # Daemons end with this process.
    lanes = [fork.Process(target=lane, args=(options, runs, taken, passed), daemon=True) for _ in range(options.lanes)]
    for process in lanes:
        process.start()
    for process in lanes:
        process.join()
    return passed.value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", required=True)
    parser.add_argument("--peers", default="16.2")
    parser.add_argument("--soak", action="store_true", help="the long forms, and the tests that are only run so")
    parser.add_argument("--seed", type=int, default=int(time.time()) & 0xFFFF)
    parser.add_argument("--cores", type=int, default=None, help="run with this many cores only")
    parser.add_argument("--store", default=None, help="run with this durable store in place of the default one")
    parser.add_argument("--lanes", type=int, default=1 + min(2, os.cpu_count() or 1), help="tests at a time (default: %(default)s)")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("the live tests need root (network namespaces, roots of other releases)")
    options.loligo = os.path.abspath(options.loligo)
    harness.STORE = options.store
    harness.raise_file_limit()
    # An end from outside unwinds too, so that no cluster is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    harness.say(f"live tests with the clients of {options.peers}, seed {options.seed} (--seed {options.seed} repeats it)")
    tests = collect()
    for unknown in (n for n in options.names if not any(n in name for name, _ in tests)):
        parser.error(f"no test's name contains {unknown!r}; names are a file of tests/live and a function in it, as "
                     "test_basic.test_...")
    runs = list(chosen(options))
    alone = [run for run in runs if options.lanes < 2 or getattr(run[1], "alone", False)]
    passed = in_lanes(options, [run for run in runs if run not in alone]) if len(alone) < len(runs) else 0
    passed += sum(run_one(name, function, options, cores) for name, function, cores in alone)
    harness.say(f"{passed} passed, {len(runs) - passed} failed")
    sys.exit(1 if passed < len(runs) or not passed else 0)


if __name__ == "__main__":
    main()
