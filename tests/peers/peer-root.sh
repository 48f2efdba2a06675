#!/usr/bin/env bash
# Makes a root directory that holds a newer Ceph release from Debian's packages: servers, clients, Ceph's own tests.
# usage: peer-root.sh 18.2|20.2
# The root is ${LOLIGO_PEERS:-/var/cache/loligo/peers}/RELEASE; in-root.sh runs programs in it. A finished root has
# a stamp file and is left alone; an unfinished one is removed and made again. /proc, /sys and /dev are bound
# only in a mount namespace of this script's own, so nothing stays mounted whatever happens. Needs root.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
peers=${LOLIGO_PEERS:-/var/cache/loligo/peers}
release=${1:-}
root=$peers/$release
stamp=.loligo-peer-complete
packages=(
  ceph-mon ceph-mgr ceph-osd ceph-mds ceph-base ceph-common ceph-test
  python3 python3-rados librados2 uuid-runtime
)

fail() { echo "peer-root.sh: no root with Ceph $release: $*" >&2; exit 1; }
say() { echo "[peer $release] $*"; }

case $release in
  18.2) suite=trixie ;;
  20.2) suite=sid ;;
  *) echo "usage: peer-root.sh 18.2|20.2" >&2; exit 2 ;;
esac

# The last lines of a step's log make the one sentence that says why it failed.
step() {
  local what=$1 log=$peers/$release.log; shift
  say "$what ..."
  "$@" >"$log" 2>&1 </dev/null || fail "$what failed: $(grep -v '^\s*$' "$log" | tail -n 1) (log: $log)"
}

# Removes a root; refuses while anything is mounted in it, since /dev may be bound there.
remove_root() {
  [ -e "$root" ] || return 0
  ! grep -qF " $root/" /proc/self/mounts || fail "something is mounted below $root; unmount it first"
  rm -rf --one-file-system "$root"
}

build() { # runs in the mount namespace
  local mirror
  # shellcheck disable=SC2016  # apt's own format
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 -E '/debian/?$') \
    || fail "apt knows no Debian mirror (run apt-get update)"
  step "debootstrap of $suite from $mirror" debootstrap --variant=minbase "$suite" "$root" "$mirror"

  # The host's way to its mirror (proxies, keys) must hold in the root as well.
  cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
  cp -n /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # no package starts a daemon
  chmod +x "$root/usr/sbin/policy-rc.d"
  local dir
  for dir in proc sys dev; do mount --rbind "/$dir" "$root/$dir"; done

  step "apt-get update" chroot "$root" apt-get update -qq
  say "installing ${packages[*]} ..."
  # Some post-install scripts want systemd and fail although the programs are in place: the checks below decide.
  DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends "${packages[@]}" \
    >"$peers/$release.log" 2>&1 </dev/null || true
  chroot "$root" apt-get clean

  local program
  for program in ceph ceph-mon ceph-mgr ceph-osd ceph-mds rados ceph_test_rados_api_io uuidgen; do
    chroot "$root" sh -c "command -v $program" >/dev/null \
      || fail "the packages of $suite left no $program: $(grep -E '^E:' "$peers/$release.log" | tail -n 1)"
  done
  local version
  version=$(chroot "$root" ceph --version 2>/dev/null | awk '{print $3}') || fail "its ceph does not start"
  case $version in
    "$release".*) ;;
    *) fail "Debian $suite now carries Ceph $version" ;;
  esac
  echo "$version" >"$root/$stamp"
}

[ "$(id -u)" = 0 ] || { echo "peer-root.sh: making a root needs root; run it as root" >&2; exit 1; }
if [ "${2:-}" = --in-namespace ]; then build; exit; fi

mkdir -p "$peers"
exec 9>"$peers/$release.lock"
flock -n 9 || { say "another run is making it, waiting"; flock 9; }
if [ -s "$root/$stamp" ]; then
  say "ready: Ceph $(cat "$root/$stamp") in $root"
  exit
fi
command -v debootstrap >/dev/null || "$here/install-debian.sh"
[ ! -e "$root" ] || { say "removing a half-made root"; remove_root; }
unshare --mount --propagation private "$0" "$release" --in-namespace 9>&-
rm -f "$peers/$release.log"
say "ready: Ceph $(cat "$root/$stamp") in $root"
