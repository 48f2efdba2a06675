"""Runs Ceph's own program `ceph`, unchanged, many times: Python and librados are loaded once and not for each command.

usage: ceph_server.py FD   (Ceph's own Python; FD is a Unix socket of the kind SOCK_SEQPACKET)

Two fifths of what `ceph` costs is loading its modules. This process has loaded them; each command runs in a fork of it,
with arguments, environment, directory and standard files of its own. A request is JSON ({"argv", "env", "cwd"}) with
four files: standard input, output and error, and one that gets the command's process id, a line, and, when it has
ended, its exit code, another. The process ends when the socket's other end is closed.
"""
import contextlib
import json
import os
import signal
import socket
import sys

PROGRAM = "/usr/bin/ceph"
REQUEST_BYTES_MAX = 100_000


def serve(server):
    """Takes requests. Returns in a fork that is to run a command."""
    while True:
        data, files, _, _ = socket.recv_fds(server, REQUEST_BYTES_MAX, 4)
        if not data:
            sys.exit(0)
        if os.fork() == 0:
            server.close()
            return prepare(json.loads(data), *files)
        for file in files:
            os.close(file)


def prepare(request, stdin, stdout, stderr, report):
    """Returns in the process of the command; its parent, which stays here, tells how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        os.write(report, f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    for number, file in enumerate((stdin, stdout, stderr)):
        os.dup2(file, number)
    os.closerange(3, max(stdin, stdout, stderr, report) + 1)
    # In the root of another release the directory may not be there.
    with contextlib.suppress(FileNotFoundError):
        os.chdir(request["cwd"])
    for name in [name for name in os.environ if name.startswith("CEPH")]:
        del os.environ[name]
    os.environ.update(request["env"])
    sys.argv = [PROGRAM, *request["argv"]]


def main():
    server = socket.socket(fileno=int(sys.argv[1]))
    with open(PROGRAM, encoding="utf-8") as f:
        code = compile(f.read(), PROGRAM, "exec")
    # Under another name it only loads its modules.
    exec(code, {"__name__": "loaded", "__file__": PROGRAM})  # pylint: disable=exec-used
    # This process waits for none of the forks that report: the kernel removes those that have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve(server)
    exec(code, {"__name__": "__main__", "__file__": PROGRAM})  # pylint: disable=exec-used


if __name__ == "__main__":
    main()
