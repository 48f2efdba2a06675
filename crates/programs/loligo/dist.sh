#!/usr/bin/env bash
# Builds the program to install, target/dist/loligo: optimised as a whole, and for the ways that a load takes through
# it. It is built with counters, serves that load, and is built again by what was counted: some 15 minutes on two cores.
# Needs `ceph` (a pool is made with it) and an `llvm-profdata` that reads what this rustc counts: rustup's component
# llvm-tools, or Debian's llvm-19, which is installed where root runs this; and some GiB in TMPDIR (/tmp). Without the programs
# it says so, and builds without counts (also with PROFILE=no).
set -euo pipefail
cd "$(dirname "$0")/../../.."

CARGO=${CARGO:-cargo}
target=$("$CARGO" metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
triple=$(rustc -vV | sed -n 's/^host: //p')
flags=${RUSTFLAGS:-}
work=$(mktemp -d "${TMPDIR:-/tmp}/loligo-dist.XXXXXX")
server=

# Ends the cluster too, when something fails.
cleanup() {
  [ -z "$server" ] || "$server" stop "$work/cluster" >"$work/stop.log" 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# Builds into a directory of its own, so that other builds stay as they are. The target is named in both builds, for
# functions have the same names in them then, and build scripts count nothing. On a terminal cargo shows what it
# builds; in a log only what fails.
build() { # DIRECTORY FLAG...
  local command=("$CARGO" build --profile dist --target "$triple" --target-dir "$target/$1" -p loligo)
  export RUSTFLAGS="$flags ${*:2}"
  if [ -t 2 ]; then
    "${command[@]}"
  else
    "${command[@]}" >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }
  fi
}

install_program() { # DIRECTORY
  mkdir -p "$target/dist"
  # Renamed into its place: a program that runs can't be written over.
  cp "$target/$1/$triple/dist/loligo" "$target/dist/loligo.new"
  mv "$target/dist/loligo.new" "$target/dist/loligo"
  ls -l "$target/dist/loligo"
}

plain() { # WHY
  echo "== building (dist) without a profile, since $1: several minutes"
  build plain
  install_program plain
  exit 0
}

# Whether a program reads the counts of this rustc.
reads_counts() { # PROGRAM
  command -v "$1" >/dev/null && "$1" merge -o "$work/try.profdata" "$work/try.profraw" >/dev/null 2>&1
}

find_profdata() {
  local program
  for program in "${LLVM_PROFDATA:-}" "$(rustc --print sysroot)/lib/rustlib/$triple/bin/llvm-profdata" llvm-profdata \
    llvm-profdata-{30..19}; do
    [ -z "$program" ] || ! reads_counts "$program" || { echo "$program"; return; }
  done
}

echo 'fn main() {}' >"$work/try.rs"
[ "${PROFILE:-yes}" != no ] || plain "PROFILE=no"
command -v ceph >/dev/null || plain "there is no 'ceph' to make a pool with (apt-get install ceph-common)"
rustc -Cprofile-generate -o "$work/try" "$work/try.rs" || plain "this rustc has no counters"
LLVM_PROFILE_FILE="$work/try.profraw" "$work/try"
profdata=$(find_profdata)
if [ -z "$profdata" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing: llvm-19"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends llvm-19 >"$work/apt.log" 2>&1 || true
  profdata=$(find_profdata)
fi
[ -n "$profdata" ] || plain "no llvm-profdata reads this rustc's counts (rustup component add llvm-tools, or apt-get install llvm-19)"

echo "== building (dist) with counters: several minutes"
build counted -Cprofile-generate
server=$target/counted/$triple/dist/loligo

bench() { # ARGUMENT...
  "$server" bench -c "$work/cluster/ceph.conf" -p counted "$@" >"$work/bench.log" 2>&1 \
    || { tail -5 "$work/bench.log" >&2; echo "dist.sh: the load failed: loligo bench $*" >&2; exit 1; }
}

# Those are what a processor is busy with.
small_operations() {
  bench 4 write -b 4K -t 16 --no-cleanup
  bench 4 rand -t 16
  bench 2 rand -t 256
  bench 3 randwrite -b 4K -O 4M --objects 64 -t 16
  bench 2 mixed -b 4K -O 4M --objects 64 -t 16
  bench 2 write -b 4K -t 1
  bench 2 write -b 4K -t 256
}

large_operations() {
  bench 2 write -b 128K -t 16 --no-cleanup
  bench 2 seq -t 16
  bench 1 write -b 4M -t 16 --no-cleanup
  bench 1 seq -t 16
}

# A cluster under load, from its making to its end.
count() { # STORE OSDS LOAD...
  export LLVM_PROFILE_FILE="$work/counts/%m-%p.profraw"
  "$server" up --dir "$work/cluster" --osds "$2" --store "$1" --port 0 --osd-size 16GiB --detach >"$work/up.log" 2>&1 \
    || { cat "$work/up.log" >&2; echo "dist.sh: the cluster that is to be counted did not start" >&2; exit 1; }
  ceph -c "$work/cluster/ceph.conf" osd pool create counted 32 >"$work/pool.log" 2>&1 \
    || { cat "$work/pool.log" >&2; echo "dist.sh: 'ceph' can't make a pool" >&2; exit 1; }
  for load in "${@:3}"; do "$load"; done
  "$server" stop "$work/cluster" >"$work/stop.log" 2>&1
  rm -rf "$work/cluster"
}

echo "== counting under load: a minute and a half"
count block 1 small_operations large_operations
count mem 1 small_operations
count block 3 small_operations large_operations
server=
"$profdata" merge -o "$work/counts.profdata" "$work"/counts/*.profraw

echo "== building (dist) by what was counted: several minutes"
# Cargo does not see that counts have changed: their path is another each time.
build measured "-Cprofile-use=$work/counts.profdata"
install_program measured
