#!/bin/sh
# hold and release: a held job waits, whatever happens to the watch.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool

shown() { "$trainspool" status --json "spool/$1.yaml" | jq -r .state; }
shown_is() { [ "$(shown "$1")" = "$2" ]; }

for name in a b c; do invalid_job >spool/$name.yaml; done
expect_status "hold of jobs that no watch has seen succeeds" 0 "$trainspool" hold spool/a.yaml spool/b.yaml
expect_output "it reports each" '^spool/b.yaml: held$'
expect "the hold is a file next to the job" grep -q "^by .* since 20" spool/a.run/hold
expect_status "status of a held job succeeds" 0 "$trainspool" status spool
expect_output "it shows who holds it since when" '^a  *held .* held by .* since 20'
expect_status "a second hold succeeds" 0 "$trainspool" hold spool/a.yaml
expect_output "it says that the job is held" 'is already held by'
expect_status "hold by state changes the other job only" 0 "$trainspool" hold spool --state queued --dry-run
expect_output "it counts it" '^spool: 1 of 3 jobs would be held$'
expect_status "release by state succeeds" 0 "$trainspool" release spool --state held
expect_output "it counts the jobs" '^spool: 2 of 3 jobs released$'
expect "nothing is held" test ! -e spool/a.run/hold -a ! -e spool/b.run/hold
expect_status "release of a job that is not held succeeds" 0 "$trainspool" release spool/a.yaml
expect_output "it says so" 'is not held$'
expect_status "hold of a missing job gives 2" 2 "$trainspool" hold spool/d.yaml

if ! has_model; then
    plan
    exit 0
fi
make_data spool
rm -r spool/*.run spool/*.yaml
job 2 >spool/early.yaml
"$trainspool" hold -q spool/early.yaml
background "$trainspool" watch spool
wait_until 30 state_is spool/early.yaml ready
ok $? "a job held before it was seen is admitted"
job 2 >late.yaml
mv late.yaml spool/late.yaml
wait_until 30 state_is spool/late.yaml done
ok $? "a later job runs"
expect "the held job does not run" state_is spool/early.yaml ready
expect "it is shown as held" shown_is early held

job 100000 >long.yaml
mv long.yaml spool/
wait_until 30 has_reached spool/long.yaml 1
job 2 >next.yaml
mv next.yaml spool/
wait_until 30 state_is spool/next.yaml ready
expect_status "hold of a queued job succeeds" 0 "$trainspool" hold spool/next.yaml
expect_status "hold of a running job succeeds" 0 "$trainspool" hold spool/long.yaml
expect_output "it cannot be held" 'is running; requeue --hold stops and holds it'
"$trainspool" cancel -q spool/long.yaml
wait_until 30 state_is spool/long.yaml stopped
expect_status "hold of an ended job succeeds" 0 "$trainspool" hold spool/long.yaml
expect_output "there is nothing to hold" 'is stopped, there is nothing to hold'
kill -TERM "$daemon"
wait "$daemon"
expect "the watch logs the hold" grep -q 'job next: held by .* since' daemon.log

expect_status "watch --once ends while jobs are held" 0 timeout 60 "$trainspool" watch --once spool
expect "they did not run" test "$(state spool/early.yaml) $(state spool/next.yaml)" = "ready ready"
background "$trainspool" watch spool
wait_until 30 grep -q 'watch: spool, pid' daemon.log
echo '# a new text' >>spool/early.yaml
"$trainspool" release -q spool/next.yaml
wait_until 30 state_is spool/next.yaml done
ok $? "a released job runs at once"
expect "a new text of a held job does not run" shown_is early held
"$trainspool" cancel -q spool/early.yaml
expect "a held job can be canceled" state_is spool/early.yaml stopped
plan
