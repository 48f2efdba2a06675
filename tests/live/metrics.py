"""Metrics for Prometheus, read as promtool reads them."""
import re
import socket
import urllib.request

from harness import equal, expect

SAMPLE = re.compile(r'^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?P<labels>.*)\})? (?P<value>[-+0-9.eE]+|NaN|[-+]Inf)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def parse(text, strict=True):
    """The text format as promtool reads it: every metric once, its type before its samples, no sample twice. Ceph's own
    module breaks the rule of one type a metric, which `strict` holds."""
    types, samples, current = {}, {}, None
    expect(text.endswith("\n"), "the text ends with a line's end")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            expect(not strict or current not in types, f"{current} has one type")
            expect(kind in ("gauge", "counter", "untyped", "histogram", "summary"), f"{line}: a type of Prometheus's")
            types[current] = kind
        # The format allows empty lines, and the manager writes some.
        elif line and not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            expect(match, f"'{line}' is a sample")
            expect(current and match["name"].startswith(current), f"'{line}' follows its type, not {current}")
            labels = match["labels"] or ""
            found = LABEL.findall(labels)
            equal("".join(f'{k}="{v}",' for k, v in found).rstrip(","), labels, "labels")
            key = (match["name"], tuple(sorted(found)))
            expect(not strict or key not in samples, f"{key} once")
            samples[key] = float(match["value"])
    return types, samples


def scrape(port, strict=True):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        # Ceph's module names no version of the format.
        expect(answer.headers["Content-Type"].startswith("text/plain"), "the format")
        return parse(answer.read().decode(), strict)
