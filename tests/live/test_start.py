"""Starting, stopping, and every way in which a start is refused: one clear sentence, exit 1, nothing changed."""
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import metrics
import namespaces
import wire
from harness import BOUND, Failure, equal, expect, until

# Written anew by whoever tries.
PASSING = ("log", "lock")


def tree(directory):
    """Everything under a directory: {path: its contents' hash}; None where there is no directory."""
    if not os.path.isdir(directory):
        return None
    found = {}
    for at, directories, files in os.walk(directory):
        for name in directories:
            found[os.path.relpath(os.path.join(at, name), directory)] = "directory"
        for name in files:
            path = os.path.join(at, name)
            if name in PASSING or not os.path.isfile(path):
                continue
            if os.path.getsize(path) > 1 << 28:  # an OSD's sparse image
                found[os.path.relpath(path, directory)] = (os.path.getsize(path), os.stat(path).st_mtime_ns)
                continue
            with open(path, "rb") as f:
                found[os.path.relpath(path, directory)] = hashlib.file_digest(f, "sha256").hexdigest()
    return found


def refused(cluster, *args, says, detach=True, program=None, unchanged=True):
    """`up` says one sentence with these words, exits with 1 and changes nothing (but where `unchanged` is false)."""
    before = tree(cluster.dir)
    argv = [*cluster.prefix, program or cluster.loligo, "up", "--dir", cluster.dir, *args]
    try:
        done = subprocess.run(argv + (["--detach"] if detach else []), capture_output=True, timeout=BOUND)
    except subprocess.TimeoutExpired as e:
        raise Failure(f"{args}: it went on instead of refusing; it said {e.stdout!r} {e.stderr!r}") from e
    words = done.stderr.decode()
    equal(done.returncode, 1, f"up {args}: exit code ({words!r})")
    for word in says:
        expect(word in words, f"up {args}: {word!r} is not in {words!r}")
    equal(len(words.strip().splitlines()), 1, f"up {args}: lines on standard error: {words!r}")
    expect("panicked" not in words and "Error(" not in words and "Os {" not in words, f"no sentence: {words!r}")
    equal(done.stdout, b"", f"up {args}: standard output")
    if unchanged:
        equal(tree(cluster.dir), before, f"up {args}: the directory")


def both_ways(cluster, *args, says):
    for detach in (False, True):
        refused(cluster, *args, says=says, detach=detach)


def test_a_port_in_use_is_told_and_nothing_changes(t):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        fresh = t.cluster(start=False)
        both_ways(fresh, "--mon-addr", f"127.0.0.1:{port}", says=[str(port), "in use"])
        both_ways(fresh, "--port", str(port), says=[str(port), "in use"])
        expect(not os.path.exists(fresh.dir), "a directory that was not there before")
        cluster = t.cluster("--osds", "1")
        cluster.stop()
        both_ways(cluster, "--mon-addr", f"127.0.0.1:{port}", says=[str(port), "in use"])
        cluster.up()


def test_a_directory_in_use_is_told_and_its_cluster_goes_on(t):
    cluster = t.cluster("--osds", "1", "--store", "mem")
    pid, client = cluster.pid(), t.client(cluster)
    for detach in (False, True):
        argv = [cluster.loligo, "up", "--dir", cluster.dir, "--port", "0"] + (["--detach"] if detach else [])
        done = subprocess.run(argv, capture_output=True, timeout=BOUND)
        words = done.stderr.decode()
        equal((done.returncode, len(words.strip().splitlines())), (1, 1), f"code and lines of {words!r}")
        expect(str(pid) in words and cluster.dir in words, f"who holds it: {words!r}")
    equal(cluster.pid(), pid, "who holds it")
    expect("HEALTH_OK" in client.ceph("-s").text, "the cluster goes on")


def test_a_directory_of_another_format_is_left_alone(t):
    cluster = t.cluster("--osds", "1")
    cluster.stop()
    path = os.path.join(cluster.dir, "cluster.json")
    with open(path, encoding="utf-8") as f:
        description = json.load(f)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**description, "format": description["format"] + 1}, f)
    both_ways(cluster, "--port", "0", says=["newer", str(description["format"] + 1)])
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**description, "format": 1}, f)
    both_ways(cluster, "--port", "0", says=["format 1 of an earlier build", "copy the data out"])
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"format": 1, "fsid": ')
    both_ways(cluster, "--port", "0", says=["cluster.json"])
    with open(path, "w", encoding="utf-8") as f:
        json.dump(description, f)
    cluster.up()


def test_other_peoples_files_are_left_alone(t):
    cluster = t.cluster(start=False)
    os.mkdir(cluster.dir)
    with open(os.path.join(cluster.dir, "thesis.txt"), "w", encoding="ascii") as f:
        f.write("years of work")
    both_ways(cluster, "--port", "0", says=["not empty"])
    expect(os.listdir(cluster.dir) == ["thesis.txt"], f"{os.listdir(cluster.dir)}")


def test_what_a_cluster_is_cannot_be_changed_by_a_later_start(t):
    cluster = t.cluster("--osds", "1")
    cluster.stop()
    both_ways(cluster, "--port", "0", "--store", "mem", says=["'block'", "'mem'"])
    both_ways(cluster, "--port", "0", "--osds", "2", says=["1 OSD,", "2;"])
    both_ways(cluster, "--port", "0", "--osd-size", "1GiB", says=["OSDs of 10 GiB, not 1 GiB;"])


def test_a_size_too_small_for_an_osd_is_refused_and_nothing_is_made(t):
    cluster = t.cluster(start=False)
    both_ways(cluster, "--port", "0", "--osd-size", "10", says=["10 bytes", "at least 64 MiB"])
    expect(not os.path.exists(cluster.dir), "a directory was made")
    cluster.up("--osd-size", "64MiB", "--osds", "1")


def test_a_disk_without_space_is_told_and_nothing_changes(t):
    cluster = t.cluster(start=False)
    os.mkdir(cluster.dir)
    cluster.prefix = namespaces.small_disk(t, cluster.dir, "1m").prefix

    def inside():
        return subprocess.run([*cluster.prefix, "find", cluster.dir, "-mindepth", "1"], capture_output=True,
                              check=True).stdout

    both_ways(cluster, "--port", "0", says=["space"])
    equal(inside(), b"", "what is on the small disk")


def test_lost_or_damaged_metadata_is_told_with_its_file(t):
    # Of the block store it is in one file with the data: test_block_store.
    cluster = t.cluster("--store", "simple", "--osds", "2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", "p", "8")
    cluster.stop()

    def is_refused(says):
        for detach in (False, True):
            # The databases that are whole note in their files that they were opened and closed.
            refused(cluster, "--port", "0", says=says, detach=detach, unchanged=False)

    def serves_no_osd(says):
        cluster.up("--port", "0", code=cluster.ALONE)
        for word in [*says, "no OSD serves"]:
            expect(word in cluster.said, f"{word!r} is not in {cluster.said!r}")
        cluster.stop()

    def with_contents(paths, contents, check, says):
        whole = {}
        for path in paths:
            with open(path, "rb") as f:
                whole[path] = f.read()
            with open(path, "wb") as f:
                f.write(contents)
        check(says)
        for path in paths:
            with open(path, "rb") as f:
                expect(f.read() == contents, f"{path} was changed")
            with open(path, "wb") as f:
                f.write(whole[path])

    state = os.path.join(cluster.dir, "mon", "state.redb")
    with_contents([state], b"", is_refused, ["monitor's state", state, "empty", "from a copy"])
    with_contents([state], os.urandom(1 << 20), is_refused, ["monitor's state", state, "from a copy"])
    # A damaged store costs only its OSD (test_failures), and all of them all OSDs: the monitor is alone.
    metadata = [os.path.join(cluster.dir, f"osd.{osd}", "meta.redb") for osd in (0, 1)]
    with_contents(metadata, os.urandom(1 << 20), serves_no_osd,
                  ["osd.0 failed and is down: its store can't", "osd.1 failed and is down: its store can't", "meta.redb", "from a copy"])
    cluster.up()
    equal(client.ceph("osd", "pool", "ls").text, "p\n", "pools")


# It reads whole files.
test_lost_or_damaged_metadata_is_told_with_its_file.default_store_only = True


def test_wrong_settings_and_addresses_are_refused_with_a_sentence(t):
    cluster = t.cluster(start=False)
    for args, says in (
            (("--set", "osd_max_object_sice=1"), ["osd_max_object_size"]),
            (("--set", "osd_max_object_size=large"), ["osd_max_object_size", "large"]),
            (("--set", "mon_data_avail_warn=101"), ["mon_data_avail_warn"]),
            (("--set", "bluestore_csum_type=rubbish"), ["bluestore_csum_type", "rubbish", "none, crc32c, crc32c_16"]),
            (("--mon-addr", "127.0.0.1:3300", "--port", "0"), ["--mon-addr 127.0.0.1:3300 and --port 0"]),
            (("--mon-addr", "0.0.0.0:0"), ["loopback", "--insecure-bind"])):
        argv = [cluster.loligo, "up", "--dir", cluster.dir, *args]
        if "--mon-addr" not in args:
            argv += ["--port", "0"]
        done = subprocess.run(argv, capture_output=True, timeout=BOUND)
        words = done.stderr.decode()
        equal(done.returncode, 1, f"{args}: exit code ({words!r})")
        for word in says:
            expect(word in words, f"{args}: {word!r} is not in {words!r}")
        expect(not os.path.exists(cluster.dir), f"{args}: a directory was made")


def status(cluster):
    done = subprocess.run(cluster.argv("status", cluster.dir, "-f", "json"), capture_output=True, timeout=BOUND)
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_too_few_open_files_are_told_at_once_and_nothing_is_made(t):
    cluster = t.cluster(start=False)
    argv = cluster.argv("up", "--dir", cluster.dir, "--port", "0", "--osds", "3", "--store", "mem", "--detach")
    for limit in ("12", "30", "55", "60"):
        done = subprocess.run(["sh", "-c", 'ulimit -n "$0"; exec "$@"', limit, *argv], capture_output=True, timeout=10)
        said = done.stderr.decode()
        equal(done.returncode, 1, f"a limit of {limit}: {said}")
        expect(f"may open {limit} files" in said and "ulimit -Hn" in said, said)
        expect(not os.path.exists(cluster.dir), f"{cluster.dir} was made")
    # As few as are taken: it serves, and says that they are few. Of a soft limit nothing is said: it is raised.
    few = ["sh", "-c", 'ulimit -n 100; exec "$@"', "sh", *argv]
    done = subprocess.run(few, capture_output=True, timeout=60, check=True)
    expect(b"Note: a process may open 100 files" in done.stdout, done.stdout)
    cluster.stop()
    soft = ["sh", "-c", 'ulimit -Sn 30; exec "$@"', "sh", *argv]
    done = subprocess.run(soft, capture_output=True, timeout=60, check=True)
    expect(b"may open" not in done.stdout, done.stdout)
    cluster.stop()


def test_status_and_stop_tell_what_runs(t):
    cluster = t.cluster(start=False)
    equal(status(cluster)[0], 1, "status where there is no cluster")
    done = subprocess.run(cluster.argv("stop", cluster.dir), capture_output=True, timeout=BOUND)
    equal((done.returncode, b"no cluster here" in done.stderr), (1, True), "stop where there is no cluster")
    said = cluster.up("--osds", "2", "--osd-size", "1GiB").out.decode()
    expect(f"{cluster.dir}/ceph.conf" in said and "ceph osd pool create" in said and len(said.splitlines()) <= 3,
           f"how to reach it and what to try, in three lines: {said!r}")
    code, found = status(cluster)
    equal((code, found["running"]), (0, True), "status while it runs")
    pid = found["pid"]
    expect(not gone(pid), f"process {pid} of the status")
    done = subprocess.run(cluster.argv("stop", cluster.dir), capture_output=True, timeout=BOUND)
    equal(done.returncode, 0, f"stop ({done.stderr!r})")
    expect(gone(pid), "stop returned before the process was gone")
    code, found = status(cluster)
    equal((code, found["running"]), (3, False), "status after stop")
    equal(subprocess.run(cluster.argv("stop", cluster.dir), capture_output=True, timeout=BOUND).returncode, 0,
          "a second stop")


def test_sigterm_ends_it_cleanly_and_everything_comes_back(t):
    cluster = t.cluster(start=False)
    argv = [cluster.loligo, "up", "--dir", cluster.dir, "--port", "0", "--osds", "1", "--set", "mon_data_avail_warn=0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as foreground:
        try:
            until(lambda: status(cluster)[0] == 0 and (status(cluster)[1]["cluster"] or {}).get("osds_up") == 1,
                  "the cluster in the foreground", 15)
            client = t.client(cluster)
            fsid = client.ceph("fsid").text
            client.ceph("osd", "pool", "create", "kept", "8")
            client.ceph("osd", "pool", "application", "enable", "kept", "rados")
            client.rados("-p", "kept", "put", "it", "/etc/hostname")
            epoch = client.ceph_json("osd", "dump")["epoch"]
            foreground.send_signal(signal.SIGTERM)
            began = time.monotonic()
            equal(foreground.wait(20), 0, "exit code after SIGTERM")
            expect(time.monotonic() - began < 5, "5 s to stop an idle cluster")
        finally:
            foreground.kill()
    cluster.up("--cores", "1")
    equal(client.ceph("fsid").text, fsid, "the cluster's id")
    with open("/etc/hostname", "rb") as f:
        equal(client.rados("-p", "kept", "get", "it", "-").out, f.read(), "what was written before")
    expect(client.ceph_json("osd", "dump")["epoch"] > epoch, "each start boots into a new epoch")
    expect("HEALTH_OK" in client.ceph("health").text, client.ceph("health", "detail").text)


def test_sighup_opens_the_log_again_and_ends_nothing(t):
    cluster = t.cluster("--osds", "1", "--store", "mem")
    pid, log = cluster.pid(), os.path.join(cluster.dir, "log")
    os.rename(log, log + ".1")
    os.kill(pid, signal.SIGHUP)
    until(lambda: "SIGHUP" in cluster.log(), "a line in the new log")
    equal(cluster.pid(), pid, "the process")
    cluster.stop()
    expect("stopping" in cluster.log(), f"later lines are in the new log: {cluster.log()!r}")
    with open(log + ".1", encoding="utf-8") as f:
        expect("stopping" not in f.read(), "later lines are not in the old log")


def test_each_start_gives_its_daemons_new_nonces_at_the_same_ports(t):
    cluster = t.cluster("--osds", "2")
    client, seen, mon = t.client(cluster), [], cluster.mon_addr()
    for how in (cluster.stop, cluster.kill, None):
        seen.append([a for o in client.ceph_json("osd", "dump")["osds"] for a in o["public_addrs"]["addrvec"]])
        if how:
            how()
            cluster.up()
            equal(cluster.mon_addr(), mon, "the monitor's address")
    equal(cluster.log().count("did not end cleanly"), 1, "the end by a kill, and only that, is in the log")
    for i, addresses in enumerate(zip(*seen)):
        equal(len({a["addr"] for a in addresses}), 1, f"the ports of osd.{i}: {addresses}")
        equal(len({a["nonce"] for a in addresses}), 3, f"different nonces of osd.{i}: {addresses}")


def test_a_cluster_in_memory_starts_empty_and_says_so(t):
    cluster = t.cluster(start=False)
    for _ in range(2):
        said = cluster.up("--store", "mem", "--osds", "1").out.decode()
        expect("nothing is kept" in said, f"up says so: {said!r}")
        client = t.client(cluster)
        equal(client.ceph("osd", "pool", "ls").text.split(), [], "pools at the start")
        client.ceph("osd", "pool", "create", "passing", "8")
        client.rados("-p", "passing", "put", "x", "/etc/hostname")
        cluster.stop()


def test_a_directory_of_any_name_is_found_by_stock_clients(t):
    """As `up` says it: the name may be one that ceph.conf, or the variable that leads to it, can't say."""
    for name in ("é", "a b", "a;b", "a#b", "a,b", "a=b", "$name", "it's \"q\"", "back\\slash", "line\nfeed"):
        cluster = t.cluster("--osds", "1", "--store", "mem", directory=os.path.join(t.path("of any name"), name))
        told = re.search(r"To reach it:  (.*)\nTo try:", cluster.said, re.DOTALL)[1]
        env = {name: value for name, value in os.environ.items() if name != "CEPH_CONF"}
        for client in "ceph -s", "rados lspools":
            done = subprocess.run(["sh", "-c", f"{told}; exec {client}"], capture_output=True, env=env, timeout=BOUND)
            # librados prints this line when the client shuts down while it still connects to the manager.
            said = [line for line in done.stderr.splitlines() if b"get_auth_request but no auth handler" not in line]
            equal((done.returncode, said), (0, []), f"{name!r}: {client}, reached by {told!r}")
        stop = re.search(r"\(stop: loligo (stop .*)\)", cluster.said, re.DOTALL)[1]
        subprocess.run(["sh", "-c", f"exec \"$0\" {stop}", cluster.loligo], check=True, capture_output=True, timeout=BOUND)
        equal(cluster.pid(), None, f"{name!r}: stopped as it is said")


def test_a_directory_with_a_long_name_serves_all_commands(t):
    """Its sockets' paths are longer than an address holds."""
    cluster = t.cluster("--osds", "2", "--store", "simple", directory=os.path.join(t.path("d" * 120), "e" * 120))
    expect("2 of 2 OSDs up" in subprocess.run(cluster.argv("status", cluster.dir), capture_output=True, check=True,
                                              text=True, timeout=BOUND).stdout, "status")
    for command in "stop", "start":
        subprocess.run(cluster.argv(command, cluster.dir, "--osd", "1"), check=True, capture_output=True, timeout=BOUND)
    version = subprocess.run(["ceph", "daemon", "./osd.1.asok", "version"], cwd=cluster.dir, capture_output=True,
                             check=True, timeout=BOUND).stdout
    expect(b"version" in version, version)


def connections(cluster, count, session):
    """Clients that connect to the monitor and then say nothing, with an open session or without."""
    host, port = cluster.mon_addr()
    found = []
    for _ in range(count):
        peer = wire.Peer(host, port)
        found.append(peer)
        if session:
            peer.session(True)
    return found


def test_a_process_that_may_open_no_more_files_takes_new_clients_for_idle_ones(t):
    limit = 110
    for session in False, True:
        cluster = t.cluster("--osds", "1", "--store", "mem", "--cores", str(1 + session),
                            prefix=["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"])
        cluster.prefix = []
        client = t.client(cluster)
        client.ceph("osd", "pool", "create", "p", "1")
        idle = connections(cluster, 2 * limit, session)
        client.ceph("osd", "pool", "application", "enable", "p", "rados", timeout=60)
        client.rados("-p", "p", "put", "o", "/etc/hostname", timeout=60)
        checks = client.ceph_json("health")["checks"]
        expect("OSD_DOWN" not in checks, f"OSDs keep their connections: {checks}")
        expect("may open no more files" in cluster.log(), cluster.log()[-2000:])
        for peer in idle:
            peer.close()
        cluster.stop()


def test_a_process_that_may_open_no_more_files_is_still_asked_and_ends_no_client_for_it(t):
    limit = 120
    cluster = t.cluster("--osds", "1", "--store", "mem", "--cores", "1", "--metrics", "127.0.0.1:0",
                        prefix=["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"])
    cluster.prefix = []
    client, asok = t.client(cluster), os.path.join(cluster.dir, "osd.0.asok")
    port = int(re.search(r"Prometheus: .*:(\d+)/metrics", cluster.said)[1])
    files = f"/proc/{cluster.pid()}/fd"
    idle = []
    while len(os.listdir(files)) < limit:
        idle += connections(cluster, 1, True)
    argv = cluster.argv("status", cluster.dir, "-f", "json")
    for _ in range(3):
        asked = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(4)]
        for process in asked:
            said = json.loads(process.communicate(timeout=BOUND)[0])
            equal((said["cluster"] or {}).get("osds_up"), 1, f"status: {said}")
        expect("version" in client.ceph("daemon", asok, "version", timeout=BOUND).text, "the admin socket answers")
        expect("ceph_osd_op_latency_sum" in metrics.scrape(port, strict=True)[0], "the metrics have the OSD's counters")
        equal(len(os.listdir(files)), limit, "all files are in use still")
    expect("may open no more files" not in cluster.log(), cluster.log()[-2000:])
    stopped = subprocess.run(cluster.argv("stop", cluster.dir, "--osd", "0"), capture_output=True, timeout=BOUND, check=False)
    equal(stopped.returncode, 0, f"one OSD is stopped: {stopped.stderr!r}")
    for peer in idle:
        peer.close()
    cluster.stop()
