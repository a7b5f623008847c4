#!/bin/sh
# Stops: signals from any sender, however many.
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

# timeout(1) signals trainspool and its trainer, and trainspool passes on what it gets.
job 100000 >limited.yaml
background timeout 600 "$trainspool" run -q limited.yaml
wait_until 30 has_reached limited.yaml 3
kill -TERM "$daemon"
wait "$daemon"
expect "timeout(1) ends a run with a checkpoint" is_saved limited.yaml
expect "the reason is the signal" test "$(reason limited.yaml)" = "stopped by SIGTERM at step $(step limited.yaml)"

# systemd signals every process of a unit.
background "$trainspool" watch spool
job 100000 >unit.yaml
mv unit.yaml spool/
wait_until 30 has_reached spool/unit.yaml 3
trainer=$(trainer)
for i in 1 2 3; do
    kill -TERM "$daemon" "$trainer" 2>/dev/null
    kill -TERM "$trainer" 2>/dev/null
    kill -INT "$trainer" 2>/dev/null
done
expect "a watch that is signaled several times at once gives 143" exited_with "$daemon" 143
expect "it waits for its job" has_exited "$trainer"
expect "the job is ready to resume" state_is spool/unit.yaml ready
expect "the trainer has saved its last step" is_saved spool/unit.yaml

# A closed terminal.
job 100000 >hup.yaml
background nohup "$trainspool" run -q hup.yaml
wait_until 30 has_reached hup.yaml 3
trainer=$(trainer)
kill -HUP "$daemon" "$trainer"
at=$(step hup.yaml)
wait_until 30 has_reached hup.yaml $((at + 100))
ok $? "a run under nohup continues when its terminal is closed"
kill -TERM "$daemon"
wait "$daemon"
job 100000 >open.yaml
background "$trainspool" run -q open.yaml
wait_until 30 has_reached open.yaml 3
kill -HUP "$daemon" "$(trainer)"
expect "another one ends" exited_with "$daemon" 143
expect "with a checkpoint" is_saved open.yaml

for i in 1 2 3 4 5 6 7 8 9 10; do cat text.txt; done >long.txt

# An evaluation of some seconds, a step of many micro-batches: each is given up, and the checkpoint is that of the
# last whole step.
job 3 "eval_dataset: long.txt" "eval_steps: 2" "eval_strategy: steps" "eval_on_start: false" \
    "per_device_eval_batch_size: 1" >evaluates.yaml
background "$trainspool" run -q evaluates.yaml
wait_until 60 has_reached evaluates.yaml 2
expect_status "cancel during an evaluation succeeds" 0 "$trainspool" cancel evaluates.yaml
expect "cancel ends the evaluation" exited_with "$daemon" 143
expect "the evaluation has no result" sh -c '! grep -q eval_loss evaluates.run/train.log'
expect "the job is canceled at its last step" test "$(reason evaluates.yaml)" = "canceled at step 2"
expect "that step is saved" is_saved evaluates.yaml
# JOB CHECK...: run the job, send SIGTERM once $stopped_wait JOB succeeds, and check the result.  On a busy machine the
# signal may come after the work, so try up to three times; set $stopped_status.
stopped() {
    stopped_job=$1
    shift
    for stopped_try in 1 2 3; do
        rm -rf "${stopped_job%.yaml}.run"
        background "$trainspool" run -q "$stopped_job"
        wait_until 60 "$stopped_wait" "$stopped_job"
        kill -TERM "$daemon"
        wait "$daemon"
        stopped_status=$?
        ! "$@" || return 0
    done
    return 1
}
has_steps() { grep -qs steps: "${1%.yaml}.run/train.log"; }
is_running() { state_is "$1" running; }
is_unread() { ! grep -q 'data: .* samples' reads.run/train.log; }

job 3 "gradient_accumulation_steps: 20000" | sed "s/text.txt/long.txt/" >wide.yaml
stopped_wait=has_steps
stopped wide.yaml sh -c '! grep -q "at step [1-9]" wide.run/state.json'
ok $((stopped_status != 143)) "SIGTERM ends a long step"
expect "the step is not counted" test "$(reason wide.yaml)" = "stopped by SIGTERM at step 0"
expect "the state before it is saved" is_saved wide.yaml

# Data that take long to read: many records, and one text.  The job is running meanwhile.
awk 'BEGIN { for (i = 1; i <= 400000; i++) printf "{\"text\": \"Tom has %d apples and gives %d away, so he has %d left.\"}\n",
        i, i % 7, i - i % 7 }' >records.jsonl
for i in 1 2 3 4 5 6 7 8; do cat long.txt; done >longer.txt
for data in records.jsonl longer.txt; do
    job 3 | sed "s/text.txt/$data/" >reads.yaml
    stopped_wait=is_running
    stopped reads.yaml is_unread
    ok $((stopped_status != 143)) "SIGTERM ends the reading of $data"
    expect "$data is not read to its end" is_unread
    expect "the reason names the reading of $data" \
        test "$(reason reads.yaml)" = "stopped by SIGTERM while reading the data"
    rm -r reads.run
done

# A micro-batch that takes longer than several signals.  The first comes when it has begun: half a second of
# processor time after the last message.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
has_used() { [ "$(ticks "$1")" -ge "$2" ]; } # PROCESS TICKS
mv long.txt text.txt
job 3 "trainspool: {threads: 1}" | sed 's/size: 2$/size: 500/; s/len: 64/len: 256/' >slow.yaml
background "$trainspool" run -q slow.yaml
wait_until 60 grep -qs steps: slow.run/train.log
trainer=$(trainer)
wait_until 60 has_used "$trainer" $(($(ticks "$trainer") + 50))
kill -TERM "$trainer"
sleep 1
kill -TERM "$trainer"
sleep 0.2
expect "a second SIGTERM after 1 s is the same request" kill -0 "$trainer"
sleep 1.2
kill -TERM "$trainer"
expect "a later one ends the trainer at once" exited_with "$daemon" 143
expect "the state is stopped" state_is slow.yaml stopped
expect "the reason says so" test "$(reason slow.yaml)" = 'trainspool-train was killed by signal 15 (Terminated)'
plan
