# Installs missing Debian packages. To be sourced by bash scripts:
#
#   source "$(dirname "${BASH_SOURCE[0]}")/lib/packages.sh"
#   require_packages cmake ninja-build
#
# Returns at once, without root and without the network, when nothing is missing. Never removes or
# upgrades a package. Starts no server that a package brings (sshd, memcached, prometheus), and enables none: tests
# start their own. Ends the caller with status 1 and one clear sentence when it cannot install.
# Progress goes to stderr, so that the caller's stdout stays its own.

# Prints those of the named packages that are not installed, one per line.
missing_packages() {
  local package status
  for package in "$@"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) || status=
    [[ $status == installed ]] || echo "$package"
  done
}

# apt_install PACKAGE...: in a shell of its own, so that its trap is not the caller's. A service that was there before
# stays as it is.
apt_install() (
  policy=/usr/sbin/policy-rc.d
  services=()
  for service in memcached prometheus ssh; do
    [[ -e /etc/init.d/$service ]] || services+=("$service")
  done
  if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 143' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-remove \
    --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null || exit
  for service in "${services[@]}"; do
    [[ ! -e /etc/init.d/$service ]] || update-rc.d "$service" disable || true
  done
)

# A machine whose package lists are absent or old either does not know a package or asks for a file
# that is gone: the caller updates the lists then, and not otherwise, as that is the slow part.
require_packages() {
  if ! command -v dpkg-query apt-get >/dev/null; then
    echo "This is not Debian: install by other means what these packages hold: $*" >&2
    exit 1
  fi
  local missing log
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    echo "Missing packages; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "Installing packages: ${missing[*]}" >&2
  log=$(mktemp)
  if ! apt_install "${missing[@]}" >"$log" 2>&1 &&
    ! { apt-get update --quiet=2 && apt_install "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "apt could not install: ${missing[*]} (its last lines are above)." >&2
    exit 1
  fi
  rm -f "$log"
}
