# The container image of deploy/docker, without Docker: clean roots take the place of images. To be sourced by bash scripts
# that run as root, after clean_root.sh.
#
#   try_image CACHE SOURCES RUN LIMIT   builds it of a clone, and runs the services of compose.yaml in it; at most LIMIT
#                                       seconds for each stage
#
# Requires: CACHE/plain and CACHE/packages are roots (make_roots), and no other process makes them meanwhile (CACHE/lock).
# The first stage starts where the packages to build are installed: variant `plain` of scripts/fresh_machine installs them.

# shellcheck shell=bash

: "${kRoot:?}"

try_image() {
  local cache=$1 sources=$2 run=$3 limit=$4
  run_image_stage "$cache/packages" "$sources" "$run/build" 64m "$limit" build build >"$run/build.tar" || return
  mkdir -p "$run/image/upper/docker"
  mv "$run/build.tar" "$run/image/upper/docker"
  "$sources/scripts/lib/compose_services" "$sources/deploy/docker/compose.yaml" >"$run/image/upper/docker/services" || return
  # The /dev/shm of memory servers is that of the machine.
  run_image_stage "$cache/plain" "$sources" "$run/image" 1g "$limit" run
}

run_image_stage() {  # LAYER SOURCES RUN SHM_BYTES LIMIT WORD...
  local layer=$1 sources=$2 run=$3 shm=$4 limit=$5
  shift 5
  mkdir -p "$run/upper/docker"
  chmod 755 "$run" "$run/upper" "$run/upper/docker"
  cp -a "$sources" "$run/upper/docker/context"
  run_in_root "$layer" "$run" "$shm" "$limit" /docker/context/scripts/lib/image_stage "$@"
}
