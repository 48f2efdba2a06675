"""A store that fills up: clients are held back and told, nothing breaks, and deleting makes room again."""
import os
import subprocess

from harness import equal, expect, until
from test_health import checks

POOL = "p"


def fill(client, path):
    """Writes objects until one is not acknowledged; gives the names of those that were."""
    written = []
    while True:
        name = f"o{len(written)}"
        # The client waits for space; the time-out ends it.
        if client.run("timeout", "3", "rados", "-p", POOL, "put", name, path, code=None).code:
            return written
        written.append(name)
        expect(len(written) < 100, "more was written than the OSD has")


def test_a_full_osd_holds_writes_back_until_something_is_deleted(t):
    path = t.path("data")
    data = os.urandom(4 << 20)
    with open(path, "wb") as f:
        f.write(data)
    for store in ("simple", "mem"):
        cluster = t.cluster("--store", store, "--osds", "1", "--osd-size", "256MiB",
                            "--set", "osd_mon_report_interval=0.2")
        client = t.client(cluster)
        client.ceph("osd", "pool", "create", POOL, "8")
        client.ceph("osd", "pool", "application", "enable", POOL, "rados")
        written = fill(client, path)
        expect(50 <= len(written) <= 63, f"{store}: {len(written)} objects of 4 MiB in 256 MiB")
        found = until(lambda: checks(client), "a health check")
        equal(found["OSD_FULL"]["severity"], "HEALTH_ERR", f"{found}")
        equal(found["POOL_FULL"]["severity"], "HEALTH_WARN", f"{found}")
        expect("full" in client.ceph("osd", "pool", "ls", "detail").text, "the pool's flag")
        # Reads go on, and all of it is there.
        for name in written[::10]:
            got = t.path("got")
            client.rados("-p", POOL, "get", name, got)
            with open(got, "rb") as f:
                expect(f.read() == data, f"{name} differs")
        # A writer that waits goes on when there is room.
        waiting = client.start("rados", "-p", POOL, "put", "patient", path)
        try:
            for name in written[:20]:
                client.rados("-p", POOL, "rm", name, "--force-full")
            until(lambda: not checks(client), f"no checks: {checks(client)}", 20)
            equal(waiting.wait(30), 0, "the writer that waited")
        finally:
            waiting.kill()
        client.rados("-p", POOL, "get", "patient", got)
        with open(got, "rb") as f:
            expect(f.read() == data, "patient differs")
        if store == "simple":
            cluster.kill()
            cluster.up("--osd-size", "256MiB", "--store", "simple", "--osds", "1")
            equal(sorted(client.rados("-p", POOL, "ls").text.split()), sorted(written[20:] + ["patient"]), "objects")
        cluster.stop()


def test_a_full_disk_below_the_cluster_is_a_full_osd_and_not_its_end(t):
    """The image is sparse: the file system below has less than it promises."""
    below = t.path("below")
    os.mkdir(below)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", below], check=True)
    t.cleanups.append(lambda: subprocess.run(["umount", below], check=False))
    path = t.path("data")
    with open(path, "wb") as f:
        f.write(os.urandom(4 << 20))
    cluster = t.cluster("--store", "simple", "--osds", "1", "--osd-size", "1GiB",
                        "--set", "osd_mon_report_interval=0.2", directory=os.path.join(below, "c"))
    expect("1 OSDs of 1 GiB may grow to 1 GiB, but" in cluster.said, f"what up said: {cluster.said!r}")
    client = t.client(cluster)
    equal(checks(client), {}, "an empty cluster is not full")
    client.ceph("osd", "pool", "create", POOL, "8")
    client.ceph("osd", "pool", "application", "enable", POOL, "rados")
    written = fill(client, path)
    expect(30 <= len(written) <= 70, f"{len(written)} objects of 4 MiB in 300 MiB")
    found = until(lambda: checks(client), "a health check")
    expect("OSD_FULL" in found, f"{found}")
    detail = found["OSD_FILE_SYSTEM_FULL"]["detail"][0]["message"]
    expect("osd.0 may take 1 GiB" in detail, f"what is full is said: {detail}")
    for name in written[:20]:
        client.rados("-p", POOL, "rm", name, "--force-full")
    until(lambda: "OSD_FULL" not in checks(client), f"no OSD_FULL: {checks(client)}", 20)
    client.rados("-p", POOL, "put", "again", path)


def test_osds_of_one_file_system_count_its_space_once(t):
    below = t.path("below")
    os.mkdir(below)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", below], check=True)
    t.cleanups.append(lambda: subprocess.run(["umount", below], check=False))
    cluster = t.cluster("--store", "simple", "--osds", "3", "--osd-size", "1TiB", directory=os.path.join(below, "c"))
    client = t.client(cluster)
    stats = until(lambda: (s := client.ceph_json("df")["stats"])["total_bytes"] and s, "space in ceph df")
    expect(200 << 20 < stats["total_bytes"] < 420 << 20, f"three OSDs on 400 MiB: {stats}")
    equal(checks(client), {}, "an empty cluster is not full")
