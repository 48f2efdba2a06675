"""Modelled devices: fio over a shell against the model's own figures.

    cargo build --release -p devmodel --example figures && cargo build --release -p device --example nbd
    python3 tests/modelled.py --shell device                       # the table of docs/performance.md
    python3 tests/modelled.py --shell device --models disk-7200 --patterns random-read --seconds 5 --check 5
    python3 tests/modelled.py --shell fuse --loligo target/release/loligo

The shell `device` is the product's device layer, reached through an NBD door (an example, no part of the product) by
fio's nbd engine. The shell `fuse` is `loligo lab device` below a loop device with direct I/O, as other programs get it; it
needs root and /dev/fuse. What the way there costs is measured first, without a model, and given to the model as the time that
the program takes between a completion and its next request: so a model's figures are told with that overhead and
without. Files lie in memory where /dev/shm is there, so that the real I/O isn't slower than the model.
"""
import argparse
import json
import os
import shutil
import signal
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
PREFIX = []  # before the programs that are measured


def example(name):
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(target, "release", "examples", name)


def figure(model, pattern, args, think_us):
    """Requests a second that the model alone gives."""
    # A sequential run must cover the same zones; a random one gives a mean the better the longer it is.
    seconds = args.seconds if "sequential" in pattern else max(args.seconds, 60)
    if args.loligo:
        command = [args.loligo, "lab", "device", "--figures", "--json", "--size", str(SIZE), "--model", model,
                   "--think-us", str(round(think_us)), "--warm-up-s", str(args.warm_up), "--time-s", str(seconds)]
        rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
        return next(row["iops"] for row in rows if row["pattern"] == pattern)
    command = [example("figures"), "--size", str(SIZE), "--pattern", pattern, "--think", str(think_us),
               "--warm-up", str(args.warm_up), "--time", str(seconds), model]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()
    return float(dict(zip(lines[0].split("\t"), lines[1].split("\t")))["requests_s"])


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
        self.loligo, self.model, self.loop = loligo, model or "none", None

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="loligo-modelled-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.disk = os.path.join(self.dir, "disk")
        command = PREFIX + [self.loligo, "lab", "device", "--model", self.model, "--size", str(SIZE), "--backing",
                            os.path.join(self.dir, "bytes"), "--mount", self.disk]
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
    command = PREFIX + ["fio", "--name=x", *door.fio, f"--rw={rw}", f"--bs={block}",
               f"--iodepth={depth}", f"--size={SIZE}", f"--fsync={fsync}", "--time_based", "--norandommap",
               "--random_generator=tausworthe64", f"--ramp_time={warm_up}", f"--runtime={seconds}",
               "--output-format=json", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=warm_up + seconds + 60)
    if done.returncode:
        raise RuntimeError(f"fio: {done.stderr or done.stdout}")
    text = done.stdout[done.stdout.index("{"):]
    return json.loads(text)["jobs"][0]["read" if "read" in rw else "write"]


def way_there(behind, pattern, args):
    """Microseconds that a request alone takes without a model. Between two the program sleeps, as it does while a device
    works: what waking up costs belongs to the way."""
    pattern = pattern.removesuffix("-32").removesuffix("-flush")
    sleep_us = 100 if pattern.startswith("random") else 2000
    with behind(None) as door:
        seen = fio(door, pattern, 1, min(args.seconds, 3), f"--thinktime={sleep_us}")
    return seen["lat_ns"]["mean"] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shell", choices=["device", "fuse"], default="device")
    parser.add_argument("--loligo", help="the program, for the shell fuse")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--patterns", nargs="+", choices=list(PATTERNS), default=list(PATTERNS))
    parser.add_argument("--seconds", type=int, default=20, help="how long fio measures")
    parser.add_argument("--warm-up", type=int, default=5, help="how long it runs before that")
    parser.add_argument("--check", type=float, help="fail if fio is further from the model's figure, per cent")
    parser.add_argument("--realtime", action="store_true",
                        help="run fio and the shell before all other programs (chrt), where others use the machine")
    args = parser.parse_args()
    if args.realtime:
        PREFIX.extend(["chrt", "--fifo", "10"])

    if (args.shell == "fuse") != bool(args.loligo):
        parser.error("--loligo goes with --shell fuse")
    behind = Door if args.shell == "device" else lambda model: Fuse(args.loligo, model)
    overhead = {pattern: way_there(behind, pattern, args) for pattern in args.patterns}
    print("| model | pattern | model alone, 1/s | way there, us | model with it, 1/s | fio, 1/s | ratio |")
    print("|---|---|---|---|---|---|---|")
    wrong = []
    for model in args.models:
        for pattern in args.patterns:
            alone = figure(model, pattern, args, 0)
            expected = figure(model, pattern, args, overhead[pattern])
            with behind(model) as door:
                seen = fio(door, pattern, args.warm_up, args.seconds)["iops"]
            ratio = seen / expected
            print(f"| {model} | {pattern} | {alone:,.1f} | {overhead[pattern]:.0f} | {expected:,.1f} | {seen:,.1f} "
                  f"| {ratio:.3f} |", flush=True)
            if args.check and abs(ratio - 1) * 100 > args.check:
                wrong.append(f"{model} {pattern}: {ratio:.3f}")
    if wrong:
        sys.exit("further from the model's figures than allowed: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
