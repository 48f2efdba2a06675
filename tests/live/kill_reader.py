#!/usr/bin/python3
"""Reads all objects of a pool as a client of its own and says what it found.

usage: kill_reader.py CONF POOL OUT_DIR NAME...
Puts each object's bytes into OUT_DIR/NAME and prints {"global_id", "epoch", "pools", "listing", "missing"} as JSON.
"""
import json
import os
import sys

import rados


def main():
    conf, pool, out, *names = sys.argv[1:]
    missing = []
    with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as ioctx:
        listing = sorted(o.key for o in ioctx.list_objects())
        for name in sorted(set(names) | set(listing)):
            try:
                size, _ = ioctx.stat(name)
                content = ioctx.read(name, size + 1)
            except rados.ObjectNotFound:
                missing.append(name)
                continue
            if len(content) != size:
                sys.exit(f"{name}: stat says {size} bytes, read gives {len(content)}")
            with open(os.path.join(out, name), "wb") as f:
                f.write(content)
        code, dump, words = cluster.mon_command(json.dumps({"prefix": "osd dump", "format": "json"}), b"")
        if code:
            sys.exit(f"osd dump: {code} {words}")
        dump = json.loads(dump)
        print(json.dumps({
            "global_id": cluster.get_instance_id(), "epoch": dump["epoch"], "listing": listing, "missing": missing,
            "pools": {p["pool_name"]: p["pool"] for p in dump["pools"]},
        }))


if __name__ == "__main__":
    main()
