#!/usr/bin/env bash
# Records the captures of one pair of releases again: a real cluster of SERVER on loopback, used by programs of CLIENT.
# usage: record.sh SERVER_RELEASE CLIENT_RELEASE        (16.2, 18.2 or 20.2 each)
# Needs root, tcpdump, and the peers' roots (../peers/peer-root.sh). Ports BASE..BASE+99 of LOLIGO_CAPTURE_PORT
# (6700) must be free. Replaces <server>/<client>-*; README.md says what the scenarios are.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
peers=$here/../peers
server=${1:?the release of the cluster} client=${2:?the release of the clients}
base=${LOLIGO_CAPTURE_PORT:-6700}
[ "$(id -u)" = 0 ] || { echo "record.sh: a cluster and tcpdump need root; run it as root" >&2; exit 1; }
command -v tcpdump >/dev/null || { echo "record.sh: tcpdump is missing (apt-get install tcpdump)" >&2; exit 1; }

dir=$(mktemp -d /tmp/loligo-capture.XXXXXX)
export CEPH_CONF=$dir/ceph.conf
tcpdump_pid=
cleanup() {
  [ -z "$tcpdump_pid" ] || kill "$tcpdump_pid" 2>/dev/null || true
  "$peers/ceph-cluster.sh" stop "$dir"
  rm -rf "$dir"
}
trap cleanup EXIT

# One of the cluster's own programs, unrecorded.
admin() { "$peers/in-root.sh" "$server" timeout 60 "$@"; }

start_capture() {
  tcpdump -i lo -Z root -s 0 -B 65536 --immediate-mode -w "$dir/pcap" tcp portrange "$base-$((base + 99))" 2>"$dir/tcpdump" &
  tcpdump_pid=$!
  until grep -q listening "$dir/tcpdump"; do sleep 0.05; done
}

stop_capture() {
  sleep 0.5
  kill -INT "$tcpdump_pid"; wait "$tcpdump_pid" || true
  tcpdump_pid=
  grep -q '^0 packets dropped by kernel' "$dir/tcpdump" || { echo "record.sh: tcpdump lost packets" >&2; exit 1; }
}

# Adds lines `port role` for every messenger 2 address of the cluster's daemons to $dir/roles; later lines win.
learn_roles() {
  { admin ceph osd dump -f json; echo; admin ceph mgr dump -f json; echo; } | python3 -c '
import json, sys
osds, mgr = (json.loads(line) for line in sys.stdin.read().split("\n") if line.strip())
def show(vector, role):
    for address in vector["addrvec"]:
        if address["type"] == "v2" and address["nonce"]:
            print(address["addr"].rsplit(":", 1)[1], role)
for osd in osds["osds"]:
    for key, suffix in (("public", ""), ("cluster", "-cluster"), ("heartbeat_back", "-hbback"), ("heartbeat_front", "-hbfront")):
        show(osd[key + "_addrs"], "osd%d%s" % (osd["osd"], suffix))
show(mgr["active_addrs"], "mgr")
' >>"$dir/roles"
}

# Makes the files of the scenario from the capture; further arguments go to streams.py.
write_scenario() {
  local out=$here/$server/$client-$1; shift
  rm -rf "$out"; mkdir -p "$out"
  python3 "$here/tools/streams.py" "$dir/pcap" "$dir/roles" "$out" --drop-above mgr=262144 "$@"
  cp "$dir/commands" "$out/commands.txt"
  echo "$server/$client-${out##*/"$client"-}: $(find "$out" -type f | wc -l) files, $(du -sb "$out" | cut -f1) bytes"
}

begin() { : >"$dir/commands"; learn_roles; start_capture; }
finish() { stop_capture; learn_roles; write_scenario "$@"; }

# Runs a client program and notes it; what it prints is not kept. Standard input comes from the caller.
run() {
  local shown="$*" status=0
  "$peers/in-root.sh" "$client" timeout 60 "$@" >"$dir/out" 2>&1 || status=$?
  echo "${shown//"$dir/"/} -> $status" >>"$dir/commands"
  [ $status != 124 ] || { echo "record.sh: $shown hung" >&2; exit 1; }
}
# Several commands in one `ceph` process, one a line on standard input: they share one connection.
session() {
  local input; input=$(cat)
  run ceph "$@" <<<"$input"
  while read -r line; do echo "    $line" >>"$dir/commands"; done <<<"$input"
}

wait_osds_up() {
  local end=$((SECONDS + 60))
  until admin ceph osd stat -f json | grep -q "\"num_up_osds\":$1"; do
    [ $SECONDS -lt $end ] || { echo "record.sh: there were never $1 OSDs up" >&2; exit 1; }
    sleep 0.5
  done
}

# Daemons' connections from their start: boot, maps, beacons, placement groups' creation, an OSD killed and
# started again, a living one marked down.
daemons() {
  cat >"$dir/commands" <<'T'
(the cluster starts: monitor, manager, three OSDs)
ceph osd pool create p 8 8
rados -p p put object FILE (4096 bytes)
kill -KILL osd.2, until it is marked down; start it, until it is up
ceph osd down 1, until it is up again
T
  admin ceph osd pool create p 8 8 >/dev/null 2>&1
  head -c 4096 /dev/zero >"$dir/small"
  admin rados -p p put object "$dir/small"
  learn_roles
  sleep 4
  "$peers/ceph-cluster.sh" stop-osd "$dir" 2
  wait_osds_up 2
  sleep 1
  "$peers/ceph-cluster.sh" start-osd "$dir" 2
  wait_osds_up 3
  learn_roles
  admin ceph osd down 1 >/dev/null 2>&1
  sleep 3 # it comes back by itself, perhaps too soon to be seen down
  wait_osds_up 3
  sleep 4
  stop_capture
  learn_roles
  write_scenario daemons --from daemons --limit mon=98304 --at-most mgr=3
  admin ceph osd pool rm p p --yes-i-really-really-mean-it >/dev/null 2>&1
}

ceph_program() {
  begin; run ceph -s </dev/null; finish status
  begin; run ceph -s -f json </dev/null; finish status-json
  local shows='osd tree
osd dump
osd df
osd stat
pg stat
df
health detail
mon dump
versions
fsid'
  begin; session <<<"$shows"; finish show
  begin; session -f json <<<"$shows"; finish show-json
  begin
  session <<'T'
osd pool create p 8 8
osd pool create p 8 8
osd pool application enable p rados
osd pool ls
osd pool ls detail
osd pool create q 8 8
osd pool rm q
osd pool rm q q --yes-i-really-really-mean-it
osd pool rm q q --yes-i-really-really-mean-it
osd map p object
nosuch command
T
  finish pools
  begin; run ceph tell osd.0 version </dev/null; finish tell-osd
}

rados_program() {
  head -c 5000 /dev/urandom >"$dir/file"
  begin
  run rados -p p put object "$dir/file"
  run rados -p p get object "$dir/copy"
  run rados -p p get nosuch "$dir/copy"
  finish put-get
  begin
  run rados -p p append object "$dir/file"
  run rados -p p stat object
  run rados -p p create made
  run rados -p p create made
  run rados -p p ls
  finish append-stat-create-ls
  begin
  run rados -p p setxattr object name value
  run rados -p p getxattr object name
  run rados -p p getxattr object nosuch
  run rados -p p listxattr object
  finish xattr
  begin
  run rados -p p rm object
  run rados -p p stat object
  run rados lspools
  run rados df
  run rados df -f json
  finish rm-lspools-df
  begin; run rados -p p bench 1 write -t 4 -b 4096 --max-objects 16 --no-cleanup; finish bench-write --limit osd=65536
  begin; run rados -p p bench 1 seq -t 4; finish bench-seq --limit osd=65536
  begin; run rados -p p bench 1 rand -t 4; finish bench-rand --limit osd=24576
  admin rados -p p cleanup >/dev/null
}

library() {
  cp "$here/tools/objects.py" "$dir/objects.py"
  begin; run /usr/bin/python3 "$dir/objects.py" "$dir/ceph.conf" p; check_library; finish library
  begin; run /usr/bin/python3 "$dir/objects.py" "$dir/ceph.conf" --maps; check_library; finish maps
}
check_library() { grep -q -- '-> 0' "$dir/commands" || { cat "$dir/out" >&2; exit 1; }; }

# A client with a key and no word about authentication in its ceph.conf offers cephx first and is refused.
keyed_client() {
  cat >"$dir/keyed.conf" <<C
[global]
mon_host = $(sed -n 's/^mon_host = //p' "$dir/ceph.conf")
keyring = $dir/keyring
C
  begin
  CEPH_CONF=$dir/keyed.conf run rados lspools
  CEPH_CONF=$dir/keyed.conf run rados -p p ls
  finish keyed
}

: >"$dir/roles"; echo "$base mon" >>"$dir/roles"

# The manager's map and the commands' descriptions list every module's options and commands, some 100 KB in each
# session. The captures of 16.2 with itself have them all; the others come from a manager with two modules.
lean=()
if [ "$server/$client" != 16.2/16.2 ]; then
  mkdir "$dir/modules"
  modules=/usr/share/ceph/mgr
  [ "$server" = 16.2 ] || modules=${LOLIGO_PEERS:-/var/cache/loligo/peers}/$server$modules
  cp -r "$modules"/*.py "$modules"/{balancer,iostat} "$dir/modules/"
  lean=(--conf "mgr_module_path = $dir/modules")
fi

[ "$server" != "$client" ] || start_capture
"$peers/ceph-cluster.sh" start "$dir" --release "$server" --store memstore --osds 3 --size 2 --base-port "$base" \
  --conf 'osd_beacon_report_interval = 3' "${lean[@]}"
learn_roles
[ "$server" != "$client" ] || daemons
ceph_program
rados_program
library
keyed_client
