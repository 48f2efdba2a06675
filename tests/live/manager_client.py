#!/usr/bin/python3
"""A client that stays while its cluster stops and starts: it commands the manager through librados, once a line of its
input, and answers each line by one.

usage: manager_client.py CONF
"""
import json
import sys

import rados


def main(conf):
    with rados.Rados(conffile=conf) as cluster:
        for line in sys.stdin:
            code, data, words = cluster.mgr_command(line, b"")
            print(json.dumps({"code": code, "data": data.decode(), "words": words}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
