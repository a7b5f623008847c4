#!/bin/sh
# pause and unpause: a paused folder starts no job, whatever happens to the watch.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool

expect_status "pause of a missing folder gives 2" 2 "$trainspool" pause nowhere
expect_status "pause of a folder that no watch has seen succeeds" 0 "$trainspool" pause spool --reason 'a new card'
expect_output "it says what runs" '^spool: paused; no job runs$'
expect_status "status of the paused folder succeeds" 0 "$trainspool" status spool
expect_output "it shows who paused it since when, and why" '^spool is paused by .* since 20.*Z: a new card$'
expect_status "unpause succeeds" 0 "$trainspool" unpause spool
expect_output "it says what follows" '^spool: jobs start again$'
expect_status "another one does, too" 0 "$trainspool" unpause spool
expect_output "it has nothing to do" '^spool: is not paused$'
"$trainspool" status spool >status
expect "status shows no pause" sh -c '! grep -q paused status'

if ! has_model; then
    plan
    exit 0
fi
make_data spool
page_says() { grep -q "$1" spool/.trainspool/page.html; }
watch_it() {
    background "$trainspool" watch --page spool/.trainspool/page.html --metrics spool/.trainspool/m.prom spool
}
"$trainspool" pause -q spool
watch_it
job 100000 >long.yaml
job 2 >short.yaml
mv long.yaml short.yaml spool/
wait_until 30 state_is spool/long.yaml ready && wait_until 30 state_is spool/short.yaml ready
ok $? "jobs are admitted while the folder is paused"
"$trainspool" status --json spool >status
expect "their reason is the pause" jq_accepts -es 'all(.[]; .state == "ready" and (.reason | startswith("paused by")))' status
wait_until 10 page_says 'No job starts:</strong> paused by'
ok $? "the page shows the pause"
expect "the metrics have it" grep -qx 'trainspool_paused 1' spool/.trainspool/m.prom
expect "no job has started" test ! -e spool/long.run/metrics.jsonl
"$trainspool" unpause -q spool
wait_until 30 has_reached spool/long.yaml 5
ok $? "jobs start after unpause"

expect_status "pause while a job runs succeeds" 0 "$trainspool" pause spool
expect_output "the job continues" '^spool: paused; 1 running job will continue to the end$'
at=$(step spool/long.yaml)
wait_until 30 has_reached spool/long.yaml $((at + 50))
ok $? "it does"
expect_status "pause --stop succeeds" 0 "$trainspool" pause --stop spool
expect_output "the job stops" '^spool: paused; 1 running job will stop after this step, with a checkpoint$'
wait_until 30 state_is spool/long.yaml ready
ok $? "the job is in the queue again"
expect "with a checkpoint" test -f "spool/long.run/checkpoint-$(step spool/long.yaml)/trainspool_manifest.json"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
expect_status "watch --once of the paused folder gives 3" 3 timeout 60 "$trainspool" watch --once spool
expect_output "it logs the pause" 'watch: paused by .* since'
expect "no job has run" test "$(state spool/long.yaml) $(state spool/short.yaml)" = 'ready ready'
watch_it
at=$(step spool/long.yaml)
wait_until 10 grep -q 'paused by' daemon.log
"$trainspool" unpause -q spool
wait_until 30 has_reached spool/long.yaml $((at + 5))
ok $? "the job continues from there"
expect "it did not start from scratch" grep -q "continuing from" spool/long.run/train.log
"$trainspool" cancel -q spool/long.yaml
wait_until 30 state_is spool/short.yaml done
ok $? "the other job runs"
wait_until 10 sh -c "! grep -q 'No job starts' spool/.trainspool/page.html"
ok $? "the page shows no pause"
plan
