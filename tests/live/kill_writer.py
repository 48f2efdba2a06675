#!/usr/bin/python3
"""Writes through librados and notes in a journal what it submits and what is acknowledged.

usage: kill_writer.py CONF POOL JOURNAL ROUND SEED SIZES_JSON

Journal lines:  i GLOBAL_ID | s N OBJECT KIND OFFSET LENGTH (before it is submitted) | a N CODE (acknowledged)
                ps/pa NAME (pool creation submitted, acknowledged) | rs/ra NAME (pool removal) | e EPOCH (of the OSD map)
Each line is one write to the file before anything follows from it. A line on standard input, or its end, makes it
finish what is in flight and end with code 0. Operations on an object are in flight several at a time: librados
keeps their order.
"""
import json
import os
import random
import sys
import threading
import time

import rados

import kill_model

IN_FLIGHT = 24


class Journal:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, *fields):
        os.write(self.fd, (" ".join(str(f) for f in fields) + "\n").encode())


class Writer:
    def __init__(self, ioctx, journal, round_number, seed, sizes):
        self.ioctx, self.journal, self.round = ioctx, journal, round_number
        self.random = random.Random(f"{seed}/{round_number}/writer")
        self.sizes, self.number = sizes, 0
        self.window = threading.Semaphore(IN_FLIGHT)
        self.failed = None

    def done(self, number):
        def callback(completion, *_):
            code = completion.get_return_value()
            self.journal("a", number, code)
            if code < 0:
                self.failed = f"operation {number} got {code}"
            self.window.release()
        return callback

    def submit(self, name, kind, offset=0, length=0):
        self.window.acquire()
        self.number += 1
        number, call = self.number, self.done(self.number)
        payload = kill_model.data(name, self.round, number, length)
        self.journal("s", number, name, kind, offset, length)
        size = self.sizes.get(name)
        if kind == "full":
            self.ioctx.aio_write_full(name, payload, oncomplete=call)
            size = length
        elif kind == "append":
            self.ioctx.aio_append(name, payload, oncomplete=call)
            size = (size or 0) + length
        elif kind == "write":
            self.ioctx.aio_write(name, payload, offset, oncomplete=call)
            size = max(size or 0, offset + length)
        else:
            self.ioctx.aio_remove(name, oncomplete=call)
            size = None
        self.sizes[name] = size

    def any(self):
        r = self.random
        name = r.choice(sorted(self.sizes))
        size, dice = self.sizes[name], r.random()
        if dice < 0.05 and size is not None:
            self.submit(name, "remove")
        elif dice < 0.30 or (size or 0) > 1 << 20:
            self.submit(name, "full", 0, r.choice((1, 100, 4096, 5000, 16384, 70_000, 200_000)))
        elif dice < 0.60:
            self.submit(name, "append", 0, r.randrange(1, 20_000))
        elif dice < 0.85:  # whole blocks, several of them
            block = r.randrange(0, (size or 0) // kill_model.BLOCK + 3)
            self.submit(name, "write", block * kill_model.BLOCK, r.randrange(1, 9) * kill_model.BLOCK)
        else:
            self.submit(name, "write", r.randrange(0, (size or 0) + 9000), r.randrange(1, 30_000))

    def drain(self):
        for _ in range(IN_FLIGHT):
            self.window.acquire()


def command(cluster, **fields):
    code, out, words = cluster.mon_command(json.dumps(fields), b"")
    if code:
        sys.exit(f"{fields}: {code} {words}")
    return out


def make_pools(cluster, journal, round_number, stop):
    """Makes a pool now and then and removes the last but one."""
    number = 0
    while not stop.is_set():
        name = f"k{round_number}-{number}"
        journal("ps", name)
        command(cluster, prefix="osd pool create", pool=name, pg_num=4)
        journal("pa", name)
        if number >= 2:
            old = f"k{round_number}-{number - 2}"
            journal("rs", old)
            command(cluster, prefix="osd pool rm", pool=old, pool2=old, yes_i_really_really_mean_it=True)
            journal("ra", old)
        journal("e", json.loads(command(cluster, prefix="osd dump", format="json"))["epoch"])
        number += 1
        stop.wait(0.1)


def main():
    conf, pool, journal_path, round_number, seed, sizes = sys.argv[1:]
    journal = Journal(journal_path)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as ioctx:
        journal("i", cluster.get_instance_id())
        with open(sizes, encoding="ascii") as f:
            writer = Writer(ioctx, journal, int(round_number), seed, json.load(f))
        pools = threading.Thread(target=make_pools, args=(cluster, journal, int(round_number), stop))
        pools.daemon = True
        # First each object once, in the same order in every round: so each gets the transaction ids it had before.
        for name in sorted(writer.sizes):
            writer.submit(name, "append" if int(round_number) % 2 else "full", 0, 5000)
        pools.start()
        while not stop.is_set() and writer.failed is None:
            writer.any()
            if writer.number % 64 == 0:
                time.sleep(0.001)
        writer.drain()
        pools.join(30)
        if writer.failed:
            sys.exit(writer.failed)


if __name__ == "__main__":
    main()
