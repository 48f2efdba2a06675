"""What every live test stands on: a cluster of ours in a directory of its own, and Ceph's clients of a release.

A test is a function `test_...(t)` in a module `test_*.py` here; `t` is a Test. It fails by raising. LOLIGO_TEST_KEEP=1
in the environment keeps the tests' directories, to look at the logs; LOLIGO_TEST_ON: see peer_cluster.py.
"""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from leftovers import clear
from loaded_ceph import LoadedCeph

HERE = os.path.dirname(os.path.abspath(__file__))
IN_ROOT = os.path.join(os.path.dirname(HERE), "peers", "in-root.sh")
# Debian's own Python, for what uses its librados binding; the one that runs the tests may be another.
PYTHON = "/usr/bin/python3"


# Seconds that a test waits for what must come. It ends a test that would hang and is no verdict: on a machine that is a
# hundred times slower a test waits longer, and passes. Use it, or more, wherever a bound is needed.
BOUND = 180
DEFAULT_STORE = "block"
# The durable store that the tests are run on, if it is another one: run.py --store.
STORE = None


class Failure(Exception):
    """What was expected and what came instead."""


def expect(condition, words):
    if not condition:
        raise Failure(words)


def equal(got, want, what):
    expect(got == want, f"{what}: got {got!r}, expected {want!r}")


class Result:
    """A finished command."""

    def __init__(self, args, code, out, err):
        self.args, self.code, self.out, self.err = args, code, out, err

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def words(self):
        return self.err.decode(errors="replace")

    def json(self):
        return json.loads(self.out)


def log_beside(conf):
    """What a cluster of ours has logged; nothing where there is none."""
    path = os.path.join(os.path.dirname(conf), "log")
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as f:
        return f.read()
    return ""


class Client:
    """Ceph's programs of one release, told nothing but a ceph.conf."""

    # By process, since each has a network of its own, and release.
    loaded = {}

    def __init__(self, release, conf):
        self.release, self.conf = release, conf

    def prefix(self):
        return [] if self.release == "16.2" else ["bash", IN_ROOT, self.release]

    def argv(self, *args):
        return self.prefix() + ["env", f"CEPH_CONF={self.conf}"] + list(args)

    def start_and_wait(self, args, stdin, timeout):
        if args[0] != "ceph":
            return subprocess.run(self.argv(*args), input=stdin, capture_output=True, timeout=timeout)
        key = (os.getpid(), self.release)
        if key not in self.loaded:
            self.loaded[key] = LoadedCeph(self.prefix())
        env = {name: value for name, value in os.environ.items() if name.startswith("CEPH")}
        return self.loaded[key].run(args[1:], {**env, "CEPH_CONF": self.conf}, stdin, timeout)

    def run(self, *args, code=0, stdin=b"", timeout=BOUND):
        """Runs a program; fails unless it ends with `code` (None: any)."""
        try:
            done = self.start_and_wait(args, stdin, timeout)
        except subprocess.TimeoutExpired as e:
            raise Failure(f"{self.release}: {' '.join(args)}: no end within {timeout} s; "
                          f"said {e.stdout!r} {e.stderr!r}; the cluster's log: {log_beside(self.conf)[-2000:]}") from e
        result = Result(args, done.returncode, done.stdout, done.stderr)
        if code is not None and done.returncode != code:
            raise Failure(f"{self.release}: {' '.join(args)}: code {done.returncode}, expected {code}: "
                          f"{result.text[-600:]} {result.words[-600:]}")
        return result

    def ceph(self, *args, **kw):
        return self.run("ceph", "--connect-timeout", str(BOUND), *args, **kw)

    def ceph_json(self, *args, **kw):
        return self.ceph(*args, "-f", "json", **kw).json()

    def rados(self, *args, **kw):
        return self.run("rados", *args, **kw)

    def start(self, *args, **kw):
        """Starts a program in the background, its output in files."""
        return subprocess.Popen(self.argv(*args), **kw)


class Cluster:
    """`loligo up` on a directory."""

    # The exit code of a start after which the monitor serves without any OSD.
    ALONE = 4

    def __init__(self, loligo, directory, prefix=()):
        self.loligo, self.dir, self.prefix = loligo, directory, list(prefix)
        self.conf = os.path.join(directory, "ceph.conf")
        # What the last start printed.
        self.said = ""

    def argv(self, *args):
        return self.prefix + [self.loligo, *args]

    def up(self, *args, code=0, env=None, timeout=BOUND):
        """Starts it in the background. Each test's ports are free ones of its own."""
        args = list(args)
        if "--port" not in args and "--mon-addr" not in args:
            args += ["--port", "0"]
        # A test machine's disk may be nearly full; one test sets this otherwise.
        args = ["--set", "mon_data_avail_warn=0", "--set", "mon_data_avail_crit=0"] + self.with_store(args)
        done = subprocess.run(self.argv("up", "--dir", self.dir, "--detach", *args), capture_output=True,
                              timeout=timeout, env={**os.environ, **(env or {})})
        if done.returncode != code:
            raise Failure(f"up {args}: code {done.returncode}, expected {code}: {done.stdout!r} {done.stderr!r}"
                          f" log: {self.log()[-2000:]}")
        self.said = done.stdout.decode()
        return Result(args, done.returncode, done.stdout, done.stderr)

    def with_store(self, args):
        """With run.py --store, clusters that would have the default store have that one."""
        if not STORE or os.path.exists(os.path.join(self.dir, "cluster.json")) and "--store" not in args:
            return args
        if "--store" not in args:
            return ["--store", STORE, *args]
        at = args.index("--store") + 1
        return args[:at] + [STORE if args[at] == DEFAULT_STORE else args[at]] + args[at + 1:]

    def metadata(self, osd):
        """The file with an OSD's metadata: without it, or damaged, its store can't be opened."""
        files = (os.path.join(self.dir, f"osd.{osd}", name) for name in ("meta.redb", "block"))
        return next(file for file in files if os.path.exists(file))

    def pid(self):
        done = subprocess.run(self.argv("status", self.dir, "-f", "json"), capture_output=True, timeout=BOUND)
        return json.loads(done.stdout)["pid"] if done.stdout else None

    def kill(self, sig=signal.SIGKILL):
        """Kills the process by its id and waits until it is gone."""
        pid = self.pid()
        expect(pid, "the cluster runs no more")
        os.kill(pid, sig)
        for _ in range(BOUND * 100):
            try:
                # Its files, and the directory's lock, are held until its last thread is gone.
                threads = len(os.listdir(f"/proc/{pid}/task"))
                with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                    if f.read().rsplit(")", 1)[1].split()[0] == "Z" and threads <= 1:
                        return
            except OSError:
                return
            time.sleep(0.01)
        raise Failure(f"process {pid} is still there {BOUND} s after signal {sig}")

    def stop(self):
        subprocess.run(self.argv("stop", self.dir), capture_output=True, timeout=BOUND)

    def log(self):
        return log_beside(self.conf)

    def rss_bytes(self):
        with open(f"/proc/{self.pid()}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) * 1024

    def mon_addr(self):
        with open(self.conf, encoding="ascii") as f:
            host, port = re.search(r"mon_host = \[?v2:([0-9.]+):(\d+)", f.read()).groups()
        return host, int(port)


class Test:
    """What a test function is given."""

    def __init__(self, loligo, releases, soak, seed, cores):
        self.loligo, self.releases, self.soak, self.seed, self.cores = loligo, releases, soak, seed, cores
        self.dir = tempfile.mkdtemp(prefix="loligo-test-")
        self.cleanups = []
        self.clusters = 0

    def cluster(self, *args, start=True, prefix=(), directory=None, **kw):
        """A cluster of this test's own, stopped at its end."""
        self.clusters += 1
        peer = os.environ.get("LOLIGO_TEST_ON")
        directory = directory or os.path.join(self.dir, f"c{self.clusters}")
        if peer:
            from peer_cluster import PeerCluster  # pylint: disable=import-outside-toplevel,cyclic-import
            cluster = PeerCluster(peer, directory, prefix)
        else:
            cluster = Cluster(self.loligo, directory, prefix)
        self.cleanups.append(cluster.stop)
        if start:
            if self.cores and "--cores" not in args:
                args = ("--cores", str(self.cores), *args)
            cluster.up(*args, **kw)
        return cluster

    def client(self, cluster, release="16.2"):
        return Client(release, cluster.conf)

    def clients(self, cluster):
        return [Client(r, cluster.conf) for r in self.releases]

    def clients_in_turn(self, cluster, turn):
        """Of two releases one, the other at the next turn and with the next number of cores: with one core or two, each
        turn meets both. Of another number, and in the long form, all of them."""
        every = self.clients(cluster)
        return every if self.soak or len(every) != 2 else [every[(turn + self.cores) % 2]]

    def path(self, name):
        return os.path.join(self.dir, name)

    def close(self):
        for cleanup in reversed(self.cleanups):
            with contextlib.suppress(Exception):
                cleanup()
        with contextlib.suppress(Exception):
            clear(self.dir)
        if not os.environ.get("LOLIGO_TEST_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)


def until(condition, words, seconds=BOUND, step=0.05):
    """Waits for a condition, with a bound and the words for when it does not come, or what makes them then."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise Failure(f"not within {seconds} s: {words() if callable(words) else words}")
        time.sleep(step)


def raise_file_limit(n=65536):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(n, hard)), hard))


def say(words):
    print(words, flush=True)
    sys.stdout.flush()
