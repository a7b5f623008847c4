#!/bin/sh
# watch as a service: what it reports to the service manager that starts it (sd_notify(3)).
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
command -v python3 >/dev/null || { echo "1..0 # SKIP python3 is missing"; exit 0; }

# NAME: print a socket's datagrams, one per line, with | after each of their lines.
cat >listen.py <<'END'
import socket, sys, time
name, reads = sys.argv[1], len(sys.argv) < 3
end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
end.bind("\0" + name[1:] if name[0] == "@" else name)
print("listening", flush=True)
while reads:
    print(end.recv(4096).decode().replace("\n", "|"), flush=True)
time.sleep(600)
END
# NAME [deaf]: listen there; what is heard goes to NAME.heard.
listen() {
    python3 listen.py "$@" >"${1##*[/@]}.heard" &
    pids="$pids $!"
    wait_until 20 grep -qs listening "${1##*[/@]}.heard"
}
# SOCKET VARIABLE=VALUE... DIR: watch it as a service manager would.
serve() {
    serve_socket=$1
    shift
    background env NOTIFY_SOCKET="$serve_socket" "$@"
}
heard() { grep -c -e "$2" "$1.heard"; } # NAME PATTERN
heard_at_least() { [ "$(heard "$1" "$2")" -ge "$3" ]; }
drop() {
    invalid_job >"$1"
    mv "$1" "spool/$1"
}

mkdir spool
listen "$T/first"
serve "$T/first" WATCHDOG_USEC=400000 "$trainspool" watch spool
wait_until 20 heard_at_least first '^READY=1|' 1
ok $? "the watch reports that it is ready"
expect "nothing else before that" test "$(sed -n 2p first.heard)" = "READY=1|"
expect "with a description" wait_until 5 heard_at_least first '^STATUS=no job runs, 0 queued, 0 failed|' 1
drop a.yaml
expect "which follows the jobs" wait_until 10 heard_at_least first '^STATUS=no job runs, 0 queued, 1 failed|' 1
at=$(heard first 'WATCHDOG=1|')
wait_until 20 heard_at_least first 'WATCHDOG=1|' $((at + 4))
ok $? "an idle watch sends signs of life"
kill -STOP "$daemon"
sleep 0.3
at=$(heard first 'WATCHDOG=1|')
sleep 1
expect "one that does nothing sends none" test "$(heard first 'WATCHDOG=1|')" -eq "$at"
kill -CONT "$daemon"
wait_until 20 heard_at_least first 'WATCHDOG=1|' $((at + 1))
ok $? "and again when it continues"
expect "it does not end" test "$(heard first 'STOPPING=1|')" -eq 0
kill -TERM "$daemon"
expect "SIGTERM ends it with 143" exited_with "$daemon" 143
expect "it says that it stops" wait_until 5 heard_at_least first '^STOPPING=1|' 1

# Signs of life that are meant for another process; an abstract socket.
listen "@trainspool-$$-second"
serve "@trainspool-$$-second" WATCHDOG_USEC=100000 WATCHDOG_PID=1 "$trainspool" watch --once spool
expect "watch --once ends" exited_with "$daemon" 0
second=trainspool-$$-second
expect "an abstract socket hears it, too" wait_until 5 heard_at_least "$second" '^STOPPING=1|' 1
expect "it is ready before" test "$(heard "$second" '^READY=1|')" -eq 1
expect "the watchdog of another process gets no sign" test "$(heard "$second" 'WATCHDOG')" -eq 0

# A manager that does not read; none at all.
listen "$T/deaf" deaf
serve "$T/deaf" WATCHDOG_USEC=2000 "$trainspool" watch spool
sleep 0.5
drop b.yaml
expect "a manager that does not read does not keep the watch from its jobs" wait_until 10 state_is spool/b.yaml rejected
kill -TERM "$daemon"
expect "nor from ending" exited_with "$daemon" 143
serve "$T/nowhere" "$trainspool" watch --once spool
expect "a socket that does not exist is ignored" exited_with "$daemon" 0
serve "relative" "$trainspool" watch --once spool
expect "so is what cannot be a socket" exited_with "$daemon" 0

if ! has_model; then
    skip "a running job" "no model"
    plan
    exit 0
fi
make_data spool
listen "$T/third"
serve "$T/third" "$trainspool" watch --no-sandbox spool
job 100000 >long.yaml
mv long.yaml spool/
wait_until 30 has_reached spool/long.yaml 3
ok $? "a job runs"
expect "the description names it" wait_until 5 heard_at_least third '^STATUS=running long, 0 queued' 1
trainer=$(children "$daemon")
expect "its process does not know the manager" sh -c "! tr '\\0' '\\n' </proc/$trainer/environ | grep -q '^NOTIFY_SOCKET='"
kill -TERM "$daemon"
expect "SIGTERM ends the watch after the job has saved" exited_with "$daemon" 143
expect "it asks for time to do so" wait_until 5 heard_at_least third '^EXTEND_TIMEOUT_USEC=[0-9]*|' 1
# /bin/kill is in a package that a small system does not have
for unit in "$source"/service/*.service.in; do
    sh -c "kill() { echo \"\$@\" >reloads; }; MAINPID=12; $(sed -n "s/^ExecReload=.bin.sh -c '\(.*\)'$/\1/p" "$unit")"
    ok $? "${unit##*/} reloads by a command of the shell"
    expect "which sends SIGHUP to the watch" grep -qx -e '-HUP 12' reloads
    rm -f reloads
done
plan
