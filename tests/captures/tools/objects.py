#!/usr/bin/env python3
"""Object operations through librados that the rados program has no command for, one Ceph client, small objects.

usage: objects.py CEPH_CONF POOL      also: objects.py CEPH_CONF --maps (one client sees pools come and go)
"""

import sys
import threading

import rados


def expect(error, call, *arguments):
    try:
        call(*arguments)
    except error as caught:
        print(f"{type(caught).__name__} as expected: {caught}")
        return
    sys.exit(f"{call} succeeded, {error.__name__} was expected")


def write_op(ioctx, name, *steps):
    with rados.WriteOpCtx() as op:
        for step in steps:
            step(op)
        ioctx.operate_write_op(op, name)


def omap(ioctx):
    with rados.WriteOpCtx() as op:
        ioctx.set_omap(op, ("a", "b", "c"), (b"1", b"22", b"\x00\xff"))
        ioctx.operate_write_op(op, "omap")
    with rados.ReadOpCtx() as op:
        pairs, _ = ioctx.get_omap_vals(op, "", "", 10)
        ioctx.operate_read_op(op, "omap")
        print(list(pairs))
    with rados.ReadOpCtx() as op:
        pairs, _ = ioctx.get_omap_vals_by_keys(op, ("b", "nosuch"))
        ioctx.operate_read_op(op, "omap")
        print(list(pairs))
    with rados.WriteOpCtx() as op:
        ioctx.remove_omap_keys(op, ("a",))
        ioctx.operate_write_op(op, "omap")
    with rados.ReadOpCtx() as op:
        keys, _ = ioctx.get_omap_keys(op, "", 10)
        ioctx.operate_read_op(op, "omap")
        print(list(keys))


def watch_and_notify(ioctx):
    ioctx.write_full("watched", b"")
    called = threading.Event()
    with ioctx.watch("watched", lambda notify_id, notifier, watch_id, data: called.set() or b"heard"):
        ioctx.notify("watched", "hello")
        print("notified:", called.wait(10))


def operations(ioctx):
    write_op(ioctx, "exclusive", lambda op: op.new(rados.LIBRADOS_CREATE_EXCLUSIVE))
    expect(rados.ObjectExists, write_op, ioctx, "exclusive", lambda op: op.new(rados.LIBRADOS_CREATE_EXCLUSIVE))
    ioctx.write_full("full", b"first")
    ioctx.write_full("full", b"second and longer")
    ioctx.write("full", b"FULL", 7)
    ioctx.append("full", b", appended")
    print(ioctx.read("full"), ioctx.read("full", 6, 3), ioctx.stat("full")[0])
    ioctx.trunc("full", 4)
    write_op(ioctx, "compound", lambda op: op.new(rados.LIBRADOS_CREATE_IDEMPOTENT), lambda op: op.append(b"0123456789"),
             lambda op: op.zero(2, 3), lambda op: op.write(b"x", 9), lambda op: op.truncate(8))
    print(ioctx.read("compound"))
    ioctx.set_xattr("full", "one", b"1")
    ioctx.set_xattr("full", "two", b"22")
    print(ioctx.get_xattr("full", "two"), sorted(name for name, _ in ioctx.get_xattrs("full")))
    ioctx.rm_xattr("full", "one")
    expect(rados.NoData, ioctx.get_xattr, "full", "one")
    expect(rados.ObjectNotFound, ioctx.read, "nosuch")
    expect(rados.ObjectNotFound, ioctx.remove_object, "nosuch")
    omap(ioctx)
    watch_and_notify(ioctx)
    ioctx.set_namespace("space")
    ioctx.write_full("full", b"in a namespace")
    ioctx.set_locator_key("key")
    ioctx.write_full("located", b"by key")
    ioctx.set_locator_key("")
    ioctx.set_namespace(rados.LIBRADOS_ALL_NSPACES if hasattr(rados, "LIBRADOS_ALL_NSPACES") else "")
    print(sorted((entry.nspace, entry.key) for entry in ioctx.list_objects()))
    ioctx.set_namespace("")
    ioctx.lock_exclusive("locked", "name", "cookie", desc="a class call")
    ioctx.unlock("locked", "name", "cookie")
    for name in ("exclusive", "full", "compound", "omap", "watched", "locked"):
        ioctx.remove_object(name)


def maps(conf):
    """One client writes all along while another one makes and removes pools, so the first gets increments."""
    with rados.Rados(conffile=conf) as writer, rados.Rados(conffile=conf) as admin:
        writer.create_pool("steady")
        with writer.open_ioctx("steady") as steady:
            for round_number in range(3):
                name = f"passing{round_number}"
                admin.create_pool(name)
                with admin.open_ioctx(name) as passing:
                    passing.write_full("object", b"%d" % round_number)
                steady.write_full("object", b"%d" % round_number)
                writer.wait_for_latest_osdmap()
                with writer.open_ioctx(name) as passing:
                    print(passing.read("object"))
                admin.delete_pool(name)
                steady.append("object", b".")
        writer.wait_for_latest_osdmap()
        print(sorted(writer.list_pools()), writer.get_cluster_stats()["num_objects"] >= 0)
        writer.delete_pool("steady")


def main():
    conf, what = sys.argv[1:]
    if what == "--maps":
        maps(conf)
        return
    with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(what) as ioctx:
        operations(ioctx)


if __name__ == "__main__":
    main()
