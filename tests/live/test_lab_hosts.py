"""Client hosts of the lab: two network namespaces with an ssh server each stand for hosts; the lab lives in a third."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys

from harness import BOUND, equal, expect, until
from namespaces import network

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
LISTEN = "10.77.0.1"

STUDY = """
name: hosts
title: Clients on two hosts
listen: %s
systems:
  - {name: ours, loligo: {store: mem}, osds: 1}
workloads:
  - name: bench
    rados_bench: {hosts: [%s], object_size: 4K, in_flight: 16, seconds: %d, phases: [write, rand_read], pg_num: 8}
design: {blocks: 1, defaults_per_block: 1, confirm: no}
"""

SSHD_CONFIG = """
ListenAddress {address}:{port}
HostKey {dir}/host_key
AuthorizedKeysFile {dir}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
SetEnv TMPDIR={dir}/tmp-{name} HOME={dir} {env}
"""

SSH_CONFIG = """
Host {name}
  HostName {address}
  Port {port}
"""

SSH_DEFAULTS = """
Host *
  User root
  IdentityFile {dir}/user_key
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""

# /run/sshd must be there: on a mount that only this one sees.
START_SSHD = 'mount -t tmpfs tmpfs /run; mkdir /run/sshd; exec "$@"'


class Hosts:
    """The lab's namespace, and hosts h1, h2 linked to it."""

    def __init__(self, t):
        self.t, self.namespaces = t, {}
        self.lab = network(t)
        self.ip(self.lab, f"addr add {LISTEN}/32 dev lo")
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", t.path(key)], check=True, timeout=BOUND)
        config = ""
        for n in (1, 2):
            name, namespace, net = f"h{n}", network(t), f"10.77.{n}"
            self.namespaces[name] = namespace
            self.ip(self.lab, f"link add to-{name} type veth peer name eth0 netns {namespace.holder.pid}")
            self.ip(self.lab, f"addr add {net}.1/24 dev to-{name}")
            self.ip(self.lab, f"link set to-{name} up")
            self.ip(namespace, f"addr add {net}.2/24 dev eth0")
            self.ip(namespace, "link set eth0 up")
            self.ip(namespace, f"route add default via {net}.1")
            self.serve(name, f"{net}.2", 22, "")
            config += SSH_CONFIG.format(name=name, address=f"{net}.2", port=22)
        # A host that has nothing but a shell and what every load needs.
        os.mkdir(t.path("bare-bin"))
        for program in ("sh", "setsid", "timeout", "mktemp", "rm", "env", "head"):
            os.symlink(shutil.which(program), os.path.join(t.path("bare-bin"), program))
        self.namespaces["bare"] = self.namespaces["h2"]
        self.serve("bare", "10.77.2.2", 2222, f"PATH={t.path('bare-bin')}")
        config += SSH_CONFIG.format(name="bare", address="10.77.2.2", port=2222)
        config += SSH_CONFIG.format(name="closed", address="10.77.1.2", port=9)
        with open(t.path("ssh_config"), "w", encoding="utf-8") as f:
            f.write(config + SSH_DEFAULTS.format(dir=t.dir))

    def ip(self, namespace, words):
        subprocess.run([*namespace.prefix, "ip", *words.split()], check=True, timeout=BOUND)

    def serve(self, name, address, port, env):
        os.mkdir(self.t.path(f"tmp-{name}"))
        config = self.t.path(f"sshd-{name}")
        with open(config, "w", encoding="utf-8") as f:
            f.write(SSHD_CONFIG.format(dir=self.t.dir, name=name, address=address, port=port, env=env))
        server = subprocess.Popen([*self.namespaces[name].prefix, "unshare", "--mount", "sh", "-euc", START_SSHD, "sh",
                                   SSHD, "-D", "-e", "-f", config], stderr=subprocess.DEVNULL)
        self.t.cleanups.append(lambda: (server.terminate(), server.wait(BOUND)))
        knock = [*self.lab.prefix, "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"]
        until(lambda: subprocess.run(knock, stderr=subprocess.DEVNULL, timeout=BOUND, check=False).returncode == 0,
              f"an ssh server on {name}", 30)

    def processes(self, name):
        """Command lines of what runs in a host's namespace, but for what the test itself keeps there."""
        wanted = os.stat(self.namespaces[name].path).st_ino
        found = []
        for path in glob.glob("/proc/[0-9]*/ns/net"):
            try:
                with open(path.replace("ns/net", "cmdline"), encoding="utf-8", errors="replace") as f:
                    line = f.read().replace("\0", " ").strip()
                if os.stat(path).st_ino == wanted and line and "sshd" not in line and sys.executable not in line:
                    found.append(line)
            except OSError:
                pass
        return found

    def directories(self):
        return glob.glob(self.t.path("tmp-*/*"))

    def argv(self, study, *args):
        return [*self.lab.prefix, self.t.loligo, "lab", "run", study, "--ssh-config", self.t.path("ssh_config"), *args]

    def run(self, study, *args, code=0):
        done = subprocess.run(self.argv(study, *args), capture_output=True, text=True, timeout=120, cwd=self.t.dir)
        expect(done.returncode == code, f"lab run: code {done.returncode}, expected {code}: {done.stdout[-1500:]} "
               f"{done.stderr[-1500:]}")
        return done

    def study(self, hosts, seconds=2, listen=LISTEN):
        path = self.t.path("hosts.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(STUDY % (listen, hosts, seconds))
        return path


def test_clients_run_on_hosts_and_leave_nothing_there(t):
    hosts = Hosts(t)
    study, out = hosts.study("h1, h2"), t.path("results")
    # Of a run that was killed and, should this test fail, is not cleaned up after by the next one.
    stop = [*hosts.lab.prefix, t.loligo, "stop", os.path.join(out, "work", "data", "loligo")]
    t.cleanups.append(lambda: subprocess.run(stop, capture_output=True, timeout=BOUND, check=False))
    first = subprocess.Popen(hosts.argv(study, "--out", out), cwd=t.dir, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    t.cleanups.append(lambda: (first.kill(), first.wait(BOUND)))

    def loaded():
        return all(any("rados -p" in line for line in hosts.processes(h)) for h in ("h1", "h2"))
    until(loaded, "a load on both hosts", 90)
    equal(len(hosts.directories()), 2, "directories on the hosts")
    first.send_signal(signal.SIGKILL)
    first.wait(BOUND)
    until(lambda: not hosts.processes("h1") + hosts.processes("h2") + hosts.directories(),
          "the hosts are as they were, after the lab was killed", 30)

    # The next start cleans up here, and runs the trial to its end.
    hosts.run(study, "--out", out)
    with open(os.path.join(out, "trials.jsonl"), encoding="utf-8") as f:
        record = [json.loads(line) for line in f][-1]
    equal(record["outcome"]["status"], "ok", f"{record['outcome']}")
    equal((record["parameters"]["hosts"], record["parameters"]["instances"]), ("h1 h2", 2), "where clients ran")
    expect("ceph version 16.2" in record["build"]["client"], f"{record['build']}")
    equal([m["phase"] for m in record["measurements"]], ["write", "rand_read"], "phases")
    for m in record["measurements"]:
        client = m["cpu"]["by_process"]["client"]
        expect(m["operations"] > 100 and client["user_s"] + client["system_s"] > 0.05, f"{m}")
        expect(0 < m["start_skew_s"] < 0.5, f"the hosts began {m['start_skew_s']} s apart")
    equal(hosts.processes("h1") + hosts.processes("h2") + hosts.directories(), [], "what is left on the hosts")


def test_hosts_that_can_not_be_used_start_nothing(t):
    hosts = Hosts(t)
    out = t.path("none")
    said = hosts.run(hosts.study("h1, bare, closed, nowhere.invalid"), "--out", out, code=1).stderr
    expect("rados is not installed on the host bare: apt-get install ceph-common" in said, said)
    expect("the host closed can't be used" in said and "refused" in said, said)
    expect("the host nowhere.invalid can't be used" in said, said)
    expect("h1" not in said and "nothing was started" in said and not os.path.exists(out), said)
    said = hosts.run(hosts.study("h1", listen="192.0.2.7"), "--out", out, code=1).stderr
    expect("servers can't listen at 192.0.2.7" in said, said)
    said = hosts.run(hosts.study("h1", listen="127.0.0.1"), "--out", out, code=1).stderr
    expect("give the study the key 'listen'" in said, said)
