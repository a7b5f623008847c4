#!/bin/sh
# The watched folder: replaced, with lost events, and with few descriptors.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool outside

watched() { ! "$trainspool" status spool | grep -q 'no watch'; }

background "$trainspool" watch spool
wait_until 10 watched
mv spool old
mkdir spool
wait_until 20 test -e spool/.trainspool/lock
ok $? "a replaced folder is watched again"
invalid_job >outside/a.yaml
mv outside/a.yaml spool/
wait_until 10 state_is spool/a.yaml rejected
ok $? "jobs in the replaced folder are accepted"
rm -rf spool
sleep 0.3
mkdir spool
invalid_job >outside/b.yaml
mv outside/b.yaml spool/
wait_until 20 state_is spool/b.yaml rejected
ok $? "jobs in a removed and recreated folder are accepted"
expect "the watch waits for the removed folder" grep -q 'waiting for it' "$T/daemon.log"

# alternate two names: each rename is an event that the kernel cannot merge with the previous one
limit=$(cat /proc/sys/fs/inotify/max_queued_events 2>/dev/null || echo 0)
if [ "$limit" -gt 0 ] && [ "$limit" -le 20000 ] && command -v python3 >/dev/null; then
    kill -STOP "$daemon"
    python3 - spool "$limit" <<'END'
import os, sys
folder, limit = sys.argv[1], int(sys.argv[2])
names = [os.path.join(folder, name) for name in ("x", "y")]
open(names[0], "w").close()
for i in range(limit + 10):
    os.rename(names[i % 2], names[(i + 1) % 2])
END
    invalid_job >outside/c.yaml
    mv outside/c.yaml spool/
    kill -CONT "$daemon"
    wait_until 20 state_is spool/c.yaml rejected
    ok $? "a job with a lost event is found"
    expect "a scan found it" grep -q 'too many events' "$T/daemon.log"
else
    skip "a job with a lost event is found" "unknown event limit, or no python3"
    skip "a scan found it" "the same"
fi

kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"
for way in . ./ ../spool ../spool/ ../spool/.; do
    cd spool || exit 99
    background "$trainspool" watch $way
    cd ..
    wait_until 10 watched
    invalid_job >outside/way.yaml
    echo "# $way" >>outside/way.yaml
    rm -rf spool/way.run
    mv outside/way.yaml spool/
    wait_until 10 state_is spool/way.yaml rejected
    ok $? "a folder can be named $way"
    kill -TERM "$daemon"
    wait_until 10 has_exited "$daemon"
done
if command -v prlimit >/dev/null; then
    # the watch must work within this limit
    background prlimit --nofile=64:64 "$trainspool" watch spool
    invalid_job >outside/d.yaml
    mv outside/d.yaml spool/
    wait_until 20 state_is spool/d.yaml rejected
    ok $? "a watch works with 64 descriptors"
    kill -TERM "$daemon"
    wait_until 10 has_exited "$daemon"
else
    skip "a watch works with 64 descriptors" "no prlimit(1)"
fi
plan
