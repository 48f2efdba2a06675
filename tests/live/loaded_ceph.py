"""Ceph's program `ceph` of one release, kept loaded (ceph_server.py): a command takes three fifths of the time."""
import json
import os
import select
import signal
import socket
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class LoadedCeph:
    """Runs `ceph` in the network namespace that this process is in."""

    def __init__(self, argv):
        """`argv` runs a program of the release; what is to be run follows it."""
        # In the root of a release this directory is not to be seen: the program's text goes as an argument.
        with open(os.path.join(HERE, "ceph_server.py"), encoding="utf-8") as f:
            text = f.read()
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # It ends when the socket closes, and that with this process.
            self.server = subprocess.Popen([*argv, "/usr/bin/python3", "-c", text, str(theirs.fileno())],
                                           pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def run(self, argv, env, stdin, timeout):
        """What subprocess.run(capture_output=True) of it returns and raises."""
        files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        reports, report = os.pipe()
        try:
            os.pwrite(files[0], stdin, 0)
            request = json.dumps({"argv": argv, "env": env, "cwd": os.getcwd()}).encode()
            socket.send_fds(self.socket, [request], [*files, report])
            os.close(report)
            code = ended(reports, timeout)
            out, err = (os.pread(file, os.fstat(file).st_size, 0) for file in files[1:])
            if code is None:
                raise subprocess.TimeoutExpired(["ceph", *argv], timeout, out, err)
            return subprocess.CompletedProcess(["ceph", *argv], code, out, err)
        finally:
            for file in [*files, reports]:
                os.close(file)


def ended(reports, timeout):
    """The exit code of the command that reports to this pipe. After `timeout` seconds it is killed: `None`."""
    with os.fdopen(os.dup(reports), encoding="ascii") as lines:
        pid = int(lines.readline())
        if not select.select([reports], [], [], timeout)[0]:
            os.kill(pid, signal.SIGKILL)
            return None
        return int(lines.readline())
