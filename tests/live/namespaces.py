"""Namespaces that live as long as this process: networks with a 127.0.0.1 of their own, mounts that nobody else sees.

A small process holds each one; it ends when its standard input closes, so nothing is left behind, however the
tests end.
"""
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

from harness import expect

HOLD_NETWORK = f"""
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import namespaces
namespaces.loopback_up()
print("ready", flush=True)
sys.stdin.read()
"""

HOLD_MOUNT = """
import subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + sys.argv[2], "tmpfs", sys.argv[1]], check=True)
print("ready", flush=True)
sys.stdin.read()
"""


def loopback_up():
    """Brings up the loopback of the network namespace that this process is in."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        getflags, setflags, up = 0x8913, 0x8914, 1
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(s, getflags, request), 16)[0]
        fcntl.ioctl(s, setflags, struct.pack("16sH14x", b"lo", flags | up))


def enter_own_network():
    """Puts this process, and what it starts, into a network namespace of its own."""
    new_network = 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    expect(libc.unshare(new_network) == 0, f"no network namespace to be had: {os.strerror(ctypes.get_errno())}")
    loopback_up()


class Namespace:
    """Kept open by a process of its own; `prefix` runs a command inside."""

    def __init__(self, kind, script, *args):
        unshare = ["unshare", f"--{kind}"] + (["--propagation", "private"] if kind == "mount" else [])
        self.holder = subprocess.Popen([*unshare, sys.executable, "-c", script, *args], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        expect(self.holder.stdout.readline() == b"ready\n", f"no {kind} namespace to be had")
        self.path = f"/proc/{self.holder.pid}/ns/{'net' if kind == 'net' else 'mnt'}"
        self.prefix = ["nsenter", f"--{kind}={self.path}"]

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(10)


def network(t):
    """A network namespace of the test's own whose loopback is up."""
    namespace = Namespace("net", HOLD_NETWORK)
    t.cleanups.append(namespace.close)
    return namespace


def small_disk(t, directory, size):
    """A mount namespace in which `directory` is a tmpfs of `size` (as mount takes it)."""
    namespace = Namespace("mount", HOLD_MOUNT, directory, size)
    t.cleanups.append(namespace.close)
    return namespace
