# Has the agent run on the hosts over ssh. To be sourced by bash scripts behind hosts_file.sh, whose settings it uses.
#
#   agent HOST QUOTED_WORDS [INPUT]   runs it on one host; INPUT has the agent, and what it reads
#   ask_all ACTION            on all hosts at once; `work` is a directory for the answers
#   unreachable               of these
#   read_states               what the servers there do

# shellcheck shell=bash disable=SC2034,SC2154  # for the script that sources this; what hosts_file.sh sets

kAgent=$(dirname "${BASH_SOURCE[0]}")/agent
readonly kAgent
declare -A state=() pid=() seconds=() address=() identity=()
known=()

# What a login shell prints of itself comes before this line, and is no answer of the agent.
readonly kMark='--- the agent of gossamer'

# agent HOST QUOTED_WORDS [INPUT]: runs the agent there. The words are quoted, as quoted() does.
agent() {
  ssh "${ssh_options[@]}" -- "$1" "echo '$kMark'; bash -s -- $(quoted "--store=${settings[store]}") $2" <"${3:-$kAgent}" |
    awk -v mark="$kMark" '
      found { print; next }
      $0 == mark { found = 1; next }
      { before = before $0 "\n" }
      END { if (!found) printf "%s", before >"/dev/stderr" }'
}

# ask_all ACTION: runs `ACTION HOST` for all hosts at once; its output is in $work/HOST.out and .err, its status in .status.
ask_all() {
  local machine
  for machine in "${machines[@]}"; do
    {
      local status=0
      "$1" "$machine" >"$work/$machine.out" 2>"$work/$machine.err" || status=$?
      echo "$status" >"$work/$machine.status"
    } &
  done
  wait
}

# Requires: ask_all. Prints the hosts that ssh did not reach, with the reason.
unreachable() {
  local machine list=''
  for machine in "${machines[@]}"; do
    [[ $(<"$work/$machine.status") != 255 ]] ||
      list+="${list:+, }$machine ($(tail -n 1 "$work/$machine.err" | tr -d '\r'))"
  done
  echo "$list"
}

# Requires: ask_all ask_status or ask_check. Sets state, pid, seconds, address of "HOST NAME", and `known`, all those;
# behind ask_check also identity of HOST.
read_states() {
  local machine name fields
  known=()
  for machine in "${machines[@]}"; do
    while IFS=$'\t' read -r name fields; do
      if [[ $name == identity ]]; then
        identity[$machine]=$fields
        continue
      fi
      known+=("$machine $name")
      IFS=$'\t' read -r "state[$machine $name]" "pid[$machine $name]" "seconds[$machine $name]" \
        "address[$machine $name]" <<<"$fields"
    done <"$work/$machine.out"
  done
}
