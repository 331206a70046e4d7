# The Debian packages in a clean root. To be sourced by bash scripts that run as root, after clean_root.sh.
#
#   try_packages CACHE DIRECTORY    runs package_life with the packages of DIRECTORY; its status
#   try_hosts CACHE DIRECTORY       package_hosts
#
# Requires: CACHE/packages, or CACHE/hosts, is a root (make_roots), and no other process makes it meanwhile (CACHE/lock).

# shellcheck shell=bash

: "${kRoot:?}"

# try_in ROOT CACHE DIRECTORY COMMAND...
try_in() {
  local root=$1 cache=$2 directory=$3 run status=0
  shift 3
  run=$(mktemp -d "$cache/run.XXXXXX")
  mkdir -p "$run/upper/src/packages"
  chmod 755 "$run" "$run/upper"
  cp "$directory"/*.deb "$run/upper/src/packages"
  cp -r "$kRoot"/examples/hello "$kRoot"/scripts/lib/{package_life,package_hosts,left_behind.sh} \
    "$kRoot"/scripts/tests/{three_hosts.sh,redis_loop} "$run/upper/src"
  run_in_root "$cache/$root" "$run" 512m 600 "$@" || status=$?
  rm -rf "$run"
  return "$status"
}

try_packages() { try_in packages "$1" "$2" /src/package_life /src/packages /src/hello; }
try_hosts() { try_in hosts "$1" "$2" /src/package_hosts /src/packages; }
