#!/usr/bin/env python3
"""Makes tables/ceph-RELEASE.txt: every option of a Ceph release with its type, limits, default, and who reads it.

usage: make-tables.py RELEASE [--source DIR] [--base-port 21000]

Names, types, limits and defaults are what a daemon of that release tells of itself: a cluster of one OSD is started with
tests/peers/ceph-cluster.sh (needs root, and the release's programs) and asked over its admin socket. Who reads an option
is found in the release's source, a directory with Ceph's src/ (--source; Debian 13's source package has 18.2): the parts
of the programs whose code names the option. Without a source it is taken from the next release's table, so make that
one first; what that does not have falls to OWNERS. No sentence of Ceph's is kept.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE.parents[2] / "tests" / "peers"
NEXT = {"16.2": "18.2", "18.2": "20.2"}

# Directory or file below src/, and the part of Ceph that it belongs to: the longest that fits counts. Without one,
# nothing that runs in a cluster reads it (tests, scripts, build).
PARTS = """
arch common
auth common
auth/cephx cephx
blk bluestore
ceph_fuse.cc fsclient
ceph_mds.cc mds
ceph_mgr.cc mgr
ceph_mon.cc mon
ceph_osd.cc osd
client fsclient
cls osd
common common
common/ceph_json.cc rgw
compressor common
crimson crimson
crush common
crypto common
crypto/qat rgw
dmclock osd
erasure-code common
exporter exporter
extblkdev bluestore
global common
include common
journal rbd
key_value_store tool
krbd.cc rbd
kv kv
libcephfs.cc fsclient
libcephsqlite.cc mgr
librados objecter
libradosstriper objecter
librbd rbd
log common
mds mds
messages common
mgr mgr
mgr/MgrClient.cc common
mgr/MgrClient.h common
mon mon
mon/MonClient.cc common
mon/MonClient.h common
mon/MonMap.cc common
mon/MonMap.h common
mon/PGMap.cc common
mon/PGMap.h common
mount fsclient
msg common
msg/async/dpdk dpdk
msg/async/rdma rdma
neorados objecter
nvmeof nvmeof
objclass osd
os osd
os/DBObjectMap.cc filestore
os/DBObjectMap.h filestore
os/bluestore bluestore
os/fs filestore
os/filestore filestore
os/kstore kstore
os/memstore memstore
os/seastore crimson
osd osd
osd/OSDMap.cc common
osd/OSDMap.h common
osd/osd_types.cc common
osd/osd_types.h common
osdc objecter
osdc/Filer.cc fsclient,mds
osdc/Journaler.cc mds
osdc/Journaler.h mds
osdc/ObjectCacher.cc fsclient,rbd
osdc/ObjectCacher.h fsclient,rbd
perfglue common
pybind/mgr mgr
rbd_fuse rbd
rgw rgw
SimpleRADOSStriper.cc mgr
tools tool
tools/rados client
tools/cephfs_mirror mirror
tools/immutable_object_cache object-cache
tools/rbd rbd
tools/rbd_ggate rbd
tools/rbd_mirror mirror
tools/rbd_nbd rbd
tracing common
"""

# Who reads names that no source told of: the longest prefix that fits counts.
OWNERS = """
bdev_ bluestore
bluefs_ bluestore
bluestore_ bluestore
debug_civetweb rgw
debug_filestore filestore
debug_journal filestore
debug_leveldb kv
debug_memdb kv
filestore_ filestore
journal_ filestore
leveldb_ kv
mds_ mds
mon_ mon
osd_ osd
osd_journal filestore
rgw_ rgw
"""

# Files of the options' own definition, which name each of them.
DEFINITION = re.compile(r"/(legacy_config_opts\.h|config_opts\.h|options(\.cc|/.*)|subsys\.h)$")
NAME = re.compile(r"[a-z][a-z0-9_]{2,}")
LEVEL = re.compile(r"ceph_subsys_(\w+)|subdout\s*\(\s*[^,()]+(?:\(\))?\s*,\s*(\w+)")
# librbd names options without their prefix.
OF_IMAGE = re.compile(r"ASSIGN_OPTION\(\s*(\w+)")
# The manager's modules name many options that they only write or show.
OF_MODULE = re.compile(r"ceph_option\(([^()]*)\)|NATIVE_OPTIONS[^=]*=\s*\[([^]]*)\]")
# A string is kept, so that what looks like a comment inside one is none.
COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')|/\*.*?\*/|//[^\n]*""", re.S)


def peer(release, directory, *command):
    """The output of one of the release's programs."""
    environment = dict(os.environ, LOLIGO_BIND=directory)
    words = ["bash", PEERS / "in-root.sh", release, *command]
    return subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def asked(release, port):
    """The options as a running OSD describes them, and the defaults of all log levels."""
    with tempfile.TemporaryDirectory(prefix="optmap-", dir="/tmp") as directory:
        cluster = ["bash", str(PEERS / "ceph-cluster.sh")]
        try:
            start = ["--release", release, "--osds", "1", "--store", "memstore", "--base-port", str(port)]
            subprocess.run([*cluster, "start", directory, *start], check=True, stdout=sys.stderr)
            help_text = peer(release, directory, "ceph", "daemon", f"{directory}/osd.0.asok", "config", "help")
        finally:
            subprocess.run([*cluster, "stop", directory], check=True, stdout=sys.stderr)
        shown = peer(release, directory, "ceph-osd", "--no-mon-config", "-c", "/dev/null", "--show-config")
    options = json.loads(help_text)["options"]
    known = {option["name"] for option in options}
    lines = (line.split(" = ", 1) for line in shown.splitlines() if line.startswith("debug_"))
    return options, {name: value for name, value in lines if name not in known}


def read_parts():
    return dict(line.split() for line in PARTS.split("\n") if line)


def part_of(path, parts):
    """The part that a file below src/ belongs to."""
    while path:
        if path in parts:
            return parts[path].split(",")
        path = path.rpartition("/")[0]
    return []


def found_readers(source, names, levels):
    """Option name to the parts whose code names it; for a log level, the parts that log at it."""
    parts, readers = read_parts(), {}
    for path in sorted(Path(source, "src").rglob("*")):
        inner = str(path.relative_to(Path(source, "src")))
        if path.suffix not in (".cc", ".h", ".py", ".hpp", ".cpp") or DEFINITION.search("/" + inner) or not path.is_file():
            continue
        owners = [] if "/test" in "/" + inner else part_of(inner, parts)
        if not owners:
            continue
        text = COMMENT.sub(lambda found: found[1] or " ", path.read_text(errors="replace"))
        if path.suffix == ".py":
            text = " ".join(found[0] for found in OF_MODULE.finditer(text))
        used = set(NAME.findall(text)) & (names - levels)
        used |= {"debug_" + (a or b) for a, b in LEVEL.findall(text)} & levels
        used |= {"rbd_" + name for name in OF_IMAGE.findall(text)} & names
        for name in used:
            readers.setdefault(name, set()).update(owners)
    return readers


def rows_of(path):
    """A table's rows, as lists of fields by name."""
    rows = (line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {row[0]: row for row in rows}


def inherited_readers(release, names):
    """Readers from the next release's table, and from OWNERS."""
    newer = rows_of(HERE / "tables" / f"ceph-{NEXT[release]}.txt")
    owners = dict(line.split() for line in OWNERS.split("\n") if line)
    readers = {}
    for name in names:
        parts = set(newer[name][2].split(",")) if name in newer else {"-"}
        prefixes = [prefix for prefix in owners if name.startswith(prefix)]
        if parts == {"-"} and prefixes:
            parts = {owners[max(prefixes, key=len)]}
        readers[name] = parts - {"-"}
    return readers


def limits(option):
    """`A..B` with either end open, `a|b|c` for enumerations, else `-`."""
    if option.get("enum_values"):
        return "|".join(option["enum_values"])
    low, high = str(option["min"]), str(option["max"])
    return f"{low}..{high}" if low or high else "-"


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("release", choices=["16.2", "18.2", "20.2"])
    parser.add_argument("--source", help="directory of the release's source, with src/ in it")
    parser.add_argument("--base-port", type=int, default=21000)
    arguments = parser.parse_args()

    options, levels = asked(arguments.release, arguments.base_port)
    rows = {o["name"]: [o["type"], limits(o), text_of(o["default"])] for o in options}
    rows.update({name: ["level", "-", value] for name, value in levels.items()})
    if arguments.source:
        readers = found_readers(arguments.source, set(rows), set(levels))
    else:
        readers = inherited_readers(arguments.release, set(rows))

    table = HERE / "tables" / f"ceph-{arguments.release}.txt"
    with table.open("w") as out:
        out.write(f"# Options of Ceph {arguments.release}, made by make-tables.py.\n")
        out.write("# name, type, who reads it (- nobody), limits, default; tabs between\n")
        for name, (kind, limit, default) in sorted(rows.items()):
            who = ",".join(sorted(readers.get(name, ()))) or "-"
            out.write("\t".join([name, kind, who, limit, default]) + "\n")
    unread = sum(1 for name in rows if not readers.get(name))
    print(f"{table}: {len(rows)} options, {unread} that nobody reads")


if __name__ == "__main__":
    main()
