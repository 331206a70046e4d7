# bash completion of gossamer, gossamer-bench, gossamer-memory, gossamer-compute and gossamer-cluster; installed under each
# of these names.
# The flags and commands are those that the program's own --help has, so that they fit the program that is run.
# shellcheck shell=bash

# The flags of PROGRAM, one in each line: --name, or --name= where a value follows. A switch that is on by default is in the
# help as --[no]name.
_gossamer_flags() {  # PROGRAM
  "$1" --help 2>/dev/null | sed -nE \
    -e 's/^  --\[no\]([a-z0-9_]+).*/--\1\n--no\1/p' \
    -e 's/^  --([a-z0-9_]+)=.*/--\1=/p' \
    -e 's/^  --help, --version$/--help\n--version/p' \
    -e 's/^  --([a-z0-9_]+)( .*)?$/--\1/p'
}

_gossamer_commands() {  # PROGRAM
  "$1" --help 2>/dev/null | sed -nE 's/^  gossamer ([a-z]+)( [][A-Z]+)*   .*/\1/p'
}

# The command in COMP_WORDS before the word under the cursor. Bash divides --flag=value into three words.
_gossamer_command() {  # PROGRAM
  local commands i
  commands=$(_gossamer_commands "$1")
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i - 1]} != '=' && ${COMP_WORDS[i]} == [a-z]* ]] || continue
    grep -xF -- "${COMP_WORDS[i]}" <<<"$commands" && return
  done
}

# The values of FLAG, or its files, that begin with PREFIX.
_gossamer_values() {  # FLAG PREFIX
  local words=''
  case $1 in
    --fabric) words='shm verbs' ;;
    --phase) words='load run both' ;;
    --distribution) words='uniform zipfian latest' ;;
    --on_error) words='stop skip' ;;
    --create) words='auto new join' ;;
    --evict) words='none ttl lru' ;;
    --numa) words='auto no interleave' ;;
    --on_chip_locks) words='auto require no' ;;
    --load_order) words='random runs sorted ascending descending file' ;;
    --design) words='naive combined on_chip hierarchical sherman gossamer' ;;
    --workload) words='a b c d e f u' ;;
    --key_form) words='numbers ycsb' ;;
    --bootstrap) words='memcached:// dir:' ;;
    --flagfile | --region | --json | --keys | --output | --value_file | --requirepass_file | --redis_password_file | --users_file | \
      --tls_*_file)
      mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
  esac
  [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}

_gossamer() {
  local program=$1 line=${COMP_LINE:0:COMP_POINT} current value
  # The whole word, as bash divides words at '=' and ':'.
  current=${line##*[[:blank:]]}
  COMPREPLY=()
  case $current in
    --*=*)
      value=${current#*=}
      _gossamer_values "${current%%=*}" "$value"
      # What is replaced is only what is behind the last '=' or ':'.
      [[ $value != *:* || $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${value%"${value##*:}"}"}")
      [[ ${COMPREPLY[0]-} != *: && ${COMPREPLY[0]-} != */ ]] || compopt -o nospace 2>/dev/null
      ;;
    -*)
      mapfile -t COMPREPLY < <(compgen -W "$(_gossamer_flags "$program")" -- "$current")
      [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
      ;;
    *)
      [[ ${program##*/} == gossamer ]] || return
      case $(_gossamer_command "$program") in
        '' | help) mapfile -t COMPREPLY < <(compgen -W "$(_gossamer_commands "$program")" -- "$current") ;;
        load) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
      esac
      ;;
  esac
}

# A command, perhaps an option, a file; behind -- the flags of gossamer-bench.
_gossamer_cluster() {
  local current=${COMP_WORDS[COMP_CWORD]}
  if [[ ${COMP_WORDS[1]} == bench && ${COMP_WORDS[3]-} == -- && $COMP_CWORD -gt 3 ]]; then
    _gossamer gossamer-bench
    return
  fi
  case $COMP_CWORD:$current in
    1:-*) mapfile -t COMPREPLY < <(compgen -W '--help' -- "$current") ;;
    1:*)
      mapfile -t COMPREPLY < <(compgen -W "$("$1" --help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p')" -- "$current")
      ;;
    2:-*)
      case ${COMP_WORDS[1]} in
        logs) COMPREPLY=(-f) ;;
        down) COMPREPLY=(--delete_data) ;;
      esac
      ;;
    3:-*) [[ ${COMP_WORDS[1]} != bench ]] || COMPREPLY=(--) ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
  esac
}

complete -F _gossamer_cluster gossamer-cluster
complete -F _gossamer gossamer gossamer-bench gossamer-memory gossamer-compute
