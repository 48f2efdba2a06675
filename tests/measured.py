"""The systems that measure.py starts by turns, and what its measures share."""
import glob
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CEPH_CLUSTER = os.path.join(HERE, "peers", "ceph-cluster.sh")
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


def note(words):
    print(words, file=sys.stderr, flush=True)


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def rss_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) / 1024


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Loligo:
    name = "loligo"

    def __init__(self, program, place, durable):
        self.durable = durable
        self.program, self.dir, self.port = program, tempfile.mkdtemp(dir=place), free_port()
        self.conf = os.path.join(self.dir, "ceph.conf")

    def up(self, store, osds, *args):
        subprocess.run([self.program, "up", "--dir", self.dir, "--detach", "--mon-addr", f"127.0.0.1:{self.port}",
                        "--store", {"durable": self.durable}.get(store, store), "--osds", str(osds),
                        "--set", "mon_data_avail_warn=0", *args], check=True, stdout=subprocess.DEVNULL)

    def pids(self):
        done = subprocess.run([self.program, "status", self.dir, "-f", "json"], capture_output=True, check=True)
        return {"monitor and OSDs": json.loads(done.stdout)["pid"]}

    def osd_pids(self):
        return list(self.pids().values())

    def down(self):
        subprocess.run([self.program, "stop", self.dir], check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(self.dir, ignore_errors=True)


class Ceph:
    def __init__(self, release, place):
        self.name, self.release, self.dir = f"Ceph {release}", release, tempfile.mkdtemp(dir=place)
        # Its daemons take ports from here on; some hundred above are very likely free where this one is.
        self.port = 20000 + os.getpid() * 100 % 12000
        self.conf = os.path.join(self.dir, "ceph.conf")

    def up(self, store, osds):
        store = {"durable": "bluestore", "mem": "memstore"}[store]
        subprocess.run(["bash", CEPH_CLUSTER, "start", self.dir, "--release", self.release, "--osds", str(osds),
                        "--store", store, "--base-port", str(self.port)], check=True, stdout=subprocess.DEVNULL)

    def pids(self):
        found = {}
        for path in sorted(glob.glob(os.path.join(self.dir, "*.pid"))):
            with open(path, encoding="ascii") as f:
                found[os.path.basename(path)[:-4]] = int(f.read())
        return found

    def osd_pids(self):
        return [pid for name, pid in self.pids().items() if name.startswith("osd.")]

    def down(self):
        subprocess.run(["bash", CEPH_CLUSTER, "stop", self.dir], check=False)
        shutil.rmtree(self.dir, ignore_errors=True)


def quiet(pids):
    """Waits until the daemons have nothing left to do from before (removing a pool goes on for a while)."""
    for _ in range(60):
        before = cpu_seconds(pids)
        time.sleep(0.5)
        if cpu_seconds(pids) - before < 0.03:
            return


def ceph(system, *args):
    subprocess.run(["ceph", *args], env={**os.environ, "CEPH_CONF": system.conf}, check=True, capture_output=True,
                   timeout=60)


def spread(values, digits):
    middle = statistics.median(values)
    return f"{middle:.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def table(head, body):
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    for line in [head, *body]:
        print("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))))
    print()


def names(rows):
    return list(dict.fromkeys(r["system"] for r in rows))
