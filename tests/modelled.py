"""Modelled devices: fio over a shell against the model's own figures.

    cargo build --release -p loligo -p hotpath --bins --example nbd
    python3 tests/modelled.py --shell device --loligo target/release/loligo       # the tables of docs/performance.md
    python3 tests/modelled.py --shell fuse --loligo target/release/loligo
    python3 tests/modelled.py --shell fuse --loligo target/release/loligo --models ssd --patterns random-read --check 5

The shell `device` is the product's device layer, reached through an NBD door (an example, no part of the product) by
fio's nbd engine. What the door takes is measured first, without a model, and given to the model as the time that the
program takes between a completion and its next request; so its figures are told with that and without.

The shell `fuse` is `loligo lab device` below a loop device with direct I/O, as other programs get it; it needs root and
/dev/fuse. What the way there takes is measured first too (`loligo lab device --overhead`, as a study does), and taken off by the
shell: fio is held against the model alone.

Files lie in memory where /dev/shm is there, so that the real I/O isn't slower than the model.

The column "withheld" is the share of the time in which something on this machine was ready to run and had no processor:
the kernel's pressure figure and, on a virtual machine, the time that its host gave to others. What a program is late for that
reason is neither the model's nor the shell's. `--check P` measures a row that is further than P per cent off again, three
times in all, while something is withheld; if none of them fits, one may be late by what was withheld besides, 20 per cent at
the most.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = ["disk-7200", "disk-7200-write-back", "raid0-of-4", "ssd"]
PATTERNS = {  # fio's words for devmodel's standard patterns
    "sequential-read": ("read", "1M", 1, 0),
    "sequential-write": ("write", "1M", 1, 0),
    "random-read": ("randread", "4k", 1, 0),
    "random-read-32": ("randread", "4k", 32, 0),
    "random-write": ("randwrite", "4k", 1, 0),
    "random-write-32": ("randwrite", "4k", 32, 0),
    "random-write-flush": ("randwrite", "4k", 1, 1),
}
SIZE = 80 << 30
ROUNDS_MAX = 3  # of a row that is to be checked, while processors are withheld
LATE_MAX = 20  # per cent that a row may be late because of that
QUIET = 0.005  # the share that is withheld on a machine where nobody else runs
PREFIX = []  # before the programs that are measured


def example(name):
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(target, "release", "examples", name)


def figure(model, pattern, args, think_us):
    """What the model alone gives."""
    # A sequential run must cover the same zones; a random one gives a mean the better the longer it is.
    seconds = args.seconds if "sequential" in pattern else max(args.seconds, 60)
    command = [args.loligo, "lab", "device", "--figures", "--json", "--size", str(SIZE), "--model", model,
               "--think-us", str(round(think_us)), "--warm-up-s", str(args.warm_up), "--time-s", str(seconds)]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
    return next(row for row in rows if row["pattern"] == pattern)


class Door:
    """The device layer behind an NBD socket, over a file of its own; gone with the `with`."""

    def __init__(self, model):
        self.model = model

    def __enter__(self):
        if not os.path.exists(example("nbd")):
            raise RuntimeError(f"{example('nbd')} is missing: see the top of this file")
        self.dir = tempfile.mkdtemp(prefix="loligo-modelled-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        socket = os.path.join(self.dir, "s")
        command = PREFIX + [example("nbd"), socket, os.path.join(self.dir, "disk"), str(SIZE)]
        self.process = subprocess.Popen(command + ([self.model] if self.model else []), stdout=subprocess.PIPE)
        self.fio = ["--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}"]
        deadline = time.monotonic() + 20
        while not os.path.exists(socket):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.__exit__()
                raise RuntimeError("the NBD door did not open")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Fuse:
    """`loligo lab device` below a loop device; gone with the `with`."""

    def __init__(self, loligo, model):
        self.loligo, self.model, self.loop = loligo, model, None

    def __enter__(self):
        done = subprocess.run(PREFIX + [self.loligo, "lab", "device", "--overhead"], check=True, capture_output=True,
                              text=True, timeout=60)
        self.way = done.stdout.split()
        self.dir = tempfile.mkdtemp(prefix="loligo-modelled-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.disk = os.path.join(self.dir, "disk")
        command = PREFIX + [self.loligo, "lab", "device", "--model", self.model, "--size", str(SIZE), "--backing",
                            os.path.join(self.dir, "bytes"), "--mount", self.disk, *self.way]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            if not self.process.stdout.readline():
                raise RuntimeError("there is no modelled disk")
            command = ["losetup", "--find", "--show", "--direct-io=on", self.disk]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        except BaseException:
            self.__exit__()
            raise
        self.loop = done.stdout.strip()
        self.fio = ["--ioengine=libaio", "--direct=1", f"--filename={self.loop}"]
        return self

    def __exit__(self, *_):
        # What is still under way need not take the model's time.
        self.process.send_signal(signal.SIGUSR1)
        if self.loop:
            subprocess.run(["losetup", "--detach", self.loop], check=False, timeout=60)
        self.process.terminate()
        try:
            self.process.communicate(timeout=30)
        finally:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.dir, ignore_errors=True)


def fio(door, pattern, warm_up, seconds, *more):
    """What fio sees."""
    rw, block, depth, fsync = PATTERNS[pattern]
    # The engine libaio hands a flush to another thread: the way there that is fio's own.
    engine = ["--ioengine=psync"] if fsync and isinstance(door, Fuse) else []
    command = PREFIX + ["fio", "--name=x", *door.fio, *engine, f"--rw={rw}", f"--bs={block}",
               f"--iodepth={depth}", f"--size={SIZE}", f"--fsync={fsync}", "--time_based", "--norandommap",
               "--random_generator=tausworthe64", f"--ramp_time={warm_up}", f"--runtime={seconds}",
               "--output-format=json", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=warm_up + seconds + 60)
    if done.returncode:
        raise RuntimeError(f"fio: {done.stderr or done.stdout}")
    text = done.stdout[done.stdout.index("{"):]
    return json.loads(text)["jobs"][0]


def withheld_us():
    """Microseconds, since the machine's start, in which somebody waited for a processor."""
    with open("/proc/stat", encoding="ascii") as f:
        stolen = int(f.readline().split()[8]) * 1_000_000 // os.sysconf("SC_CLK_TCK")
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as f:
            return stolen + int(f.readline().split("total=")[1])
    except OSError:  # a kernel without it
        return stolen


class Round:
    """One run of fio: what it saw, and the share of its time in which processors were withheld."""

    def __init__(self, args, behind, model, pattern):
        with behind(model) as door:
            before, start = withheld_us(), time.monotonic()
            job = fio(door, pattern, args.warm_up, args.seconds)["read" if "read" in pattern else "write"]
            self.withheld = min((withheld_us() - before) / 1e6 / (time.monotonic() - start), 1)
        self.iops, self.latency = job["iops"], job["clat_ns"]["percentile"]["50.000000"]
        self.way = getattr(door, "way", None)

    def fits(self, expected, percent, late=0):
        """Whether it is no further off than so many per cent, and `late` more if it is slow."""
        return -percent - late <= (self.iops / expected - 1) * 100 <= percent

    def fits_but_for_others(self, expected, percent):
        """Whether it fits, or is late by no more than what was withheld."""
        return self.fits(expected, percent, min(self.withheld * 100, LATE_MAX))


def rounds(args, behind, model, pattern, expected):
    """As many as asked for; or, if one is to be checked, up to three until one fits."""
    if not args.check or args.rounds > 1:
        return [Round(args, behind, model, pattern) for _ in range(args.rounds)]
    done = []
    while len(done) < ROUNDS_MAX:
        done.append(Round(args, behind, model, pattern))
        if done[-1].fits(expected, args.check):
            return done[-1:]
        if done[-1].withheld < QUIET:
            break
    return [r for r in done if r.fits_but_for_others(expected, args.check)][:1] or done[-1:]


def door_takes(pattern, alone, args):
    """Microseconds that a request takes through the door without a model. Between two the program sleeps for as long as
    the model takes: what waking up costs belongs to the way, and the longer all sleep, the more it costs."""
    flushes = pattern.endswith("-flush")
    deep = pattern.endswith("-32")
    pattern = pattern.removesuffix("-32")
    sleep_us = 100 if deep else min(max(alone["mean_ns"] // 1000, alone["flush_mean_ns"] // 1000, 100), 20000)
    with Door(None) as door:
        job = fio(door, pattern, 1, min(args.seconds, 3), f"--thinktime={sleep_us}")
    request = job["read" if "read" in pattern else "write"]["lat_ns"]["mean"]
    # Writes and flushes come by turns.
    return (request + job["sync"]["lat_ns"]["mean"]) / 2e3 if flushes else request / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shell", choices=["device", "fuse"], default="device")
    parser.add_argument("--loligo", required=True, help="the program")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--patterns", nargs="+", choices=list(PATTERNS), default=list(PATTERNS))
    parser.add_argument("--seconds", type=int, default=20, help="how long fio measures")
    parser.add_argument("--warm-up", type=int, default=5, help="how long it runs before that")
    parser.add_argument("--rounds", type=int, default=1, help="how often; the median counts")
    parser.add_argument("--check", type=float, help="fail if fio is further from the model's figure, per cent")
    parser.add_argument("--realtime", action="store_true",
                        help="run fio and the shell before all other programs (chrt), where others use the machine")
    args = parser.parse_args()
    if args.realtime:
        PREFIX.extend(["chrt", "--fifo", "10"])

    fuse = args.shell == "fuse"
    behind = (lambda model: Fuse(args.loligo, model)) if fuse else Door
    columns = ["model", "pattern", "model alone, 1/s"] + ([] if fuse else ["door, us", "model with it, 1/s"])
    columns += ["fio, 1/s", "ratio"] + (["from", "to"] if args.rounds > 1 else []) + ["median latency, ratio", "withheld"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    wrong = []
    for model in args.models:
        for pattern in args.patterns:
            alone = figure(model, pattern, args, 0)
            row = [model, pattern, f"{alone['iops']:,.1f}"]
            expected = alone["iops"]
            if not fuse:
                door_us = door_takes(pattern, alone, args)
                expected = figure(model, pattern, args, door_us)["iops"]
                row += [f"{door_us:.0f}", f"{expected:,.1f}"]
            seen = rounds(args, behind, model, pattern, expected)
            middle = sorted(seen, key=lambda r: r.iops)[len(seen) // 2]
            ratios = [r.iops / expected for r in seen]
            row += [f"{middle.iops:,.1f}", f"{middle.iops / expected:.3f}"]
            row += [f"{x:.3f}" for x in (min(ratios), max(ratios))] if args.rounds > 1 else []
            row += [f"{statistics.median(r.latency for r in seen) / alone['p50_ns']:.3f}", f"{middle.withheld:.1%}"]
            print("| " + " | ".join(row) + " |", flush=True)
            if args.check and not middle.fits_but_for_others(expected, args.check):
                wrong.append(f"{model} {pattern}: {middle.iops / expected:.3f}, {middle.withheld:.1%} withheld")
    if fuse:
        print("\nThe way, taken off in the last row:", *seen[-1].way)
    if wrong:
        sys.exit("further from the model's figures than allowed: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
