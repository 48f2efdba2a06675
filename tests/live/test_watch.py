"""Watches and notifies: clients of every release, watchers that die, restarts, clients that are shut out."""
import os
import re
import signal
import subprocess
import time

from harness import HERE, PYTHON, equal, expect, until

POOL = "p"


class Watcher:
    """`rados watch` in the background."""

    def __init__(self, t, client, oid, name):
        self.path = t.path(name)
        with open(self.path, "wb") as out:
            self.process = client.start("rados", "-p", POOL, "watch", oid, stdin=subprocess.PIPE, stdout=out,
                                        stderr=subprocess.STDOUT)
        t.cleanups.append(self.kill)
        until(lambda: "press enter" in self.text(), f"{name} watches: {self.text()}")

    def text(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def end(self):
        self.process.communicate(b"\n", timeout=60)
        equal(self.process.returncode, 0, "rados watch")

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def watchers(client, oid):
    """The addresses of an object's watchers."""
    return re.findall(r"^watcher=(\S+) client\.\d+ cookie=\d+$", client.rados("-p", POOL, "listwatchers", oid).text, re.M)


def with_object(t, *args):
    cluster = t.cluster(*args)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    client.rados("-p", POOL, "create", "o")
    return cluster, client


def test_clients_of_every_release_watch_and_notify(t):
    cluster, client = with_object(t, "--osds", "3")
    several = [Watcher(t, c, "o", f"watch-{c.release}") for c in t.clients(cluster)]
    equal(len(watchers(client, "o")), len(several), "watchers")
    for n, notifier in enumerate(t.clients(cluster)):
        equal(len(watchers(notifier, "o")), len(several), f"watchers that {notifier.release} lists")
        out = notifier.rados("-p", POOL, "notify", "o", f"news-{n}").text
        equal(len(re.findall(r"^reply client\.", out, re.M)), len(several), f"answers: {out}")
        expect("timeout" not in out, out)
    for watcher in several:
        equal(watcher.text().count("NOTIFY"), len(several), f"notifies seen: {watcher.text()}")
        watcher.end()
    equal(watchers(client, "o"), [], "watchers left")


def test_librados_python_binding(t):
    cluster, _ = with_object(t, "--osds", "2")
    done = subprocess.run([PYTHON, os.path.join(HERE, "watch_client.py"), cluster.conf, POOL], capture_output=True,
                          timeout=300)
    equal((done.returncode, done.stdout), (0, b"all notifies were answered\n"), done.stderr.decode()[-2000:])


test_librados_python_binding.both_cores = True


def test_a_watcher_that_dies_is_waited_for_and_then_forgotten(t):
    cluster, client = with_object(t, "--osds", "1", "--set", "osd_client_watch_timeout=15")
    watcher = Watcher(t, client, "o", "watch")
    expect(cluster.pid(), "the cluster runs")
    began = time.monotonic()
    watcher.kill()
    equal(len(watchers(client, "o")), 1, "watchers until the time is over")
    # It waits for the dead watcher, which leaves before the notify's own time is over or is said to have missed it.
    out = client.rados("-p", POOL, "notify", "o", "news", code=None)
    expect("reply client" not in out.text, out.text)
    until(lambda: not watchers(client, "o"), "the dead watcher is forgotten")
    expect(time.monotonic() - began > 8, "a watcher is waited for")
    out = client.rados("-p", POOL, "notify", "o", "news").text
    expect("reply" not in out and "timeout" not in out, out)


def test_a_watch_outlives_a_restart_of_the_cluster(t):
    cluster, client = with_object(t, "--store", "block", "--osds", "1")
    port = str(cluster.mon_addr()[1])
    watcher = Watcher(t, client, "o", "watch")
    cluster.kill()
    cluster.up("--port", port)
    equal(len(watchers(client, "o")), 1, "watchers after the restart")

    def answered():
        out = client.rados("-p", POOL, "notify", "o", "again", code=None).text
        return "reply client" in out
    until(answered, "the watcher has connected again")
    expect("ERROR" not in watcher.text(), watcher.text())
    watcher.end()
    equal(watchers(client, "o"), [], "watchers left")


def test_the_watch_of_a_client_that_is_shut_out_ends_at_once(t):
    _, client = with_object(t, "--osds", "1")
    watcher = Watcher(t, client, "o", "watch")
    addr, = watchers(client, "o")
    began = time.monotonic()
    client.ceph("osd", "blocklist", "add", addr)
    until(lambda: not watchers(client, "o"), "no watcher", 15)
    expect(time.monotonic() - began < 15, "it is not waited for")
    watcher.kill()


def test_an_object_has_no_more_watchers_than_the_limit(t):
    _, client = with_object(t, "--osds", "1", "--set", "osd_object_watchers_max=1")
    Watcher(t, client, "o", "watch")
    refused = client.rados("-p", POOL, "watch", "o", code=None, stdin=b"\n")
    expect("error calling watch" in refused.words + refused.text, refused.words)
