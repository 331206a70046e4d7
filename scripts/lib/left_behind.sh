# What trials of the Debian packages in a clean root share. To be sourced by bash scripts that have `work`, a temporary
# directory.
#
#   section TEXT...          a heading
#   fail TEXT...             ends the trial with status 1
#   install_packages DIRECTORY, purge_packages
#   note_files               notes what is on the disk now
#   expect_files_as_noted    fails if anything has been left since, or has changed

# shellcheck shell=bash

: "${work:?}"
readonly kPackages=(gossamer gossamer-tools libgossamer-dev libgossamer5)

section() { printf '== %s\n' "$*"; }

fail() {
  echo "FAILED: $*"
  exit 1
}

# Every file with its owner and mode, and what is in those of /etc. Not what dpkg, ldconfig and useradd remember.
listing() {
  {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path "$work" -o -path /var/lib/dpkg -o -path /var/log \
      -o -path /var/cache/ldconfig -o -path /etc/ld.so.cache -o -path /src \
      -o -path /etc/passwd- -o -path /etc/shadow- -o -path /etc/group- -o -path /etc/gshadow- \) -prune \
      -o -printf '%p %M %U %G %l\n'
    find /dev/shm -mindepth 1
    find /etc -type f ! -name '*-' ! -name ld.so.cache -exec sha256sum {} + | awk '{ print $2, $1 }'
  } | sort
}

note_files() { listing >"$work/before"; }

expect_files_as_noted() {
  listing >"$work/after"
  if ! diff "$work/before" "$work/after" >"$work/left"; then
    cat "$work/left"
    fail 'the files above are left, or changed'
  fi
}

install_packages() {
  dpkg --install "$1"/*.deb >"$work/log" 2>&1 </dev/null || { cat "$work/log" && fail "cannot install from $1"; }
}

purge_packages() {
  dpkg --purge "${kPackages[@]}" >"$work/log" 2>&1 || { cat "$work/log" && fail 'cannot purge'; }
}
