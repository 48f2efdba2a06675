"""The lab on raw devices: partitions of one disk for data and journal, taken only when named and empty."""
import json
import os
import struct
import subprocess

from harness import equal, expect

STUDY = """
name: partitions
title: Data on one partition, the journal on another
systems:
  - name: ceph
    ceph: {release: 16.2, store: filestore}
    osds: 1
    place: {devices: {paths: [%sp1], fs: xfs}}
    journal: {devices: {paths: [%sp2]}}
workloads:
  - name: bench
    rados_bench: {object_size: 4K, in_flight: 4, seconds: 1, phases: [write], pg_num: 8}
design: {blocks: 1, defaults_per_block: 1, confirm: no}
"""
SECTOR = 512


def partitioned(t, sizes_mib):
    """A disk with an MBR and these partitions, behind a loop device."""
    table, at = b"", 2048
    for size in sizes_mib:
        sectors = size * 1024 * 1024 // SECTOR
        table += struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", at, sectors)
        at += sectors
    path = t.path("disk")
    with open(path, "wb") as f:
        f.truncate(at * SECTOR)
        f.write(b"\0" * 446 + table.ljust(64, b"\0") + b"\x55\xaa")
    done = subprocess.run(["losetup", "--find", "--show", "--partscan", path], capture_output=True, text=True, check=True)
    device = done.stdout.strip()
    if not os.path.exists(device + "p1"):
        subprocess.run(["partx", "--add", device], capture_output=True, check=False)
    t.cleanups.append(lambda: subprocess.run(["losetup", "--detach", device], check=False))
    return device


def test_partitions_are_devices(t):
    if os.geteuid() != 0:
        print("not run: it needs root for loop devices and mkfs")
        return
    disk = partitioned(t, [1400, 600])
    expect(os.path.exists(disk + "p2"), f"the kernel shows no partitions of {disk}")
    study, out = t.path("study.yaml"), t.path("results")
    with open(study, "w", encoding="utf-8") as f:
        f.write(STUDY % (disk, disk))

    def run(*flags):
        return subprocess.run([t.loligo, "lab", "run", study, "--out", out, *flags], cwd=t.dir, capture_output=True, text=True, timeout=300)

    refused = run()
    expect(refused.returncode == 1 and f"--overwrite-device {disk}p1" in refused.stderr, refused.stderr)
    named = [f"--overwrite-device={disk}p{n}" for n in (1, 2)]
    subprocess.run(["mkfs.xfs", "-q", disk + "p1"], check=True)
    refused = run(*named)
    expect(refused.returncode == 1 and "it holds data" in refused.stderr, refused.stderr)
    subprocess.run(["wipefs", "--all", "--quiet", disk + "p1"], check=True)
    with open(disk + "p1", "r+b") as f:
        f.write(b"\0" * (1 << 20))
    done = run(*named)
    expect(done.returncode == 0, done.stdout + done.stderr)
    with open(os.path.join(out, "trials.jsonl"), encoding="utf-8") as f:
        equal([json.loads(line)["outcome"]["status"] for line in f], ["ok"], "trials")
