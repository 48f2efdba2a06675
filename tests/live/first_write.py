#!/usr/bin/python3
"""How soon a cluster that is being started serves: seen by clients that are loaded before it is.

usage: first_write.py CONF POOL MON_HOST:PORT OSDS
Prints "ready"; a line on standard input starts it. Then one client asks for the status until OSDS of them are up and
the health is HEALTH_OK, and another makes the pool and writes an object; the monotonic times (seconds) of both are printed as JSON,
{"healthy", "wrote"}.
"""
import json
import os
import socket
import sys
import threading
import time

import rados


def command(cluster, **fields):
    code, out, words = cluster.mon_command(json.dumps(fields), b"")
    if code:
        print(f"{fields}: {code} {words}", file=sys.stderr, flush=True)
        os._exit(1)
    return out


def connected(conf, host, port):
    """A client; tries at once again where librados itself would wait for seconds."""
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            cluster = rados.Rados(conffile=conf)
            break
        except (OSError, rados.Error):  # no port, or no file yet
            time.sleep(0.002)
    cluster.connect(timeout=60)
    return cluster


def see_health(conf, host, port, osds, times):
    cluster = connected(conf, host, port)
    while True:
        status = json.loads(command(cluster, prefix="status", format="json"))
        # A cluster without an OSD may call itself healthy.
        if status["health"]["status"] == "HEALTH_OK" and status["osdmap"]["num_up_osds"] == osds:
            break
        time.sleep(0.01)
    times["healthy"] = time.monotonic()
    cluster.shutdown()


def write(conf, host, port, pool, times):
    cluster = connected(conf, host, port)
    command(cluster, prefix="osd pool create", pool=pool, pg_num=8)
    # Else a pool in use without an application would be warned of.
    command(cluster, prefix="osd pool application enable", pool=pool, app="rados")
    with cluster.open_ioctx(pool) as ioctx:
        ioctx.write_full("first", b"x" * 4096)
    times["wrote"] = time.monotonic()
    cluster.shutdown()


def main():
    conf, pool, address, osds = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    print("ready", flush=True)
    sys.stdin.readline()
    times = {}
    threads = [threading.Thread(target=see_health, args=(conf, host, port, int(osds), times)),
               threading.Thread(target=write, args=(conf, host, port, pool, times))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
