#!/bin/sh
# trainspool.timeout, which counts the time of all attempts.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
mkdir spool
make_data .
make_data spool
trainer() { children "$daemon" | head -1; }
# JOB: its last step has a checkpoint.
is_saved() { test -f "${1%.yaml}.run/checkpoint-$(step "$1")/trainspool_manifest.json"; }

# The timeout counts all attempts and all that they do.  Not to depend on the speed of the machine, the state of the
# killed attempt is changed to that of a longer one.
seconds() { jq '.seconds // 0 | floor' "${1%.yaml}.run/state.json" 2>/dev/null; }
has_run() { [ "0$(seconds "$1")" -ge "$2" ]; }
# JOB SECONDS: kill the watch and the job, and pretend that it has run this long.
lengthen() {
    lengthen_trainer=$(trainer)
    kill -KILL "$daemon" "$lengthen_trainer"
    wait_until 10 has_exited "$lengthen_trainer"
    jq -c ".seconds=$2" "${1%.yaml}.run/state.json" >new.json
    mv new.json "${1%.yaml}.run/state.json"
}
background "$trainspool" watch spool
job 1000000 "trainspool: {timeout: 10000}" >limit.yaml
mv limit.yaml spool/
wait_until 60 has_run spool/limit.yaml 1
kill -KILL "$(trainer)"
wait_until 60 grep -q '"attempt":2' spool/limit.run/state.json
expect "the time of a killed attempt is in the state" has_run spool/limit.yaml 1
wait_until 60 has_reached spool/limit.yaml 1
lengthen spool/limit.yaml 9998
background "$trainspool" watch spool
wait_until 60 state_is spool/limit.yaml failed
expect "the timeout ends the third attempt" grep -q '"attempt":3' spool/limit.run/state.json
expect "the timeout saves a checkpoint" is_saved spool/limit.yaml
expect "the reason is the timeout, and has the remedy" test "$(reason spool/limit.yaml)" = \
    "timeout reached at step $(step spool/limit.yaml); trainspool retry continues for as long again"
expect_status "retry of the job succeeds" 0 "$trainspool" retry spool/limit.yaml
wait_until 30 has_reached spool/limit.yaml 1
expect "a retry counts from 0" test "$(seconds spool/limit.yaml)" -lt 5000

# A job whose timeout has passed before it resumes; a cancel at that time is a cancel.
lengthen spool/limit.yaml 10001
background "$trainspool" watch spool
wait_until 60 state_is spool/limit.yaml failed
expect "a job whose time is used up names the key" \
    grep -q '^timeout reached .*; raise trainspool.timeout' <<END
$(reason spool/limit.yaml)
END
"$trainspool" retry spool/limit.yaml >"$T/out"
wait_until 30 has_reached spool/limit.yaml 1
trainer=$(trainer)
kill -STOP "$trainer"
expect_status "cancel succeeds" 0 "$trainspool" cancel spool/limit.yaml
jq -c '.state' spool/limit.run/state.json >"$T/out"
lengthen spool/limit.yaml 10001
background "$trainspool" watch spool
wait_until 30 state_is spool/limit.yaml stopped
expect "a canceled job whose timeout has passed is canceled" grep -q '^canceled' <<END
$(reason spool/limit.yaml)
END
kill -TERM "$daemon"
wait "$daemon"
awk 'BEGIN { for (i = 1; i <= 400000; i++) printf "{\"text\": \"Tom has %d apples and gives %d away, so he has %d left.\"}\n",
        i, i % 7, i - i % 7 }' >records.jsonl
job 3 "trainspool: {timeout: 1}" | sed 's/text.txt/records.jsonl/' >early.yaml
expect_status "a job whose data take longer than its timeout gives 1" 1 "$trainspool" run early.yaml
expect_error "the message names the timeout" \
    '^trainspool-train: early.yaml: timeout reached while reading the data; raise trainspool.timeout'
plan
