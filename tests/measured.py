"""The systems that measure.py starts by turns, and what its measures share."""
import glob
import json
import mmap
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
# Of each OSD, ours and Ceph's: peers/ceph-cluster.sh gives as much. What more memory would change is not the question.
OSD_MEMORY = 2 << 30
# Of a store's file that is written from end to end before it is measured; measure.py's --store-gib.
WHOLE_BYTES = 10 << 30


def note(words):
    print(words, file=sys.stderr, flush=True)


def parent_and_ticks(path):
    """A process's parent and the CPU that it has used, by its `/proc/PID/stat`."""
    with open(path, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[1]), int(fields[11]) + int(fields[12])


def cpu_seconds(pids):
    return sum(parent_and_ticks(f"/proc/{pid}/stat")[1] for pid in pids) / TICKS


class KernelThreads:
    """CPU of the kernel's own threads, all of them, from here on: with nothing else to do on the machine, what they do for the
    server that is measured. For a write that is to be durable that is the end of each request and the device's flush."""

    def __init__(self):
        self.before = self.ticks()

    @staticmethod
    def ticks():
        found = {}
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                parent, ticks = parent_and_ticks(path)
            except (FileNotFoundError, ProcessLookupError):
                continue
            # Their parent is kthreadd.
            if parent == 2:
                found[path] = ticks
        return found

    def cpu_seconds(self):
        # One that has ended meanwhile is left out.
        return sum(ticks - self.before.get(path, 0) for path, ticks in self.ticks().items()) / TICKS


def rss_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) / 1024


def touch_memory():
    """Lets the kernel have 4 GiB at hand, or half of what is free. A virtual machine whose host takes unused pages away pays many
    microseconds for each when it is touched again: whoever comes first would pay for the others."""
    with open("/proc/meminfo", encoding="ascii") as f:
        available = int(re.search(r"MemAvailable:\s+(\d+) kB", f.read())[1]) << 10
    size = min(available // 2, 4 << 30) // mmap.PAGESIZE * mmap.PAGESIZE
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Loligo:
    name = "loligo"

    def __init__(self, program, place, durable):
        self.durable = durable
        self.program, self.dir, self.port = program, tempfile.mkdtemp(dir=place), free_port()
        self.conf = os.path.join(self.dir, "ceph.conf")

    def up(self, store, osds, *args, whole=False):
        """`whole`: the store's file is written from end to end first, as a device in use is."""
        store = self.durable if store == "durable" else store
        if whole and store == "block":
            args = (*args, "--osd-size", str(WHOLE_BYTES), "--preallocate")
        subprocess.run([self.program, "up", "--dir", self.dir, "--detach", "--mon-addr", f"127.0.0.1:{self.port}",
                        "--store", store, "--osds", str(osds),
                        "--set", "mon_data_avail_warn=0", "--set", f"osd_memory_target={OSD_MEMORY}", *args], check=True, stdout=subprocess.DEVNULL)

    def pids(self):
        done = subprocess.run([self.program, "status", self.dir, "-f", "json"], capture_output=True, check=True)
        return {"monitor and OSDs": json.loads(done.stdout)["pid"]}

    def osd_pids(self):
        return list(self.pids().values())

    def stop(self):
        subprocess.run([self.program, "stop", self.dir], check=False, stdout=subprocess.DEVNULL)

    def down(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class Ceph:
    def __init__(self, release, place):
        self.name, self.release, self.dir = f"Ceph {release}", release, tempfile.mkdtemp(dir=place)
        # Its daemons take ports from here on; some hundred above are very likely free where this one is.
        self.port = 20000 + os.getpid() * 100 % 12000
        self.conf = os.path.join(self.dir, "ceph.conf")

    def up(self, store, osds, whole=False):
        """`whole`: the only OSD's file is written from end to end first, as a device in use is."""
        store = {"durable": "bluestore", "mem": "memstore"}[store]
        args = ["--block-size", str(WHOLE_BYTES), "--conf", f"bluestore_block_path = {self.write_whole()}"] if whole else []
        subprocess.run(["bash", CEPH_CLUSTER, "start", self.dir, "--release", self.release, "--osds", str(osds),
                        "--store", store, "--base-port", str(self.port), *args], check=True, stdout=subprocess.DEVNULL)

    def write_whole(self):
        path = os.path.join(self.dir, "block")
        subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=4M", f"count={WHOLE_BYTES >> 22}", "oflag=direct"],
                       check=True, stderr=subprocess.DEVNULL)
        return path

    def pids(self):
        found = {}
        for path in sorted(glob.glob(os.path.join(self.dir, "*.pid"))):
            with open(path, encoding="ascii") as f:
                found[os.path.basename(path)[:-4]] = int(f.read())
        return found

    def osd_pids(self):
        return [pid for name, pid in self.pids().items() if name.startswith("osd.")]

    def stop(self):
        subprocess.run(["bash", CEPH_CLUSTER, "stop", self.dir], check=False)

    def down(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class WrittenBytes:
    """What processes give to disks, also what they write last: the kernel's count of a control group they are moved to."""

    def __init__(self, pids):
        self.pids = pids
        self.unified = not os.path.isdir("/sys/fs/cgroup/blkio")
        self.root = "/sys/fs/cgroup" if self.unified else "/sys/fs/cgroup/blkio"
        self.group = os.path.join(self.root, f"loligo-measure-{os.getpid()}")

    def __enter__(self):
        if self.unified:
            with open(os.path.join(self.root, "cgroup.subtree_control"), "w", encoding="ascii") as f:
                f.write("+io")
        os.mkdir(self.group)
        if not self.unified:
            self.count_on(os.stat(tempfile.gettempdir()).st_dev)
        self.move(self.group, self.pids)
        return self

    def count_on(self, device):
        """Newer kernels count for a disk only once some group has a limit there: this one's is above what any disk does."""
        number = f"{os.major(device)}:{os.minor(device)}"
        disk = os.path.realpath(f"/sys/dev/block/{number}")
        if os.path.exists(os.path.join(disk, "partition")):
            with open(os.path.join(os.path.dirname(disk), "dev"), encoding="ascii") as f:
                number = f.read().strip()
        with open(os.path.join(self.group, "blkio.throttle.write_bps_device"), "w", encoding="ascii") as f:
            f.write(f"{number} {1 << 40}")

    def __exit__(self, *_):
        with open(os.path.join(self.group, "cgroup.procs"), encoding="ascii") as f:
            self.move(self.root, f.read().split())
        os.rmdir(self.group)

    @staticmethod
    def move(group, pids):
        for pid in pids:
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as f:
                f.write(str(pid))

    def bytes(self):
        name, words = ("io.stat", r"wbytes=(\d+)") if self.unified else ("blkio.throttle.io_service_bytes", r" Write (\d+)")
        with open(os.path.join(self.group, name), encoding="ascii") as f:
            written = sum(map(int, re.findall(words, f.read())))
        if not written:
            sys.exit("measure.py: the kernel counts no bytes of a control group here")
        return written


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


def bench_totals(out):
    """What `rados bench`, or `loligo bench` in its way, says at its end: operations, and seconds that they took."""
    return (int(re.search(r"Total (?:writes|reads) made:\s+(\d+)", out)[1]),
            float(re.search(r"Total time run:\s+([\d.]+)", out)[1]))


def rados_bench(system, pool, kind, size, depth, seconds, *args):
    """The output of `rados bench`; what it writes stays."""
    argv = ["rados", "-p", pool, "bench", str(seconds), kind, "-t", str(depth), *args]
    if kind == "write":
        argv += ["-b", str(size), "--no-cleanup"]
    return subprocess.run(argv, env={**os.environ, "CEPH_CONF": system.conf}, capture_output=True, text=True,
                          timeout=seconds + 120, check=True).stdout


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
