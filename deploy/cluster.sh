#!/bin/bash
# Runs a store on several machines over ssh: see `deploy/cluster.sh --help` and docs/deploy.md. Packages install it as
# gossamer-cluster.
set -euo pipefail

kHere=$(dirname "$(realpath "${BASH_SOURCE[0]}")")  # /usr/bin has a link
readonly kHere kName=${0##*/}
readonly kStopLimit=60   # seconds for a server to drain
readonly kBreakLimit=20  # seconds for a benchmark to end once a client is lost, and for a client to end
# shellcheck source=lib/hosts_file.sh
source "$kHere/lib/hosts_file.sh"
# shellcheck source=lib/ask_hosts.sh
source "$kHere/lib/ask_hosts.sh"

usage() {
  cat <<END_OF_USAGE
Usage: $kName COMMAND HOSTS.conf [-- FLAG...]

Runs a store on several machines over ssh.

Commands:
  up HOSTS.conf          starts what does not run: memcached, memory servers, compute servers
  status HOSTS.conf      one line for each server; status 1 unless all run
  restart HOSTS.conf     restarts memory servers, then compute servers, one by one, while clients work: they take over
                         programs and flags that have changed. Ends at the first that fails
  down [--delete_data] HOSTS.conf
                         stops all; \`up\` goes on with what the store held, unless that is deleted
  logs [-f] HOSTS.conf   prints the logs of all servers; -f: and what they log from now on
  bench HOSTS.conf       runs one gossamer-bench with the flags behind -- on all clients together, which are the hosts of
                         compute servers unless the file names others, and prints the report of all; --json=FILE is a
                         file here

hosts.conf.example explains the file; packages have it in /usr/share/gossamer. Nothing needs to be installed on the
hosts but the programs, which are in the directory that the file names, or in GOSSAMER_BIN, or in the PATH of the ssh
user. State and logs are on the hosts, in \$XDG_RUNTIME_DIR/gossamer-deploy or /tmp/gossamer-UID/deploy, until \`down\`.
A memory server keeps its memory in a file of /dev/shm/gossamer-UID there, unless its flags say --region=FILE, or --region=
for none.
END_OF_USAGE
}

say() { echo "$kName: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

fail_usage() {
  say "$* (see $kName --help)"
  exit 2
}

# --- the hosts ------------------------------------------------------------------------------------

program_of() {  # ROLE
  case $1 in
    memcached) echo memcached ;;
    *) echo "${settings[bin]:+${settings[bin]}/}gossamer-$1" ;;
  esac
}

# The quoted words with which server I is started: its program and all flags.
command_of() {  # I
  local i=$1 address
  case ${roles[i]} in
    memcached)
      address=${settings[bootstrap]#memcached://}
      # The record must not be evicted (-M); only the address of the bootstrap is listened at, as memcached has no password.
      quoted memcached -l "${address%:*}" -p "${address##*:}" -M -m 64 -t 1
      ;;
    memory) quoted "$(program_of memory)" "${common_flags[@]}" "${all_memory_flags[@]}" ;;
    compute) quoted "$(program_of compute)" "${common_flags[@]}" "${all_compute_flags[@]}" ;;
  esac
  echo "${flags[i]}"
}

ask_status() { agent "$1" status; }

ask_check() {
  local i programs=()
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    [[ ${hosts[i]} != "$1" ]] || programs+=("$(program_of "${roles[i]}")")
  done
  agent "$1" "check $(quoted "${programs[@]}")" && agent "$1" status
}

ask_client_check() { agent "$1" "check $(quoted "$(program_of bench)")"; }

# Ends unless all hosts can run what they are to run.
check_hosts() {  # ACTION
  local machine problems=0
  ask_all "$1"
  [[ -z $(unreachable) ]] || fail "ssh does not reach $(unreachable); nothing was started"
  for machine in "${machines[@]}"; do
    (($(<"$work/$machine.status") == 0)) && continue
    sed "s/^/$kName: $machine: /" "$work/$machine.err" >&2
    problems=1
  done
  ((problems == 0)) || fail 'nothing was started'
}

# --- up -------------------------------------------------------------------------------------------

title_of() { echo "${names[$1]} on ${hosts[$1]}"; }  # I

# The word for the agent to keep the memory of server I in a file of its choice.
region_option() {  # I
  [[ ${roles[$1]} != memory || "${all_memory_flags[*]} ${flags[$1]}" == *-region* ]] || echo --region
}

start_server() {  # I [OPTION of the agent]
  local i=$1 title status=0 word pid line
  title=$(title_of "$i")
  if [[ -z ${2:-} ]]; then echo "$title: starting"; fi
  agent "${hosts[i]}" \
    "start --wait=${settings[wait]} --run=$run_id $(region_option "$i") ${2:-} ${names[i]} $(command_of "$i")" \
    >"$work/start-$i" 2>"$work/start-$i.err" || status=$?
  if ((status != 0)); then
    ((status != 255)) || echo "$kName: the ssh connection to ${hosts[i]} broke" >>"$work/start-$i.err"
    {
      echo "$kName: $title did not start:"
      cat "$work/start-$i.err"
    } >&2
    return 1
  fi
  IFS=$'\t' read -r word pid line <"$work/start-$i"
  case $word in
    started) echo "$title: ready, pid $pid: ${line#* ready: }" ;;
    resumed) echo "$title: ready, pid $pid, with what it held: ${line#* ready: }" ;;
    restarted) echo "$title: restarted, pid $pid: ${line#* ready: }" ;;
    already) echo "$title: runs already, pid $pid" ;;
    differs)
      echo "$title: runs already, pid $pid, with another program or other flags than those of $file: left alone" \
        "($kName restart $file)"
      ;;
  esac
}

# Each job is a process group of its own (set -m), so that its ssh ends with it.
end_jobs() {
  local job
  for job in $(jobs -p); do
    kill -- "-$job" 2>/dev/null || true
  done
}

# start_servers I...: at once; returns 1 if one fails.
start_servers() {
  local i children=() result=0
  attempted+=("$@")
  for i in "$@"; do
    start_server "$i" &
    children+=($!)
  done
  for i in "${children[@]}"; do
    wait "$i" || result=1
  done
  return "$result"
}

# Whether all memory servers are of a store that this run has made. Another one needs what each of them holds.
is_new_store() {
  local i
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    [[ ${roles[i]} != memory ]] || [[ ! -s $work/start-$i ]] || [[ $(<"$work/start-$i") == started* ]] || return 1
  done
}

roll_back() {
  local at i title word delete=''
  trap '' INT TERM
  ! is_new_store || delete=--delete_data
  for ((at = ${#attempted[@]} - 1; at >= 0; --at)); do
    i=${attempted[at]}
    title=$(title_of "$i")
    # A server that failed has ended; its log stays until `down`.
    [[ -s $work/start-$i || ! -s $work/start-$i.err ]] || continue
    # Servers that ran before are of another run: the agent leaves them alone.
    word=$(agent "${hosts[i]}" "stop --wait=$kStopLimit --run=$run_id $delete ${names[i]}" 2>"$work/stop.err") ||
      say "$title was not stopped again: $(tail -n 1 "$work/stop.err")"
    [[ $word != stopped* ]] || say "$title: stopped again"
  done
}

# shellcheck disable=SC2317  # called by the trap
interrupted() {
  { end_jobs; wait; } 2>/dev/null  # without what bash says of ended jobs
  say 'interrupted'
  roll_back
  exit 130
}

# A server that two lines mean would count twice, and run once.
refuse_one_host_by_two_names() {
  local machine
  local -A first=()
  for machine in "${machines[@]}"; do
    [[ -z ${first[${identity[$machine]}]:-} ]] ||
      fail "${first[${identity[$machine]}]} and $machine are one host: give it one name in $file; nothing was started"
    first[${identity[$machine]}]=$machine
  done
}

# What memory servers held that kept it in no file is gone with them. A new one beside those that live would hide that.
refuse_after_loss() {
  local i key dead=() alive=0 computes=0
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    key="${hosts[i]} ${names[i]}"
    case ${roles[i]}:${state[$key]:-} in
      memory:ended) dead+=("$(title_of "$i")") ;;
      memory:running | memory:starting) alive=$((alive + 1)) ;;
      compute:running) computes=$((computes + 1)) ;;
    esac
  done
  if ((${#dead[@]} > 0 && alive + computes > 0)); then
    fail "${dead[0]} has ended, and the keys that it held are lost: save the rest with gossamer dump --salvage" \
      '(docs/bootstrap.md), then run down --delete_data and up'
  fi
}

up() {
  local attempted=() memory=() compute=() cached=() i run_id before=0
  run_id=$$-$(date +%s)-$RANDOM
  check_hosts ask_check
  read_states
  refuse_one_host_by_two_names
  refuse_after_loss
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    case ${roles[i]} in
      memcached) cached+=("$i") ;;
      memory) memory+=("$i") ;;
      compute) compute+=("$i") ;;
    esac
    [[ ${state["${hosts[i]} ${names[i]}"]:-} != running ]] || before=$((before + 1))
  done
  if [[ ${settings[fabric]} == shm && ${#machines[@]} -gt 1 ]]; then
    say 'note: --fabric=shm works only if all these hosts are one machine'
  fi
  set -m
  trap interrupted INT TERM
  # The first memory server creates the store, and the others join it.
  if ! start_servers "${cached[@]}" || ! start_servers "${memory[0]}" || ! start_servers "${memory[@]:1}" ||
    ! start_servers "${compute[@]}"; then
    roll_back
    fail "nothing that this run started is left running; the full log: $kName logs $file"
  fi
  trap - INT TERM
  if ((before == ${#roles[@]})); then
    echo "store ${settings[store]}: all ${#roles[@]} servers ran already; nothing changed"
  else
    echo "store ${settings[store]} is up: started $((${#roles[@]} - before)) of ${#roles[@]} servers"
  fi
}

# --- restart --------------------------------------------------------------------------------------

# How far a restart has come that ends before its end.
so_far() {
  echo "$count of $total servers were restarted; those behind run as before: $kName status $file"
}

# The server that is under way comes back first.
# shellcheck disable=SC2317  # called by the trap
restart_interrupted() {
  trap '' INT TERM
  [[ -z $child ]] || ! wait "$child" || count=$((count + 1))
  say "interrupted: $(so_far)"
  exit 130
}

# Clients wait for a memory server for some seconds (--reconnect_ms), so that there is one away at a time.
restart() {
  local i role run_id count=0 child='' total order=()
  run_id=$$-$(date +%s)-$RANDOM
  check_hosts ask_check
  read_states
  refuse_one_host_by_two_names
  for role in memory compute; do
    for ((i = 0; i < ${#roles[@]}; ++i)); do
      [[ ${roles[i]} != "$role" ]] || order+=("$i")
    done
  done
  total=${#order[@]}
  for i in "${order[@]}"; do
    [[ ${state["${hosts[i]} ${names[i]}"]:-} == running ]] ||
      fail "$(title_of "$i") does not run: start it first ($kName up $file); nothing was restarted"
  done
  set -m
  trap restart_interrupted INT TERM
  for i in "${order[@]}"; do
    start_server "$i" --restart &
    child=$!
    wait "$child" || fail "$(so_far)"
    child='' count=$((count + 1))
  done
  trap - INT TERM
  echo "store ${settings[store]}: restarted all $total memory servers and compute servers, one by one"
}

# --- status, down, logs ---------------------------------------------------------------------------

duration() {  # SECONDS
  if (($1 < 120)); then
    echo "$1s"
  elif (($1 < 7200)); then
    echo "$(($1 / 60))m"
  elif (($1 < 172800)); then
    echo "$(($1 / 3600))h"
  else
    echo "$(($1 / 86400))d"
  fi
}

status() {
  local i key what age result=0 rows=()
  ask_all ask_status
  read_states
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    key="${hosts[i]} ${names[i]}"
    what=${state[$key]:-stopped}
    case $(<"$work/${hosts[i]}.status") in
      0) ;;
      255) what=unreachable ;;
      *)
        what=unknown
        say "${hosts[i]}: $(tail -n 1 "$work/${hosts[i]}.err")"
        ;;
    esac
    age=-
    if [[ $what == running ]]; then age=$(duration "${seconds[$key]}"); else result=1; fi
    rows+=("$(printf '%s\t' "${hosts[i]}" "${roles[i]}" "${names[i]}" "$what" "${pid[$key]:--}" "$age")${address[$key]:--}")
    unset "state[$key]"
  done
  for key in "${known[@]}"; do
    [[ -n ${state[$key]:-} ]] || continue
    say "note: ${key#* } on ${key% *} is ${state[$key]}, and not in $file"
  done
  print_table "${rows[@]}"
  return "$result"
}

print_table() {  # ROW...
  printf '%s\n' $'HOST\tROLE\tSERVER\tSTATE\tPID\tUPTIME\tADDRESS' "$@" | awk -F '\t' '
    { for (i = 1; i <= NF; ++i) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
    END { for (row = 1; row <= NR; ++row) {
      for (i = 1; i < 7; ++i) printf "%-*s  ", width[i], cell[row, i]
      print cell[row, 7] } }'
}

stop_server() {  # KEY
  local title="${1#* } on ${1% *}" word region
  if ! word=$(agent "${1% *}" "stop --wait=$kStopLimit ${1#* }" 2>&1); then
    say "$title: $word"
    return 1
  fi
  IFS=$'\t' read -r word region <<<"$word"
  [[ -z $region ]] || echo "$region" >>"$work/kept"
  echo "$title: ${word/ended/had ended already}${region:+; what it held is in $region}"
}

ask_delete() { agent "$1" delete_data; }

# Of this run, and of those before it.
delete_data() {
  local machine
  ask_all ask_delete
  for machine in "${machines[@]}"; do
    (($(<"$work/$machine.status") == 0)) || fail "$machine: $(tail -n 1 "$work/$machine.err")"
  done
  : >"$work/kept"
}

# Compute servers drain first; then each memory server leaves the store, the one that created it as the last.
down() {
  local key keys=() children=() role result=0 gone
  : >"$work/kept"
  ask_all ask_status
  gone=$(unreachable)
  [[ -z $gone ]] || { say "ssh does not reach $gone" && result=1; }
  read_states
  for role in compute memory memcached; do
    children=()
    while IFS= read -r key; do
      [[ -n $key ]] || continue
      keys+=("$key")
      if [[ $role == memory ]]; then
        stop_server "$key" || result=1
      else
        stop_server "$key" &
        children+=($!)
      fi
    done < <(in_reverse "$role")
    for key in "${children[@]}"; do
      wait "$key" || result=1
    done
  done
  ((result == 0)) || return 1
  ! $delete_data || delete_data
  if ((${#keys[@]} == 0)); then
    echo "store ${settings[store]}: nothing ran"
  elif [[ -s $work/kept ]]; then
    echo "store ${settings[store]} is down; up goes on with what it held, and down --delete_data deletes that"
  else
    echo "store ${settings[store]} is down; what it held is gone"
  fi
}

# The servers of a role that a host knows, those that the file lists last first.
in_reverse() {  # ROLE
  local i
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    [[ ${roles[i]} != "$1" ]] || printf '%s %s\n' "${hosts[i]}" "${names[i]}"
  done | tac >"$work/listed"
  printf '%s\n' "${known[@]}" | grep " $1-" | sort >"$work/known" || true
  grep -vxFf "$work/listed" "$work/known" || true
  grep -xFf "$work/known" "$work/listed" || true
}

logs() {
  local i children=() option='' result=0
  if $follow; then
    option='--follow --lines=10'
    set -m
    trap 'exec 2>/dev/null; end_jobs; exit 0' INT TERM  # bash would say which jobs have ended
  fi
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    if $follow; then
      print_log "$i" "$option" &
      children+=($!)
    else
      print_log "$i" '' || result=1
    fi
  done
  for i in "${children[@]}"; do
    wait "$i" || result=1
  done
  return "$result"
}

# The agent follows a log until its standard input ends.
print_log() {  # I OPTIONS
  local i=$1 words
  words="echo '$kMark'; bash -s -- $(quoted "--store=${settings[store]}") logs $2 ${names[i]}"
  {
    cat "$kAgent"
    [[ -z $2 ]] || exec sleep infinity
  } | ssh "${ssh_options[@]}" -- "${hosts[i]}" "$words" 2>&1 | print_behind_mark "${hosts[i]} ${names[i]} | "
}

# What a login shell prints before the mark is not part of the log. Without a mark it is what ssh says: why there is none.
print_behind_mark() {  # PREFIX
  local line before=''
  while IFS= read -r line; do
    [[ $line != "$kMark" ]] || exec sed -u "s/^/$1/"
    before+=$line$'\n'
  done
  printf '%s%s' "$before" "$line" | sed "s/^/$1/"
}

# --- bench ----------------------------------------------------------------------------------------

# Sets `wanted`, the flags for gossamer-bench, and `json`, the file for the report.
read_bench_flags() {
  local flag
  for flag in "${bench_flags[@]}"; do
    case $flag in
      --json=?*) json=${flag#*=} ;;
      -json* | --json*) fail_usage 'bench: write --json=FILE' ;;
      -store* | --store* | -fabric* | --fabric* | -bootstrap* | --bootstrap* | -barrier* | --barrier* | -processes* | \
        --processes*) fail_usage "bench: leave out ${flag%%=*}: $kName gives it" ;;
      *) wanted+=("$flag") ;;
    esac
  done
  [[ -z $json || $json == - ]] || { : >>"$json"; } 2>/dev/null || fail "--json: cannot write $json"
}

# Without lines 'client', a client for each host of a compute server.
choose_clients() {
  local i
  if ((${#client_hosts[@]} == 0)); then
    for ((i = 0; i < ${#roles[@]}; ++i)); do
      [[ ${roles[i]} == compute && " ${client_hosts[*]} " != *" ${hosts[i]} "* ]] || continue
      client_hosts+=("${hosts[i]}")
      client_flags+=('')
    done
  fi
  ((${#client_hosts[@]} > 0)) || fail_usage "$file: there is no line 'client HOST', and no 'compute HOST'"
  mapfile -t machines < <(printf '%s\n' "${client_hosts[@]}" | awk '!seen[$0]++')
}

# Standard input of the agent stays open until stop_clients ends the feeder.
run_client() {  # I
  local i=$1 feeder status=0 words
  words="bench $(quoted "$(program_of bench)" "${common_flags[@]}" "${all_client_flags[@]}") ${client_flags[i]}"
  words+=" $(quoted "${wanted[@]}" "--barrier=$barrier" "--processes=${#client_hosts[@]}")"
  mkfifo "$work/input-$i"
  { cat "$kAgent"; exec sleep infinity; } >"$work/input-$i" &
  feeder=$!
  echo "$feeder" >"$work/feeder-$i"
  agent "${client_hosts[i]}" "$words" "$work/input-$i" >"$work/bench-$i" 2>"$work/bench-$i.err" || status=$?
  kill "$feeder" 2>/dev/null || true
  ((status != 255)) || echo "the ssh connection broke" >>"$work/bench-$i.err"
  echo "$i $status" >>"$work/ends"
}

all_have_ended() { (($(wc -l <"$work/ends") == ${#client_hosts[@]})); }

# Has the clients stopped as by Ctrl-C, and waits for them.
stop_clients() {
  local deadline=$((SECONDS + kBreakLimit))
  trap '' INT TERM
  cat "$work"/feeder-* 2>/dev/null | xargs -r kill 2>/dev/null || true
  until all_have_ended || ((SECONDS >= deadline)); do sleep 0.1; done
  { end_jobs; wait; } 2>/dev/null  # without what bash says of ended jobs
}

# shellcheck disable=SC2317  # called by the trap
bench_interrupted() {
  stop_clients
  say 'interrupted'
  exit 130
}

# A client that has failed before all had gathered leaves the others waiting.
await_clients() {
  local deadline=''
  until all_have_ended; do
    if [[ -z $deadline ]] && grep -qv ' 0$' "$work/ends"; then deadline=$((SECONDS + kBreakLimit)); fi
    if [[ -n $deadline ]] && ((SECONDS >= deadline)); then
      stop_clients
      return
    fi
    sleep 0.2
  done
  wait
}

# The clients that have failed, in the order of their ends: the first one is likely the cause.
show_failures() {
  local i status
  while read -r i status; do
    ((status != 0)) || continue
    say "the client on ${client_hosts[i]} failed with status $status; its last lines:"
    sed '/^--- json$/,$d' "$work/bench-$i" | cat - "$work/bench-$i.err" | tail -n 5 | sed 's/^/  | /' >&2
  done <"$work/ends"
}

# What rank 0 printed goes to standard output, and its JSON to `json`.
show_report() {
  local i
  for ((i = 0; i < ${#client_hosts[@]}; ++i)); do
    grep -q '^  "processes": \[' "$work/bench-$i" || continue
    if [[ $json == - ]]; then
      sed '/^--- json$/,$d' "$work/bench-$i" >&2
      sed '1,/^--- json$/d' "$work/bench-$i"
    else
      sed '/^--- json$/,$d' "$work/bench-$i"
      [[ -z $json ]] || sed '1,/^--- json$/d' "$work/bench-$i" >"$json"
    fi
    return
  done
  return 1
}

bench() {
  local i wanted=() json='' barrier
  read_bench_flags
  choose_clients
  check_hosts ask_client_check
  barrier=cluster-$$-$(date +%s)-$RANDOM
  : >"$work/ends"
  set -m
  trap bench_interrupted INT TERM
  for ((i = 0; i < ${#client_hosts[@]}; ++i)); do
    run_client "$i" &
  done
  say "one benchmark on ${#client_hosts[@]} clients: ${client_hosts[*]}"
  await_clients
  trap - INT TERM
  show_failures
  show_report || fail 'there is no report of all clients'
  ! grep -qv ' 0$' "$work/ends"
}

# --- the command line -----------------------------------------------------------------------------

command=${1:-} follow=false delete_data=false bench_flags=()
case $command in
  up | status | restart | down | logs | bench) shift ;;
  --help | -h) usage && exit ;;
  *)
    usage >&2
    exit 2
    ;;
esac
if [[ $command == logs && ${1:-} == -f ]]; then
  follow=true
  shift
fi
if [[ $command == down && ${1:-} == --delete_data ]]; then
  delete_data=true
  shift
fi
if [[ $command == bench && ${2:-} == -- ]]; then
  bench_flags=("${@:3}")
  set -- "$1"
fi
(($# == 1)) || fail_usage "$command takes one file"
readonly file=$1

read_file
common_flags=("--store=${settings[store]}" "--fabric=${settings[fabric]}" "--bootstrap=${settings[bootstrap]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$command"
