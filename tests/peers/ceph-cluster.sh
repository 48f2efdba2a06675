#!/usr/bin/env bash
# Starts and stops a real Ceph cluster on loopback, as the peer to test and measure against: one monitor, one
# manager, some OSDs. Needs root.
# usage: ceph-cluster.sh start DIR [--release 16.2|18.2|20.2] [--osds 3] [--store bluestore|memstore|filestore]
#                                  [--base-port 6700] [--size 1] [--block-size 10737418240] [--conf 'option = value']...
#                                  [--auth none|cephx]   with cephx, DIR/keyring has the key of client.admin
#        ceph-cluster.sh start-osd DIR ID    starts an OSD that was made by start and has been stopped
#        ceph-cluster.sh stop-osd DIR ID     kills an OSD outright (its up state lasts until someone notices)
#        ceph-cluster.sh stop DIR            stops every daemon of the cluster; DIR stays
# Debian's 18.2 manager cannot load its Python modules (PyO3 and subinterpreters) and warns of that; its own commands work.
# The monitor listens on BASE (v2) and BASE+1 (v1), all others between BASE+10 and BASE+90. DIR/ceph.conf serves
# clients of every release. Each wait is bounded and says what did not come up.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "ceph-cluster.sh: $*" >&2; exit 1; }
usage() { sed -n '/^# usage/,/^# Debian/p' "$0" | sed '$d; s/^# //' >&2; exit 2; }

[ $# -ge 2 ] || usage
command=$1; mkdir -p "$2"; dir=$(cd "$2" && pwd); shift 2
[ "$(id -u)" = 0 ] || fail "running Ceph's daemons needs root; run it as root"

# A program of the cluster's release, with DIR visible and never for longer than a minute.
peer() { LOLIGO_BIND=$dir CEPH_CONF=$dir/ceph.conf CEPH_KEYRING=$dir/keyring "$here/in-root.sh" "$release" timeout 60 "$@"; }

# wait_for SECONDS WHAT COMMAND...: polls until the command succeeds.
wait_for() {
  local seconds=$1 what=$2 end=$((SECONDS + $1)); shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt "$end" ] || { stop_all; fail "$what did not come up within $seconds s (logs in $dir)"; }
    sleep 0.3
  done
}

json() { peer ceph --connect-timeout 5 "${@:2}" -f json | python3 -c "import json,sys; d=json.load(sys.stdin); sys.exit(not ($1))"; }

# Ends one daemon by its pid file, if the pid is still a Ceph daemon.
end_daemon() {
  local file=$dir/$1.pid signal=$2 pid
  [ -s "$file" ] || return 0
  pid=$(cat "$file")
  grep -qz '^ceph-' "/proc/$pid/comm" 2>/dev/null || { rm -f "$file"; return 0; }
  kill "-$signal" "$pid" 2>/dev/null || true
  local end=$((SECONDS + 10))
  while [ -d "/proc/$pid" ]; do
    [ $SECONDS -lt $end ] || { kill -KILL "$pid" 2>/dev/null || true; end=$((SECONDS + 10)); }
    sleep 0.1
  done
  rm -f "$file"
}

stop_all() {
  local file
  for file in "$dir"/osd.*.pid "$dir"/mgr.*.pid "$dir"/mon.*.pid; do
    [ -e "$file" ] || continue
    file=${file##*/}
    end_daemon "${file%.pid}" TERM
  done
}

start_osd() {
  peer ceph-osd -i "$1" >"$dir/osd.$1.out" 2>&1 \
    || { echo "osd.$1 did not start: $(tail -n 1 "$dir/osd.$1.out")" >&2; return 1; }
}

write_conf() {
  cat >"$dir/ceph.conf" <<CONF
[global]
fsid = $fsid
mon_host = [v2:127.0.0.1:$base,v1:127.0.0.1:$((base + 1))]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = $auth
auth_service_required = $auth
auth_client_required = $auth
ms_cluster_mode = crc
ms_service_mode = crc
ms_client_mode = crc
ms_mon_cluster_mode = crc
ms_mon_service_mode = crc
ms_mon_client_mode = crc
osd_pool_default_size = $size
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
[mon]
mon_data = $dir/mon.\$id
mon_allow_pool_delete = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 0
mon_data_avail_crit = 0
auth_allow_insecure_global_id_reclaim = false
mon_max_pg_per_osd = 1000
osd_crush_chooseleaf_type = 0
[mgr]
mgr_data = $dir/mgr.\$id
[osd]
osd_data = $dir/osd.\$id
osd_objectstore = $store
osd_journal = $dir/osd.\$id/journal
osd_journal_size = 1024
bluestore_block_create = true
bluestore_block_size = $block_size
memstore_device_bytes = 2147483648
osd_max_object_name_len = 256
osd_max_object_namespace_len = 64
osd_memory_target = 2147483648
CONF
  # Only for daemons: a client must not log into, or look for its key in, the cluster's directory.
  local section
  for section in mon mgr osd; do
    cat >>"$dir/ceph.conf" <<CONF
[$section]
run_dir = $dir
keyring = $dir/keyring
admin_socket = $dir/\$name.asok
log_file = $dir/\$name.log
pid_file = $dir/\$name.pid
ms_bind_port_min = $((base + 10))
ms_bind_port_max = $((base + 90))
CONF
    [ ${#extra[@]} = 0 ] || printf '%s\n' "${extra[@]}" >>"$dir/ceph.conf"
  done
}

start_cluster() {
  local fsid id uuid began=$SECONDS
  for id in "$dir"/*.pid; do
    [ ! -e "$id" ] || fail "a cluster runs in $dir already (or stop was forgotten): $id exists"
  done
  [ "$store" != filestore ] || [ "$release" = 16.2 ] || fail "Ceph $release has no FileStore any more"
  rm -rf "$dir"/mon.a "$dir"/mgr.x "$dir"/osd.* "$dir"/*.log "$dir"/*.asok "$dir"/keyring "$dir"/monmap
  echo "$release" >"$dir/release"
  fsid=$(python3 -c 'import uuid; print(uuid.uuid4())')
  write_conf

  peer ceph-authtool --create-keyring "$dir/keyring" --gen-key -n mon. --cap mon 'allow *' >/dev/null
  peer ceph-authtool "$dir/keyring" --gen-key -n client.admin \
    --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' >/dev/null
  peer monmaptool --create --clobber --addv a "[v2:127.0.0.1:$base,v1:127.0.0.1:$((base + 1))]" \
    --fsid "$fsid" "$dir/monmap" >/dev/null
  peer ceph-mon --mkfs -i a --monmap "$dir/monmap" --keyring "$dir/keyring" >"$dir/mon.a.out" 2>&1 \
    && peer ceph-mon -i a >"$dir/mon.a.out" 2>&1 \
    || fail "the monitor did not start: $(tail -n 1 "$dir/mon.a.out")"
  wait_for 30 "the monitor's quorum" json 'd["quorum"]' quorum_status

  mkdir -p "$dir/mgr.x"
  [ "$auth" = none ] || peer ceph auth get-or-create mgr.x mon 'allow profile mgr' osd 'allow *' >>"$dir/keyring"
  peer ceph-mgr -i x >"$dir/mgr.x.out" 2>&1 \
    || { stop_all; fail "the manager did not start: $(tail -n 1 "$dir/mgr.x.out")"; }
  for ((id = 0; id < osds; id++)); do
    uuid=$(python3 -c 'import uuid; print(uuid.uuid4())')
    mkdir -p "$dir/osd.$id"
    peer ceph osd new "$uuid" >/dev/null
    [ "$auth" = none ] || peer ceph auth get-or-create "osd.$id" mon 'allow profile osd' mgr 'allow profile osd' \
      osd 'allow *' >>"$dir/keyring"
    peer ceph-osd --mkfs -i "$id" --osd-uuid "$uuid" >"$dir/osd.$id.out" 2>&1 \
      || { stop_all; fail "osd.$id could not be made: $(tail -n 1 "$dir/osd.$id.out")"; }
    start_osd "$id" || { stop_all; exit 1; }
  done
  wait_for 60 "the manager" json 'd["available"]' mgr dump
  wait_for 60 "all of the $osds OSDs" json "d['num_up_osds'] == $osds" osd stat
  echo "Ceph $(peer ceph --version | awk '{print $3}') with $osds OSDs on $store in $((SECONDS - began)) s: CEPH_CONF=$dir/ceph.conf"
}

case $command in
  start)
    release=16.2 osds=3 store=bluestore base=6700 size=1 block_size=10737418240 auth=none extra=()
    while [ $# -gt 0 ]; do
      [ $# -ge 2 ] || usage
      case $1 in
        --release) release=$2 ;;
        --osds) osds=$2 ;;
        --store) store=$2 ;;
        --base-port) base=$2 ;;
        --size) size=$2 ;;
        --block-size) block_size=$2 ;;
        --auth) auth=$2 ;;
        --conf) extra+=("$2") ;;
        *) usage ;;
      esac
      shift 2
    done
    case $store in bluestore | memstore | filestore) ;; *) fail "no store $store" ;; esac
    case $auth in none | cephx) ;; *) fail "no authentication $auth" ;; esac
    start_cluster
    ;;
  start-osd) release=$(cat "$dir/release"); start_osd "${1:?the OSD}" ;;
  stop-osd) end_daemon "osd.${1:?the OSD}" KILL ;;
  stop) stop_all ;;
  *) usage ;;
esac
