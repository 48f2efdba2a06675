"""Block images with rbd of every release."""
import hashlib

from harness import equal, expect


def payload(n, seed):
    return hashlib.shake_128(f"{seed}".encode()).digest(n)


def pool_for(client):
    pool = f"r{client.release.replace('.', '')}"
    client.ceph("osd", "pool", "create", pool, "16")
    client.run("rbd", "pool", "init", pool)
    return pool


def names(client, pool):
    return sorted(client.run("rbd", "ls", pool, "--format", "json").json())


def info(client, image):
    return client.run("rbd", "info", image, "--format", "json").json()


def write_file(path, data):
    with open(path, "wb") as f:
        f.write(data)


def read_file(path):
    with open(path, "rb") as f:
        return f.read()


def test_images_are_made_written_resized_and_removed(t):
    cluster = t.cluster("--store", "mem")
    for client in t.clients(cluster):
        pool = pool_for(client)
        image = f"{pool}/a"
        client.run("rbd", "create", image, "--size", "64M")
        equal(names(client, pool), ["a"], "rbd ls")
        made = info(client, image)
        equal((made["size"], made["objects"], made["format"]), (64 << 20, 16, 2), "rbd info")
        expect({"exclusive-lock", "object-map", "fast-diff"} <= set(made["features"]), f"features: {made}")
        bench = client.run("rbd", "bench", "--io-type", "write", "--io-size", "4096", "--io-total", "1M", image).text
        expect("elapsed" in bench, bench[-400:])
        # The object map knows what was written.
        used = client.run("rbd", "du", image, "--format", "json").json()["images"][0]["used_size"]
        expect(0 < used <= 64 << 20, f"rbd du: {used}")
        client.run("rbd", "resize", image, "--size", "128M")
        client.run("rbd", "resize", image, "--size", "32M", "--allow-shrink")
        equal(info(client, image)["size"], 32 << 20, "size after resize")
        equal(client.run("rbd", "object-map", "check", image).code, 0, "object map")
        client.run("rbd", "mv", image, f"{pool}/b")
        equal(names(client, pool), ["b"], "rbd ls after mv")
        client.run("rbd", "image-meta", "set", f"{pool}/b", "key", "value")
        equal(client.run("rbd", "image-meta", "get", f"{pool}/b", "key").text.strip(), "value", "image-meta")
        client.run("rbd", "rm", f"{pool}/b")
        equal(names(client, pool), [], "rbd ls after rm")
        left = client.rados("-p", pool, "ls").text.split()
        equal([o for o in left if o.startswith(("rbd_data", "rbd_header", "rbd_id", "rbd_object_map"))], [],
              "objects left of a removed image")


def test_what_is_imported_is_exported(t):
    cluster = t.cluster("--store", "block")
    source, back = t.path("in"), t.path("out")
    # Holes, and an end within an object.
    data = payload(5_000_000, 1) + bytes(8_000_000) + payload(1_234_567, 2)
    write_file(source, data)
    for client in t.clients(cluster):
        pool = pool_for(client)
        for features in ("layering", "layering,exclusive-lock,object-map,fast-diff"):
            client.run("rbd", "import", source, f"{pool}/i", "--image-feature", features)
            client.run("rbd", "export", "--no-progress", f"{pool}/i", back)
            got = read_file(back)
            # The size is a whole number of sectors.
            expect(got.rstrip(b"\0") == data.rstrip(b"\0"), f"{client.release}: what was imported came back otherwise")
            client.run("rm", "-f", back)
            client.run("rbd", "rm", f"{pool}/i")


def test_images_go_to_the_trash_and_come_back(t):
    cluster = t.cluster("--store", "mem")
    for client in t.clients(cluster):
        pool = pool_for(client)
        client.run("rbd", "create", f"{pool}/a", "--size", "8M")
        client.run("rbd", "trash", "mv", f"{pool}/a")
        equal(names(client, pool), [], "rbd ls after trash mv")
        listed = client.run("rbd", "-p", pool, "trash", "ls", "--format", "json").json()
        equal([image["name"] for image in listed], ["a"], "trash ls")
        client.run("rbd", "-p", pool, "trash", "restore", listed[0]["id"])
        equal(names(client, pool), ["a"], "rbd ls after restore")
        client.run("rbd", "namespace", "create", f"{pool}/ns")
        client.run("rbd", "create", f"{pool}/ns/a", "--size", "8M")
        equal(names(client, f"{pool}/ns"), ["a"], "rbd ls of a namespace")
        client.run("rbd", "rm", f"{pool}/ns/a")
        client.run("rbd", "namespace", "rm", f"{pool}/ns")
        client.run("rbd", "rm", f"{pool}/a")


def test_snapshots_and_clones_keep_what_was(t):
    cluster = t.cluster("--store", "mem")
    first, second = payload(3_000_000, 1), payload(3_000_000, 2)
    source, back = t.path("in"), t.path("out")

    def export(client, image):
        client.run("rm", "-f", back)
        client.run("rbd", "export", "--no-progress", image, back)
        return read_file(back)[:3_000_000]

    for client in t.clients(cluster):
        pool = pool_for(client)
        image, clone = f"{pool}/a", f"{pool}/c"
        write_file(source, first)
        client.run("rbd", "import", source, image)
        client.run("rbd", "snap", "create", f"{image}@s1")
        client.run("rbd", "snap", "protect", f"{image}@s1")
        client.run("rbd", "clone", f"{image}@s1", clone)
        equal(info(client, clone)["parent"]["snapshot"], "s1", "the clone's parent")
        # Other bytes into the image itself: the snapshot and the clone keep the first.
        client.run("rbd", "import-diff", diff_of(t, second), image)
        expect(export(client, image) == second, f"{client.release}: the image has what was written last")
        expect(export(client, f"{image}@s1") == first, f"{client.release}: the snapshot keeps the first bytes")
        expect(export(client, clone) == first, f"{client.release}: the clone reads its parent's snapshot")
        client.run("rbd", "bench", "--io-type", "write", "--io-size", "4096", "--io-total", "256K", clone)
        expect(export(client, f"{image}@s1") == first, f"{client.release}: a write to the clone changes it alone")
        changed = export(client, clone)
        client.run("rbd", "flatten", "--no-progress", clone)
        expect(export(client, clone) == changed, f"{client.release}: a flattened clone keeps its bytes")
        expect("parent" not in info(client, clone), "a flattened clone has no parent")
        client.run("rbd", "snap", "rollback", "--no-progress", f"{image}@s1")
        expect(export(client, image) == first, f"{client.release}: a rollback brings the first bytes back")
        expect(client.run("rbd", "snap", "rm", f"{image}@s1", code=None).code != 0, "a protected snapshot stays")
        client.run("rbd", "snap", "unprotect", f"{image}@s1")
        client.run("rbd", "snap", "purge", image)
        client.run("rbd", "rm", image)
        client.run("rbd", "rm", clone)
        equal(names(client, pool), [], "rbd ls at the end")


def diff_of(t, data):
    """A file for `rbd import-diff` that writes `data` from the image's start."""
    path = t.path("diff")
    offset, length = (0).to_bytes(8, "little"), len(data).to_bytes(8, "little")
    write_file(path, b"rbd diff v1\nw" + offset + length + data + b"e")
    return path


def test_groups_are_snapshotted_together(t):
    cluster = t.cluster("--store", "mem")
    for client in t.clients(cluster):
        pool = pool_for(client)
        client.run("rbd", "group", "create", f"{pool}/g")
        for image in ("a", "b"):
            client.run("rbd", "create", f"{pool}/{image}", "--size", "8M")
            client.run("rbd", "group", "image", "add", f"{pool}/g", f"{pool}/{image}")
        client.run("rbd", "group", "snap", "create", f"{pool}/g@s")
        snaps = client.run("rbd", "group", "snap", "ls", f"{pool}/g", "--format", "json").json()
        equal([s["snapshot"] for s in snaps], ["s"], "group snap ls")
        client.run("rbd", "group", "snap", "rm", f"{pool}/g@s")
        client.run("rbd", "group", "image", "rm", f"{pool}/g", f"{pool}/a")
        client.run("rbd", "rm", f"{pool}/a")
        client.run("rbd", "group", "rm", f"{pool}/g")
        client.run("rbd", "rm", f"{pool}/b")
        equal(names(client, pool), [], "rbd ls at the end")


def test_fio_verifies_an_image(t):
    cluster = t.cluster("--store", "mem")
    client = t.client(cluster)
    if client.run("fio", "--enghelp=rbd", code=None).code != 0:
        return
    pool = pool_for(client)
    client.run("rbd", "create", f"{pool}/f", "--size", "64M")
    client.run("fio", "--name=f", "--ioengine=rbd", "--clientname=admin", f"--pool={pool}", "--rbdname=f",
               "--rw=randwrite", "--bs=16k", "--iodepth=16", "--size=8M", "--verify=crc32c", "--verify_fatal=1",
               "--verify_state_save=0")
    client.run("rbd", "rm", f"{pool}/f")
