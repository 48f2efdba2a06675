#!/usr/bin/python3
"""The client of the cut tests.

usage: cut_client.py append CONF POOL SEED COUNT      COUNT appends to a few objects, several in flight
       cut_client.py check CONF POOL SEED COUNT       are they there, each once and in order?
       cut_client.py one CONF POOL create|remove|stat NAME...   one after the other; prints the codes as JSON
"""
import errno
import json
import random
import sys
import threading

import rados

OBJECTS = 5
IN_FLIGHT = 16


def records(seed, count):
    """(object, record) of each append. A record names itself and has a length of its own."""
    r = random.Random(f"{seed}/appends")
    for i in range(count):
        name = f"a{r.randrange(OBJECTS)}"
        yield name, f"<{name} {i} ".encode() + b"." * r.choice((0, 3, 100, 1000, r.randrange(6000))) + b">"


def append(ioctx, seed, count):
    window, refused = threading.Semaphore(IN_FLIGHT), []

    def done(completion, *_):
        if completion.get_return_value() < 0:
            refused.append(completion.get_return_value())
        window.release()

    for name, record in records(seed, int(count)):
        window.acquire()
        ioctx.aio_append(name, record, oncomplete=done)
    for _ in range(IN_FLIGHT):
        window.acquire()
    if refused:
        sys.exit(f"{len(refused)} appends were refused: {refused[:5]}")


def check(ioctx, seed, count):
    expected = {f"a{i}": [] for i in range(OBJECTS)}
    for name, record in records(seed, int(count)):
        expected[name].append(record)
    for name, wanted in expected.items():
        size, _ = ioctx.stat(name)
        if ioctx.read(name, size + 1) == b"".join(wanted):
            continue
        found = [r + b">" for r in ioctx.read(name, size + 1).split(b">")[:-1]]
        for i, record in enumerate(wanted):
            if i >= len(found) or found[i] != record:
                got = found[i][:40] if i < len(found) else "the end"
                sys.exit(f"{name}: {len(found)} records, {len(wanted)} were appended; record {i} is {got}, "
                         f"expected {record[:40]}; there twice: {len(found) - len(set(found))}, "
                         f"missing: {len(set(wanted) - set(found))}")
        sys.exit(f"{name}: {len(found)} records, {len(wanted)} were appended")


def one(ioctx, kind, *names):
    codes = []
    for name in names:
        try:
            if kind == "create":
                with rados.WriteOpCtx() as op:
                    op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
                    ioctx.operate_write_op(op, name)
            elif kind == "remove":
                ioctx.remove_object(name)
            else:
                ioctx.stat(name)
            codes.append(0)
        except rados.OSError as e:
            codes.append(-abs(e.errno) if e.errno else -errno.EIO)
    print(json.dumps(codes))


def main():
    what, conf, pool, *rest = sys.argv[1:]
    with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as ioctx:
        {"append": append, "check": check, "one": one}[what](ioctx, *rest)


if __name__ == "__main__":
    main()
