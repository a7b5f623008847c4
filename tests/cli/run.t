#!/bin/sh
# run: patch, freeze, train on this terminal; signals, resume, what a fall leaves.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

hopeless >none.yaml
ends "a job without its model is rejected: 1" 1 "$trainspool" run none.yaml
says "with the finding" 'error\[TS713\]'
holds "its state says so" is none.yaml rejected
ends "status shows it" 0 "$trainspool" status .
says "with the reason" '^none  *rejected .*TS713'
printf 'a: [\n' >broken.yaml
ends "a file that is no job: 2" 2 "$trainspool" run broken.yaml
ends "logs of a job that never ran: 2" 2 "$trainspool" logs nowhere.yaml
ends "no such job: 2" 2 "$trainspool" run nowhere.yaml
holds "and no folder for it" test ! -e nowhere.run

# What is mistyped is refused before anything is written.
printf '%s\n' 'stage: pt' 'max_grad_norm:' 'seed: &a 1' 'data_seed: *a' >set.yaml
cp set.yaml before
for set in max_steps max_step=3 max_steps=many data_seed=2; do
    ends "--set $set is refused: 2" 2 "$trainspool" run --set stage=sft --set "$set" set.yaml
    complains "by its name" "^trainspool: .*${set%%=*}"
    holds "before a patch" cmp set.yaml before
    holds "and before a folder" test ! -e set.run
done
ends "and of a file that is no job: 2" 2 "$trainspool" run --set max_step=3 broken.yaml
complains "too" 'max_step'

if ! has_model; then
    skip "training" "no $model"
    plan
    exit 0
fi
make_data .
job 30 "max_grad_norm:" >a.yaml
ends "run trains" 0 "$trainspool" run a.yaml
says "shows what it mended" 'fixed: max_grad_norm'
says "and each logged step" "^{'loss': [0-9.]*, 'grad_norm': "
says "and where the model is" 'a.yaml: done: 30 steps, model in a.run'
holds "the state is done" is a.yaml done
loss_of() { jq -n 'reduce inputs as $m (null; $m.loss // .)' <a.run/metrics.jsonl; }
ends "a job that is done goes on" 0 "$trainspool" run --resume a.yaml
says "with nothing left to do" 'a.yaml: no step was left to do, model in a.run'
holds "and stays as it was" jq -e --argjson loss "$(loss_of)" \
    '.state == "done" and .step == 30 and .total == 30 and .loss == $loss' a.run/state.json
job 6 >longer.yaml
ends "a short run" 0 "$trainspool" run -q longer.yaml
ends "is made longer" 0 "$trainspool" run --resume --set max_steps=9 longer.yaml
holds "from where it was" grep -q 'resume: from longer.run/checkpoint-6' longer.run/train.log
holds "to its new end" test "$(step longer.yaml)" -eq 9
job 4000 >at-once.yaml
background "$trainspool" run -q at-once.yaml
await 20 running at-once.yaml 1
trainer=$(children "$daemon" | head -1)
kill -INT "$trainer"
kill -INT "$trainer"
holds "a second signal ends it at once" leaves "$daemon" 130
holds "as stopped" is at-once.yaml stopped
job 4000 >removed.yaml
background "$trainspool" run -q removed.yaml
await 20 running removed.yaml 1
rm removed.yaml
ends "a job that somebody removed while it runs" 0 "$trainspool" status .
says "is shown" '^removed  *running'
ends "and can be cancelled" 0 "$trainspool" cancel removed.yaml
holds "which ends it" leaves "$daemon" 143
ends "then it is gone" 0 "$trainspool" status .
holds "from the list" sh -c "! grep -q '^removed' '$T/out'"
job 9 "fp16: true" "gradient_accumulation_steps: 3000" "num_train_epochs: 900" \
    "trainspool: {keep: [fp16], preflight: true}" >tried.yaml
background "$trainspool" run -q tried.yaml
await 20 grep -qs 'preflight: up to' tried.run/train.log
ends "cancel reaches a run that still tries its steps" 0 "$trainspool" cancel tried.yaml
holds "and ends it" leaves "$daemon" 143
holds "before its first" grep -q 'cancelled at step 0' tried.run/state.json
job 30 >pipe.yaml
"$trainspool" run pipe.yaml | head -n 1 >"$T/out"
holds "whoever reads along may leave" is pipe.yaml done
holds "at the last step" test "$(step a.yaml)" -eq 30
holds "the model is there" test -s a.run/model.safetensors
holds "the job was patched" grep -q '^max_grad_norm: 0.0' a.yaml
holds "the frozen text is the patched one" cmp a.yaml a.run/job.yaml
holds "metrics are JSON" is_json <a.run/metrics.jsonl
holds "state.json has no pid" sh -c "! grep -qi pid a.run/state.json"
ends "status --json" 0 "$trainspool" status --json a.yaml
holds "is JSON" is_json <"$T/out"
ends "logs -n 1" 0 "$trainspool" logs -n 1 a.yaml
holds "is one line" sh -c "[ \$(wc -l <'$T/out') -eq 1 ]"

cp a.yaml before
ends "--set counts for this run" 0 "$trainspool" run --set max_steps=5 -q a.yaml
holds "alone" cmp a.yaml before
holds "and is in the frozen text" grep -q '^max_steps: 5' a.run/job.yaml
holds "it was followed" test "$(step a.yaml)" -eq 5
job 10 "max_grad_norm:" >keep.yaml
cp keep.yaml before
ends "--no-patch" 0 "$trainspool" run --no-patch -q keep.yaml
holds "leaves the job as it is" cmp keep.yaml before

job 100000 >long.yaml
background "$trainspool" run long.yaml
await 60 running long.yaml 3
ends "a second run of it is refused: 3" 3 "$trainspool" run long.yaml
complains "it is running" 'already running'
ends "status shows it running" 0 "$trainspool" status long.yaml
says "with steps" '^long  *running  *[0-9]*/100000 '
kill -TERM "$daemon"
await 30 gone "$daemon"
holds "SIGTERM gives 143" leaves "$daemon" 143
holds "the job is stopped" is long.yaml stopped
at=$(step long.yaml)
holds "with a checkpoint of that step" test -f "long.run/checkpoint-$at/trainspool_manifest.json"
ends "a second signal is not needed" 0 test "$at" -ge 3

background "$trainspool" run --resume --set max_steps=100000 long.yaml
await 60 running long.yaml $((at + 1))
holds "--resume goes on from it" grep -q "resume: from long.run/checkpoint-$at, step $at" \
    long.run/train.log
trainer=$(children "$daemon" | head -1)
kill -KILL "$trainer"
await 30 gone "$daemon"
holds "a trainer that is killed: 1" leaves "$daemon" 1
holds "is told" grep -q 'killed by signal 9' "$T/daemon.log"
holds "the job failed" is long.yaml failed
holds "and its page says so" grep -q 'killed by signal 9' long.run/report.html
ends "cancel of an ended job does nothing" 0 "$trainspool" cancel long.yaml
holds "it failed still" is long.yaml failed

background "$trainspool" run -q long.yaml
await 60 running long.yaml 3
ends "cancel of a running job" 0 "$trainspool" cancel long.yaml
await 30 gone "$daemon"
holds "stops it" is long.yaml stopped
holds "and says so" test "$(reason long.yaml | cut -d' ' -f1)" = cancelled

job 10 "dataset_dir: ." | sed 's/text.txt/bad.jsonl/; s/stage: pt/stage: sft/' >bad.yaml
printf '{"instruction": "a", "output": "b"}\n{"instruction": \n' >bad.jsonl
ends "a broken line of data: the training failed, 1" 1 "$trainspool" run bad.yaml
complains "and its place is told" 'bad.jsonl:2'
holds "in the state too" sh -c "grep -q 'bad.jsonl:2' bad.run/state.json"
plan
