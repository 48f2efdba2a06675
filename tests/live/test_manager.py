"""The monitor as a manager: what librados and `ceph tell mgr` ask of one, answered to stock clients."""
import json
import os
import subprocess

from harness import BOUND, equal, expect, until
from test_block_store import flip, loligo
from test_scrub import deep_scrub_pool, health, healthy

HERE = os.path.dirname(os.path.abspath(__file__))


class Daemon:
    """A service daemon by a release's librados: daemon NAME of service `gate`."""

    def __init__(self, t, client, cluster, name):
        with open(os.path.join(HERE, "service_daemon.py"), encoding="utf-8") as f:
            # As an argument: a peer's root does not have the repository.
            argv = ("/usr/bin/python3", "-c", f.read(), cluster.conf, "gate", name)
        self.process = client.start(*argv, stdin=subprocess.PIPE, text=True)
        t.cleanups.append(self.process.kill)

    def say(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def leave(self):
        self.process.stdin.close()
        equal(self.process.wait(BOUND), 0, "the daemon's end")


class Commander:
    """One librados client that stays connected."""

    def __init__(self, cluster):
        command = ["/usr/bin/python3", os.path.join(HERE, "manager_client.py"), cluster.conf]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, **command):
        self.say(**command)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        equal(self.process.wait(BOUND), 0, "the client's end")


def test_a_manager_is_there_and_answers(t):
    cluster = t.cluster("--osds", "2")
    for client in t.clients(cluster):
        pool = f"p{client.release}"
        healthy(cluster, client, pool)
        stat = client.ceph_json("mgr", "stat")
        equal((stat["available"], stat["active_name"], stat["num_standby"]), (True, "a", 0), "mgr stat")
        dump = client.ceph_json("mgr", "dump")
        equal((dump["available"], dump["active_name"]), (True, "a"), "mgr dump")
        expect("mgr: a(active, since " in client.ceph("-s").text, client.ceph("-s").text)
        equal(client.ceph_json("status")["mgrmap"]["available"], True, "status")
        equal([m["name"] for m in client.ceph_json("mgr", "metadata")], ["a"], "mgr metadata")
        equal(sum(client.ceph_json("versions")["mgr"].values()), 1, "versions")
        equal(client.ceph_json("mgr", "services"), {}, "mgr services")
        fsid = client.ceph("fsid").text.strip()
        for target in ("mgr", "mgr.a"):
            equal(client.ceph("tell", target, "fsid").text.strip(), fsid, f"tell {target} fsid")
            equal(client.ceph_json("tell", target, "config", "get", "mon_max_pg_per_osd"),
                  {"mon_max_pg_per_osd": "250"}, f"tell {target} config get")
        expect("pg ls" in client.ceph("tell", "mgr", "help").text, "tell mgr help")
        refused = client.ceph("mgr", "fail", code=None)
        expect(refused.code != 0 and "'mgr fail'" in refused.words, refused.words)
        equal(client.rados("list-inconsistent-pg", pool).json(), [], "PGs of a pool that is well")
        expect("MGR_DOWN" not in health(client), "MGR_DOWN")


def test_modules_of_the_manager_are_refused_with_a_sentence_where_they_were_waited_for(t):
    cluster = t.cluster("--osds", "1")
    for client in t.clients(cluster):
        for words in (("perf", "image", "iostat"), ("trash", "purge", "schedule", "status")):
            refused = client.run("rbd", *words, code=None)
            # `rbd` says of some that the module is off, which it makes of EOPNOTSUPP.
            said = any(why in refused.words for why in ("is not supported yet", "module is not enabled"))
            expect(refused.code != 0 and said, f"rbd {words}: {refused.words}")
        refused = client.ceph("crash", "archive", "x", code=None)
        expect(refused.code != 0 and "not supported yet" in refused.words, refused.words)


def test_librados_commands_the_manager_across_a_stop_and_a_kill(t):
    cluster = t.cluster("--osds", "1")
    client = t.client(cluster)
    healthy(cluster, client, "p")
    fsid = client.ceph("fsid").text
    commander = Commander(cluster)
    t.cleanups.append(commander.process.kill)
    equal(commander.ask(prefix="fsid"), {"code": 0, "data": fsid, "words": ""}, "fsid")
    equal(commander.ask(prefix="no such")["code"], -22, "an unknown command")
    epoch = client.ceph_json("mgr", "dump")["epoch"]
    for end in (cluster.stop, cluster.kill):
        end()
        # Asked while nobody is there, and answered by the next start.
        commander.say(prefix="fsid")
        cluster.up()
        equal(commander.answer()["data"], fsid, "after a start")
        then, epoch = epoch, client.ceph_json("mgr", "dump")["epoch"]
        expect(epoch > then, f"epoch {then} and then {epoch}")
        made = commander.ask(prefix="osd pool create", pool=f"q{epoch}", pg_num=1)
        equal(made["code"], 0, made)
    # OSDs report to the monitor as before.
    until(lambda: client.ceph_json("status")["pgmap"]["pgs_by_state"] == [{"state_name": "active+clean", "count": 6}],
          "all PGs active and clean")
    commander.close()


def test_a_damaged_pg_is_listed(t):
    cluster = t.cluster("--osds", "1", "--store", "block")
    client = t.client(cluster)
    healthy(cluster, client, "p")
    with open(t.path("data"), "wb") as f:
        f.write(os.urandom(1 << 20))
    client.rados("-p", "p", "put", "damaged", t.path("data"))
    cluster.stop()
    dump = json.loads(loligo(cluster, "store", "dump", cluster.dir, "--osd", "0", "--object", "damaged", "-f", "json"))
    flip(cluster.metadata(0), dump["osd.0"]["objects"][0]["extents"][0]["device_offset"] + 77)
    cluster.up()
    until(lambda: client.ceph_json("status")["pgmap"]["num_pgs"] == 4, "the PGs")
    pgid = client.ceph_json("osd", "map", "p", "damaged")["pgid"]
    deep_scrub_pool(client, "p")
    for one in t.clients(cluster):
        equal(one.rados("list-inconsistent-pg", "p").json(), [pgid], f"the PG, by {one.release}")


def test_a_service_that_registers_ends_without_waiting(t):
    """A service daemon that ends waits for the manager's answer."""
    cluster = t.cluster("--osds", "1")
    script = ("import rados, sys\n"
              "with rados.Rados(conffile=sys.argv[1]) as c:\n"
              "    c.service_daemon_register('tests', 'one', {'made': 'here'})\n"
              "    c.service_daemon_update({'busy': 'no'})\n"
              "    assert c.mgr_command('{\"prefix\": \"fsid\"}', b'')[0] == 0\n")
    subprocess.run(["/usr/bin/python3", "-c", script, cluster.conf], check=True, timeout=BOUND)


def test_services_are_shown_until_they_leave_or_fall_silent(t):
    cluster = t.cluster("--osds", "1")
    for client in t.clients(cluster):
        nothing = client.ceph_json("service", "dump")
        equal(nothing["services"], {}, "services before any came")
        client.ceph("config", "set", "mgr", "mgr_service_beacon_grace", "60")
        first, second = (Daemon(t, client, cluster, name) for name in ("one", "two"))

        def gate():
            return client.ceph_json("service", "dump")["services"].get("gate", {"daemons": {"summary": ""}})["daemons"]

        until(lambda: set(gate()) == {"summary", "one", "two"}, "both daemons")
        one = gate()["one"]
        equal((one["metadata"]["made"], one["task_status"]), ("here", {}), "a daemon")
        expect(one["metadata"]["ceph_version"].startswith(f"ceph version {client.release}."), one)
        expect(one["gid"] > 0 and one["start_epoch"] > nothing["epoch"], one)
        shown = client.ceph("-s").text
        expect("    gate: 2 portals active (1 hosts)\n" in shown and "    mon:  1 daemons" in shown, shown)
        equal(client.ceph_json("status")["servicemap"]["services"]["gate"]["daemons"], gate(), "status")
        versions = client.ceph_json("versions")
        equal(versions["gate"], {one["metadata"]["ceph_version"]: 2}, "versions")
        equal(sum(versions["overall"].values()), 5, "versions overall")
        first.say({"busy": "a little"})

        def said(name="one"):
            return client.ceph_json("service", "status")["gate"][name]["status"]

        until(lambda: said() == {"busy": "a little"}, "the daemon's state")
        equal(said("two"), {}, "the other's")
        beacon = client.ceph_json("service", "status")["gate"]["two"]["last_beacon"]
        until(lambda: client.ceph_json("service", "status")["gate"]["two"]["last_beacon"] > beacon, "its beacons")
        # One leaves and is gone; of one that was killed nobody knows more than that it is silent.
        first.leave()
        until(lambda: set(gate()) == {"summary", "two"}, "the daemon that left")
        second.say("die")
        second.process.wait(BOUND)
        expect("two" in gate(), "a killed daemon is shown within the grace")
        client.ceph("config", "set", "mgr", "mgr_service_beacon_grace", "1")
        until(lambda: client.ceph_json("service", "dump")["services"] == {}, "the killed daemon")


def test_services_come_back_after_a_start(t):
    cluster = t.cluster("--osds", "1")
    client = t.client(cluster)
    daemon = Daemon(t, client, cluster, "one")
    daemon.say({"busy": "no"})
    for end in (None, cluster.stop, cluster.kill):
        if end:
            end()
            cluster.up()
        until(lambda: client.ceph_json("service", "status").get("gate", {}).get("one", {}).get("status") == {"busy": "no"},
              "the daemon")
    daemon.leave()
