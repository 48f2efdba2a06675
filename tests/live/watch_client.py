#!/usr/bin/python3
"""Watches and notifies through librados' Python binding: every notify reaches each watcher, and their answers come back.

usage: watch_client.py CONF POOL
"""
import sys
import threading

import rados

WATCHERS, NOTIFIES = 8, 50


def main(conf, pool):
    with rados.Rados(conffile=conf) as watcher, rados.Rados(conffile=conf) as notifier:
        watched, notified = watcher.open_ioctx(pool), notifier.open_ioctx(pool)
        notified.write_full("watched", b"data")
        seen, lock = {}, threading.Lock()

        def on_notify(notify_id, notifier_id, watch_id, data):
            with lock:
                seen.setdefault(watch_id, []).append((data.decode(), notifier_id, notify_id))
            return f"seen by {watch_id}"

        watches = [watched.watch("watched", on_notify) for _ in range(WATCHERS)]
        ids = {w.get_id() for w in watches}
        assert len(ids) == WATCHERS, ids
        for n in range(NOTIFIES):
            done, got = threading.Event(), []

            def on_complete(_, code, acks, missed):
                got.append((code, acks, missed))
                done.set()  # pylint: disable=cell-var-from-loop

            notified.aio_notify("watched", on_complete, f"news {n}", 30_000)
            assert done.wait(60), f"notify {n} does not end"
            code, acks, missed = got[0]
            assert code == 0 and not missed, (code, missed)
            answers = {cookie: bytes(reply).decode() for _, cookie, reply in acks}
            assert answers == {i: f"seen by {i}" for i in ids}, answers
        for i in ids:
            assert [data for data, *_ in seen[i]] == [f"news {n}" for n in range(NOTIFIES)], seen[i]
            assert len({notify_id for *_, notify_id in seen[i]}) == NOTIFIES, "numbers of notifies"
        for w in watches:
            w.check()
            w.close()
        assert notified.notify("watched", "to no one")
        # The watchers of an object that is removed learn of it.
        lost = threading.Event()
        last = watched.watch("watched", on_notify, lambda *_: lost.set())
        notified.remove_object("watched")
        assert lost.wait(60), "the watch of a removed object does not end"
        try:
            last.close()
        except rados.Error:
            pass
        watched.close()
        notified.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
    print("all notifies were answered")
