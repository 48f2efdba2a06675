"""Block stores whose logs lie apart from their data: on block devices and in files."""
import json
import os
import subprocess
import time
import urllib.request

from harness import equal, expect, say, until
from test_block_store import POOL, loligo, loop_device, put, put_bytes, refused, same
from test_lab import records, run_study

LOG = 64 << 20


def flags(name, paths):
    return [word for path in paths for word in (f"--{name}", path)]


def link_of(cluster, osd):
    return os.path.join(cluster.dir, f"osd.{osd}", "block.wal")


def lead_to(cluster, osd, path):
    os.remove(link_of(cluster, osd))
    os.symlink(path, link_of(cluster, osd))


def reasons(cluster):
    osds = json.loads(loligo(cluster, "status", cluster.dir, "-f", "json"))["cluster"]["osds"]
    return {osd: of.get("reason") for osd, of in osds.items()}


def is_clear(path):
    with open(path, "rb") as f:
        return not any(f.read(1 << 20))


def test_logs_on_devices_of_their_own_survive_a_kill_and_are_never_mistaken(t):
    logs = [loop_device(t, f"log{n}", LOG) for n in range(3)]
    subprocess.run(["mkfs.ext4", "-q", logs[2]], check=True)
    asked = ["--osds", "3", "--osd-size", "256MiB", *flags("log-device", logs)]
    cluster = t.cluster(start=False)
    expect(f"{logs[2]} holds data" in refused(cluster, *asked), "a device with a file system")
    expect(is_clear(logs[0]) and is_clear(logs[1]), "a refused start leaves nothing on the others")
    cluster.up("--metrics", "127.0.0.1:0", *asked, "--overwrite", logs[2])
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "16")
    names = [f"large{n}" for n in range(4)] + [f"small{n}" for n in range(20)]
    for name in names:
        if name.startswith("large"):
            put(t, client, name)
        else:
            put_bytes(t, client, name, os.urandom(5000))

    told = client.ceph_json("osd", "metadata", "1")
    equal([told[f"bluefs_{key}"] for key in ("dedicated_wal", "wal_dev_node", "wal_size", "wal_access_mode")],
          ["1", logs[1], str(LOG), "blk"], "what osd.1 tells of its log")
    url = next(line.split()[-1] for line in cluster.said.splitlines() if line.startswith("Prometheus"))
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    of_osd = [line for line in lines if line.startswith("ceph_disk_occupation{") and 'ceph_daemon="osd.2"' in line]
    expect(len(of_osd) == 1 and f'wal_device="{logs[2]}"' in of_osd[0], of_osd)

    # Another cluster can have none of them, neither now nor when this one does not run.
    other = t.cluster(start=False)
    more = [word for path in logs for word in ("--overwrite", path)]
    expect("in use" in refused(other, *asked, *more), "the log of a running cluster")
    cluster.kill()
    expect("holds data" in refused(other, *asked), "the log of a cluster that does not run")
    cluster.up(*asked)
    for name in names:
        same(t, client, name)
    cluster.kill()
    words = cluster.up("--osds", "3", *flags("log-device", logs[::-1]), code=1).words
    expect("--log-device" in words and logs[0] in words, f"others than the directory has: {words}")

    # Swapped: each of both says whose it has. Not there: which.
    lead_to(cluster, 0, logs[1])
    lead_to(cluster, 1, "/dev/none")
    cluster.up()
    why = reasons(cluster)
    expect("has that of osd.1" in why["0"] and logs[1] in why["0"] and link_of(cluster, 0) in why["0"], why)
    expect("/dev/none, which is not there" in why["1"], why)
    expect(not why["2"], why)
    lead_to(cluster, 0, logs[0])
    lead_to(cluster, 1, logs[1])
    for osd in ("0", "1"):
        loligo(cluster, "start", cluster.dir, "--osd", osd)
    until(lambda: client.ceph_json("osd", "stat")["num_up_osds"] == 3, "all OSDs up")
    for name in names:
        same(t, client, name)

    # An empty store in place of one, with its log on the same device.
    loligo(cluster, "stop", cluster.dir, "--osd", "2")
    said = loligo(cluster, "start", cluster.dir, "--osd", "2", "--replace", "--yes-i-really-mean-it")
    expect("without its log" in said, said)
    loligo(cluster, "stop", cluster.dir)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the stores and their logs")
    shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))
    equal([shown[f"osd.{osd}"]["label"]["log_device"] for osd in range(3)], logs, "the labels' log devices")
    # The store from before is not opened with the log of the one after it.
    replaced = os.path.join(cluster.dir, "osd.2", "replaced-1", "block")
    os.replace(replaced, os.path.join(cluster.dir, "osd.2", "block"))
    said = loligo(cluster, "store", "fsck", cluster.dir, "--osd", "2", code=1)
    expect(f"{logs[2]} does not have the log of osd.2" in said, said)


def test_logs_in_files_are_made_as_large_as_need_be_and_serve_every_shard(t):
    data = loop_device(t, "disk", 600 << 20)
    log = t.path("log")
    cluster = t.cluster("--device", data, "--log-device", log, "--cores", "2", "--set", "osd_store_shards=2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    equal(os.stat(log).st_size, (16 << 20) + 4096, "two logs and the label")
    for n in range(3):
        for name in (f"large{n}", f"more{n}"):
            put(t, client, name)
        put_bytes(t, client, f"small{n}", os.urandom(3000))
        cluster.kill()
        cluster.up("--cores", "2")
        for name in (f"large{n}", f"more{n}", f"small{n}"):
            same(t, client, name)
    told = client.ceph_json("osd", "metadata", "0")
    equal((told["bluefs_wal_access_mode"], told["bluefs_wal_path"]), ("file", log), "a log in a file")
    loligo(cluster, "stop", cluster.dir)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep", "--repair"), "both shards")
    os.truncate(log, 8 << 20)
    said = loligo(cluster, "store", "fsck", cluster.dir, code=1)
    expect(log in said and "the file was made shorter" in said and "8 MiB" in said, said)


def test_a_first_start_that_fails_leaves_no_log_behind(t):
    device = loop_device(t, "device", LOG)
    small = loop_device(t, "small", 4 << 20)
    file, written = t.path("file"), t.path("written")
    with open(written, "w", encoding="ascii") as f:
        f.write("years of work")
    cluster = t.cluster(start=False)
    size = ("--osd-size", "256MiB")
    says = refused(cluster, *size, *flags("log-device", [device, file, written]))
    expect(f"{written} holds data" in says, says)
    expect(not os.path.exists(file), "the file that was made is there")
    expect(is_clear(device), "there is a label on the device")
    says = refused(cluster, *size, "--osds", "1", "--log-device", small)
    expect(small in says and "need at least" in says, says)
    says = refused(cluster, *size, "--osds", "1", "--log-device", t.dir)
    expect("neither a block device nor a file" in says, says)
    says = refused(cluster, *size, "--store", "simple", "--osds", "1", "--log-device", file)
    expect("--log-device is for the store 'block'" in says, says)
    again, dangling = t.path("again"), t.path("dangling")
    os.symlink(written, again)
    os.symlink(file, dangling)
    says = refused(cluster, *size, *flags("log-device", [written, again]), *flags("overwrite", [written, again]))
    expect(f"{again} is named twice" in says, says)
    says = refused(cluster, *size, *flags("log-device", [file, dangling]), *flags("overwrite", [file, dangling]))
    expect("'s store" in says and "name another place" in says or "in use" in says, says)
    expect(not os.path.exists(file), "the file that was made is there")
    with open(written, encoding="ascii") as f:
        equal(f.read(), "years of work", "what was refused")
    cluster.up("--port", "0", *size, *flags("log-device", [device, file, t.path("third")]))


def test_a_small_device_gives_small_logs(t):
    log = loop_device(t, "log", 10 << 20)
    cluster = t.cluster("--osds", "1", "--osd-size", "2GiB", "--log-device", log)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    # Several times what the log takes.
    names = [f"o{n}" for n in range(4)]
    for name in names:
        put(t, client, name)
    client.rados("-p", POOL, "bench", "3", "write", "-b", "16384", "-t", "16", "--no-cleanup")
    cluster.kill()
    cluster.up()
    for name in names:
        same(t, client, name)
    loligo(cluster, "stop", cluster.dir)
    shown = json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))["osd.0"]
    equal(shown["label"]["log_bytes"], (10 << 20) - 4096, "bytes of the log")
    expect(shown["shards"][0]["log"]["next_sequence"] > 100, shown["shards"])
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the store")


def test_the_store_is_measured_and_grows_with_its_log_apart(t):
    log, made = t.path("log"), t.path("made")
    cluster = t.cluster(start=False)
    shown = json.loads(loligo(cluster, "store", "bench", made, "--seconds", "1", "--store-size", "1GiB", "--log-device",
                              log, "-f", "json"))
    expect(shown["writes"] > 0, shown)
    expect(not os.path.exists(log) and not os.path.exists(made), "a measurement leaves nothing")
    cluster.up("--osds", "1", "--osd-size", "256MiB", "--log-device", log)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    put(t, client, "o")
    loligo(cluster, "stop", cluster.dir)
    loligo(cluster, "store", "expand", cluster.dir, "--osd", "0", "--size", "512MiB")
    cluster.up()
    same(t, client, "o")
    expect(client.ceph_json("osd", "df")["nodes"][0]["kb"] > 400 << 10, "the store is larger")


def test_a_log_moves_to_a_device_to_a_file_and_back(t):
    device, file = loop_device(t, "log", LOG), t.path("log file")
    cluster = t.cluster("--osds", "2", "--osd-size", "512MiB", "--cores", "4", "--set", "osd_store_shards=2")
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    names = [f"o{n}" for n in range(6)]
    for name in names:
        put(t, client, name)
    move = ("store", "log", cluster.dir, "--osd", "1")
    expect("in use" in loligo(cluster, *move, "--to", device, code=1), "beside the running cluster")
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    cluster.kill()
    expect(f"{device} holds data" in loligo(cluster, *move, "--to", device, code=1), "a device with a file system")
    expect("has the store's data" in loligo(cluster, *move, "--to", os.path.join(cluster.dir, "osd.1", "block"), code=1),
           "the data")
    small = loop_device(t, "small", 4 << 20)
    expect("need at least" in loligo(cluster, *move, "--to", small, code=1), "a small device")
    expect("nothing to do" in loligo(cluster, *move, "--beside-data"), "a log that has not moved")
    round_trip = (("--to", device, "--overwrite"), ("--to", file), ("--beside-data",), ("--to", device))
    for number, words in enumerate(round_trip):
        killed = 0
        for seconds in (0.02, 0.05, 0.08, 0.12, 0.2):
            with subprocess.Popen(cluster.argv(*move, *words), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                time.sleep(seconds)
                killed += process.poll() is None
                process.kill()
            expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--osd", "1"), f"killed at {seconds} s")
        expect(killed > 0, f"no move was killed: {words}")
        loligo(cluster, *move, *words)
        cluster.up("--cores", "2")
        for name in names:
            same(t, client, name)
        names.append(f"later{number}")
        put(t, client, names[-1])
        told = client.ceph_json("osd", "metadata", "1")
        equal(told["bluefs_dedicated_wal"], str(int(words != ("--beside-data",))), f"what the OSD tells after {words}")
        equal(client.ceph_json("osd", "metadata", "0")["bluefs_dedicated_wal"], "0", "the other OSD's")
        cluster.kill()
    expect(not os.path.exists(file), "a file that the log has left")
    expect(f"{device} is osd.1's" in loligo(cluster, "store", "log", cluster.dir, "--osd", "0", "--to", device, code=1),
           "another OSD's")
    here = ("store", "log", cluster.dir, "--osd", "0", "--overwrite", "--to")
    store, link = os.path.join(cluster.dir, "osd.1", "block"), t.path("link")
    os.link(store, link)
    expect("has a part of osd.1's store" in loligo(cluster, *here, store, code=1), "another OSD's data, to be overwritten")
    expect("has a part of osd.1's store" in loligo(cluster, *here, link, code=1), "the same by another name")
    expect("is a part of the cluster" in loligo(cluster, *here, os.path.join(cluster.dir, "ceph.conf"), code=1), "a file of the cluster")
    shards = json.loads(loligo(cluster, "store", "dump", cluster.dir, "-f", "json"))
    equal([[of["log"]["apart"] for of in shards[f"osd.{osd}"]["shards"]] for osd in range(2)],
          [[False, False], [True, True]], "where the logs are")
    cluster.up("--cores", "2")
    loligo(cluster, "stop", cluster.dir, "--osd", "1")
    said = loligo(cluster, "start", cluster.dir, "--osd", "1", "--replace", "--yes-i-really-mean-it")
    expect("without its log" in said, said)
    until(lambda: client.ceph_json("osd", "stat")["num_up_osds"] == 2, "two OSDs up")
    loligo(cluster, "stop", cluster.dir)
    expect("no problem" in loligo(cluster, "store", "fsck", cluster.dir, "--deep"), "the stores")


def latency(t, *args):
    """Mean seconds of a small write, one at a time, over a disk that rotates."""
    cluster = t.cluster("--osds", "1", "--osd-size", "1GiB", "--set", "bdev_model=disk-7200", *args)
    client = t.client(cluster)
    client.ceph("osd", "pool", "create", POOL, "8")
    out = client.rados("-p", POOL, "bench", "3", "write", "-b", "4096", "-t", "1", "--no-cleanup").text
    cluster.stop()
    return float(next(line for line in out.splitlines() if "Average Latency" in line).split()[-1])


def test_a_small_write_waits_for_the_logs_disk_alone(t):
    beside = latency(t)
    apart = latency(t, "--log-device", t.path("log"), "--set", "bdev_log_model=ssd")
    slow = latency(t, "--log-device", t.path("slow"), "--set", "bdev_log_model=disk-7200")
    say(f"       {beside * 1000:.1f} ms beside the data, {apart * 1000:.1f} ms on an SSD, {slow * 1000:.1f} ms on a disk")
    expect(beside > 0.004 and slow > 0.004, f"{beside} s and {slow} s on a disk that rotates")
    # Half a turn of the disk at least: what a busy machine adds, it adds to both.
    expect(apart + 0.004 < beside, f"{apart} s with the log on an SSD, {beside} s beside the data")
    words = t.cluster(start=False).up("--osds", "1", "--set", "bdev_log_model=ssd", code=1).words
    expect("--log-device" in words, words)


STUDY = """
name: logs
title: Logs apart
systems:
  - name: modelled
    loligo: {store: block}
    osds: 2
    place: {modelled: {model: disk-7200, size: 4G}}
    journal: {modelled: {model: ssd, size: 2G}}
  - name: file
    loligo: {store: block}
    osds: 2
    journal: directory
  - name: loop
    loligo: {store: block}
    osds: 2
    journal: {loop: {size: 512M}}
workloads:
  - name: bench
    rados_bench: {object_size: 4K, in_flight: 4, seconds: 1, phases: [write], pg_num: 8}
design: {blocks: 1, defaults_per_block: 1, confirm: no}
"""


def test_a_study_puts_the_log_where_its_journal_is(t):
    _, out = run_study(t, "logs", STUDY)
    trials = records(out)
    equal([trial["outcome"]["status"] for trial in trials], ["ok"] * 3, "the trials")
    left = subprocess.run(["losetup", "--noheadings", "--output", "BACK-FILE"], capture_output=True, text=True, check=True)
    expect(out not in left.stdout, f"loop devices that are left: {left.stdout}")
