#!/usr/bin/env bash
# Installs the Debian 12 packages that the tests need: Ceph 16.2's own programs, the tools that make the
# roots of newer releases, valgrind, which counts instructions, and a few small helpers. Needs root. Quick when
# everything is there already.
# usage: install-debian.sh [ceph|lab]      'ceph': only Ceph 16.2 itself, clients and servers
#                                          'lab': what studies use besides, and no test does
set -euo pipefail

packages=(
  ceph-common ceph-base ceph-mon ceph-mgr ceph-osd python3-rados
  debootstrap fio iproute2 openssh-client openssh-server procps python3 qemu-block-extra qemu-utils util-linux
  uuid-runtime valgrind xfsprogs
)
[ "${1:-}" != ceph ] || packages=(ceph-common ceph-base ceph-mon ceph-mgr ceph-osd)

[ "${1:-}" != lab ] || packages+=(btrfs-progs ceph-fuse ceph-mds linux-source xz-utils)

[ "$(id -u)" = 0 ] || { echo "install-debian.sh: installing packages needs root; run it as root" >&2; exit 1; }
command -v dpkg-query >/dev/null || { echo "install-debian.sh: this is not a Debian system (no dpkg-query)" >&2; exit 1; }

missing=()
for package in "${packages[@]}"; do
  # shellcheck disable=SC2016  # the ${} is dpkg's own format
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  echo "installing: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # A policy-rc.d of ours would overwrite the administrator's; daemons without a configured cluster do not start anyway.
  apt-get update -qq || { echo "install-debian.sh: apt-get update failed; is a package mirror reachable?" >&2; exit 1; }
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null \
    || { echo "install-debian.sh: apt-get could not install: ${missing[*]}" >&2; exit 1; }
fi

release=$(ceph --version | awk '{print $3}')
case $release in
  16.2.*) echo "Debian packages are in place (Ceph $release)" ;;
  *) echo "install-debian.sh: the tests expect Debian 12's Ceph 16.2, this machine has $release" >&2; exit 1 ;;
esac
