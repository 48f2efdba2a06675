"""A peer that speaks messenger 2.1 by hand, as far as a test wants: to say what no proper client says.

Frames in crc mode, authentication method none. Bytes are built with explicit layouts; nothing checks them.
"""
import socket
import struct
import time

from harness import BOUND

BANNER = b"ceph v2\n" + struct.pack("<HQQ", 16, 1, 0)
HELLO, AUTH_REQUEST, AUTH_DONE, AUTH_SIGNATURE, CLIENT_IDENT, SERVER_IDENT = 1, 2, 6, 7, 8, 9
MESSAGE, KEEPALIVE2, ACK = 17, 18, 20
CLIENT, OSD, MON = 8, 4, 1
FEATURES = 0x3F01CFBDFFFDFFFF
MIB = 1 << 20


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(_table())


def crc32c(data, crc=0xFFFFFFFF):
    """Ceph's: from the given seed, not inverted at the end."""
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


def preamble(tag, lengths, aligns=(8, 8, 8, 4096), crc=None):
    lengths = list(lengths) + [0] * (4 - len(lengths))
    count = max([i + 1 for i, n in enumerate(lengths) if n] or [1])
    body = struct.pack("<BB", tag, count)
    for i, length in enumerate(lengths):
        body += struct.pack("<IH", length, aligns[i] if i < count else 0)
    body += struct.pack("<BB", 0, 0)
    return body + struct.pack("<I", crc32c(body, 0) if crc is None else crc)


def frame(tag, *segments):
    """A whole frame, proper in every way."""
    segments = list(segments) or [b""]
    while len(segments) > 1 and not segments[-1]:
        segments.pop()
    out = preamble(tag, [len(s) for s in segments]) + segments[0]
    if segments[0]:
        out += struct.pack("<I", crc32c(segments[0]))
    out += b"".join(segments[1:])
    if len(segments) > 1:
        out += b"\x0e" + b"".join(struct.pack("<I", crc32c(s)) for s in segments[1:]) + bytes(4 * (4 - len(segments)))
    return out


def message_header(kind, seq=1, tid=1, version=1, compat=1):
    return struct.pack("<QQHHHIHQBHH", seq, tid, kind, 127, version, 0, 0, 0, 0, compat, 0)


def message(kind, front=b"", data=b"", **header):
    return frame(MESSAGE, message_header(kind, **header), front, b"", data)


def address(port=0, host="127.0.0.1", kind=2, nonce=0):
    sockaddr = struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)
    body = struct.pack("<III", kind, nonce, len(sockaddr)) + sockaddr
    return struct.pack("<BBBI", 1, 1, 1, len(body)) + body


def hello(server_port):
    return frame(HELLO, struct.pack("<B", CLIENT) + address(server_port))


def auth_request(to_monitor, entity=CLIENT, name="admin"):
    who = struct.pack("<II", entity, len(name)) + name.encode() + struct.pack("<Q", 0)
    payload = struct.pack("<B", 10 if to_monitor else 1) + who
    return frame(AUTH_REQUEST, struct.pack("<III", 1, 1, 1) + struct.pack("<I", len(payload)) + payload)


def client_ident(server_port, server_nonce=0, gid=-1, required=0, flags=1):
    return frame(CLIENT_IDENT, struct.pack("<BI", 2, 1) + address(0, nonce=77) + address(server_port, nonce=server_nonce)
                 + struct.pack("<qQQQQQ", gid, 1, FEATURES, required, flags, 0))


class Ended(Exception):
    """The other side closed."""


class Peer:
    """One connection. What it reads it reads only when told."""

    def __init__(self, host, port, nonce=0, timeout=BOUND, sndbuf=None):
        self.server_port, self.server_nonce = port, nonce
        self.socket = socket.socket()
        if sndbuf:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
        self.socket.settimeout(timeout)
        self.socket.connect((host, port))
        self.name = "{}:{}".format(*self.socket.getsockname())

    def send(self, data):
        self.socket.sendall(data)

    def take(self, n):
        out = b""
        while len(out) < n:
            got = self.socket.recv(n - len(out))
            if not got:
                raise Ended
            out += got
        return out

    def frame(self):
        """(tag, first segment) of the next frame, unchecked."""
        head = self.take(32)
        lengths = [struct.unpack_from("<I", head, 2 + 6 * i)[0] for i in range(head[1])]
        body = self.take(sum(lengths) + (4 if lengths[0] else 0) + (13 if head[1] > 1 else 0))
        return head[0], body[:lengths[0]]

    def until_frame(self, tag):
        while True:
            found, body = self.frame()
            if found == tag:
                return body

    def banner(self):
        self.send(BANNER)
        start = self.take(10)
        self.take(struct.unpack_from("<H", start, 8)[0])
        return self

    def hello(self):
        self.banner()
        self.send(hello(self.server_port))
        self.until_frame(HELLO)
        return self

    def authenticated(self, to_monitor, entity=CLIENT, name="admin"):
        """Authentication is over; the identity is not given yet."""
        self.hello()
        self.send(auth_request(to_monitor, entity, name))
        self.gid = struct.unpack_from("<Q", self.until_frame(AUTH_DONE))[0]
        self.send(frame(AUTH_SIGNATURE, bytes(32)))
        self.until_frame(AUTH_SIGNATURE)
        return self

    def session(self, to_monitor, **who):
        """A whole session, as a client has it."""
        self.authenticated(to_monitor, **who)
        self.send(client_ident(self.server_port, self.server_nonce, -1 if to_monitor else self.gid))
        self.until_frame(SERVER_IDENT)
        return self

    def ends(self, seconds=BOUND):
        """Whether the other side ends the connection within that time; reads away what it still says."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if not self.socket.recv(65536):
                    return True
            except ConnectionError:
                return True
            except TimeoutError:
                return False
        return False

    def close(self):
        self.socket.close()
