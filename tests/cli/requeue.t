#!/bin/sh
# requeue: a running job lets the others go first, an ended job runs again.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
mkdir spool
make_data spool
attempt() { sed -n 's/.*"attempt":\([0-9]*\).*/\1/p' "spool/$1.run/state.json"; }

background "$trainspool" watch spool
job 100000 >long.yaml
mv long.yaml spool/
wait_until 30 has_reached spool/long.yaml 5
job 2 >short.yaml
mv short.yaml spool/
wait_until 30 state_is spool/short.yaml ready
expect_status "requeue --dry-run succeeds" 0 "$trainspool" requeue spool/long.yaml --dry-run
expect_output "it says what would happen" 'would stop after this step, with a checkpoint, and be queued again$'
expect "it requests nothing" test ! -e spool/long.run/cancel
expect_status "requeue of a waiting job succeeds" 0 "$trainspool" requeue spool/short.yaml
expect_output "it is in the queue" 'is already ready$'

expect_status "requeue of a running job succeeds" 0 "$trainspool" requeue spool/long.yaml
expect_output "it stops first" 'will stop after this step, with a checkpoint, and be queued again$'
wait_until 30 state_is spool/short.yaml done
ok $? "the waiting job runs before it"
wait_until 30 has_reached spool/long.yaml 5
ok $? "then it runs again"
expect "in a second attempt" test "$(attempt long)" -eq 2
expect "which continues from the checkpoint" wait_until 30 grep -q 'continuing from' spool/long.run/train.log
expect "the log says why it stopped" grep -q 'queued again after it stopped at step' spool/long.run/train.log

expect_status "requeue --hold of a running job succeeds" 0 "$trainspool" requeue --hold spool/long.yaml
wait_until 30 state_is spool/long.yaml ready
ok $? "the job stops"
expect_status "status succeeds" 0 "$trainspool" status spool/long.yaml
expect_output "it is held" '^long  *held .* held by'
job 2 >after.yaml
mv after.yaml spool/
wait_until 30 state_is spool/after.yaml done
expect "it does not run" state_is spool/long.yaml ready
"$trainspool" cancel -q spool/long.yaml
expect_status "retry of a held job succeeds" 0 "$trainspool" retry spool/long.yaml
expect_output "it says that the job stays held" 'queued again, but held by'
"$trainspool" cancel -q spool/long.yaml

expect_status "requeue of a finished job succeeds" 0 "$trainspool" requeue spool/short.yaml
expect_output "it is queued" '^spool/short.yaml: queued again$'
wait_until 30 grep -q 'job short: attempt 1.*' spool/short.run/train.log
is_second_run() { state_is spool/short.yaml done && [ "$(grep -c 'job short: attempt 1 ' spool/short.run/train.log)" -eq 2 ]; }
wait_until 30 is_second_run
ok $? "it runs from scratch"
plan
