# Reads HOSTS.conf, which ../hosts.conf.example explains. To be sourced by bash scripts that have fail_usage.
#
#   read_file      reads `file` and sets what is below; ends with fail_usage, which names the line, if it is wrong
#   quoted WORD...
#
#   settings       by keyword: store, fabric, bootstrap, bin, wait; ssh_user, ssh_port and ssh_key where given
#   ssh_options    words for ssh
#   roles hosts names flags    of each server, in the order of the file; `flags` are quoted, names are ROLE-NUMBER
#   machines       the hosts of servers, each once
#   client_hosts client_flags   of each benchmark client, likewise quoted
#   all_memory_flags all_compute_flags all_client_flags

# shellcheck shell=bash disable=SC2034,SC2154  # for the script that sources this; its `file`

declare -A settings=() places=()
roles=() hosts=() names=() flags=() machines=() ssh_options=() all_memory_flags=() all_compute_flags=()
client_hosts=() client_flags=() all_client_flags=()

fail_line() { fail_usage "$file line $number: $*"; }

# split_words TEXT: sets `words`. Quotes ('…' or "…") keep blanks and #; nothing is expanded.
split_words() {
  local rest=$1 word='' in_word=false quote
  words=()
  while [[ -n $rest ]]; do
    case $rest in
      [[:blank:]]*)
        ! $in_word || words+=("$word")
        word='' in_word=false rest=${rest:1}
        ;;
      [\'\"]*)
        quote=${rest:0:1} rest=${rest:1} in_word=true
        [[ $rest == *"$quote"* ]] || fail_line "the quote $quote is not closed"
        word+=${rest%%"$quote"*}
        rest=${rest#*"$quote"}
        ;;
      *)
        if [[ $rest == \#* ]] && ! $in_word; then break; fi
        word+=${rest:0:1} rest=${rest:1} in_word=true
        ;;
    esac
  done
  ! $in_word || words+=("$word")
}

# quoted WORD...: the words as a remote shell of any kind reads them.
quoted() {
  local word
  for word in "$@"; do
    printf "'%s' " "${word//\'/\'\\\'\'}"
  done
}

set_once() {  # NAME VALUE
  [[ -z ${settings[$1]:-} ]] || fail_line "'$1' is given twice"
  [[ -n $2 ]] || fail_line "'$1' needs a value"
  settings[$1]=$2
}

check_words() {  # ROLE HOST FLAG...
  local role=$1 host=${2:-} flag
  [[ $host =~ ^[A-Za-z0-9_.:%@][A-Za-z0-9_.:%@-]*$ ]] || fail_line "'$host' is no host; write: $role HOST [FLAG...]"
  shift 2
  for flag in "$@"; do
    case $role:$flag in
      memcached:*) ;;
      *:-store* | *:--store* | *:-fabric* | *:--fabric* | *:-bootstrap* | *:--bootstrap* | *:-ready_fd* | *:--ready_fd*)
        fail_line "${flag%%=*} is the same for all servers: cluster.sh gives it"
        ;;
      client:-barrier* | client:--barrier* | client:-processes* | client:--processes* | client:-json* | client:--json*)
        fail_line "${flag%%=*} is the same for all clients: cluster.sh gives it"
        ;;
      *:-?*) ;;
      *) fail_line "'$flag' is no flag" ;;
    esac
  done
}

add_client() {  # HOST FLAG...
  check_words client "$@"
  client_hosts+=("$1")
  shift
  client_flags+=("$(quoted "$@")")
}

add_server() {  # ROLE HOST FLAG...
  local role=$1 host=${2:-} place
  check_words "$@"
  shift 2
  place="$host $role"
  places[$place]=$((${places[$place]:--1} + 1))
  roles+=("$role")
  hosts+=("$host")
  names+=("$role-${places[$place]}")
  flags+=("$(quoted "$@")")
}

read_line() {  # WORD...
  local key=$1
  shift
  case $key in
    store | fabric | bootstrap | ssh_user | ssh_port | ssh_key | bin | wait)
      (($# == 1)) || fail_line "'$key' takes one value"
      set_once "$key" "$1"
      ;;
    ssh_option)
      (($# == 1)) || fail_line "'$key' takes one value, such as 'Compression=yes'"
      ssh_options+=(-o "$1")
      ;;
    memory_flags) all_memory_flags+=("$@") ;;
    compute_flags) all_compute_flags+=("$@") ;;
    client_flags) all_client_flags+=("$@") ;;
    client) add_client "$@" ;;
    memcached)
      [[ " ${roles[*]} " != *' memcached '* ]] || fail_line 'there is one memcached'
      add_server memcached "$@"
      ;;
    memory) add_server memory "$@" ;;
    compute) add_server compute "$@" ;;
    *) fail_line "what is '$key'?" ;;
  esac
}

check_settings() {
  local i port
  : "${settings[store]:=default}" "${settings[fabric]:=verbs}" "${settings[wait]:=120}"
  : "${settings[bin]:=${GOSSAMER_BIN:-}}"
  [[ ${settings[store]} =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]*$ ]] ||
    fail_usage "$file: store '${settings[store]}': give letters, digits and _ . -"
  [[ ${settings[fabric]} =~ ^(shm|verbs)$ ]] || fail_usage "$file: fabric '${settings[fabric]}': give shm or verbs"
  [[ ${settings[wait]} =~ ^[1-9][0-9]{0,4}$ ]] || fail_usage "$file: wait '${settings[wait]}': give seconds"
  [[ ${settings[ssh_port]:-22} =~ ^[1-9][0-9]{0,4}$ && ${settings[ssh_port]:-22} -le 65535 ]] || fail_usage "$file: ssh_port '${settings[ssh_port]}': give a port"
  [[ " ${roles[*]} " == *' memory '* ]] || fail_usage "$file: there is no line 'memory HOST'"
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    [[ ${roles[i]} != memcached ]] || : "${settings[bootstrap]:=memcached://${hosts[i]#*@}:11211}"
  done
  case ${settings[bootstrap]:-} in
    memcached://?*:[1-9]*)
      port=${settings[bootstrap]##*:}
      [[ $port =~ ^[0-9]{1,5}$ && $port -le 65535 ]] ||
        fail_usage "$file: bootstrap '${settings[bootstrap]}': '$port' is no port"
      ;;
    dir:/*)
      [[ " ${roles[*]} " != *' memcached '* ]] || fail_usage "$file: a directory needs no line 'memcached'"
      ;;
    '') fail_usage "$file: there is no line 'bootstrap' and no line 'memcached HOST'" ;;
    *) fail_usage "$file: bootstrap '${settings[bootstrap]}': give memcached://HOST:PORT, or dir:/PATH" ;;
  esac
  for ((i = 0; i < ${#roles[@]}; ++i)); do
    if [[ ${roles[i]} == memory && ${settings[fabric]} == verbs && ${flags[i]} != *--listen=* ]]; then
      fail_usage "$file: memory ${hosts[i]} needs --listen=ADDRESS:PORT of an interface with RDMA"
    fi
  done
}

read_file() {
  local line number=0 words=()
  [[ -e $file && ! -d $file && -r $file ]] || fail_usage "there is no file $file"
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    line=${line%$'\r'}
    ((number > 1)) || line=${line#$'\xef\xbb\xbf'}  # which editors put there
    [[ ${line//$'\t'/} != *[[:cntrl:]]* ]] || fail_line 'there is a control character'
    split_words "$line"
    ((${#words[@]} == 0)) || read_line "${words[@]}"
  done <"$file"
  check_settings
  ssh_options+=(-o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 -o LogLevel=ERROR)
  [[ -z ${settings[ssh_user]:-} ]] || ssh_options+=(-l "${settings[ssh_user]}")
  [[ -z ${settings[ssh_port]:-} ]] || ssh_options+=(-p "${settings[ssh_port]}")
  [[ -z ${settings[ssh_key]:-} ]] || ssh_options+=(-o IdentitiesOnly=yes -i "${settings[ssh_key]/#\~\//$HOME/}")
  mapfile -t machines < <(printf '%s\n' "${hosts[@]}" | awk '!seen[$0]++')
}
