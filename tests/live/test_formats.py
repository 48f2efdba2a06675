"""Directories of every format that was ever landed open, with everything that is in them."""
import glob
import json
import os
import re
import socket
import subprocess

from harness import equal, expect, until

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "formats")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def unpack(path, directory):
    os.mkdir(directory)
    subprocess.run(["tar", "-C", directory, "-xJf", path], check=True)
    # The port that the cluster had may be somebody else's today.
    description = os.path.join(directory, "cluster.json")
    with open(description, encoding="utf-8") as f:
        text = json.load(f)
    text["mon_addr"] = f"127.0.0.1:{free_port()}"
    with open(description, "w", encoding="utf-8") as f:
        json.dump(text, f)


def check(client):
    """What every kept directory holds: see tests/formats/README.md."""
    equal(sorted(client.rados("-p", "kept", "ls").text.split()), ["object1", "object2", "object3", "object4"], "objects")
    for i, size in [(1, 3000), (2, 6000), (3, 4500), (4, 12000)]:
        equal(client.rados("-p", "kept", "get", f"object{i}", "-").out, str(i).encode() * size, f"object{i}")
    equal(client.rados("-p", "kept", "-N", "space", "get", "object1", "-").out, b"5" * 15000, "in a namespace")
    equal(client.rados("-p", "kept", "getxattr", "object1", "colour").out.strip(), b"blue", "an attribute")
    equal(client.rados("-p", "kept", "listomapkeys", "object2").text.split(), ["key"], "omap")
    expect("noout" in client.ceph("osd", "dump").text, "the flag noout is set")
    equal(client.ceph("config", "get", "osd", "osd_max_object_size").text.split(), ["67108864"], "a stored option")


def bring_back(client):
    """Directories from 4 on have two OSDs and a pool of which PGs are away from their objects."""
    # It is refused until the OSDs have said which PGs they serve.
    back = ("osd", "pool", "set", "away", "pgp_num", "8")
    until(lambda: "would leave" not in client.ceph(*back, code=None).words, "the PGs come back")
    for i in range(10):
        equal(client.rados("-p", "away", "get", f"o{i}", "-").text.split(), [str(i)], f"o{i}")


def test_directories_of_every_format_open(t):
    kept = sorted(glob.glob(os.path.join(KEPT, "cluster-*.tar.xz")))
    expect(kept, "no directory is kept")
    for path in kept:
        number = re.search(r"cluster-(\d+)", path)[1]
        directory = t.path(f"format{number}")
        unpack(path, directory)
        cluster = t.cluster(directory=directory, start=False)
        for _ in range(2):
            cluster.up()
            client = t.client(cluster)
            check(client)
            if int(number) >= 4:
                bring_back(client)
            client.rados("-p", "kept", "put", "new", "/etc/hostname")
            client.rados("-p", "kept", "rm", "new")
            cluster.stop()
