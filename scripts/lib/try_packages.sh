# The life of the Debian packages in a clean root. To be sourced by bash scripts that run as root, after clean_root.sh.
#
#   try_packages CACHE DIRECTORY    runs package_life with the packages of DIRECTORY; its status
#
# Requires: CACHE/packages is a root (make_roots), and no other process makes it meanwhile (CACHE/lock).

# shellcheck shell=bash

: "${kRoot:?}"

try_packages() {
  local run status=0
  run=$(mktemp -d "$1/run.XXXXXX")
  mkdir -p "$run/upper/src/packages"
  chmod 755 "$run" "$run/upper"
  cp "$2"/*.deb "$run/upper/src/packages"
  cp -r "$kRoot/examples/hello" "$kRoot/scripts/lib/package_life" "$run/upper/src"
  run_in_root "$1/packages" "$run" 64m 600 /src/package_life /src/packages /src/hello || status=$?
  rm -rf "$run"
  return "$status"
}
