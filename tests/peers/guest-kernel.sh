#!/usr/bin/env bash
# Makes what a QEMU guest is booted with: Debian's kernel and an initial file system with busybox, the drivers of virtio
# disks and the script INIT. Needs root for the packages, which it installs or unpacks.
# usage: guest-kernel.sh INIT DIR      makes DIR/vmlinuz and DIR/initrd
set -euo pipefail

[ $# = 2 ] || { sed -n '4p' "$0" >&2; exit 2; }
init=$1 out=$2
cache=${LOLIGO_GUEST:-/var/cache/loligo/guest}
fail() { echo "guest-kernel.sh: $*" >&2; exit 1; }

missing=()
for package in busybox-static qemu-block-extra qemu-system-x86 qemu-utils; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || fail "apt-get update failed; is a package mirror reachable?"
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || fail "could not install: ${missing[*]}"
fi

# The kernel is unpacked and not installed: this machine keeps its own.
if ! ls "$cache"/boot/vmlinuz-* >/dev/null 2>&1; then
  work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
  package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
  [ -n "$package" ] || fail "apt knows no linux-image-cloud-amd64"
  (cd "$work" && apt-get -o APT::Sandbox::User=root download -qq "$package") || fail "could not download $package"
  mkdir -p "$cache" && dpkg -x "$work"/*.deb "$cache"
fi

root=$(mktemp -d)
mkdir -p "$root"/{bin,dev,proc,sys,m,mnt} "$out"
cp "$(command -v busybox)" "$root/bin/busybox"
install -m 755 "$init" "$root/init"
for module in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk; do
  cp "$(find "$cache/lib/modules" -name "$module.ko")" "$root/m/"
done
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) > "$out/initrd"
cp "$cache"/boot/vmlinuz-* "$out/vmlinuz"
rm -rf "$root"
