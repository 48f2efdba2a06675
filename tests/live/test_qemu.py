"""Images as QEMU uses them: qemu-img, and a guest's disk, through librbd."""
import os
import subprocess

from harness import equal, expect, say, until
from test_rbd import payload, pool_for, read_file, write_file

HERE = os.path.dirname(os.path.abspath(__file__))
GUEST_KERNEL = os.path.join(HERE, "..", "peers", "guest-kernel.sh")
# An emulated processor on a busy machine takes its time.
GUEST_BOUND = 600


def drive(cluster, image, *settings):
    return ":".join([f"rbd:{image}", f"conf={cluster.conf}", "id=admin", *settings])


def test_qemu_img_converts_compares_and_snapshots_images(t):
    cluster = t.cluster("--store", "mem")
    client = t.client(cluster)
    pool = pool_for(client)
    image = drive(cluster, f"{pool}/q")
    data = payload(3 << 20, "q") + bytes(2 << 20) + payload(1 << 20, "r")
    write_file(t.path("in"), data)
    client.run("qemu-img", "convert", "-f", "raw", "-O", "raw", t.path("in"), image)
    equal(client.run("qemu-img", "info", "--output", "json", image).json()["virtual-size"], len(data), "qemu-img info")
    expect("identical" in client.run("qemu-img", "compare", "-f", "raw", "-F", "raw", t.path("in"), image).text, "compare")
    client.run("qemu-img", "snapshot", "-c", "s", image)
    expect(" s " in client.run("qemu-img", "snapshot", "-l", image).text, "qemu-img snapshot -l")
    client.run("qemu-io", "-f", "raw", "-c", "write -P 7 0 1M", "-c", "flush", image)
    client.run("qemu-img", "resize", "-f", "raw", image, "16M")
    client.run("qemu-img", "snapshot", "-a", "s", image)
    client.run("qemu-img", "convert", "-f", "raw", "-O", "raw", image, t.path("out"))
    equal(read_file(t.path("out"))[:len(data)], data, "what comes back")
    client.run("qemu-img", "snapshot", "-d", "s", image)
    client.run("rbd", "rm", f"{pool}/q")


def test_a_guest_keeps_its_files_when_the_cluster_is_killed_meanwhile(t):
    cluster = t.cluster("--store", "block")
    client = t.client(cluster)
    pool = pool_for(client)
    boot = t.path("boot")
    subprocess.run(["bash", GUEST_KERNEL, os.path.join(HERE, "guest_init.sh"), boot], check=True, timeout=GUEST_BOUND)
    with open(t.path("disk"), "wb") as f:
        f.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", t.path("disk")], check=True)
    image = drive(cluster, f"{pool}/disk", "rbd_cache=true")
    client.run("qemu-img", "convert", "-f", "raw", "-O", "raw", t.path("disk"), image)
    console = t.path("console")
    guest = subprocess.Popen(
        ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-m", "256", "-kernel", f"{boot}/vmlinuz",
         "-initrd", f"{boot}/initrd", "-append", "console=ttyS0 quiet panic=-1 printk.devkmsg=on",
         "-serial", f"file:{console}",
         "-drive", f"file={image},format=raw,if=virtio,cache=writeback"])
    t.cleanups.append(guest.kill)

    def synced(n):
        expect(guest.poll() is None, f"the guest ended: {read_file(console)[-500:]}")
        return f"GUEST SYNCED {n}".encode() in read_file(console)

    until(lambda: os.path.exists(console) and synced(5), "the guest's fifth file", GUEST_BOUND)
    expect(not synced(200), "the guest was done before the cluster was killed: give it more to write")
    cluster.kill()
    cluster.up("--store", "block")
    equal(guest.wait(GUEST_BOUND), 0, "qemu's exit code")
    text = read_file(console).decode(errors="replace")
    expect("GUEST DONE" in text and "GUEST FAILED" not in text, text[-1000:])
    client.run("qemu-img", "convert", "-f", "raw", "-O", "raw", image, t.path("after"))
    subprocess.run(["e2fsck", "-fn", t.path("after")], check=True, capture_output=True)
    for n in (1, 200):
        found = subprocess.run(["debugfs", "-R", f"cat f{n}", t.path("after")], check=True, capture_output=True).stdout
        equal(found, (f"line of file {n}\n".encode() * 40000)[:524288], f"file {n} on the image")
    say("       a guest wrote 200 files while the cluster was killed and started again")


test_a_guest_keeps_its_files_when_the_cluster_is_killed_meanwhile.soak_only = True  # 100 MB of packages
