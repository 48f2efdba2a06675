"""A real Ceph cluster where a test expects one of ours: tells a wrong test from a wrong cluster.

`LOLIGO_TEST_ON=16.2` (or 18.2, 20.2) makes the tests that know how to run on one do so.
"""
import glob
import json
import os
import re
import signal
import subprocess

from harness import Client, Cluster, Failure, HERE, Result, expect, until

PEERS = os.path.join(os.path.dirname(HERE), "peers")
SCRIPT = os.path.join(PEERS, "ceph-cluster.sh")


class PeerCluster(Cluster):
    """tests/peers/ceph-cluster.sh behind the methods of Cluster that the tests use."""

    base_port = int(os.environ.get("LOLIGO_TEST_PORT", "26700"))

    def __init__(self, release, directory, prefix=()):
        super().__init__("", directory, prefix)
        self.release, self.made = release, False

    def script(self, *args):
        done = subprocess.run([*self.prefix, "bash", SCRIPT, args[0], self.dir, *args[1:]], capture_output=True,
                              timeout=300)
        if done.returncode:
            raise Failure(f"ceph-cluster.sh {args}: {done.stdout!r} {done.stderr!r}")

    def daemon(self, program, *args):
        argv = [*self.prefix, "env", f"LOLIGO_BIND={self.dir}", f"CEPH_CONF={self.conf}", "bash",
                os.path.join(PEERS, "in-root.sh"), self.release, program, *args]
        # An OSD of Ceph's does not always start at once after kill -9.
        until(lambda: subprocess.run(argv, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     check=False).returncode == 0, f"{program} {args}", 60, 1)

    def up(self, *args, code=0, env=None, timeout=60):
        """What is said to loligo matters little here, but for the store and the number of OSDs."""
        del env, timeout
        args = list(args)
        store = args[args.index("--store") + 1] if "--store" in args else "simple"
        osds = args[args.index("--osds") + 1] if "--osds" in args else "3"
        if not self.made:
            self.script("start", "--release", self.release, "--osds", osds, "--base-port", str(self.base_port),
                        "--store", "memstore" if store == "mem" else "bluestore", "--block-size", "2147483648")
            self.made = True
        else:
            self.daemon("ceph-mon", "-i", "a")
            self.daemon("ceph-mgr", "-i", "x")
            for path in sorted(glob.glob(os.path.join(self.dir, "osd.*", "whoami"))):
                self.daemon("ceph-osd", "-i", path.split("osd.")[-1].split("/")[0])
            client = Client(self.release, self.conf)
            until(lambda: {s["name"] for s in json.loads(client.run(
                *self.prefix, "ceph", "pg", "stat", "-f", "json").out)["pg_summary"]["num_pg_by_state"]}
                == {"active+clean"}, "every placement group of Ceph's clean", 200, 1)
        return Result(args, code, b"", b"")

    def pids(self):
        for path in glob.glob(os.path.join(self.dir, "*.pid")):
            with open(path, encoding="ascii") as f:
                yield path, int(f.read())

    def kill(self, sig=signal.SIGKILL):
        found = list(self.pids())
        expect(found, "the cluster runs no more")
        for _, pid in found:
            os.kill(pid, sig)
        for path, pid in found:
            while os.path.exists(f"/proc/{pid}"):
                pass
            os.unlink(path)

    def stop(self):
        self.script("stop")

    def log(self):
        return ""

    def rss_bytes(self):
        total = 0
        for _, pid in self.pids():
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                total += int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) * 1024
        return total

    def mon_addr(self):
        return "127.0.0.1", self.base_port
