#!/usr/bin/env python3
"""Turns a packet capture of a Ceph cluster on loopback into one file per direction of each connection.

usage: streams.py PCAP ROLES OUT_DIR [--from client|daemons]
                  [--limit ROLE=BYTES]... [--drop-above ROLE=BYTES]... [--at-most ROLE=COUNT]...

ROLES has lines `port role`. Only messenger 2 connections whose first packet was seen are kept; the file names are
NN-<server role>.c2s and .s2c, and index.txt lists them. Each stream starts with the first byte of the banner and
ends after a whole frame: what follows the last whole frame, or comes after the role's --limit, is left out. A role
is a name without its number (osd, osd-cluster, mon, mgr). Of a role with --at-most only the first connections are
kept. Exits 1 if the capture has a hole anywhere, since a stream with a hole is no test vector.
"""

import argparse
import collections
import pathlib
import struct
import sys

BANNER = b"ceph v2\n"
AUTH_REQUEST, MESSAGE = 2, 17
ENTITY_TYPES = {1: "mon", 2: "mds", 4: "osd", 8: "client", 16: "mgr"}
SYN, ACK = 0x02, 0x10


def packets(path):
    """Yields (source, destination, sequence, flags, payload) of every TCP packet."""
    data = pathlib.Path(path).read_bytes()
    magic = data[:4]
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}.get(magic)
    if order is None:
        sys.exit(f"{path}: not a pcap file")
    (link_type,) = struct.unpack_from(order + "I", data, 20)
    if link_type != 1:
        sys.exit(f"{path}: link type {link_type}, only Ethernet (1) is understood")
    at = 24
    while at + 16 <= len(data):
        _, _, kept, full = struct.unpack_from(order + "IIII", data, at)
        frame = data[at + 16 : at + 16 + kept]
        at += 16 + kept
        if frame[12:14] != b"\x08\x00" or frame[14] >> 4 != 4 or frame[23] != 6:
            continue
        if kept != full:
            sys.exit(f"{path}: a packet of {full} bytes was cut to {kept}")
        tcp = 14 + (frame[14] & 15) * 4
        # A total length of zero means that the kernel handed over more than 64 KiB at once.
        end = 14 + (struct.unpack_from(">H", frame, 16)[0] or len(frame) - 14)
        source, target, sequence = struct.unpack_from(">HHI", frame, tcp)
        start = tcp + (frame[tcp + 12] >> 4) * 4
        yield (frame[26:30], source), (frame[30:34], target), sequence, frame[tcp + 13], frame[start:end]


class Stream:
    """One direction of a connection."""

    def __init__(self, first_sequence):
        self.first = first_sequence
        self.pieces = {}

    def add(self, sequence, payload):
        at = (sequence - self.first) & 0xFFFFFFFF
        if len(payload) > len(self.pieces.get(at, b"")):
            self.pieces[at] = payload

    def assembled(self):
        """The bytes up to the first hole, and whether there is none."""
        out = bytearray()
        for at, payload in sorted(self.pieces.items()):
            if at > len(out):
                return bytes(out), False
            out += payload[len(out) - at :]
        return bytes(out), True


class Connection:
    def __init__(self, port, client_first):
        self.port = port
        self.c2s = Stream(client_first)
        self.s2c = None


def connections(path):
    """Every connection whose SYN is in the capture, oldest first."""
    found, open_now = [], {}
    for source, target, sequence, flags, payload in packets(path):
        if flags & SYN and not flags & ACK:
            known = open_now.get((source, target))
            if known is None or known.c2s.first != (sequence + 1) & 0xFFFFFFFF:
                open_now[source, target] = Connection(target[1], (sequence + 1) & 0xFFFFFFFF)
                found.append(open_now[source, target])
        elif flags & SYN:
            connection = open_now.get((target, source))
            if connection is not None and connection.s2c is None:
                connection.s2c = Stream((sequence + 1) & 0xFFFFFFFF)
        elif payload:
            if (source, target) in open_now:
                open_now[source, target].c2s.add(sequence, payload)
            elif (target, source) in open_now and open_now[target, source].s2c is not None:
                open_now[target, source].s2c.add(sequence, payload)
    return [connection for connection in found if connection.s2c is not None]


def frames(stream):
    """Yields (tag, first segment, end offset) of each whole frame of a revision 2.1 stream in crc mode."""
    at = len(BANNER) + 2 + struct.unpack_from("<H", stream, len(BANNER))[0]
    yield None, b"", at
    while at + 32 <= len(stream):
        tag, segments = stream[at], stream[at + 1]
        lengths = [struct.unpack_from("<I", stream, at + 2 + 6 * i)[0] for i in range(segments)]
        first = at + 32
        end = first + sum(lengths) + (4 if lengths[0] else 0) + (13 if segments > 1 else 0)
        if end > len(stream):
            return
        yield tag, stream[first : first + lengths[0]], end
        at = end


def entity(stream):
    """The name that the connecting side gives in an AUTH_REQUEST without authentication, or None."""
    for tag, body, _ in frames(stream):
        if tag != AUTH_REQUEST or struct.unpack_from("<I", body)[0] != 1:
            continue
        modes = struct.unpack_from("<I", body, 4)[0]
        payload = body[12 + 4 * modes :]
        kind, length = struct.unpack_from("<II", payload, 1)
        return f"{ENTITY_TYPES.get(kind, kind)}.{payload[9:9 + length].decode()}"
    return None


def whole_frames(stream, limit):
    """The longest prefix of whole frames within the limit, and how often each message type is in it."""
    end, types = 0, collections.Counter()
    for tag, body, frame_end in frames(stream):
        if frame_end > limit:
            break
        end = frame_end
        if tag == MESSAGE:
            types[struct.unpack_from("<H", body, 16)[0]] += 1
    return stream[:end], types


def describe(types):
    return " ".join(f"{kind}x{count}" for kind, count in sorted(types.items())) or "-"


def by_role(entries):
    return {role: int(number) for role, number in (entry.split("=") for entry in entries)}


def kind_of(role):
    return "".join(letter for letter in role if not letter.isdigit())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pcap")
    parser.add_argument("roles")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--from", dest="origin", choices=["client", "daemons"], default="client")
    for option in ("--limit", "--drop-above", "--at-most"):
        parser.add_argument(option, action="append", default=[])
    options = parser.parse_args()
    roles = {}
    for line in pathlib.Path(options.roles).read_text().splitlines():
        port, role = line.split()
        roles[int(port)] = role
    limits, drop_above, at_most = (by_role(o) for o in (options.limit, options.drop_above, options.at_most))

    number, index, holes, kept_of = 0, [], 0, collections.Counter()
    for connection in connections(options.pcap):
        (c2s, c2s_whole), (s2c, s2c_whole) = connection.c2s.assembled(), connection.s2c.assembled()
        if not (c2s.startswith(BANNER) and s2c.startswith(BANNER)):
            continue
        name, role = entity(c2s), roles.get(connection.port)
        if name is None or name.startswith("client") != (options.origin == "client"):
            continue
        if role is None:
            sys.exit(f"no role is known for port {connection.port}, which {name} called")
        if not (c2s_whole and s2c_whole):
            print(f"a connection from {name} to {role} has a hole", file=sys.stderr)
            holes += 1
            continue
        kind = kind_of(role)
        too_many = kept_of[kind] >= at_most.get(kind, sys.maxsize)
        if too_many or len(c2s) + len(s2c) > drop_above.get(kind, sys.maxsize):
            index.append(f"-- {role:12} {name:14} left out: {len(c2s)} and {len(s2c)} bytes")
            continue
        kept_of[kind] += 1
        limit = limits.get(kind, sys.maxsize)
        (c2s_kept, c2s_types), (s2c_kept, s2c_types) = (whole_frames(stream, limit) for stream in (c2s, s2c))
        cut = " (cut)" if len(c2s_kept) + len(s2c_kept) < len(c2s) + len(s2c) else ""
        number += 1
        base = options.out / f"{number:02}-{role}"
        base.with_suffix(".c2s").write_bytes(c2s_kept)
        base.with_suffix(".s2c").write_bytes(s2c_kept)
        index.append(f"{number:02} {role:12} {name:14} c2s {describe(c2s_types)} | s2c {describe(s2c_types)}{cut}")
    header = "# number, server, who connected, message types and how often, each way\n"
    (options.out / "index.txt").write_text(header + "\n".join(index) + "\n")
    if holes or number == 0:
        sys.exit(f"{options.pcap}: {holes} connections with holes, {number} whole ones")


if __name__ == "__main__":
    main()
