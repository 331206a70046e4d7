# Clean Debian roots in a cache, and commands in them. To be sourced by bash scripts that run as root, after
# packages.sh and package_lists.sh; kRoot is the project's directory.
#
#   make_roots CACHE         CACHE/plain: debootstrap's minbase from this machine's apt sources;
#                            CACHE/packages: with what scripts/quickstart needs
#                            CACHE/hosts: with that, and what three hosts need (scripts/tests/three_hosts.sh)
#   has_root CACHE NAME      whether that one of packages and hosts is there as make_roots would make it
#   run_in_root LAYER RUN SHM_BYTES LIMIT COMMAND...
#
# They are made again when what they are made from changes.

# shellcheck shell=bash

: "${kRoot:?}"

# Where roots are kept, and in `objects` what was compiled.
root_cache() { echo "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/gossamer/fresh_machine"; }

# shared_objects DIRECTORY: the settings of a ccache that also looks in there, and leaves there what it has.
shared_objects() { printf '%s\n' "CCACHE_REMOTE_STORAGE=file:$1|umask=000" CCACHE_RESHARE=true; }

make_object_cache() {  # DIRECTORY
  mkdir -p "$1"
  chmod 1777 "$1"  # not every process that compiles in the roots is root there
}

# Which archive this machine has Debian itself from: its address, its suite and the file of its keys.
debian_archive() {
  local codename
  # shellcheck source=/dev/null
  codename=$(source /etc/os-release && echo "$VERSION_CODENAME")
  # shellcheck disable=SC2016  # apt's own variables
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY) $(SIGNED_BY)' |
    awk -v codename="$codename" '$3 == "main" && $4 == "Packages" && ($2 == codename || $2 ~ /^(old)?stable$/) {
      print $1, $2, $5; exit }'
}

# How this machine's apt fetches, without what it does with packages then.
acquire_settings() {
  apt-config dump |
    grep -E '^Acquire::(https?|ftp|ForceIPv[46]|Retries|Max-ValidTime|Check-|Allow)[^ ]* "[^"]+";$' || true
}

# apt in ROOT becomes the machine's: sources, keys, preferences, proxies, certificates.
copy_apt_settings() {  # ROOT
  local root=$1 name
  rm -f "$root/etc/apt/sources.list"
  for name in sources.list sources.list.d trusted.gpg trusted.gpg.d keyrings preferences preferences.d auth.conf \
    auth.conf.d; do
    [[ ! -e /etc/apt/$name ]] || cp -aLT "/etc/apt/$name" "$root/etc/apt/$name"
  done
  mkdir -p "$root/usr/share/keyrings" "$root/usr/local/share/ca-certificates" "$root/etc/ssl/certs"
  cp -anL /usr/share/keyrings/. "$root/usr/share/keyrings"
  [[ ! -d /usr/local/share/ca-certificates ]] ||
    cp -aL /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates"
  [[ ! -f /etc/ssl/certs/ca-certificates.crt ]] ||
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
  acquire_settings >"$root/etc/apt/apt.conf.d/90machine"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/90machine"  # the root can be made again
  # Packages start no services, as in containers: a root has no init, and the network is the host's.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod +x "$root/usr/sbin/policy-rc.d"
}

# is_current ROOT KEY, set_current ROOT KEY: whether the root was made, to its end, from what KEY stands for.
is_current() { [[ -d $1 && -f $1.key && $(<"$1.key") == "$2" ]]; }
set_current() {
  rm -rf "$1"
  mv "$1.new" "$1"
  echo "$2" >"$1.key"
}

make_plain_root() {  # CACHE KEY
  local plain=$1/plain address suite keys proxy options=()
  read -r address suite keys < <(debian_archive) || true
  if [[ -z ${suite:-} ]]; then
    echo 'fresh_machine: apt here knows no archive of Debian itself (apt-get indextargets)' >&2
    return 1
  fi
  [[ ! -f ${keys:-} ]] || options=(--keyring="$keys")
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  [[ -z ${proxy:-} || -n ${http_proxy:-} ]] || export http_proxy=$proxy
  rm -rf "$plain.new" "$plain.key"
  echo "   a clean root of $suite from $address"
  if ! debootstrap --variant=minbase "${options[@]}" "$suite" "$plain.new" "$address" >"$plain.log" 2>&1; then
    tail -n 20 "$plain.log" >&2
    echo "fresh_machine: debootstrap failed; its last lines are above" >&2
    return 1
  fi
  copy_apt_settings "$plain.new"
  set_current "$plain" "$2"
}

# make_root_with CACHE BASE NAME KEY TITLE LIST...: CACHE/BASE and the packages of lists of package_lists.sh.
make_root_with() {
  local cache=$1 base=$2 name=$3 key=$4 title=$5 run=$1/$3.run status=0
  shift 5
  rm -rf "$run" "$cache/$name.new" "$cache/$name.key"
  echo "   a root with the packages of $title"
  mkdir -p "$run/root/src"
  cp -a --reflink=auto "$cache/$base/." "$run/root"
  cp "$kRoot"/scripts/lib/package{s,_lists}.sh "$run/root/src"
  # shellcheck disable=SC2016  # for the shell in there
  run_in_root '' "$run" 64m 1800 bash -ec 'cd /src && source ./packages.sh && source ./package_lists.sh
    packages=()
    for list in "$@"; do
      declare -n more=$list
      packages+=("${more[@]}")
    done
    require_packages "${packages[@]}" && apt-get clean' bash "$@" || status=$?
  rm -rf "$run/root/src"
  if ((status == 0)); then
    mv "$run/root" "$cache/$name.new"
    set_current "$cache/$name" "$key"
  fi
  rm -rf "$run"
  return "$status"
}

key_of() { sha256sum | cut -c 1-32; }

key_of_plain() { { debian_archive && acquire_settings && cat "$kRoot/scripts/lib/clean_root.sh"; } | key_of; }
key_of_packages() { { key_of_plain && cat "$kRoot/scripts/lib/package_lists.sh"; } | key_of; }

has_root() { is_current "$1/$2" "$(key_of_packages)"; }  # CACHE NAME

# make_roots CACHE NAME...: the named roots, of plain, packages and hosts.
make_roots() {
  local cache=$1 plain_key packages_key
  shift
  plain_key=$(key_of_plain)
  packages_key=$(key_of_packages)
  is_current "$cache/plain" "$plain_key" || make_plain_root "$cache" "$plain_key" || return
  [[ " $* " =~ ' packages '|' hosts ' ]] || return 0
  is_current "$cache/packages" "$packages_key" ||
    make_root_with "$cache" plain packages "$packages_key" scripts/quickstart kBuildPackages kRunPackages || return
  [[ " $* " != *' hosts '* ]] || is_current "$cache/hosts" "$packages_key" ||
    make_root_with "$cache" packages hosts "$packages_key" 'three hosts' kHostPackages
}

# run_in_root LAYER RUN SHM_BYTES LIMIT COMMAND...: at most LIMIT seconds; its status, 124 or 137 when they were too few.
# With the command everything in there ends, and nothing stays mounted. So it does at SIGTERM to the process `in_root`.
run_in_root() {
  local layer=$1 run=$2 shm=$3 limit=$4 status=0
  shift 4
  timeout --foreground --kill-after=2 "$limit" \
    unshare --mount --propagation private --pid --fork --kill-child=KILL --ipc \
    "$kRoot/scripts/lib/in_root" "$layer" "$run" "$shm" "$@" &
  in_root=$!
  wait "$in_root" || status=$?
  in_root=
  return "$status"
}
