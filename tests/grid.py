#!/usr/bin/env python3
"""The articles' grid in short form on a fresh cluster: 4 KiB, 128 KiB, 4 MiB at 16 and 256 in flight, write then
random read, with Debian's `rados bench`.

usage: grid.py --loligo PROGRAM [--seconds N] [--store simple|mem] [-f json]
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SIZES = (4096, 131072, 4194304)
DEPTHS = (16, 256)
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


class Progress:
    """One line that tells what runs; rewritten on a terminal, a line a cell elsewhere."""

    def __init__(self, cells):
        self.cells, self.done, self.tty = cells, 0, sys.stderr.isatty()

    def show(self, words):
        line = f"[{self.done + 1:2}/{self.cells}] {words}"
        if self.tty:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def cell_done(self, words):
        self.done += 1
        end = "\r\x1b[K" if self.tty else ""
        print(f"{end}[{self.done:2}/{self.cells}] {words}", file=sys.stderr, flush=True)


def bench(env, pool, kind, size, depth, seconds, progress):
    """Runs one cell of `rados bench`; answers its output."""
    args = ["rados", "-p", pool, "bench", str(seconds), kind, "-t", str(depth)]
    if kind == "write":
        args += ["-b", str(size), "--no-cleanup"]
    process = subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # The client is asked for `seconds`; one that hangs is ended, and says so.
    watchdog = threading.Timer(seconds + 60, process.kill)
    watchdog.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        fields = line.split()
        if len(fields) >= 8 and fields[0].isdigit():
            progress.show(f"{kind} {size_name(size)} x {depth}: second {fields[0]}, {fields[5]} MB/s")
    watchdog.cancel()
    if process.wait() != 0:
        sys.exit("".join(lines[-20:]) + f"\n{' '.join(args)}: ended with code {process.returncode}")
    return "".join(lines)


def number(pattern, text):
    found = re.search(pattern, text)
    if not found:
        sys.exit(f"rados bench printed no '{pattern}':\n{text}")
    return float(found[1])


def measure(env, pid, pool, kind, size, depth, seconds, progress):
    before = cpu_seconds(pid)
    text = bench(env, pool, kind, size, depth, seconds, progress)
    ops = number(r"Total (?:writes|reads) made:\s+(\d+)", text)
    took = number(r"Total time run:\s+([\d.]+)", text)
    return {
        "kind": kind, "size_bytes": size, "in_flight": depth, "ops": ops, "seconds": took,
        "ops_per_second": ops / took, "mb_per_second": ops * size / took / 1e6,
        "latency_ms_mean": number(r"Average Latency\(s\):\s+([\d.e-]+)", text) * 1e3,
        "latency_ms_max": number(r"Max latency\(s\):\s+([\d.e-]+)", text) * 1e3,
        "server_cpu_us_per_op": (cpu_seconds(pid) - before) / ops * 1e6,
    }


def grid(env, pid, seconds, sizes=SIZES, depths=DEPTHS):
    progress = Progress(len(sizes) * len(depths) * 2)
    rows = []
    for size in sizes:
        for depth in depths:
            pool = f"grid-{size}-{depth}"
            subprocess.run(["ceph", "osd", "pool", "create", pool, "64"], env=env, check=True, capture_output=True)
            subprocess.run(["ceph", "osd", "pool", "application", "enable", pool, "rados"], env=env, check=True,
                           capture_output=True)
            for kind in ("write", "rand"):
                row = measure(env, pid, pool, kind, size, depth, seconds, progress)
                progress.cell_done(f"{kind} {size_name(size)} x {depth}: {row['ops_per_second']:.0f} operations/s")
                rows.append(row)
            subprocess.run(["ceph", "osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it"], env=env,
                           check=True, capture_output=True)
    return rows


def table(rows):
    head = ("", "size", "in flight", "operations/s", "MB/s", "mean ms", "max ms", "server CPU us/op")
    body = [(r["kind"], size_name(r["size_bytes"]), str(r["in_flight"]), f"{r['ops_per_second']:.0f}",
             f"{r['mb_per_second']:.1f}", f"{r['latency_ms_mean']:.2f}", f"{r['latency_ms_max']:.1f}",
             f"{r['server_cpu_us_per_op']:.0f}") for r in rows]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths)) for line in [head, *body])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loligo", required=True)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--store", default="simple")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)))
    parser.add_argument("-f", "--format", choices=("plain", "json"), default="plain")
    options = parser.parse_args()
    place = tempfile.mkdtemp(prefix="loligo-run-")
    directory = os.path.join(place, "cluster")
    try:
        print("== starting a cluster in a temporary place", file=sys.stderr, flush=True)
        began = time.monotonic()
        up = subprocess.run([options.loligo, "up", "--dir", directory, "--detach", "--port", "0", "--store",
                             options.store], stdout=sys.stderr, check=False)
        if up.returncode != 0:
            sys.exit(up.returncode)
        print(f"   ({time.monotonic() - began:.2f} s)", file=sys.stderr)
        env = {**os.environ, "CEPH_CONF": os.path.join(directory, "ceph.conf")}
        status = subprocess.run([options.loligo, "status", directory, "-f", "json"], capture_output=True, check=True)
        pid = json.loads(status.stdout)["pid"]
        sizes, depths = ([int(n) for n in text.split(",")] for text in (options.sizes, options.depths))
        rows = grid(env, pid, options.seconds, sizes, depths)
        print(json.dumps(rows, indent=1) if options.format == "json" else table(rows))
    finally:
        subprocess.run([options.loligo, "stop", directory], capture_output=True, check=False)
        shutil.rmtree(place, ignore_errors=True)
    print(f"\nThis cluster is gone. To keep one:  {options.loligo} up --dir DIR --detach\n"
          "  then export CEPH_CONF=DIR/ceph.conf and use ceph and rados as ever; `loligo stop DIR` ends it.",
          file=sys.stderr)


if __name__ == "__main__":
    main()
