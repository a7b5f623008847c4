#!/bin/sh
# Two machines and a folder whose locks and events each sees alone: a job runs on one of them, a dead one
# loses it, and one that stood still or lost the folder writes nothing more.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/machines.sh"

why=$(why_no_hosts)
if [ -n "$why" ]; then
    skip "locks of several machines" "$why"
    plan
    exit 0
fi
sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
[ -d units-1m ] || cp -r "$source/jobs/samples/models/units-1m" .
TRAINSPOOL_LEASE=2
export TRAINSPOOL_LEASE
start_host boxa && start_host boxb || exit 99
run_on() { # HOST JOB [OPTION]...: in the background
    run_host=$1 run_job=$2
    shift 2
    on "$run_host" "$trainspool" run --quiet "$@" "s/$run_job.yaml" >"$run_host.$run_job.out" 2>&1 &
    run_pid=$!
    pids="$pids $run_pid"
}
saved() { ls -d "disk/$1.run"/checkpoint-* >/dev/null 2>&1; }

job 300 20 >whole.yaml
TRAINSPOOL_LEASE=0 "$trainspool" run --quiet whole.yaml >out 2>&1 || exit 99
whole=$(sum whole.run/checkpoint-300)

# ---- One machine runs it ----
job 100000 100000 >disk/long.yaml
run_on boxa long
wait_until 20 has_reached disk/long.yaml 1
expect_status "a job that runs on another machine is not started" 3 on boxb "$trainspool" run s/long.yaml
expect_error "the message says so" 'long.yaml is already running'
sleep 2.5
expect_status "nor later than a lease, because its holder lives" 3 on boxb "$trainspool" run s/long.yaml
on boxb "$trainspool" status s >out
expect_output "the other machine sees that it runs" '^long  *running'
on boxb "$trainspool" cancel s/long.yaml >out 2>&1
wait "$run_pid"
expect "the other machine can cancel it" state_is disk/long.yaml stopped
began=$(date +%s)
on boxb "$trainspool" run --quiet --set max_steps=2 s/long.yaml >out 2>&1
ok $? "the lock is free at once"
expect "without the wait for a lease" test $(($(date +%s) - began)) -lt 20

# ---- A machine dies ----
job 300 20 >disk/dies.yaml
run_on boxa dies
wait_until 20 saved dies
signal_host boxa KILL
wait "$run_pid" 2>/dev/null
on boxb "$trainspool" run --resume "s/dies.yaml" >out 2>&1
ok $? "another machine continues its job"
expect_output "after a wait for a sign of life" '^trainspool: boxa has the lock of the job; waiting for a sign of life$'
expect "from a checkpoint" grep -q 'resum' disk/dies.run/train.log
expect "with the bits of an undisturbed run" test "$(sum disk/dies.run/checkpoint-300)" = "$whole"

# ---- A machine stands still, and wakes after another one took its job ----
job 300 20 >disk/sleeps.yaml
run_on boxa sleeps
wait_until 20 saved sleeps
signal_host boxa STOP
on boxb "$trainspool" run --quiet --resume "s/sleeps.yaml" >out 2>&1
ok $? "another machine continues the job of one that stands still"
files() { (cd disk/sleeps.run && find . -type f ! -name train.log ! -name "lock.*" -exec sha256sum {} + | sort); }
files >before
signal_host boxa CONT
wait "$run_pid"
ok $(($? == 0)) "its run fails when it wakes"
files >after
expect "it has changed no file" cmp before after
expect "its output has the reason" grep -q 'the lock of the job' boxa.sleeps.out
expect "the job has the bits of an undisturbed run" test "$(sum disk/sleeps.run/checkpoint-300)" = "$whole"

# ---- A machine loses the folder ----
job 100000 20 >disk/cut.yaml
run_on boxa cut
wait_until 20 saved cut
kill -KILL "$(cat server.boxa)"
wait_until 20 is_idle boxa
ok $? "a run ends when the shared folder is gone"
on boxb "$trainspool" run --quiet --resume --set max_steps=40 "s/cut.yaml" >out 2>&1
ok $? "another machine continues it"
plan
