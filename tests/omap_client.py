#!/usr/bin/python3
"""Many keys in one object's omap, and many objects: the client of measure.py omap.

usage: omap_client.py CONF POOL KEYS OBJECTS
Prints how many steps there are. Does each after a line on standard input; prints one of JSON then, {"step", "count", "seconds"}.
"""
import json
import sys
import time

import rados

KEYS_AT_ONCE = 1000
KEYS_IN_FLIGHT = 16
OBJECTS_IN_FLIGHT = 64
VALUE = b"v" * 100


class Flying:
    """Operations under way, so many at most."""

    def __init__(self, most):
        self.most, self.all = most, []

    def add(self, completion):
        self.all.append(completion)
        if len(self.all) == self.most:
            self.wait(self.all.pop(0))

    def end(self):
        for completion in self.all:
            self.wait(completion)
        self.all = []

    @staticmethod
    def wait(completion):
        completion.wait_for_complete()
        if completion.get_return_value() != 0:
            sys.exit(f"an operation failed: {completion.get_return_value()}")


def change_keys(ioctx, keys, change):
    """Changes all keys, KEYS_AT_ONCE a write. Those of a write are spread over all: so are names that are hashed."""
    flying, writes = Flying(KEYS_IN_FLIGHT), keys // KEYS_AT_ONCE
    for first in range(writes):
        with rados.WriteOpCtx() as op:
            change(op, tuple(f"key.{number:012d}" for number in range(first, keys, writes)))
            flying.add(ioctx.operate_aio_write_op(op, "index"))
    flying.end()


def insert_keys(ioctx, keys):
    change_keys(ioctx, keys, lambda op, some: ioctx.set_omap(op, some, (VALUE,) * len(some)))


def list_keys(ioctx, keys):
    after, found = "", 0
    while True:
        with rados.ReadOpCtx() as op:
            pairs, _ = ioctx.get_omap_vals(op, after, "", KEYS_AT_ONCE)
            ioctx.operate_read_op(op, "index")
            page = [name for name, _ in pairs]
        found += len(page)
        if not page:
            break
        after = page[-1]
    if found != keys:
        sys.exit(f"{found} of {keys} keys are listed")


def create_objects(ioctx, objects):
    flying = Flying(OBJECTS_IN_FLIGHT)
    for number in range(objects):
        flying.add(ioctx.aio_write_full(f"object.{number}", b"x"))
    flying.end()


def list_objects(ioctx, objects):
    found = sum(1 for _ in ioctx.list_objects())
    if found != objects:
        sys.exit(f"{found} of {objects} objects are listed")


def main():
    conf, pool, keys, objects = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as ioctx:
        steps = [("keys inserted", keys, lambda: insert_keys(ioctx, keys)),
                 ("keys listed", keys, lambda: list_keys(ioctx, keys)),
                 ("keys removed", keys, lambda: change_keys(ioctx, keys, ioctx.remove_omap_keys)),
                 ("keys inserted again", keys, lambda: insert_keys(ioctx, keys)),
                 ("removed with their object", keys, lambda: ioctx.remove_object("index")),
                 ("objects written", objects, lambda: create_objects(ioctx, objects)),
                 ("objects listed", objects, lambda: list_objects(ioctx, objects))]
        print(len(steps), flush=True)
        for name, count, work in steps:
            if not sys.stdin.readline():
                return
            began = time.monotonic()
            work()
            print(json.dumps({"step": name, "count": count, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main()
