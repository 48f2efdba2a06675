#!/usr/bin/env bash
# Runs a command on a slow disk: writes and reads of the disk below $TMPDIR are held to a rate by the kernel.
# usage: throttled.sh BYTES_PER_SECOND OPERATIONS_PER_SECOND COMMAND...      needs root; cgroups of version 1 or 2
#
# The limit is of a control group of its own, which holds the command and what it starts, and is removed afterwards.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '3p' "$0" >&2; exit 2; }
bytes=$1 operations=$2; shift 2
fail() { echo "throttled.sh: $*" >&2; exit 1; }

disk=$(stat -c '%Hd:%Ld' "${TMPDIR:-/tmp}")
[ -e "/sys/dev/block/$disk" ] || fail "${TMPDIR:-/tmp} is on no block device: set TMPDIR to a directory on a disk"
# Limits are of whole disks.
[ -e "/sys/dev/block/$disk/partition" ] && disk=$(cat "$(readlink -f "/sys/dev/block/$disk")/../dev")

if grep -qw io /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
  root=/sys/fs/cgroup
  echo +io > $root/cgroup.subtree_control
elif [ -e /sys/fs/cgroup/blkio/cgroup.procs ]; then
  root=/sys/fs/cgroup/blkio
else
  fail "the kernel offers no control group that limits disks (io or blkio)"
fi
group=$root/loligo-throttled-$$
mkdir "$group"
# What still runs when the command has ended goes back to the root group, so that the group can be removed.
trap 'while read -r p; do echo "$p" > $root/cgroup.procs || true; done < "$group/cgroup.procs"; rmdir "$group"' EXIT
if [ -e "$group/io.max" ]; then
  echo "$disk rbps=$bytes wbps=$bytes riops=$operations wiops=$operations" > "$group/io.max"
else
  for way in read write; do
    echo "$disk $bytes" > "$group/blkio.throttle.${way}_bps_device"
    echo "$disk $operations" > "$group/blkio.throttle.${way}_iops_device"
  done
fi
status=0
bash -c 'echo $$ > "$0/cgroup.procs"; exec "$@"' "$group" "$@" || status=$?
exit "$status"
