"""What no proper client says: the connection ends with a logged reason, memory stays bounded, every other client goes on."""
import json
import random
import struct
import threading
import time

import wire
from harness import BOUND, equal, expect, say, until

FOUR_GIB = [0xFFFFFFFF] * 4
SEED_LENGTH = 1000


def ports(cluster, client):
    """[(to a monitor?, host, port, nonce)]: the monitor and each OSD."""
    found = [(True, *cluster.mon_addr(), 0)]
    for osd in client.ceph_json("osd", "dump")["osds"]:
        for a in osd["public_addrs"]["addrvec"]:
            if a["type"] == "v2":
                host, port = a["addr"].rsplit(":", 1)
                found.append((False, host, int(port), a["nonce"]))
    return found


def broken(data, at):
    """With one bit turned."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def raw_segments(count):
    """A preamble, right but for its number of segments."""
    body = struct.pack("<BB", wire.HELLO, count) + struct.pack("<IH", 8, 8) * 4 + b"\0\0"
    return body + struct.pack("<I", wire.crc32c(body, 0))


def cases(seed):
    """(what it is, how far the peer goes properly, what it says then)."""
    noise = random.Random(seed).randbytes(SEED_LENGTH)
    banner, p, frame = wire.BANNER, wire.preamble, wire.frame
    front = wire.message(42, bytes(300), version=8, compat=3)
    request = wire.auth_request(False)
    name_of_4_gib = frame(wire.AUTH_REQUEST, struct.pack("<IIIIBII", 1, 1, 1, 17, 10, 8, 0xFFFFFFFF) + bytes(8))
    return [
        ("garbage", "raw", noise),
        ("another protocol", "raw", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("messenger version 1", "raw", b"ceph v027" + bytes(136)),
        ("a banner that demands what nobody has", "raw", b"ceph v2\n" + struct.pack("<HQQ", 16, 1, 1 << 60)),
        ("garbage after the banner", "raw", banner + noise),
        ("a preamble with a wrong crc", "banner", p(wire.HELLO, [31], crc=1)),
        ("an unknown tag", "banner", frame(99, b"what")),
        ("no segment at all", "banner", raw_segments(0)),
        ("five segments", "banner", raw_segments(5)),
        ("200 segments", "banner", raw_segments(200)),
        ("a hello of 64 MiB", "banner", p(wire.HELLO, [64 << 20])),
        ("four times 4 GiB instead of a hello", "banner", p(wire.HELLO, FOUR_GIB)),
        ("four times 4 GiB instead of authentication", "hello", p(wire.AUTH_REQUEST, FOUR_GIB)),
        ("a message instead of authentication", "hello", wire.message(42, bytes(300))),
        ("an identity instead of authentication", "hello", wire.client_ident(1)),
        ("a request for authentication whose crc is wrong", "hello", broken(request, len(request) - 1)),
        ("a name of 4 GiB", "hello", name_of_4_gib),
        ("a wrong signature", "auth", frame(wire.AUTH_SIGNATURE, b"\x01" * 32)),
        ("four times 4 GiB instead of an identity", "authenticated", p(wire.CLIENT_IDENT, FOUR_GIB)),
        ("an identity of garbage", "authenticated", frame(wire.CLIENT_IDENT, noise[:100])),
        ("a message instead of an identity", "authenticated", wire.message(42, bytes(300))),
        ("a message of four times 4 GiB", "session", p(wire.MESSAGE, FOUR_GIB)),
        ("a message of 4 GiB of data", "session", p(wire.MESSAGE, [41, 300, 0, 0xFFFFFFFF])),
        ("a message whose header is short", "session", frame(wire.MESSAGE, bytes(10), b"front")),
        ("a message whose header has a wrong crc", "session", broken(front, 40)),
        ("a message whose front has a wrong crc", "session", broken(front, 32 + 45 + 9)),
        ("a message of an unknown type", "session", wire.message(9999, b"front")),
        ("an operation of three bytes", "session", wire.message(42, b"abc", version=8, compat=3)),
        ("an operation of garbage", "session", wire.message(42, noise[:300], version=8, compat=3)),
        ("an operation of ones", "session", wire.message(42, b"\xff" * 300, version=8, compat=3)),
        ("a subscription of ones", "session", wire.message(15, b"\xff" * 64, version=3, compat=1)),
        ("a command of ones", "session", wire.message(50, b"\xff" * 64, version=0, compat=0)),
        ("a map of ones", "session", wire.message(41, b"\xff" * 64, version=4, compat=3)),
        ("a handshake's frame in a session", "session", wire.hello(1)),
        ("an aborted frame of an unknown kind", "session", front[:-13] + b"\x55" + front[-12:]),
        ("garbage in a session", "session", noise),
    ]


def stage(peer, name, to_monitor):
    if name == "banner":
        peer.banner()
    elif name == "hello":
        peer.hello()
    elif name == "auth":
        peer.hello().send(wire.auth_request(to_monitor))
        peer.until_frame(wire.AUTH_DONE)
    elif name == "authenticated":
        peer.authenticated(to_monitor)
    elif name == "session":
        peer.session(to_monitor)
    return peer


class Load:
    """Clients at work all the while; an error of theirs fails the test."""

    def __init__(self, t, client, store_pool="load"):
        self.client, self.pool, self.errors, self.rounds = client, store_pool, [], 0
        client.ceph("osd", "pool", "create", self.pool, "8")
        self.bench("2", "write", "-b", "4096", "--no-cleanup", "--run-name", "read-me")
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.loop, args=words) for words in (
            ("1", "rand", "-t", "16", "--run-name", "read-me"), ("1", "write", "-b", "4096", "-t", "8"))]
        for thread in self.threads:
            thread.start()
        t.cleanups.append(self.stop)

    def bench(self, *args):
        text = self.client.rados("-p", self.pool, "bench", *args, timeout=BOUND).text
        self.rounds += 1
        return text

    def loop(self, *args):
        while not self.stopping.is_set():
            try:
                self.bench(*args)
            except Exception as e:  # pylint: disable=broad-except
                self.errors.append(str(e))
                return

    def wait(self, rounds):
        """Until that many more benches ended well."""
        goal = self.rounds + rounds
        until(lambda: self.rounds >= goal or self.errors, "a bench under this load")
        self.check()

    def check(self):
        expect(not self.errors, f"a bench failed: {self.errors}")

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(70)


class Memory:
    """The greatest resident memory of a cluster since `baseline`."""

    def __init__(self, t, cluster):
        self.cluster, self.most, self.stopping = cluster, 0, threading.Event()
        self.pid = cluster.pid()
        self.base = self.now()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        t.cleanups.append(self.stop)

    def now(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) * 1024

    def watch(self):
        while not self.stopping.wait(0.02):
            self.most = max(self.most, self.now())

    def stop(self):
        self.stopping.set()
        self.thread.join()

    def check(self, what):
        grown = (self.most - self.base) / wire.MIB
        say(f"       {what}: resident memory {self.base / wire.MIB:.0f} MiB, at most {grown:+.1f} MiB")
        expect(grown <= 64, f"{what}: resident memory went from {self.base / wire.MIB:.0f} MiB by {grown:.1f} MiB")


def log_names(cluster, peer):
    return [line for line in cluster.log().splitlines() if peer.name in line]


def test_what_is_no_frame_or_no_message_ends_its_connection_with_a_reason(t):
    cluster = t.cluster("--osds", "1")
    client = t.client(cluster)
    places, pid = ports(cluster, client), cluster.pid()
    load = Load(t, client)
    wrong = []
    for to_monitor, host, port, nonce in places:
        for what, how_far, data in cases(t.seed):
            peer = wire.Peer(host, port, nonce)
            where = f"{what} ({'monitor' if to_monitor else 'OSD'})"
            try:
                stage(peer, how_far, to_monitor).send(data)
                ended = peer.ends()
            except ConnectionError:
                ended = True
            except wire.Ended:
                wrong.append(f"{where}: the proper part before it was refused: {log_names(cluster, peer)}")
                continue
            peer.close()
            if not ended:
                wrong.append(f"{where}: the connection goes on")
                continue
            # The log may be a moment behind.
            for _ in range(BOUND * 50):
                if reasons := log_names(cluster, peer):
                    break
                time.sleep(0.02)
            if not reasons:
                wrong.append(f"{where}: ended without a word in the log about {peer.name}")
    expect(not wrong, "\n".join(wrong))
    load.wait(2)
    equal(cluster.pid(), pid, "the process")
    expect("panicked" not in cluster.log(), f"a panic: {cluster.log()[-2000:]}")


def test_a_frame_that_breaks_off_is_told_in_the_log(t):
    cluster = t.cluster("--osds", "1")
    client = t.client(cluster)
    message = wire.message(42, bytes(300), bytes(5000), version=8, compat=3)
    for to_monitor, host, port, nonce in ports(cluster, client):
        for length in (1, 31, 32, 50, 77, 200, len(message) - 1):
            peer = wire.Peer(host, port, nonce).session(to_monitor)
            peer.send(message[:length])
            peer.close()
            until(lambda peer=peer: log_names(cluster, peer), f"a word in the log about {length} bytes of a frame")


def test_a_peer_that_stops_during_the_handshake_is_dropped_after_the_timeout(t):
    cluster = t.cluster("--osds", "1", "--set", "ms_connection_ready_timeout=1")
    client = t.client(cluster)
    proper = wire.Peer(*cluster.mon_addr()).session(True)
    peers = []
    for to_monitor, host, port, nonce in ports(cluster, client):
        for how_far in ("raw", "banner", "hello", "auth", "authenticated"):
            peers.append(stage(wire.Peer(host, port, nonce), how_far, to_monitor))
    for peer in peers:
        expect(peer.ends(), f"half-open without end though 1 s is allowed: {peer.name}")
        until(lambda peer=peer: log_names(cluster, peer), f"a word in the log about {peer.name}")
    # A session that is complete has no such limit.
    proper.send(wire.frame(wire.KEEPALIVE2, bytes(8)))
    equal(proper.until_frame(19)[:8], bytes(8), "a keepalive's answer")


def crowd(count, places, make):
    """`count` peers over the places in turn, made by a few threads."""
    peers, errors = [None] * count, []

    def some(first):
        for i in range(first, count, 4):
            to_monitor, host, port, nonce = places[i % len(places)]
            peer = wire.Peer(host, port, nonce, sndbuf=65536)
            peers[i] = peer
            try:
                make(i, peer, to_monitor)
            except (wire.Ended, ConnectionError, TimeoutError) as e:
                errors.append(e)

    threads = [threading.Thread(target=some, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return peers, errors


def settle(t, cluster, load):
    """Until the stores' caches are as full as this load makes them: what they still take is nobody's stalling."""
    memory, before, steady = Memory(t, cluster), 0, 0
    deadline = time.monotonic() + 90
    # Memory goes up and down with the load: its peak tells when nothing more is taken. Where the disk is slow one step
    # alone proves little.
    while steady < 2 and time.monotonic() < deadline:
        load.wait(6)
        steady = steady + 1 if memory.most - before <= 4 * wire.MIB else 0
        before = memory.most
    memory.stop()


def half_open(i, peer, to_monitor):
    stage(peer, ("raw", "banner", "hello", "authenticated")[i // 2 % 4], to_monitor)
    if i % 3 == 0:
        peer.send(wire.preamble(wire.AUTH_REQUEST, [40])[:17])


def announcing_too_much(i, peer, to_monitor):
    how_far, tag = (("hello", wire.AUTH_REQUEST), ("session", wire.MESSAGE))[i // 2 % 2]
    if how_far == "session":
        # As clients and as OSDs.
        peer.session(to_monitor, entity=(wire.CLIENT, wire.OSD)[i // 4 % 2], name="0")
    else:
        peer.hello()
    peer.send(wire.preamble(tag, FOUR_GIB))


def push(peers, length, seconds):
    """Sends `length` bytes on each of them, as far as the other side takes them within a bounded time."""
    piece, left = bytes(65536), {p: length for p in peers}
    end = time.monotonic() + seconds
    for peer in peers:
        peer.socket.setblocking(False)
    while left and time.monotonic() < end:
        moved = False
        for peer in list(left):
            try:
                sent = peer.socket.send(piece[:left[peer]])
            except BlockingIOError:
                continue
            except OSError:  # the server ended it
                del left[peer]
                continue
            moved, left[peer] = True, left[peer] - sent
            if not left[peer]:
                del left[peer]
        if not moved:
            time.sleep(0.05)
            if len(left) == len(peers):
                break
    return len(left)


def test_thousands_of_peers_that_stall_or_lie_cost_no_memory(t):
    # The load's caches are full soon, and grow no more.
    cluster = t.cluster("--store", "simple", "--set", "osd_memory_target=128M")
    client = t.client(cluster)
    places = ports(cluster, client)
    # Half of the peers go to the monitor.
    places = [place for osd in places[1:] for place in (places[0], osd)]
    load = Load(t, client)
    pid, count = cluster.pid(), 2000
    settle(t, cluster, load)

    memory = Memory(t, cluster)
    waiting, errors = crowd(count, places, half_open)
    expect(len(errors) < count // 20, f"{len(errors)} of {count} half-open peers were refused: {errors[:3]}")
    load.wait(2)
    memory.stop()
    memory.check(f"{count} half-open peers")
    for peer in waiting[::100]:
        expect(peer.ends(), "half-open without end")
    for peer in waiting:
        peer.close()

    memory = Memory(t, cluster)
    liars, _ = crowd(200, places, announcing_too_much)
    for peer in liars:
        expect(peer.ends(), "four times 4 GiB announced, and the connection goes on")
        peer.close()
    load.wait(2)
    memory.stop()
    memory.check("four times 4 GiB announced")

    memory = Memory(t, cluster)
    length = (2 if t.soak else 0.5) * wire.MIB
    start = wire.preamble(wire.MESSAGE, [41, 300, 0, 4 * wire.MIB])
    header = wire.message_header(42, version=8, compat=3)
    start += header + struct.pack("<I", wire.crc32c(header)) + bytes(300)
    count = count if t.soak else count // 2
    stalled, _ = crowd(count, places, lambda i, peer, to_monitor: (peer.session(to_monitor), peer.send(start)))
    push(stalled, int(length), 30 if t.soak else 10)
    load.wait(4)
    memory.stop()
    memory.check(f"{count} peers that stopped in the middle of 4 MiB")
    for peer in stalled:
        peer.close()
    equal(cluster.pid(), pid, "the process")
    load.stop()
    load.check()
    equal(json.loads(client.ceph("-s", "-f", "json").out)["osdmap"]["num_up_osds"], 3, "OSDs up in the end")
