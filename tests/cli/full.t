#!/bin/sh
# The disk of a spool is full for a while.  The file system is in a mount namespace of this test.
if [ "${1-}" != inside ]; then
    if ! unshare -m true 2>/dev/null; then
        echo "1..0 # SKIP it may not mount a file system"
        exit 0
    fi
    exec unshare -m sh "$0" inside
fi
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool
if ! has_model || ! mount -t tmpfs -o size=32m none spool 2>/dev/null; then
    echo "1..0 # SKIP no $model, or it may not mount a file system"
    exit 0
fi
trap 'umount -l "$T/spool" 2>/dev/null; finish' EXIT
make_data spool
fill() { cat /dev/zero >spool/filler 2>/dev/null; }
drop() { # NAME STEPS
    job "$2" 'save_strategy: "no"' >new.yaml
    mv new.yaml "spool/$1.yaml"
}
started() { sed -n 's/.*"started":"\([^"]*\)".*/\1/p' "spool/$1.run/state.json"; }

background "$trainspool" watch spool
drop long 1000000
wait_until 60 has_reached spool/long.yaml 2
for name in a b c d; do
    drop $name 2
    wait_until 10 state_is spool/$name.yaml ready
done
job 2 'save_strategy: "no"' >spool/late.tmp.yaml
fill
kill -KILL "$(children "$daemon" | head -1)"
wait_until 10 grep -q 'job long: cannot record its end: .*No space left on device; trying again every 5 s' daemon.log
ok $? "a full disk keeps the end of a job from being recorded"
rm spool/filler
mv spool/late.tmp.yaml spool/late.yaml
freed=$(date +%s%3N)
wait_until 10 grep -q '"state":"\(running\|done\)"' spool/a.run/state.json
ok $? "the next job starts when there is room again"
took=$(($(date +%s%3N) - freed))
echo "# $took ms"
expect "it starts within 5 s" test $took -lt 6000
for name in a b c d late; do
    wait_until 20 state_is spool/$name.yaml done
    ok $? "job $name runs"
done
started a >order
started late >>order
expect "a new job does not overtake those that waited" sort -C order

try "$trainspool" cancel spool/long.yaml

# full before a job is admitted
for name in e f; do
    job 2 'save_strategy: "no"' >spool/$name.tmp.yaml
done
fill
for name in e f; do
    mv spool/$name.tmp.yaml spool/$name.yaml
done
wait_until 10 grep -q 'error e.yaml: .*No space left on device; trying again every 5 s' daemon.log
ok $? "no job is admitted to a full disk"
sleep 6
expect "the reason is logged once" test "$(grep -c 'error e.yaml: ' daemon.log)" -le 2
rm spool/filler
for name in e f; do
    wait_until 20 state_is spool/$name.yaml done
    ok $? "job $name runs when there is room again"
done
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"
plan
