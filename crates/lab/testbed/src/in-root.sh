# Runs a command in a root directory: sh -euc THIS in-root ROOT WORK_DIR COMMAND [ARGUMENT]...
# Called in a mount namespace of its own, with which all of these binds end. Network, process table, environment and
# /tmp are the machine's.
root=$1 work=$2
shift 2
for dir in /proc /sys /dev /tmp; do mount --rbind "$dir" "$root$dir"; done
case $work in
  /tmp/*) ;;
  *)
    mkdir -p "$root$work"
    mount --rbind "$work" "$root$work"
    ;;
esac
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
exec chroot "$root" "$@"
