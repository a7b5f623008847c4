#!/bin/sh
# cancel and retry of all jobs of a folder that are in some states.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

# NAME STATE: make a job with this state.
make_job() {
    mkdir -p "spool/$1.run"
    echo 'stage: sft' >"spool/$1.yaml"
    [ "$2" = new ] || echo '{"state":"'"$2"'"}' >"spool/$1.run/state.json"
}
make_all() {
    for state in new ready blocked running done failed stopped rejected; do make_job "$state" "$state"; done
}
states() { "$trainspool" status --json spool | jq -r '.name + ":" + .state' | sort | tr '\n' ' '; }

make_all
expect_status "retry of a folder without --state gives 2" 2 "$trainspool" retry spool
expect_error "the message says what is missing" 'spool is a folder; which of its jobs must be queued again: retry DIR --state STATE$'
expect_status "an unknown state gives 2" 2 "$trainspool" retry spool --state faild
expect_error "the message suggests a state" 'did you mean failed?$'

before=$(states)
expect_status "retry --dry-run succeeds" 0 "$trainspool" retry spool --state failed --state stopped --dry-run
expect_output "it shows each job" '^spool/failed.yaml: would be queued again$'
expect_output "it sums up" '^spool: 2 of 8 jobs would be queued again$'
expect "it changes nothing" test "$before" = "$(states)"
expect_status "cancel --dry-run succeeds" 0 "$trainspool" cancel spool --state queued --dry-run
expect_output "it counts the jobs" '^spool: 3 of 8 jobs would be canceled$'
expect "it changes nothing" test "$before" = "$(states)"

expect_status "retry by state succeeds" 0 "$trainspool" retry spool --state failed --state stopped
expect_output "it sums up" '^spool: 2 of 8 jobs queued again$'
expect "only these jobs are queued" test "$(states)" = \
    "blocked:blocked done:done failed:new new:new ready:ready rejected:rejected running:crashed stopped:new "
expect_status "retry of a job that is in no such state succeeds" 0 "$trainspool" retry spool/done.yaml --state failed
expect_output "it reports the state" '^spool/done.yaml: is done$'

make_all
expect_status "cancel by state succeeds" 0 "$trainspool" cancel spool --state queued
expect_output "it sums up" '^spool: 3 of 8 jobs canceled$'
expect "the queued jobs are stopped" test "$(states)" = \
    "blocked:stopped done:done failed:failed new:stopped ready:stopped rejected:rejected running:crashed stopped:stopped "
expect_status "with no such job it succeeds" 0 "$trainspool" cancel spool --state queued
expect_output "it counts none" '^spool: 0 of 8 jobs canceled$'
expect_status "crashed jobs can be chosen" 0 "$trainspool" retry spool --state crashed --quiet
expect "--quiet prints nothing" test ! -s "$T/out"
expect "the crashed job is queued" state_is spool/running.yaml new

# Another process holds the lock: the job runs.
if command -v flock >/dev/null; then
    make_all
    flock -F spool/running.run/lock sleep 30 &
    pids="$pids $!"
    wait_until 5 sh -c '! flock -n spool/running.run/lock true'
    expect_status "cancel of waiting jobs succeeds" 0 "$trainspool" cancel spool --state queued
    expect "it leaves the running job alone" test ! -e spool/running.run/cancel
    expect_status "cancel of running jobs succeeds" 0 "$trainspool" cancel spool --state running
    expect_output "it sums up" '^spool: 1 of 8 jobs canceled$'
    expect "the running job is asked" grep -q cancel spool/running.run/cancel
else
    for i in 1 2 3 4 5; do skip "running jobs, $i" "no flock(1)"; done
fi

# One job cannot be changed: the others are.
make_all
rm -r spool/failed.run
ln -s nowhere spool/failed.run
mkdir spool/stopped.run/lock.d
rm -f spool/stopped.run/lock
mkdir spool/stopped.run/lock
expect_status "a job that cannot be locked gives 3" 3 "$trainspool" retry spool --state stopped --state done
expect_output "it is counted" '^spool: 1 job could not be changed$'
expect "the other job is queued" state_is spool/done.yaml new
plan
