#!/bin/sh
# watch: its log goes to a reader that ends, or that does not read, and jobs are handled all the same.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool

# NAME: drop a job that is rejected at once.
drop() {
    invalid_job >"$1"
    mv "$1" "spool/$1"
}

# a reader that ends after the first line
mkfifo pipe
head -1 pipe >first &
pids="$pids $!"
"$trainspool" watch spool >pipe 2>err &
daemon=$!
pids="$pids $daemon"
wait_until 10 grep -q 'watch: spool, pid' first
ok $? "the reader gets the first line"
drop a.yaml
wait_until 10 state_is spool/a.yaml rejected
ok $? "a job is handled after the reader has ended"
drop b.yaml
wait_until 10 state_is spool/b.yaml rejected
ok $? "and another one"
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"
expect "SIGTERM ends the watch with 143" exited_with "$daemon" 143

# a reader that does not read, with a pipe that is full already
mkfifo full
sleep 600 3<>full &
pids="$pids $!"
head -c 65536 /dev/zero | dd of=full iflag=fullblock bs=65536 2>dd.err
"$trainspool" watch spool >full 2>err &
daemon=$!
pids="$pids $daemon"
drop c.yaml
wait_until 10 state_is spool/c.yaml rejected
ok $? "a job is handled while no process reads the log"
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"
expect "SIGTERM ends this watch, too" exited_with "$daemon" 143
plan
