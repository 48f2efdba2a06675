#!/usr/bin/env python3
"""A TCP proxy between two network namespaces that drops connections after an OSD's reply came, before it is passed on.

usage: cut_proxy.py CLIENT_NETNS SERVER_NETNS MON_PORT OSD_PORT...

It listens on 127.0.0.1 with the same ports in the client's namespace and connects to them in the server's. Monitor
connections pass untouched. On OSD connections it reads the messenger 2.1 frames (crc mode), counts the operations
that it has not seen yet (by transaction id) and, where the plan names one, takes the reply off and cuts.

Standard input, a JSON object a line:
    {"plan": [N, ...], "seed": S, "hold": false}  cut the reply of the Nth new operation from here on (twice if N is
                                       there twice); with hold, connections wait after a cut until
    {"go": true}
    {"report": true}
Standard output: {"ready": true}, {"cut": N} each time, {"operations", "replies", "cuts", "left"} for a report.
"""
import asyncio
import collections
import ctypes
import json
import os
import random
import socket
import struct
import sys
import threading

BANNER = b"ceph v2\n"
TAG_MESSAGE, OSD_OP, OSD_OPREPLY = 17, 42, 43
CLONE_NEWNET = 0x40000000


def enter(path):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_RDONLY)
    if libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {path}")
    os.close(fd)


async def frame(reader):
    """The next whole frame: (tag, first segment, bytes). Raises IncompleteReadError at the end."""
    preamble = await reader.readexactly(32)
    tag, segments = preamble[0], preamble[1]
    lengths = [struct.unpack_from("<I", preamble, 2 + 6 * i)[0] for i in range(segments)]
    rest = sum(lengths) + (4 if lengths[0] else 0) + (13 if segments > 1 else 0)
    body = await reader.readexactly(rest)
    return tag, body[:lengths[0]], preamble + body


def message(tag, header):
    """(type, transaction id) of a message, or (None, None)."""
    if tag != TAG_MESSAGE:
        return None, None
    tid, kind = struct.unpack_from("<QH", header, 8)
    return kind, tid


def say(**fields):
    print(json.dumps(fields), flush=True)


class Proxy:
    def __init__(self):
        self.random = random.Random(0)
        self.go = asyncio.Event()
        self.go.set()
        self.take({"plan": []})

    def take(self, order):
        if "plan" in order:
            self.random.seed(order.get("seed", 0))
            self.plan, self.hold = collections.Counter(order["plan"]), order.get("hold", False)
            self.ordinals, self.replies, self.cuts = {}, 0, 0
            self.go.set()
        if "go" in order:
            self.hold = False
            self.go.set()
        if "report" in order:
            say(operations=len(self.ordinals), replies=self.replies, cuts=self.cuts, left=sum(self.plan.values()))

    def must_cut(self, tid):
        self.replies += 1
        ordinal = self.ordinals.get(tid)
        if not self.plan.get(ordinal):
            return None
        self.plan[ordinal] -= 1
        self.cuts += 1
        return ordinal

    async def plain(self, reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def banner(self, reader, writer):
        start = await reader.readexactly(len(BANNER) + 2)
        rest = await reader.readexactly(struct.unpack_from("<H", start, len(BANNER))[0])
        if not start.startswith(BANNER):
            raise ValueError("no messenger 2 here")
        writer.write(start + rest)

    async def requests(self, reader, writer):
        await self.banner(reader, writer)
        while True:
            tag, header, data = await frame(reader)
            kind, tid = message(tag, header)
            if kind == OSD_OP:
                self.ordinals.setdefault(tid, len(self.ordinals))
            writer.write(data)
            await writer.drain()

    async def answers(self, reader, writer):
        await self.banner(reader, writer)
        while True:
            tag, header, data = await frame(reader)
            kind, tid = message(tag, header)
            ordinal = self.must_cut(tid) if kind == OSD_OPREPLY else None
            if ordinal is not None:
                # Some of the reply's bytes may come, never all; what the client has not read may be gone with them.
                if self.random.random() < 0.5:
                    writer.write(data[:self.random.randrange(len(data))])
                if self.random.random() < 0.5:
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                if self.hold:
                    self.go.clear()
                say(cut=ordinal)
                return
            writer.write(data)
            await writer.drain()

    async def serve(self, port, is_osd, reader, writer):
        ends = [writer]
        try:
            if is_osd:
                await self.go.wait()
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 23)
            ends.append(up_writer)
            there, back = (self.requests, self.answers) if is_osd else (self.plain, self.plain)
            tasks = [asyncio.create_task(there(reader, up_writer)), asyncio.create_task(back(up_reader, writer))]
            done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for task in done:
                error = task.exception()
                if error and not isinstance(error, (asyncio.IncompleteReadError, OSError)):
                    raise error
        except OSError:
            pass
        finally:
            for end in ends:
                end.close()


def read_orders(loop, proxy):
    for line in sys.stdin:
        loop.call_soon_threadsafe(proxy.take, json.loads(line))
    loop.call_soon_threadsafe(os._exit, 0)


async def main():
    client, server, mon, *osds = sys.argv[1:]
    enter(client)
    listeners = []
    for port in [mon, *osds]:
        listeners.append((int(port), port != mon, socket.create_server(("127.0.0.1", int(port)), backlog=512)))
    enter(server)
    proxy = Proxy()
    for port, is_osd, listener in listeners:
        def serve(reader, writer, port=port, is_osd=is_osd):
            return proxy.serve(port, is_osd, reader, writer)
        await asyncio.start_server(serve, sock=listener, limit=1 << 23)
    threading.Thread(target=read_orders, args=(asyncio.get_running_loop(), proxy), daemon=True).start()
    say(ready=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
