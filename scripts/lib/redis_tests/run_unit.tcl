# Runs one unit of Redis's own tests with gossamer-compute in the place of redis-server: run_unit.tcl UNIT PROGRAM DIRECTORY FLAG...
#
# Started in the folder of Redis's sources. Each `start_server` of the unit starts the compute server PROGRAM with FLAGs, and with
# those flags that say the same as its overrides; logs are in DIRECTORY. The files of the tests, and the procedures that they call,
# are Redis's own. What is different:
# - a test that ends with an exception has failed, and the next one runs, as with the option --durable;
# - tests that Redis skips on external servers run, too: this server is started and ended by the tests as redis-server is;
# - database 0 is the only one, as with --singledb, and encodings are not asserted, as with --ignore-encoding, nor set by CONFIG.
#
# Prints a line for each test: what happened (ok, failed, ignored), its name, and why it failed, with tabs between them.

lassign $argv unit program directory
set flags [lrange $argv 3 end]

# The test client of Redis, without the parsing of its own options and its main procedure.
proc part_of_helper {from to} {
    set file [open tests/test_helper.tcl]
    set helper [read $file]
    close $file
    set begin [expr {$from eq {} ? 0 : [string first \n$from $helper]}]
    set end [string first \n$to $helper]
    if {$begin < 0 || $end < 0} { error "tests/test_helper.tcl is not that of Redis 7.0" }
    return [string range $helper $begin $end]
}
eval [part_of_helper {} "# parse arguments"]
eval [part_of_helper "proc attach_to_replication_stream" "if \{\$::client\}"]

set ::durable 1
set ::singledb 1
set ::ignoreencoding 1
set ::numclients 1
set ::test_server_fd stdout

# Which flags say the same as a line of redis.conf.
array set ::flag_of {
    requirepass --requirepass
    maxclients --max_clients
    slowlog-log-slower-than --slowlog_slower_than_us
    slowlog-max-len --slowlog_entries
    client-query-buffer-limit --max_query_bytes
}

rename r command_of_redis
proc r args {
    if {[regexp -nocase {^config set (hash|set)-max-(ziplist|listpack|intset)} $args]} { return OK }
    return [uplevel 1 [list command_of_redis {*}$args]]
}

proc print_line args {
    set words {}
    foreach word $args { lappend words [string map {\t { } \n { } \r { }} $word] }
    puts [join $words \t]
    flush stdout
}

proc send_data_packet {fd status data {elapsed 0}} {
    switch $status {
        ok { print_line ok $data }
        ignore { print_line ignored $data }
        err {
            set lines [split $data \n]
            set is_exception [string match "*\n    while executing\n*" $data]
            # Of an exception, the second line is cut.
            set message [expr {$is_exception ? [lindex $lines 2] : [join [lrange $lines 1 end]]}]
            print_line failed [string range $::cur_test 0 end-[string length " in $::curfile"]] $message
            # What a test has left behind, such as replies not read, or RESP3, is not to fail the next one.
            for {set level 0} {$level < [llength $::servers]} {incr level} { catch { reconnect -$level } }
        }
    }
}

proc tags_acceptable {tags error_name} {
    upvar $error_name error
    if {"large-memory" in $tags} {
        set error "large-memory"
        return 0
    }
    return 1
}

# Redis's own listens at all addresses of the machine for a moment.
proc find_available_port {start count} {
    set listener [socket -server {} -myaddr 127.0.0.1 0]
    set port [lindex [fconfigure $listener -sockname] 2]
    close $listener
    return $port
}

# Starts a compute server. Returns its dictionary.
proc start_compute overrides {
    set own {}
    foreach {name value} $overrides {
        if {[info exists ::flag_of($name)]} { lappend own $::flag_of($name)=$value }
    }
    set name $::directory/[incr ::servers_started]
    set pid [exec $::program --redis=127.0.0.1:0,unix:$name.socket {*}$::flags {*}$own > $name.output 2> $name.log &]
    if {![becomes_ready $pid $name.output]} { error "$::program does not start: [read_all $name.log]" }
    regexp {127\.0\.0\.1:(\d+)} [read_all $name.output] _ port
    return [dict create host 127.0.0.1 port $port pid $pid stdout $name.log stderr $name.log unixsocket $name.socket \
                client [redis 127.0.0.1 $port] config [concat [list port $port] $overrides] config_file {}]
}

proc becomes_ready {pid output} {
    for {set tries 0} {$tries < 3000} {incr tries} {
        if {[string match "*ready*\n*" [read_all $output]]} { return 1 }
        if {[catch { set status [read_all /proc/$pid/stat] }] || [string match {*) Z *} $status]} { return 0 }
        after 20
    }
    return 0
}

proc read_all name {
    set file [open $name]
    set text [read $file]
    close $file
    return $text
}

proc stop_compute server {
    catch { [dict get $server client] close }
    catch { exec kill [dict get $server pid] }
}

proc start_server {options {code undefined}} {
    array set given {overrides {} tags {}}
    array set given $options
    set tags [string map {\" {}} $given(tags)]
    set ::tags [concat $::tags $tags]
    if {[tags_acceptable $::tags error]} {
        # Like redis-server with a directory of its own: a server starts with no keys.
        set server [start_compute $given(overrides)]
        if {[dict exists $given(overrides) requirepass]} { [dict get $server client] auth [dict get $given(overrides) requirepass] }
        [dict get $server client] flushall
        if {[dict exists $given(overrides) requirepass]} { dict set server client [redis 127.0.0.1 [dict get $server port]] }
        lappend ::servers $server
        set has_failed [catch {uplevel 1 $code} error]
        stop_compute [lindex $::servers end]
        set ::servers [lrange $::servers 0 end-1]
        if {$has_failed && $::cur_test ne {}} { error $error $::errorInfo }
        if {$has_failed} { print_line failed "(between tests: [lindex [split $error \n] 0])" }
    } else {
        print_line ignored $error
    }
    set ::tags [lrange $::tags 0 end-[llength $tags]]
}

set ::servers_started 0
set ::curfile tests/$unit.tcl
source tests/$unit.tcl
