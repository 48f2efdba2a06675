#!/bin/busybox sh
# What a guest runs as its first and only program: it fills files on its disk, a line on the console for each that is
# synced, reads them again from the disk, and ends. The host may stop the cluster meanwhile.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev
mount -t proc none /proc
# The kernel writes its own messages to the console at once; a program's may wait for an interrupt.
say() { echo "<1>$*" > /dev/kmsg; }
for m in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk; do insmod /m/$m.ko; done
n=0; while [ ! -b /dev/vda ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
mount -t ext4 /dev/vda /mnt || { say "GUEST FAILED: no file system"; poweroff -f; }
n=1
while [ $n -le 200 ]; do
  # Half a MiB that differs for each file and that the host can make too.
  yes "line of file $n" | head -c 524288 > /mnt/f$n && sync && say "GUEST SYNCED $n"
  n=$((n + 1))
done
echo 3 > /proc/sys/vm/drop_caches
n=1
while [ $n -le 200 ]; do
  [ "$(sha256sum < /mnt/f$n)" = "$(yes "line of file $n" | head -c 524288 | sha256sum)" ] || say "GUEST FAILED: f$n"
  n=$((n + 1))
done
umount /mnt && say "GUEST DONE"
poweroff -f
