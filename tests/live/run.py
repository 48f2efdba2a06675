#!/usr/bin/env python3
"""Runs the live tests: unmodified Ceph clients against clusters of ours.

usage: run.py --loligo PROGRAM [--peers 16.2,18.2] [--soak] [--seed N] [--cores N] [--store STORE]
              [NAME...]
A NAME picks tests whose name contains it. Needs root; cleans up after itself, also after a failure.
"""
import argparse
import glob
import importlib.util
import os
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True  # the tree is the user's

import harness  # noqa: E402  # pylint: disable=wrong-import-position

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
    harness.say(f"{'ok    ' if words is None else 'FAILED'} {took:6.1f} s  {label}")
    if words is not None:
        harness.say("    " + words.replace("\n", "\n    "))
    return words is None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", required=True)
    parser.add_argument("--peers", default="16.2")
    parser.add_argument("--soak", action="store_true", help="the long forms, and the tests that are only run so")
    parser.add_argument("--seed", type=int, default=int(time.time()) & 0xFFFF)
    parser.add_argument("--cores", type=int, default=None, help="run with this many cores only")
    parser.add_argument("--store", default=None, help="run with this durable store in place of the default one")
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
    passed = failed = 0
    tests = collect()
    for unknown in (n for n in options.names if not any(n in name for name, _ in tests)):
        parser.error(f"no test's name contains {unknown!r}; names are a file of tests/live and a function in it, as "
                     "test_basic.test_...")
    for name, function in tests:
        if options.names and not any(n in name for n in options.names):
            continue
        if getattr(function, "soak_only", False) and not options.soak:
            continue
        if getattr(function, "default_store_only", False) and options.store:
            continue
        # Every live test has a run with one core; those marked so have one with several too.
        runs = [options.cores] if options.cores else [1, 2] if getattr(function, "both_cores", False) else [1]
        for cores in runs:
            if run_one(name, function, options, cores):
                passed += 1
            else:
                failed += 1
    harness.say(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
