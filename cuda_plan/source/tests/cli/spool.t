#!/bin/sh
# The folder itself: replaced while watched, events lost, a kernel without room for a watch.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool outside

watched() { ! "$trainspool" status spool | grep -q 'no watch'; }

background "$trainspool" watch spool
await 10 watched
mv spool old
mkdir spool
await 20 test -e spool/.trainspool/lock
ok $? "a folder that was replaced is watched again"
hopeless >outside/a.yaml
mv outside/a.yaml spool/
await 10 is spool/a.yaml rejected
ok $? "and its jobs are taken"
rm -rf spool
sleep 0.3
mkdir spool
hopeless >outside/b.yaml
mv outside/b.yaml spool/
await 20 is spool/b.yaml rejected
ok $? "so is one that was removed and made again"
holds "it is never made by the watch" grep -q 'waiting for it' "$T/daemon.log"

# equal names in turn: each rename is an event, none can be merged with the one before it
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
    hopeless >outside/c.yaml
    mv outside/c.yaml spool/
    kill -CONT "$daemon"
    await 20 is spool/c.yaml rejected
    ok $? "a job whose event was lost is found"
    holds "by a scan" grep -q 'too many events' "$T/daemon.log"
else
    skip "a job whose event was lost is found" "no limit of events known, or no python3"
    skip "by a scan" "the same"
fi

kill -TERM "$daemon"
await 10 gone "$daemon"
for way in . ./ ../spool ../spool/ ../spool/.; do
    cd spool || exit 99
    background "$trainspool" watch $way
    cd ..
    await 10 watched
    hopeless >outside/way.yaml
    echo "# $way" >>outside/way.yaml
    rm -rf spool/way.run
    mv outside/way.yaml spool/
    await 10 is spool/way.yaml rejected
    ok $? "a folder named $way"
    kill -TERM "$daemon"
    await 10 gone "$daemon"
done
if command -v prlimit >/dev/null; then
    # 0 instances: as if every inotify of this user were taken
    background prlimit --nofile=64:64 "$trainspool" watch spool
    hopeless >outside/d.yaml
    mv outside/d.yaml spool/
    await 20 is spool/d.yaml rejected
    ok $? "few descriptors are enough"
    kill -TERM "$daemon"
    await 10 gone "$daemon"
else
    skip "few descriptors are enough" "no prlimit(1)"
fi
plan
