"""`loligo bench` on real Ceph with cephx: the key from where rados takes it, wrong keys, capabilities, tickets that end."""
import json
import os
import subprocess

from harness import BOUND, Client, equal, expect
from peer_cluster import PeerCluster

POOL = "p"
PARTIAL = 3


def user(client, name, *caps):
    """A user's keyring, beside the cluster's ceph.conf."""
    path = os.path.join(os.path.dirname(client.conf), f"{name}.keyring")
    client.ceph("auth", "get-or-create", f"client.{name}", *caps, "-o", path)
    return path


class Bench:
    def __init__(self, t, cluster):
        self.loligo, self.cluster, self.environment = t.loligo, cluster, {}

    def run(self, *args, code=0):
        done = subprocess.run([self.loligo, "bench", "-c", self.cluster.conf, "-p", POOL, *args], capture_output=True,
                              timeout=BOUND, env={**os.environ, **self.environment})
        expect(done.returncode == code, f"bench {args}: code {done.returncode}, expected {code}: "
                                        f"{done.stdout[-800:]!r} {done.stderr[-800:]!r}")
        return done.stderr.decode()

    def json(self, *args):
        done = subprocess.run([self.loligo, "bench", "-c", self.cluster.conf, "-p", POOL, "-f", "json", *args],
                              capture_output=True, timeout=BOUND, env={**os.environ, **self.environment})
        expect(done.returncode == 0, f"bench {args}: code {done.returncode}: {done.stderr[-800:]!r}")
        return json.loads(done.stdout)


def test_bench_on_a_cluster_with_cephx(t):
    real = PeerCluster("16.2", t.path("real"))
    t.cleanups.append(real.stop)
    # The monitor's own order of modes: a client that can't seal frames asks for checksums. The tickets end soon.
    real.script("start", "--release", "16.2", "--osds", "1", "--base-port", str(real.base_port + 97), "--store",
                "memstore", "--auth", "cephx", "--conf", "ms_mon_service_mode = secure crc",
                "--conf", "auth_service_ticket_ttl = 8", "--conf", "auth_mon_ticket_ttl = 8")
    admin_keyring = os.path.join(real.dir, "keyring")
    client = Client("16.2", real.conf)
    os.environ["CEPH_KEYRING"] = admin_keyring
    t.cleanups.append(lambda: os.environ.pop("CEPH_KEYRING", None))
    client.ceph("osd", "pool", "create", POOL, "8")
    client.ceph("osd", "pool", "application", "enable", POOL, "rados")
    reader = user(client, "reader", "mon", "allow r", "osd", "allow r")
    stranger = user(client, "stranger", "mon", "allow r")
    del os.environ["CEPH_KEYRING"]

    bench = Bench(t, real)
    # Longer than its tickets: it gets new ones, and loses no operation.
    result = bench.json("--keyring", admin_keyring, "20", "mixed", "-b", "4K", "--objects", "4", "-t", "4")
    equal(result["errors"], {}, "errors")
    expect(result["total"]["operations"] > 0, "something was measured")
    # Where rados looks.
    bench.environment = {"CEPH_KEYRING": admin_keyring}
    bench.run("1", "write", "-b", "4K", "--no-cleanup")
    bench.run("1", "rand")
    bench.environment = {}
    bench.run("--id", "reader", "--keyring", reader, "1", "rand")

    # What is refused is refused at once, and says why.
    for args, why in [
            ([], "auth_client_required asks for cephx; looked in /etc/ceph/ceph.client.admin.keyring"),
            (["--keyring", reader], f"{reader}: it has no key for client.admin"),
            (["--keyring", "/nowhere"], "keyring /nowhere: No such file"),
            (["--id", "reader", "--keyring", stolen(t, reader)], "the key is not accepted for client.reader"),
            (["--id", "nobody", "--keyring", renamed(t, reader, "nobody")], "not accepted for client.nobody"),
    ]:
        expect(why in (said := bench.run(*args, "1", "write", "-b", "4K", code=1)), f"{args}: {said}")
    # A key that is right, and may not write.
    for args in (["--id", "reader", "--keyring", reader], ["--id", "stranger", "--keyring", stranger]):
        said = bench.run(*args, "1", "write", "-b", "4K", code=PARTIAL)
        expect("this client may not do that" in said, f"{args}: {said}")
    bench.run("--keyring", admin_keyring, "cleanup")


def stolen(t, keyring):
    """A keyring with the right name and another key."""
    path = t.path("stolen")
    key = subprocess.run(["ceph-authtool", "--gen-print-key"], capture_output=True, check=True).stdout.decode().strip()
    with open(keyring, encoding="ascii") as f, open(path, "w", encoding="ascii") as out:
        out.writelines(f"\tkey = {key}\n" if "key =" in line else line for line in f)
    return path


def renamed(t, keyring, name):
    path = t.path("renamed")
    with open(keyring, encoding="ascii") as f, open(path, "w", encoding="ascii") as out:
        out.writelines(f"[client.{name}]\n" if line.startswith("[") else line for line in f)
    return path
