# Three hosts for tests of deploy/, in network namespaces of this machine. To be sourced by bash scripts that run as
# root, with `work`, a temporary directory.
#
#   make_hosts              host1, host2, host3, each with an sshd; and the namespace `admin`, which reaches them
#   on_admin COMMAND        runs a command on the machine from which the hosts are administered
#   on_host NUMBER COMMAND  on a host
#   remove_hosts            ends all processes on the hosts, and removes the namespaces
#
# A bridge inside the namespace `admin` joins the hosts. Nothing reaches the network of the machine. The hosts
# share its files, but each has an XDG_RUNTIME_DIR of its own.
#
# With greeting set, the shells of the first two hosts print it before they do anything, as a .bashrc may.
#
# With host_interface set to an interface, the hosts are addresses of it, without namespaces: for SoftRoCE (docs/deploy.md).

# shellcheck shell=bash

: "${work:?}"
readonly kHosts=(192.0.2.1 192.0.2.11 192.0.2.12)  # TEST-NET-1: never routed on the Internet
readonly kAdminAddress=192.0.2.100
readonly kSpaces=gossamer-test-$$

# Ends the test with the status that means `skipped` unless hosts can be made and the needed_programs are there.
require_hosts() {
  local program
  if ((EUID != 0)); then
    echo 'skipped: network namespaces need root'
    exit 77
  fi
  for program in ip ssh ssh-keygen /usr/sbin/sshd memcached redis-cli ${needed_programs:-}; do
    if ! command -v "$program" >/dev/null; then
      echo "skipped: there is no $program"
      exit 77
    fi
  done
  if [[ -z ${host_interface:-} ]] && ! ip netns add "$kSpaces-admin" 2>/dev/null; then
    echo 'skipped: this machine has no network namespaces'
    exit 77
  fi
}

in_space() {  # NAME COMMAND...
  if [[ -n ${host_interface:-} ]]; then
    "${@:2}"
  else
    ip netns exec "$kSpaces-$1" "${@:2}"
  fi
}
on_admin() { in_space admin "$@"; }
on_host() { in_space "$@"; }

make_host_network() {  # NUMBER
  local number=$1 address=${kHosts[$1 - 1]}/24 space=$kSpaces-$1
  if [[ -n ${host_interface:-} ]]; then
    ip address replace "$address" dev "$host_interface"
    return
  fi
  ip netns add "$space"
  ip link add name eth0 netns "$space" type veth peer name "host$number" netns "$kSpaces-admin"
  on_admin ip link set "host$number" master bridge up
  ip -n "$space" address add "$address" dev eth0
  ip -n "$space" link set eth0 up
  ip -n "$space" link set lo up
}

make_host() {  # NUMBER
  local number=$1 directory=$work/host$1 greet=
  # shellcheck disable=SC2016  # for the shell there
  [[ -z ${greeting:-} || $number == 3 ]] || greet='ForceCommand echo "'$greeting'"; eval "$SSH_ORIGINAL_COMMAND"'
  mkdir -p "$directory/run"
  chmod 700 "$directory/run"
  make_host_network "$number"
  ssh-keygen -q -t ed25519 -N '' -f "$directory/key"
  # With SHLVL, bash does not take itself for the first shell, and does not read this machine's .bashrc. The key exchange
  # is the cheapest, as the processor may be emulated.
  cat >"$directory/sshd_config" <<END
ListenAddress ${kHosts[number - 1]}
HostKey $directory/key
PidFile $directory/sshd.pid
AuthorizedKeysFile $work/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
UseDNS no
Subsystem sftp internal-sftp
KexAlgorithms curve25519-sha256
SetEnv XDG_RUNTIME_DIR=$directory/run SHLVL=1
$greet
END
  on_host "$number" /usr/sbin/sshd -f "$directory/sshd_config" -E "$directory/sshd.log"
  echo "${kHosts[number - 1]} $(<"$directory/key.pub")" >>"$work/known_hosts"
}

# Requires: require_hosts.
make_hosts() {
  local number
  mkdir -p /run/sshd  # where sshd separates privileges
  ssh-keygen -q -t ed25519 -N '' -f "$work/user"
  if [[ -z ${host_interface:-} ]]; then
    on_admin ip link add bridge type bridge
    on_admin ip address add "$kAdminAddress/24" dev bridge
    on_admin ip link set bridge up
    on_admin ip link set lo up
  fi
  for number in 1 2 3; do make_host "$number"; done
}

# Processes on the hosts, the sshds left out; one pid a line.
host_processes() {
  local number pid
  if [[ -n ${host_interface:-} ]]; then
    # They have what only sshd gives.
    grep -lzE "^XDG_RUNTIME_DIR=$work/host[123]/run$" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3 || true
    return
  fi
  for number in 1 2 3; do
    for pid in $(ip netns pids "$kSpaces-$number" 2>/dev/null); do
      [[ $(cat "/proc/$pid/comm" 2>/dev/null) =~ ^(sshd.*|)$ ]] || echo "$pid"
    done
  done
}

remove_hosts() {
  local space pid
  if [[ -n ${host_interface:-} ]]; then
    for pid in $(cat "$work"/host?/sshd.pid 2>/dev/null) $(host_processes); do kill -KILL "$pid" 2>/dev/null || true; done
    return
  fi
  for space in "$kSpaces"-{1,2,3,admin}; do
    for pid in $(ip netns pids "$space" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
    ip netns delete "$space" 2>/dev/null || true
  done
}

# programs_in DIRECTORY BUILD_DIRECTORY: the programs of the build.
programs_in() {
  if [[ ! -x $2/bin/gossamer-compute ]]; then
    echo "skipped: there is no $2/bin/gossamer-compute"
    exit 77
  fi
  mkdir -p "$1"
  ln -s "$2/bin"/gossamer{,-memory,-compute,-bench} "$1"
}

# redis ADDRESS WORD...: the answer to one command, on the port 7400 with the password of `$work/pass word`.
redis() {
  local address=$1
  shift
  on_admin env REDISCLI_AUTH="$(<"$work/pass word")" redis-cli -h "$address" -p 7400 "$@"
}
