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
expect_status "a waiting job can be canceled on a full disk" 0 "$trainspool" cancel spool/c.yaml
expect_output "its state follows" 'spool/c.yaml: will not run; its state follows when the fault is over: .*No space left on device'
expect_status "so can a job that ended" 0 "$trainspool" cancel spool/long.yaml
rm spool/filler
mv spool/late.tmp.yaml spool/late.yaml
freed=$(date +%s%3N)
wait_until 10 grep -q '"state":"\(running\|done\)"' spool/a.run/state.json
ok $? "the next job starts when there is room again"
took=$(($(date +%s%3N) - freed))
echo "# $took ms"
expect "it starts within 5 s" test $took -lt 6000
for name in a b d late; do
    wait_until 20 state_is spool/$name.yaml done
    ok $? "job $name runs"
done
for name in c long; do
    wait_until 10 state_is spool/$name.yaml stopped
    ok $? "the canceled job $name is stopped"
done
expect "the job c never ran" grep -q '"attempt":0' spool/c.run/state.json
expect "no request is left" test ! -e spool/c.run/cancel
started a >order
started late >>order
expect "a new job does not overtake those that waited" sort -C order

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

# full while a job runs
drop again 1000000
wait_until 60 has_reached spool/again.yaml 2
fill
expect_status "a running job can be canceled on a full disk" 0 "$trainspool" cancel spool/again.yaml
wait_until 20 grep -q 'job again: cannot record its end: ' daemon.log
ok $? "it ends"
rm spool/filler
wait_until 10 state_is spool/again.yaml stopped
ok $? "it is stopped when there is room again"
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"

# full before any watch saw the job
job 2 >spool/new.yaml
fill
expect_status "a new job can be canceled on a full disk" 0 "$trainspool" cancel spool/new.yaml
rm spool/filler
expect_status "the next watch does not run it" 0 timeout 60 "$trainspool" watch --once spool
expect "it is stopped" state_is spool/new.yaml stopped
plan
