"""What an operator asks: metrics, admin sockets, OSDs removed for good, slow operations."""
import contextlib
import os
import shutil
import socket
import subprocess
import time

from harness import equal, expect, until
from metrics import free_port, scrape


def exchange(port, data):
    """What comes back until the connection ends, or is cut."""
    out = b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s, contextlib.suppress(ConnectionError):
        s.sendall(data)
        while chunk := s.recv(65536):
            out += chunk
    return out


def test_prometheus_reads_the_cluster_under_ceph_s_names(t):
    port = free_port()
    cluster = t.cluster("--osds", "2", "--metrics", f"127.0.0.1:{port}")
    expect(f"http://127.0.0.1:{port}/metrics" in cluster.said, f"up names the address: {cluster.said}")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "8")
    client.ceph("osd", "pool", "application", "enable", "p", "rados")
    with open(t.path("data"), "wb") as f:
        f.write(b"x" * 100_000)
    for i in range(8):
        client.rados("-p", "p", "put", f"o{i}", t.path("data"))

    def value(name, **labels):
        _, samples = scrape(port)
        return samples.get((name, tuple(sorted(labels.items()))))
    until(lambda: value("ceph_pool_objects", pool_id="1") == 8, "the pool's objects")
    until(lambda: value("ceph_health_status") == 0, "health")
    until(lambda: value("ceph_pool_wr_bytes", pool_id="1") >= 800_000, "bytes written")
    types, samples = scrape(port)
    names = {name for name, _ in samples}
    for daemon in ("osd.0", "osd.1"):
        equal(samples[("ceph_osd_up", (("ceph_daemon", daemon),))], 1, f"{daemon} up")
    writes = sum(v for (name, _), v in samples.items() if name == "ceph_osd_op_w")
    expect(writes >= 8, f"the OSDs counted the writes: {writes}")
    latency = sum(v for (name, _), v in samples.items() if name == "ceph_osd_op_w_latency_sum")
    count = sum(v for (name, _), v in samples.items() if name == "ceph_osd_op_w_latency_count")
    expect(0 < latency / count < 10, f"seconds a write: {latency} / {count}")
    # What Ceph's Grafana boards and alerts read.
    for name in BOARDS:
        expect(name in types, f"{name} is served")
    expect(names <= set(types), "every sample has a type")
    expect(b"version=0.0.4" in exchange(port, b"HEAD /metrics HTTP/1.1\r\n\r\n"), "the format's version")
    # Bad requests cost nothing.
    expect(exchange(port, b"GET /nope HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404"), "another path")
    expect(exchange(port, b"DELETE /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405"), "another method")
    expect(exchange(port, b"\r\n\r\n").startswith(b"HTTP/1.1 400"), "no request")
    equal(exchange(port, b"a" * 100_000), b"", "a line without end")
    curl = subprocess.run(["curl", "-sf", f"http://127.0.0.1:{port}/metrics"], capture_output=True, timeout=60, check=False)
    if curl.returncode != 127:
        expect(b"ceph_health_status 0" in curl.stdout, "curl reads it")
    # Idle connections do not shut others out for long, and one too many is ended.
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    until(lambda: scrape_or_none(port), "a scrape beside idle connections", 60)
    for s in idle:
        s.close()


def scrape_or_none(port):
    try:
        return scrape(port)
    except OSError:
        return None


BOARDS = """
ceph_health_status ceph_health_detail ceph_mon_quorum_status ceph_mon_metadata ceph_osd_metadata ceph_osd_up ceph_osd_in
ceph_osd_weight ceph_osd_apply_latency_ms ceph_osd_commit_latency_ms ceph_osd_op ceph_osd_op_r ceph_osd_op_w
ceph_osd_op_r_latency_sum ceph_osd_op_r_latency_count ceph_osd_op_w_latency_sum ceph_osd_op_w_latency_count
ceph_osd_op_r_out_bytes ceph_osd_op_w_in_bytes ceph_osd_op_in_bytes ceph_osd_op_out_bytes ceph_osd_numpg
ceph_osd_stat_bytes ceph_osd_stat_bytes_used ceph_cluster_total_bytes ceph_cluster_total_used_bytes
ceph_cluster_total_used_raw_bytes ceph_pool_metadata ceph_pool_stored ceph_pool_max_avail ceph_pool_objects ceph_pool_rd
ceph_pool_wr ceph_pool_rd_bytes ceph_pool_wr_bytes ceph_pool_bytes_used ceph_pool_percent_used ceph_pool_quota_bytes
ceph_pg_total ceph_pg_active ceph_pg_clean ceph_pg_degraded ceph_pg_undersized ceph_num_objects_degraded
ceph_num_objects_unfound ceph_osd_flag_noout ceph_healthcheck_slow_ops ceph_daemon_health_metrics ceph_disk_occupation
""".split()


def test_ceph_daemon_reaches_every_osd_and_the_monitor_at_its_socket(t):
    cluster = t.cluster("--osds", "2", "--store", "mem")
    client = t.client(cluster)
    for osd in (0, 1):
        path = os.path.join(cluster.dir, f"osd.{osd}.asok")
        equal(client.run("ceph", "daemon", path, "status").json()["whoami"], osd, "whose socket it is")
        expect("op_w" in client.run("ceph", "daemon", path, "perf", "dump").json()["osd"], "counters")
        client.run("ceph", "daemon", path, "config", "set", "osd_op_complaint_time", "7")
        got = client.run("ceph", "daemon", path, "config", "get", "osd_op_complaint_time").json()
        equal(float(got["osd_op_complaint_time"]), 7.0, "an option set at the socket")
        bench = client.run("ceph", "daemon", path, "bench", "1048576", "65536").json()
        equal((bench["bytes_written"], bench["blocksize"]), (1 << 20, 65536), "bench")
        expect(bench["bytes_per_sec"] > 0, f"a rate: {bench}")
        refused = client.run("ceph", "daemon", path, "nonsense", code=None)
        expect(refused.code != 0, "what does not exist is refused")
    mon = os.path.join(cluster.dir, "loligo.sock")
    equal(client.run("ceph", "daemon", mon, "mon_status").json()["state"], "leader", "the monitor at its socket")


def test_a_purged_osd_is_gone_and_the_cluster_starts_without_it(t):
    cluster = t.cluster("--osds", "3")
    client = t.client(cluster)
    equal(client.ceph("osd", "purge", "2", "--force", code=None).code, 16, "an OSD that is up stays")
    subprocess.run(cluster.argv("stop", cluster.dir, "--osd", "2"), check=True, capture_output=True, timeout=120)
    client.ceph("osd", "purge", "2", "--yes-i-really-mean-it")
    equal(client.ceph("osd", "ls").text.split(), ["0", "1"], "OSDs")
    expect("osd.2" not in client.ceph("osd", "tree").text, "the tree lacks it")
    until(lambda: client.ceph("health").text.strip() == "HEALTH_OK", "healthy without it")
    cluster.stop()
    cluster.up()
    expect("removed from the cluster" in cluster.said, f"up says so: {cluster.said}")
    until(lambda: client.ceph("health").text.strip() == "HEALTH_OK", "healthy again")
    equal(client.ceph("osd", "ls").text.split(), ["0", "1"], "OSDs after a restart")


def test_the_counters_of_load_move_under_load(t):
    cluster = t.cluster("--osds", "2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "8")
    bench = client.start("rados", "-p", "p", "bench", "600", "write", "-b", "4096", "-t", "8", "--no-cleanup",
                         stdout=subprocess.DEVNULL)
    try:
        rate = until(lambda: pool_rate(client), "osd pool stats shows the writes", 60)
        expect(rate["write_op_per_sec"] > 0 and rate["write_bytes_sec"] > 0, f"rates: {rate}")
        infos = client.ceph_json("osd", "perf")["osdstats"]["osd_perf_infos"]
        equal({i["id"] for i in infos}, {0, 1}, "osd perf has both")
        # `osd perf` gets whole milliseconds, as with Ceph: on a fast disk it rightly shows 0.
        expect(all({"commit_latency_ms", "apply_latency_ns"} <= set(i["perf_stats"]) for i in infos), f"latencies: {infos}")
        before = committed(client, cluster)
        until(lambda: committed(client, cluster) > before, "commits are counted with their time", 60)
        until(lambda: int(client.ceph_json("status")["pgmap"].get("write_op_per_sec", 0)) > 0, "status's rate", 60)
        row = until(lambda: next((p for p in client.run("rados", "df", "-f", "json").json()["pools"]
                                  if p["name"] == "p" and int(p["write_ops"]) > 0), None), "rados df", 60)
        expect(int(row["write_bytes"]) > 0, f"rados df counts bytes: {row}")
        osds = client.ceph("osd", "status").text
        expect("exists,up" in osds, osds)
    finally:
        bench.terminate()
        bench.wait()


def committed(client, cluster):
    """Seconds that commits took in all, by the OSDs' counters."""
    paths = (os.path.join(cluster.dir, f"osd.{osd}.asok") for osd in (0, 1))
    dumps = (client.run("ceph", "daemon", path, "perf", "dump").json() for path in paths)
    return sum(dump["objectstore"]["commit_latency"]["sum"] for dump in dumps)


def pool_rate(client):
    for pool in client.ceph_json("osd", "pool", "stats"):
        if pool["pool_name"] == "p" and pool["client_io_rate"].get("write_op_per_sec"):
            return pool["client_io_rate"]
    return None


def test_ceph_w_begins_with_the_last_line_and_audits_commands(t):
    cluster = t.cluster("--osds", "1", "--store", "mem")
    client = t.client(cluster)
    for i in range(5):
        client.ceph("log", f"line {i}")
    out = t.path("watch")
    with open(out, "wb") as f:
        watch = client.start("ceph", "-w", stdout=f)
    try:
        def shown():
            with open(out, encoding="utf-8") as f:
                return f.read()
        until(lambda: "line 4" in shown(), "the last line")
        time.sleep(1)
        expect("line 3" not in shown(), f"no earlier line: {shown()[-500:]}")
        client.ceph("osd", "set", "noout")
        client.ceph("log", "after")
        until(lambda: "after" in shown(), "new lines")
    finally:
        watch.terminate()
        watch.wait()
    audit = client.ceph("log", "last", "20", "info", "audit").text
    expect("osd set" in audit and "finished" in audit and "entity='client.admin'" in audit, audit)


def state_file(cluster):
    return os.path.join(cluster.dir, "mon", "state.redb")


def rebuild(cluster, *args, code=0):
    done = subprocess.run(cluster.argv("mon", "rebuild", cluster.dir, *args), capture_output=True, timeout=300, check=False)
    equal(done.returncode, code, f"mon rebuild {args}: {done.stdout!r} {done.stderr!r}")
    return (done.stdout + done.stderr).decode()


def write_objects(t, client, pool, names):
    for name in names:
        with open(t.path("in"), "wb") as f:
            f.write(name.encode() * 5000)
        client.rados("-p", pool, "put", name, t.path("in"))


def check_objects(t, client, pool, names):
    equal(sorted(client.rados("-p", pool, "ls").text.split()), sorted(names), f"objects of {pool}")
    for name in names:
        client.rados("-p", pool, "get", name, t.path("out"))
        with open(t.path("out"), "rb") as f:
            equal(f.read(), name.encode() * 5000, name)


def rebuilt_after(t, store, lose):
    cluster = t.cluster("--osds", "3", "--store", store)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "16")
    client.ceph("osd", "pool", "application", "enable", "p", "rados")
    names = [f"o{i}" for i in range(40)]
    write_objects(t, client, "p", names)
    client.rados("-p", "p", "mksnap", "s")
    client.rados("-p", "p", "setomapval", "o1", "key", "value")
    # A later map, so that more than one kind of change is in the history.
    for _ in range(3):
        client.ceph("osd", "set", "noout")
        client.ceph("osd", "unset", "noout")
    client.ceph("osd", "pool", "create", "late", "8")
    write_objects(t, client, "late", ["last"])
    fsid = client.ceph("fsid").text.strip()
    epoch = client.ceph_json("osd", "dump")["epoch"]
    rebuild(cluster, code=1)
    equal(client.ceph("fsid").text.strip(), fsid, "a cluster that runs is left alone")
    cluster.kill()
    refused = rebuild(cluster, code=1)
    expect("can be used" in refused, f"a state that can be used stays: {refused}")
    lose(cluster)
    failed = cluster.up(code=1)
    expect("loligo mon rebuild" in failed.words, f"up names the way: {failed.words}")
    said = rebuild(cluster)
    expect("p, late" in said or "late" in said and " p" in said, f"its pools: {said}")
    cluster.up()
    # The same client, with the same ceph.conf.
    equal(client.ceph("fsid").text.strip(), fsid, "fsid")
    expect(client.ceph_json("osd", "dump")["epoch"] > epoch, "epochs go on, none is used twice")
    until(lambda: client.ceph("health").text.strip() in ("HEALTH_OK",) or "application" in client.ceph("health").text, "health")
    until(lambda: all(s["state_name"] == "active+clean" for s in client.ceph_json("status")["pgmap"]["pgs_by_state"]),
          "every PG clean")
    check_objects(t, client, "p", names)
    check_objects(t, client, "late", ["last"])
    expect("value" in client.rados("-p", "p", "getomapval", "o1", "key").text, "omap")
    expect("s" in client.rados("-p", "p", "lssnap").text, "the snapshot")
    more = [f"n{i}" for i in range(10)]
    write_objects(t, client, "p", more)
    client.rados("-p", "p", "rm", "n0")
    client.ceph("osd", "pool", "create", "new", "8")
    write_objects(t, client, "new", ["x"])
    cluster.kill()
    cluster.up()
    check_objects(t, client, "p", names + more[1:])
    check_objects(t, client, "new", ["x"])


def test_a_lost_monitor_is_rebuilt_from_its_osds(t):
    rebuilt_after(t, "simple", lambda cluster: os.unlink(state_file(cluster)))


def test_a_damaged_monitor_is_rebuilt_from_osds_of_the_block_store(t):
    def damage(cluster):
        with open(state_file(cluster), "r+b") as f:
            f.seek(0)
            f.write(os.urandom(1 << 20))
    rebuilt_after(t, "block", damage)


def test_a_monitor_is_rebuilt_from_the_osd_that_is_left(t):
    cluster = t.cluster("--osds", "2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "8")
    cluster.stop()
    os.unlink(state_file(cluster))
    with open(cluster.metadata(0), "r+b") as f:
        f.write(os.urandom(1 << 16))
    said = rebuild(cluster)
    expect("osd.0 was not asked" in said and "of osd.1" in said, said)
    cluster.up()
    expect("p" in client.ceph("osd", "pool", "ls").text.split(), "the pool")


def test_a_monitors_directory_from_an_older_backup_is_refused_with_the_way_out(t):
    cluster = t.cluster("--osds", "2", "--store", "block", "--osd-size", "256MiB")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "before", "4")
    cluster.stop()
    mon, backup = os.path.join(cluster.dir, "mon"), t.path("backup")
    shutil.copytree(mon, backup)
    cluster.up()
    client.ceph("osd", "pool", "create", "after", "4")
    write_objects(t, client, "after", ["x", "y"])
    cluster.stop()
    shutil.rmtree(mon)
    shutil.copytree(backup, mon)
    start = time.monotonic()
    failed = cluster.up(code=1)
    expect(time.monotonic() - start < 15, f"it ends at once, not after 30 s: {failed.words}")
    for part in ["has OSD map", "monitor's newest is", "backup", f"loligo mon rebuild --force {cluster.dir}"]:
        expect(part in failed.words, f"{part}: {failed.words}")
    expect("after" in rebuild(cluster, "--force"), "the newer map has the pool")
    cluster.up()
    expect("failed" not in cluster.said, f"what the rebuild has mended is not said again: {cluster.said}")
    until(lambda: all(s["state_name"] == "active+clean" for s in client.ceph_json("status")["pgmap"]["pgs_by_state"]),
          "every PG clean")
    check_objects(t, client, "after", ["x", "y"])


def test_no_osd_serves_a_monitors_directory_of_a_backup_that_has_made_as_many_maps(t):
    cluster = t.cluster("--osds", "2", "--store", "block", "--osd-size", "256MiB")
    client = t.client(cluster)
    cluster.stop()
    backup, newer = t.path("backup"), t.path("newer")
    shutil.copytree(cluster.dir, backup, ignore=shutil.ignore_patterns("*.sock", "*.asok"))
    cluster.up()
    client.ceph("osd", "pool", "create", "after", "4")
    write_objects(t, client, "after", ["x", "y"])
    epoch = client.ceph_json("osd", "dump")["epoch"]
    cluster.stop()
    os.rename(cluster.dir, newer)
    # The backup serves for a while, with its own stores.
    os.rename(backup, cluster.dir)
    cluster.up()
    while client.ceph_json("osd", "dump")["epoch"] < epoch + 20:
        client.ceph("osd", "set", "noout")
        client.ceph("osd", "unset", "noout")
    cluster.stop()
    shutil.rmtree(os.path.join(newer, "mon"))
    os.rename(os.path.join(cluster.dir, "mon"), os.path.join(newer, "mon"))
    shutil.rmtree(cluster.dir)
    os.rename(newer, cluster.dir)
    start = time.monotonic()
    cluster.up(code=cluster.ALONE)
    expect(time.monotonic() - start < 15, f"it says so at once, not after 30 s: {cluster.said}")
    for part in ["osd.0 failed and is down: its OSD map ", "osd.1 failed and is down: its OSD map ",
                 "is another than the monitor's", "backup", "loligo mon rebuild --force", "no OSD serves"]:
        expect(part in cluster.said, f"{part}: {cluster.said}")
    cluster.stop()
    expect("after" in rebuild(cluster, "--force"), "the OSDs' map has the pool")
    cluster.up()
    until(lambda: all(s["state_name"] == "active+clean" for s in client.ceph_json("status")["pgmap"]["pgs_by_state"]),
          "every PG clean")
    check_objects(t, client, "after", ["x", "y"])
