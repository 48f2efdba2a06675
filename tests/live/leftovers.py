"""What a test may leave behind in its own directory when it fails or is stopped: processes, mounts, loop devices."""
import contextlib
import os
import signal
import subprocess
import time


def processes(directory):
    """Those that have to do with a directory, by number: what they were called with."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f, open(f"/proc/{pid}/environ", "rb") as g:
                about = f.read() + b" " + g.read()
        except OSError:
            continue
        if int(pid) != os.getpid() and directory.encode() in about:
            found[int(pid)] = about[:200]
    return found


def mounts(directory):
    """What is mounted below a directory, the innermost first."""
    with open("/proc/mounts", encoding="utf-8") as f:
        at = [line.split()[1] for line in f]
    return sorted((place for place in at if place.startswith(directory + "/")), key=len, reverse=True)


def loops(directory):
    """Loop devices over files below a directory."""
    listed = subprocess.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"], capture_output=True, text=True, check=False)
    pairs = (line.split(None, 1) for line in listed.stdout.splitlines())
    return [pair[0] for pair in pairs if len(pair) == 2 and pair[1].startswith(directory + "/")]


def left_over(directory):
    """All of it, in words."""
    return ([f"process {pid}: {about!r}" for pid, about in processes(directory).items()]
            + [f"mount {at}" for at in mounts(directory)] + [f"loop device {name}" for name in loops(directory)])


def clear(directory):
    """Ends all of it and takes it away. Loop devices are let go first, for with what their files are on they lose their
    names; one that is mounted goes when that ends."""
    for _ in range(5):
        if not left_over(directory):
            return
        for pid in processes(directory):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        for name in loops(directory):
            subprocess.run(["losetup", "--detach", name], capture_output=True, check=False, timeout=60)
        for command in ["umount"], ["umount", "--lazy"]:
            for at in mounts(directory):
                subprocess.run([*command, at], capture_output=True, check=False, timeout=60)
