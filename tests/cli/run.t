#!/bin/sh
# run: patch, freeze, train; signals, resume, and the state after a crash.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

invalid_job >none.yaml
expect_status "a job without its model is rejected with 1" 1 "$trainspool" run none.yaml
expect_output "the output has the finding" 'error\[TS713\]'
expect "the state is rejected" state_is none.yaml rejected
expect_status "status of the rejected job succeeds" 0 "$trainspool" status .
expect_output "status shows the reason" '^none  *rejected .*TS713'
printf 'a: [\n' >broken.yaml
expect_status "a file that is not a job gives 2" 2 "$trainspool" run broken.yaml
expect_status "logs of a job that never ran gives 2" 2 "$trainspool" logs nowhere.yaml
expect_status "run of a missing job gives 2" 2 "$trainspool" run nowhere.yaml
expect "no folder is made for a missing job" test ! -e nowhere.run

# Typing errors are refused before anything is written.
printf '%s\n' 'stage: pt' 'max_grad_norm:' 'seed: &a 1' 'data_seed: *a' >set.yaml
cp set.yaml before
for set in max_steps max_step=3 max_steps=many data_seed=2; do
    expect_status "--set $set gives 2" 2 "$trainspool" run --set stage=sft --set "$set" set.yaml
    expect_error "the message names the key in $set" "^trainspool: .*${set%%=*}"
    expect "--set $set does not patch the job" cmp set.yaml before
    expect "--set $set makes no folder" test ! -e set.run
done
expect_status "--set with a file that is not a job gives 2" 2 "$trainspool" run --set max_step=3 broken.yaml
expect_error "the message names the key" 'max_step'

if ! has_model; then
    skip "training" "no $model"
    plan
    exit 0
fi
make_data .
job 30 "max_grad_norm:" >a.yaml
expect_status "run succeeds" 0 "$trainspool" run a.yaml
expect_output "run shows the fixed setting" 'fixed: max_grad_norm'
expect_output "run shows each logged step" "^{'loss': [0-9.]*, 'grad_norm': "
expect_output "run shows the path of the model" 'a.yaml: done: 30 steps, model in a.run'
expect "the state is done" state_is a.yaml done
loss_of() { jq -n 'reduce inputs as $m (null; $m.loss // .)' <a.run/metrics.jsonl; }
expect_status "run --resume of a finished job succeeds" 0 "$trainspool" run --resume a.yaml
expect_output "run --resume reports that no steps are left" 'a.yaml: no step was left to do, model in a.run'
expect "the state of the finished job does not change" jq -e --argjson loss "$(loss_of)" \
    '.state == "done" and .step == 30 and .total == 30 and .loss == $loss' a.run/state.json
job 6 >longer.yaml
expect_status "a short run succeeds" 0 "$trainspool" run -q longer.yaml
expect_status "run --resume with more steps succeeds" 0 "$trainspool" run --resume --set max_steps=9 longer.yaml
expect "it resumes from the checkpoint" grep -q 'resume: from longer.run/checkpoint-6' longer.run/train.log
expect "it does all steps" test "$(step longer.yaml)" -eq 9
job 4000 >twice.yaml
background "$trainspool" run -q twice.yaml
wait_until 20 has_reached twice.yaml 1
trainer=$(children "$daemon" | head -1)
kill -INT "$trainer"
kill -INT "$trainer"
expect "two SIGINTs at once end the run with a checkpoint" exited_with "$daemon" 130
expect "the state is stopped" state_is twice.yaml stopped
expect "the checkpoint is of its last step" test -f "twice.run/checkpoint-$(step twice.yaml)/trainspool_manifest.json"
job 4000 >removed.yaml
background "$trainspool" run -q removed.yaml
wait_until 20 has_reached removed.yaml 1
rm removed.yaml
expect_status "status of a removed job succeeds" 0 "$trainspool" status .
expect_output "status shows the removed job" '^removed  *running'
expect_status "cancel of the removed job succeeds" 0 "$trainspool" cancel removed.yaml
expect "cancel ends the removed job" exited_with "$daemon" 143
expect_status "status after its end succeeds" 0 "$trainspool" status .
expect "status does not show it after its end" sh -c "! grep -q '^removed' '$T/out'"
job 9 "fp16: true" "gradient_accumulation_steps: 3000" "num_train_epochs: 900" \
    "trainspool: {keep: [fp16], preflight: true}" >tried.yaml
background "$trainspool" run -q tried.yaml
wait_until 20 grep -qs 'preflight: up to' tried.run/train.log
expect_status "cancel during preflight succeeds" 0 "$trainspool" cancel tried.yaml
expect "cancel ends the preflight" exited_with "$daemon" 143
expect "the job is canceled at step 0" grep -q 'canceled at step 0' tried.run/state.json
job 30 >pipe.yaml
"$trainspool" run pipe.yaml | head -n 1 >"$T/out"
expect "a run finishes if its output pipe is closed" state_is pipe.yaml done
expect "the last step is in the state" test "$(step a.yaml)" -eq 30
expect "the model is saved" test -s a.run/model.safetensors
expect "the job is patched" grep -q '^max_grad_norm: 0.0' a.yaml
expect "the frozen text is the patched text" cmp a.yaml a.run/job.yaml
expect "metrics.jsonl is JSON" is_json <a.run/metrics.jsonl
expect "state.json has no process id" sh -c "! grep -qi pid a.run/state.json"
expect_status "status --json succeeds" 0 "$trainspool" status --json a.yaml
expect "status --json prints JSON" is_json <"$T/out"
expect_status "logs -n 1 succeeds" 0 "$trainspool" logs -n 1 a.yaml
expect "logs -n 1 prints one line" sh -c "[ \$(wc -l <'$T/out') -eq 1 ]"

cp a.yaml before
expect_status "run --set succeeds" 0 "$trainspool" run --set max_steps=5 -q a.yaml
expect "--set does not change the job" cmp a.yaml before
expect "--set changes the frozen text" grep -q '^max_steps: 5' a.run/job.yaml
expect "the run uses the changed setting" test "$(step a.yaml)" -eq 5
job 10 "max_grad_norm:" >keep.yaml
cp keep.yaml before
expect_status "run --no-patch succeeds" 0 "$trainspool" run --no-patch -q keep.yaml
expect "--no-patch does not change the job" cmp keep.yaml before

job 100000 >long.yaml
background "$trainspool" run long.yaml
wait_until 60 has_reached long.yaml 3
expect_status "a second run of a running job gives 3" 3 "$trainspool" run long.yaml
expect_error "the message says that it is running" 'already running'
expect_status "status of a running job succeeds" 0 "$trainspool" status long.yaml
expect_output "status shows the steps" '^long  *running  *[0-9]*/100000 '
kill -TERM "$daemon"
wait_until 30 has_exited "$daemon"
expect "SIGTERM gives 143" exited_with "$daemon" 143
expect "the job is stopped" state_is long.yaml stopped
at=$(step long.yaml)
expect "there is a checkpoint of the last step" test -f "long.run/checkpoint-$at/trainspool_manifest.json"
expect_status "the job ran at least 3 steps" 0 test "$at" -ge 3

background "$trainspool" run --resume --set max_steps=100000 long.yaml
wait_until 60 has_reached long.yaml $((at + 1))
expect "--resume starts from the checkpoint" grep -q "resume: from long.run/checkpoint-$at, step $at" \
    long.run/train.log
trainer=$(children "$daemon" | head -1)
kill -KILL "$trainer"
wait_until 30 has_exited "$daemon"
expect "a killed trainer gives 1" exited_with "$daemon" 1
expect "the message names the signal" grep -q 'killed by signal 9' "$T/daemon.log"
expect "the job has failed" state_is long.yaml failed
expect "the report names the signal" grep -q 'killed by signal 9' long.run/report.html
expect_status "cancel of an ended job succeeds" 0 "$trainspool" cancel long.yaml
expect "cancel does not change the state of an ended job" state_is long.yaml failed

background "$trainspool" run -q long.yaml
wait_until 60 has_reached long.yaml 3
expect_status "cancel of a running job succeeds" 0 "$trainspool" cancel long.yaml
wait_until 30 has_exited "$daemon"
expect "the canceled job is stopped" state_is long.yaml stopped
expect "the reason is canceled" test "$(reason long.yaml | cut -d' ' -f1)" = canceled

job 10 "dataset_dir: ." | sed 's/text.txt/bad.jsonl/; s/stage: pt/stage: sft/' >bad.yaml
printf '{"instruction": "a", "output": "b"}\n{"instruction": \n' >bad.jsonl
expect_status "a broken line in the dataset gives 1" 1 "$trainspool" run bad.yaml
expect_error "the message names the line" 'bad.jsonl:2'
expect "the state names the line" sh -c "grep -q 'bad.jsonl:2' bad.run/state.json"
plan
