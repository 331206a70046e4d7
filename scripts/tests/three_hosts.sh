# Three hosts for tests of deploy/, in network namespaces of this machine. To be sourced by bash scripts that run as
# root, with `work`, a temporary directory.
#
#   make_hosts          host1, host2, host3, each with an sshd; and the namespace `admin`, which reaches them
#   on_admin COMMAND    runs a command on the machine from which the hosts are administered
#   remove_hosts        ends all processes on the hosts, and removes the namespaces
#
# A bridge inside the namespace `admin` joins the hosts. Nothing reaches the network of the machine. The hosts
# share its files, but each has an XDG_RUNTIME_DIR of its own.

# shellcheck shell=bash

: "${work:?}"
readonly kHosts=(192.0.2.1 192.0.2.2 192.0.2.3)  # TEST-NET-1: never routed on the Internet
readonly kAdminAddress=192.0.2.100
readonly kSpaces=gossamer-test-$$

# Ends the test with the status that means `skipped` unless hosts can be made and the needed_programs are there.
require_hosts() {
  local program
  if ((EUID != 0)); then
    echo 'skipped: network namespaces need root'
    exit 77
  fi
  for program in ip ssh ssh-keygen /usr/sbin/sshd memcached python3 ${needed_programs:-}; do
    if ! command -v "$program" >/dev/null; then
      echo "skipped: there is no $program"
      exit 77
    fi
  done
  if ! ip netns add "$kSpaces-admin" 2>/dev/null; then
    echo 'skipped: this machine has no network namespaces'
    exit 77
  fi
}

on_admin() { ip netns exec "$kSpaces-admin" "$@"; }

make_host() {  # NUMBER
  local number=$1 space=$kSpaces-$1 directory=$work/host$1
  mkdir -p "$directory/run"
  chmod 700 "$directory/run"
  ip netns add "$space"
  ip link add name eth0 netns "$space" type veth peer name "host$number" netns "$kSpaces-admin"
  on_admin ip link set "host$number" master bridge up
  ip -n "$space" address add "${kHosts[number - 1]}/24" dev eth0
  ip -n "$space" link set eth0 up
  ip -n "$space" link set lo up
  ssh-keygen -q -t ed25519 -N '' -f "$directory/key"
  cat >"$directory/sshd_config" <<END
ListenAddress ${kHosts[number - 1]}
HostKey $directory/key
PidFile none
AuthorizedKeysFile $work/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
UseDNS no
Subsystem sftp internal-sftp
SetEnv XDG_RUNTIME_DIR=$directory/run
END
  ip netns exec "$space" /usr/sbin/sshd -f "$directory/sshd_config" -E "$directory/sshd.log"
  echo "${kHosts[number - 1]} $(<"$directory/key.pub")" >>"$work/known_hosts"
}

# Requires: require_hosts.
make_hosts() {
  local number
  mkdir -p /run/sshd  # where sshd separates privileges
  ssh-keygen -q -t ed25519 -N '' -f "$work/user"
  on_admin ip link add bridge type bridge
  on_admin ip address add "$kAdminAddress/24" dev bridge
  on_admin ip link set bridge up
  on_admin ip link set lo up
  for number in 1 2 3; do make_host "$number"; done
}

# Processes on the hosts, the sshds left out; one pid a line.
host_processes() {
  local number pid
  for number in 1 2 3; do
    for pid in $(ip netns pids "$kSpaces-$number" 2>/dev/null); do
      [[ $(cat "/proc/$pid/comm" 2>/dev/null) =~ ^(sshd.*|)$ ]] || echo "$pid"
    done
  done
}

remove_hosts() {
  local space pid
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
  ln -s "$2/bin"/gossamer{,-memory,-compute} "$1"
}

# redis ADDRESS WORD...: the answer to one command, on the port 7400 with the password of `$work/pass word`.
redis() {
  on_admin python3 - "$(<"$work/pass word")" "$@" <<'END'
import socket
import sys

password, address, *words = sys.argv[1:]
with socket.create_connection((address, 7400), timeout=30) as connection:
    stream = connection.makefile("rwb")
    for command in (["AUTH", password], words):
        parts = [word.encode() for word in command]
        stream.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        stream.flush()
        answer = stream.readline().strip().decode()
        if answer.startswith("$") and answer != "$-1":
            answer = stream.read(int(answer[1:]) + 2)[:-2].decode()
print(answer)
END
}
