#!/bin/sh
# trainspool.after and begin: a job of a watched folder waits for other jobs, or for a time.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
mkdir spool
make_data spool
# JOB TEXT: the shown reason of a job.
reason_of() { "$trainspool" status --json "spool/$1.yaml" | jq -r .reason; }
reason_is() { [ "$(reason_of "$1")" = "$2" ]; }
# NAME STEPS [LINES...]: drop a job.
drop() {
    drop_name=$1
    shift
    job "$@" >"$drop_name.yaml"
    mv "$drop_name.yaml" spool/
}

background "$trainspool" watch spool
drop orphan 2 'trainspool: {after: nothing}'
wait_until 30 state_is spool/orphan.yaml rejected
ok $? "a job that waits for an unknown name is rejected"
expect "for this reason" sh -c "grep -q 'TS720.*there is no job nothing in this folder' spool/orphan.run/state.json"
job 2 'trainspool: {after: right}' >left.yaml
job 2 'trainspool: {after: [left.yaml]}' >right.yaml
mv left.yaml right.yaml spool/
wait_until 30 sh -c 'grep -qs rejected spool/left.run/state.json || grep -qs rejected spool/right.run/state.json'
ok $? "jobs that wait for each other are rejected"

drop first 100000
wait_until 30 has_reached spool/first.yaml 1
drop second 2 'trainspool: {after: [first, third.yaml]}'
wait_until 30 state_is spool/second.yaml rejected
ok $? "a job may not come before those that it names"
drop third 2 'trainspool: {after: first}'
wait_until 30 state_is spool/third.yaml ready
"$trainspool" retry -q spool/second.yaml
wait_until 30 state_is spool/second.yaml ready
ok $? "a chain of jobs waits"
expect_status "status succeeds" 0 "$trainspool" status spool
expect_output "it shows what a job waits for" '^third  *ready .*waits for job first$'
"$trainspool" cancel -q spool/first.yaml
wait_until 30 reason_is third 'waits for job first, which was stopped: retry that job, or cancel this one'
ok $? "a job that waits for a canceled one shows it"
expect "it waits" state_is spool/third.yaml ready
drop other 2
wait_until 30 state_is spool/other.yaml done
ok $? "other jobs run meanwhile"
kill -9 "$daemon" # a new watch finds the same
wait "$daemon" 2>/dev/null
expect_status "watch --once ends while jobs wait in vain" 3 timeout 60 "$trainspool" watch --once spool
expect "they wait" test "$(state spool/second.yaml) $(state spool/third.yaml)" = 'ready ready'
background "$trainspool" watch spool
drop first 2
wait_until 30 state_is spool/second.yaml done
ok $? "they run when the first job is done"
expect "in their order" sh -c 'test spool/second.run/metrics.jsonl -nt spool/third.run/state.json'
drop first 2 'learning_rate: 1.0e-4x'
wait_until 30 state_is spool/first.yaml rejected
drop fourth 2 'trainspool: {after: first}'
wait_until 30 reason_is fourth 'waits for job first, which was rejected: retry that job, or cancel this one'
ok $? "a job that waits for a rejected one shows it"
"$trainspool" cancel -q spool/fourth.yaml

# Times.
drop soon 2 'trainspool: {begin: +3s}'
wait_until 30 state_is spool/soon.yaml ready
expect "a delayed job waits" sh -c "'$trainspool' status spool | grep -q '^soon  *ready .*begins at 20.*Z$'"
wait_until 30 state_is spool/soon.yaml done
ok $? "it runs when the time has come"
drop far 2 'trainspool: {begin: 2100-01-01T00:00:00Z}'
drop past 2 'trainspool: {begin: 2001-01-01T00:00:00+01:00}'
wait_until 30 state_is spool/past.yaml done
ok $? "a time in the past has come"
expect "one in the future has not" reason_is far 'begins at 2100-01-01T00:00:00Z'
drop wrong 2 'trainspool: {begin: tomorrow}'
wait_until 30 state_is spool/wrong.yaml rejected
ok $? "begin must be a time"

# A run in the foreground does not wait.
cp spool/text.txt .
job 2 'trainspool: {after: nothing, begin: 2100-01-01T00:00:00Z}' >now.yaml
expect_status "a run in the foreground waits for nothing" 0 "$trainspool" run -q now.yaml
plan
