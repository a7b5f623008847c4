#!/bin/sh
# watch: a log in a file, which SIGHUP opens again, and a log that the journal reads.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool logs

drop() { # NAME
    invalid_job >"$1"
    mv "$1" "spool/$1"
}
logged() { cat logs/* 2>/dev/null | grep -q -e "$1"; } # PATTERN
reload() { # N: send the signal, and wait until N reloads are logged
    kill -HUP "$daemon"
    wait_until 20 sh -c "[ \$(cat logs/* | grep -c 'info watch: reloaded') -ge $1 ]"
}

# relative to where the watch starts, not to the folder that it enters
background nohup "$trainspool" watch --log logs/watch.log spool
expect "the log is in the file" wait_until 10 logged 'info watch: spool, pid'
expect "nothing is on standard output" test ! -s daemon.log
expect "other users cannot read it" test "$(stat -c %a logs/watch.log)" = 640
drop a.yaml
wait_until 10 logged 'job a: rejected'
mv logs/watch.log logs/watch.log.1
drop b.yaml
wait_until 10 logged 'job b: rejected'
expect "a file that is moved still gets the lines" grep -q 'job b: rejected' logs/watch.log.1
expect "SIGHUP reloads, also under nohup" reload 1
expect "the watch continues" kill -0 "$daemon"
drop c.yaml
wait_until 10 logged 'job c: rejected'
expect "the next lines go to a new file" grep -q 'job c: rejected' logs/watch.log
expect "not to the old one" sh -c '! grep -q "job c: rejected" logs/watch.log.1'
open_logs() { ls -l "/proc/$daemon/fd" | grep -c -e "$T/logs/"; }

# rotate while the watch writes
i=1
while [ $i -le 20 ]; do
    drop "many$i.yaml"
    mv logs/watch.log "logs/rotated.$i"
    reload $((i + 1)) || break
    i=$((i + 1))
done
expect "20 rotations are all followed" test $i -eq 21
all_are_logged() {
    [ "$(cat logs/* | sed -n 's/.*job \(many[0-9]*\): rejected.*/\1/p' | sort -u | wc -l)" -eq 20 ]
}
expect "no line is lost" wait_until 20 all_are_logged
expect "none is written twice" test -z "$(cat logs/* | grep -o 'job many[0-9]*: rejected' | sort | uniq -d)"
expect "every line is whole" sh -c '! cat logs/* | grep -v "^20..-..-..T..:..:..Z [a-z]* "'
expect "only one log is open" test "$(open_logs)" -eq 1

# what cannot be opened
mv logs gone
ln -s /dev/null logs
kill -HUP "$daemon"
expect "a log that cannot be opened is reported in the old one" \
    wait_until 10 grep -qs 'error watch: cannot log to .*/logs/watch.log' gone/watch.log
drop d.yaml
expect "and the old one still gets the lines" wait_until 10 grep -qs 'job d: rejected' gone/watch.log
rm logs
mv gone logs
kill -TERM "$daemon"
expect "SIGTERM ends the watch with 143" exited_with "$daemon" 143
expect "the log says so" logged 'info watch: ended'

ln -s "$T/target" link.log
expect_status "a link is no log" 2 "$trainspool" watch --once --log link.log spool
expect "nothing is written through it" test ! -e target
mkfifo pipe
expect_status "nor is a pipe" 2 "$trainspool" watch --once --log pipe spool
expect_error "the message names it" 'cannot log to .*pipe: it is not a regular file'

# Without a log of its own, a watch ends with its terminal.
: >daemon.log
background "$trainspool" watch spool
wait_until 10 grep -qs 'watch: spool, pid' daemon.log
kill -HUP "$daemon"
expect "SIGHUP ends a watch that logs to its standard output" exited_with "$daemon" 143

# logrotate, with the file of the package
if command -v logrotate >/dev/null; then
    sed -e "s|/var/log/trainspool|$T/logs|" \
        -e '/^ *postrotate/,/^ *endscript/c\    postrotate\n        kill -HUP $(cat '"$T"'/pid)\n    endscript' \
        "$source/debian/trainspool.logrotate" >rotate.conf
    rm -f logs/*
    chmod 755 logs
    background "$trainspool" watch --log logs/box.log spool
    echo "$daemon" >pid
    wait_until 10 logged 'info watch: spool, pid'
    expect_status "logrotate accepts the file of the package" 0 logrotate -f -s "$T/state" rotate.conf
    expect "it rotates the log" test -s logs/box.log.1
    expect "the watch continues in a new one" wait_until 10 grep -qs 'watch: reloaded' logs/box.log
    kill -TERM "$daemon"
    wait "$daemon"
else
    skip "the file for logrotate" "logrotate is not installed"
fi

# A journal names what it reads; anything else gets no priorities.
stream() { stat -L -c %d:%i "$1"; }
: >journal
JOURNAL_STREAM=$(stream journal) "$trainspool" watch --once -v spool >journal 2>&1
expect "lines for the journal begin with their priority" grep -q '^<6>watch: ended$' journal
expect "all of them" sh -c '! grep -v "^<[3-7]>" journal'
: >other
JOURNAL_STREAM=$(stream journal) "$trainspool" watch --once spool >other 2>&1
expect "lines for another file do not" grep -q '^20[^ ]*Z info watch: ended$' other
: >journal
JOURNAL_STREAM=$(stream journal) "$trainspool" watch --once nowhere >journal 2>&1
expect "nor does a failure to start lack its priority" grep -q '^<3>trainspool: .*nowhere' journal
: >journal
JOURNAL_STREAM=$(stream journal) "$trainspool" watch --once --log file.log spool >journal 2>&1
expect "a log in a file has times" grep -q '^20[^ ]*Z info watch: ended$' file.log
plan
