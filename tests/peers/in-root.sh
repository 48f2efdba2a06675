#!/usr/bin/env bash
# Runs a program of a given Ceph release: 16.2 is this machine's own, 18.2 and 20.2 live in roots that peer-root.sh makes.
# usage: in-root.sh RELEASE COMMAND [ARGUMENT]...
# In a root, the network, the process table and the environment are this machine's, /tmp is visible at its own path,
# and so is every directory in LOLIGO_BIND (separated by colons). The working directory is kept where the root
# has it. All binds live in a mount namespace of this one command and end with it. Needs root.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: in-root.sh RELEASE COMMAND [ARGUMENT]..." >&2; exit 2; }
release=$1; shift
root=${LOLIGO_PEERS:-/var/cache/loligo/peers}/$release

case $release in
  16.2) exec "$@" ;;
  18.2 | 20.2) ;;
  *) echo "in-root.sh: no release $release, only 16.2, 18.2 and 20.2" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "in-root.sh: running Ceph $release in its root needs root" >&2; exit 1; }
[ -s "$root/.loligo-peer-complete" ] \
  || { echo "in-root.sh: no finished root in $root; run peer-root.sh $release" >&2; exit 1; }

export LOLIGO_ROOT=$root
# shellcheck disable=SC2016  # expanded by the inner shell
exec unshare --mount --propagation private bash -euc '
  for dir in /proc /sys /dev /tmp; do mount --rbind "$dir" "$LOLIGO_ROOT$dir"; done
  IFS=:
  for dir in ${LOLIGO_BIND:-}; do
    case $dir in "" | /tmp | /tmp/*) continue ;; esac
    mkdir -p "$LOLIGO_ROOT$dir"
    mount --rbind "$dir" "$LOLIGO_ROOT$dir"
  done
  unset IFS
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
  exec chroot "$LOLIGO_ROOT" sh -c "cd \"\$0\" 2>/dev/null || cd /; exec \"\$@\"" "$PWD" "$@"
' in-root "$@"
