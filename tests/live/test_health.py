"""The health checks that apply, and how soon a cluster is healthy."""
import json
import os
import re
import select
import socket
import statistics
import subprocess
import time

from harness import BOUND, HERE, PYTHON, equal, expect, say, until


def checks(client):
    return {name: c for name, c in client.ceph_json("health", "detail")["checks"].items()}


def wait_for_check(client, name):
    return until(lambda: checks(client).get(name), f"{name}; health is {checks(client)}")


def test_a_fresh_cluster_is_healthy_also_with_pools_of_one_copy(t):
    cluster = t.cluster("--osds", "1")
    for client in t.clients(cluster):
        pool = f"p{client.release}"
        client.ceph("osd", "pool", "create", pool, "8")
        client.ceph("osd", "pool", "application", "enable", pool, "rados")
        client.rados("-p", pool, "put", "x", "/etc/hostname")
        equal(client.ceph("health").text.strip(), "HEALTH_OK", f"health with {client.release}")
        equal(checks(client), {}, "checks")


def test_a_pool_of_one_copy_is_warned_of_when_asked_for(t):
    cluster = t.cluster("--osds", "1", "--set", "mon_warn_on_pool_no_redundancy=true")
    client = t.client(cluster)
    equal(checks(client), {}, "checks without a pool")
    client.ceph("osd", "pool", "create", "single", "8")
    found = wait_for_check(client, "POOL_NO_REDUNDANCY")
    equal(found["severity"], "HEALTH_WARN", "severity")
    expect("1 pool(s) have no replicas configured" in found["summary"]["message"], f"{found}")
    expect("single" in client.ceph("health", "detail").text, "the pool's name in the detail")
    expect("HEALTH_WARN" in client.ceph("-s").text, "ceph -s shows it")


def test_a_monitor_whose_disk_is_low_is_warned_of(t):
    cluster = t.cluster("--osds", "1", "--set", "mon_data_avail_warn=100", "--set", "mon_data_avail_crit=0")
    client = t.client(cluster)
    found = wait_for_check(client, "MON_DISK_LOW")
    equal(found["severity"], "HEALTH_WARN", "severity")
    expect("low on available space" in found["summary"]["message"], f"{found}")
    expect("% avail" in found["detail"][0]["message"], f"{found}")
    expect("HEALTH_WARN" in client.ceph("-s").text, "ceph -s shows it")


def test_a_monitor_whose_disk_is_nearly_full_is_an_error(t):
    cluster = t.cluster("--osds", "1", "--set", "mon_data_avail_crit=100")
    done = subprocess.run(cluster.argv("status", cluster.dir), capture_output=True, check=True, timeout=BOUND)
    expect(b"health: mon a is very low on available space (MON_DISK_CRIT)" in done.stdout, f"status: {done.stdout!r}")
    found = wait_for_check(t.client(cluster), "MON_DISK_CRIT")
    equal(found["severity"], "HEALTH_ERR", "severity")


def test_an_osd_that_does_not_boot_is_down(t):
    cluster = t.cluster("--osds", "3", "--set", "osd_debug_no_boot=1")
    for client in t.clients(cluster):
        found = wait_for_check(client, "OSD_DOWN")
        equal(found["severity"], "HEALTH_WARN", "severity")
        expect("1 osds down" in found["summary"]["message"], f"{found}")
        expect(any("osd.1" in d["message"] for d in found["detail"]), f"{found}")
        status = client.ceph_json("-s")["osdmap"]
        equal((status["num_osds"], status["num_up_osds"]), (3, 2), "OSDs and those up")
        expect("osd.1" in client.ceph("osd", "tree", "down").text, "osd tree down")
    # What was kept from booting boots when it is let.
    cluster.stop()
    cluster.up()
    client = t.client(cluster)
    until(lambda: client.ceph_json("-s")["osdmap"]["num_up_osds"] == 3, "3 OSDs up")
    until(lambda: not checks(client), f"no checks: {checks(client)}")


def test_an_osd_marked_down_comes_back(t):
    cluster = t.cluster("--osds", "2")
    client = t.client(cluster)
    epoch = client.ceph_json("osd", "dump")["epoch"]
    client.ceph("osd", "down", "1")
    until(lambda: client.ceph_json("-s")["osdmap"]["num_up_osds"] == 2, "osd.1 up again")
    expect(client.ceph_json("osd", "dump")["epoch"] >= epoch + 2, "an epoch for down and one for up")
    until(lambda: not checks(client), f"no checks: {checks(client)}")


def test_a_pool_in_use_without_an_application_is_warned_of(t):
    cluster = t.cluster("--osds", "1", "--set", "osd_mon_report_interval=0.2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "plain", "8")
    client.rados("-p", "plain", "put", "x", "/etc/hostname")
    found = wait_for_check(client, "POOL_APP_NOT_ENABLED")
    expect("1 pool(s) do not have an application enabled" in found["summary"]["message"], f"{found}")
    client.ceph("osd", "pool", "application", "enable", "plain", "rados")
    until(lambda: not checks(client), f"no checks: {checks(client)}")


def test_pgs_that_are_taken_from_their_objects_are_down_at_once_until_they_get_them_back(t):
    cluster = t.cluster("--osds", "2", "--store", "mem")
    for client in t.clients(cluster):
        pool = f"p{client.release}"
        client.ceph("osd", "pool", "create", pool, "16")
        client.ceph("osd", "pool", "application", "enable", pool, "rados")
        client.rados("-p", pool, "put", "x", "/etc/hostname")
        said = client.ceph("osd", "out", "1").words
        expect("PGs are down from now on: their objects are on osd.1" in said, f"osd out says so: {said!r}")
        detail = client.ceph("health", "detail").text
        expect("pgs down" in detail and "its objects are on osd.1" in detail, f"health says so: {detail}")
        client.ceph("osd", "in", "1")
        until(lambda: not checks(client), f"no checks: {checks(client)}")
        client.rados("-p", pool, "get", "x", "-")


def test_what_happens_is_in_the_cluster_log_as_in_cephs(t):
    cluster = t.cluster("--osds", "2", "--store", "mem")
    for client in t.clients(cluster):
        # Lines of a watcher come in whole; the file is its standard output.
        path = t.path(f"watched-{client.release}")
        client.ceph("log", "before the watch")
        with open(path, "wb") as out, client.start("ceph", "-w", stdout=out) as watch:
            try:
                def watched():
                    with open(path, encoding="utf-8") as f:
                        return f.read()
                until(lambda: "before the watch" in watched(), f"the last line before; {watched()}")
                expect("boot" not in watched(), f"only the last line: {watched()}")
                client.ceph("osd", "set", "noout")
                client.ceph("osd", "out", "1")
                until(lambda: "Health check failed: noout flag(s) set (OSDMAP_FLAGS)" in watched(), "failed")
                client.ceph("osd", "unset", "noout")
                until(lambda: "Health check cleared: OSDMAP_FLAGS" in watched(), "cleared")
                until(lambda: "Cluster is now healthy" in watched(), "healthy")
                expect("Client client.admin marked osd.1 out" in watched(), f"who marked it out: {watched()}")
                client.ceph("osd", "in", "1")
            finally:
                watch.kill()
        last = client.ceph("log", "last", "100").text
        expect("client.admin (client." in last, f"a client's line is by its name: {last}")
        audit = client.ceph("log", "last", "100", "info", "audit").text
        expect("entity='client.admin' cmd='[{\"prefix\": \"osd out\"" in audit and "finished" in audit, f"audit: {audit}")
    expect("Health check failed: noout" in cluster.log(), "the process's log has the lines")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


# Flushes that follow each other from the command to the first write's acknowledgement, at most.
FLUSHES = 20


def flush_seconds(directory):
    """What a flush of a few bytes takes: the median of nine."""
    times = []
    with open(os.path.join(directory, "flushed"), "wb") as f:
        for _ in range(9):
            began = time.monotonic()
            f.write(b"x" * 4096)
            f.flush()
            os.fsync(f.fileno())
            times.append(time.monotonic() - began)
    return statistics.median(times)


def processors_withheld():
    """The share of the last seconds, 0.9 at most, in which something here was ready to run and had no processor."""
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as f:
            return min(float(re.search(r"some avg10=([0-9.]+)", f.read())[1]) / 100, 0.9)
    except OSError:  # a kernel without it
        return 0.0


def first_write(t, *up):
    """Seconds from the command until it returned, until clients saw HEALTH_OK, until a write was acknowledged."""
    cluster, port = t.cluster(start=False), free_port()
    # PIPEs end with this process, and the clients with them.
    clients = subprocess.Popen([PYTHON, os.path.join(HERE, "first_write.py"), cluster.conf, "first",
                                f"127.0.0.1:{port}", "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        equal(clients.stdout.readline(), "ready\n", "the clients")
        began = time.monotonic()
        clients.stdin.write("go\n")
        clients.stdin.flush()
        cluster.up("--mon-addr", f"127.0.0.1:{port}", *up)
        returned = time.monotonic() - began
        status = json.loads(t.client(cluster).ceph("-s", "-f", "json").out)
        equal(status["health"]["status"], "HEALTH_OK", "health as the first ceph -s shows it")
        # A client that a start has lost would wait for ever.
        expect(select.select([clients.stdout], [], [], BOUND)[0], f"the first clients still wait after {BOUND} s; log: {cluster.log()[-2000:]}")
        line = clients.stdout.readline()
        expect(line, "the clients ended early")
        times = json.loads(line)
    finally:
        clients.kill()
        clients.wait()
    cluster.stop()
    return returned, times["healthy"] - began, times["wrote"] - began


def test_health_is_ok_and_a_write_is_acknowledged_within_a_second_of_the_command(t):
    withheld = processors_withheld()
    tries = [first_write(t, "--store", store, *cores) for _ in range(15 if t.soak else 2)
             for store in ("simple", "block") for cores in ((), ("--cores", "1"))]
    say("       " + "; ".join("up returned after {:.2f} s, HEALTH_OK {:.2f} s, first write {:.2f} s".format(*x) for x in tries))
    # A test machine does other things too: the best counts, and none may hang. Where a flush takes long or others have
    # the processors, a start takes longer by that.
    withheld = max(withheld, processors_withheld())
    best = min(max(x) for x in tries)
    bound = (1.0 + FLUSHES * flush_seconds(t.dir)) / (1 - withheld)
    expect(best < bound, f"{best:.2f} s until all of it was so, {bound:.2f} s allowed")


test_health_is_ok_and_a_write_is_acknowledged_within_a_second_of_the_command.alone = True
