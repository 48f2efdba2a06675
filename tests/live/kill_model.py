"""What an object holds after a row of operations: shared by the writer, which submits them, and by the verifier.

Every 4 KiB of written data start with a line that says who wrote them (object, round, number, offset), so that a
mixture of two writes shows and can be named.
"""
import hashlib

BLOCK = 4096


def data(name, round_number, number, length):
    """The bytes of operation `number`; the same for whoever asks."""
    out = []
    for at in range(0, length, BLOCK):
        label = f"<{name} {round_number}.{number}+{at}>".encode()
        out.append(label + hashlib.shake_128(label).digest(BLOCK - len(label)))
    return b"".join(out)[:length]


def apply(state, kind, offset, payload):
    """The object's bytes (None: no object) after one operation on `state`."""
    if kind == "remove":
        return None
    if kind == "full":
        return payload
    old = state or b""
    if kind == "append":
        return old + payload
    if kind == "write":
        return old[:offset].ljust(offset, b"\0") + payload + old[offset + len(payload):]
    raise ValueError(kind)


def writers_of(content):
    """Which operations the blocks of `content` name, in order and without repetition: words for a failure."""
    if content is None:
        return "no object"
    labels = []
    at = content.find(b"<")
    while at >= 0 and len(labels) < 12:
        end = content.find(b">", at, at + 80)
        label = content[at + 1:end] if end > 0 else b""
        if label.count(b" ") == 1 and b"+" in label and label.isascii():
            labels.append(f"@{at}:{label.decode().split('+')[0].split(' ')[1]}")
        at = content.find(b"<", at + 1)
    return f"{len(content)} bytes of {' '.join(labels)}"
