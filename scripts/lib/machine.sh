# A machine with systemd for tests, in namespaces of this one: its files, its systemd, none of its services, no network but
# lo. To be sourced by bash scripts that run as root, with `work`, a temporary directory.
#
#   start_machine      returns 1 where systemd does not start in namespaces; $work/machine.log says why
#   in_machine COMMAND...   runs a command there. Files of this machine are there, and a change is not seen here; $work is at
#                      the same place, and is shared
#   stop_machine
#
# Requires: systemd-sysv, unshare, nsenter, overlayfs.

# shellcheck shell=bash

: "${work:?}"

# Becomes the machine's first process.
run_machine() {
  local root=$work/machine/root device
  mount -t tmpfs tmpfs "$work/machine"
  mkdir "$work/machine"/{changes,overlay,root}
  mount -t overlay overlay -o "lowerdir=/,upperdir=$work/machine/changes,workdir=$work/machine/overlay" "$root"
  mount -t proc proc "$root/proc"
  mount --bind "$root/proc/sys" "$root/proc/sys"
  mount -o remount,ro,bind "$root/proc/sys"  # of this machine, too
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs tmpfs "$root/run"
  mkdir -p "$root$work"
  mount --bind "$work" "$root$work"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mkdir "$root"/dev/{shm,pts}
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mount -t devpts devpts "$root/dev/pts"
  ln -s /proc/self/fd "$root/dev/fd"
  rm -f "$root/usr/sbin/policy-rc.d"  # of a container, where packages may restart nothing
  ip link set lo up
  cd "$root" || exit
  exec env -i container=gossamer-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    chroot . /lib/systemd/systemd --system --unit=sysinit.target --log-target=console --show-status=0
}

# systemd needs a control group of its own, which is the root of all to the machine.
enter_control_group() {
  local own
  own=$(sed -n 's/^0:://p' /proc/self/cgroup)
  mount -t cgroup2 cgroup2 "$work/cgroup"
  mkdir "$work/cgroup$own/gossamer-machine-$1"
  echo "$BASHPID" >"$work/cgroup$own/gossamer-machine-$1/cgroup.procs"
  umount "$work/cgroup"
}

start_machine() {
  mkdir -p "$work"/{machine,cgroup}
  # shellcheck disable=SC2016  # for the shell in there
  unshare --mount --propagation private bash -euc '
    work=$1
    source "$2"
    enter_control_group "$3"
    exec unshare --mount --pid --fork --kill-child=KILL --cgroup --ipc --uts --net bash -euc "
      work=\$1 && source \"\$2\" && run_machine" bash "$1" "$2"' bash "$work" "${BASH_SOURCE[0]}" "$$" \
    >"$work/machine.log" 2>&1 </dev/null &
  machine=$!
  for _ in {1..1200}; do
    kill -0 "$machine" 2>/dev/null || return 1
    machine_init=$(pgrep --parent "$machine" 2>/dev/null) || true
    if [[ -n $machine_init && $(in_machine systemctl is-active sysinit.target 2>/dev/null) == active ]]; then return; fi
    sleep 0.1
  done
  return 1
}

in_machine() {
  nsenter --target "$machine_init" --mount --uts --ipc --net --pid --cgroup --root --wd -- \
    env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
}

stop_machine() {
  local own
  [[ -n ${machine:-} ]] || return 0
  kill -KILL "$machine" 2>/dev/null || true
  wait "$machine" 2>/dev/null || true
  while [[ -n ${machine_init:-} && -e /proc/$machine_init ]]; do sleep 0.05; done
  machine=''
  own=$(sed -n 's/^0:://p' /proc/self/cgroup)
  # shellcheck disable=SC2016  # for the shell in there
  unshare --mount --propagation private bash -c 'mount -t cgroup2 cgroup2 "$1" && find "$1$2" -depth -type d -exec rmdir {} +' \
    bash "$work/cgroup" "$own/gossamer-machine-$$" 2>/dev/null || true
}
