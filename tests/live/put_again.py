#!/usr/bin/python3
"""Writes an object as soon as a cluster lets it, through a client that is loaded before the cluster is started.

usage: put_again.py CONF POOL MON_HOST
Prints "ready"; a line on standard input starts it. Then it connects again and again until it is let in, makes the
pool, writes one object and prints the monotonic time (seconds) at the acknowledgement.
"""
import json
import socket
import sys
import time

import rados


def main():
    conf, pool, address = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        # librados itself would wait seconds between two tries.
        try:
            socket.create_connection((host, int(port)), 1).close()
            break
        except OSError:
            time.sleep(0.002)
    while True:
        try:
            cluster = rados.Rados(conffile=conf)
            break
        except rados.Error:  # the file is not there yet
            time.sleep(0.002)
    cluster.connect(timeout=30)
    code, _, words = cluster.mon_command(json.dumps({"prefix": "osd pool create", "pool": pool, "pg_num": 8}), b"")
    if code:
        sys.exit(f"pool create: {code} {words}")
    with cluster.open_ioctx(pool) as ioctx:
        ioctx.write_full("first", b"x" * 4096)
    print(time.monotonic(), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
