#!/bin/sh
# A job of several processes: like one that does all their work, and over when one of them is.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

hopeless >many.yaml
printf 'trainspool: {ranks: 3, device: "cuda:0,1"}\n' >>many.yaml
ends "ranks and device: cuda:0,1 must agree" 1 "$trainspool" check --device A100 many.yaml
says "or are told" 'error\[TS207\]: ranks: 3, but device: cuda:0,1 names 2'
ends "a rank is not to be had alone" 2 "$train" --rank=1 many.yaml

if ! has_model; then
    skip "training" "no $model"
    plan
    exit 0
fi
mkdir spool outside
for dir in . spool; do make_data "$dir"; done
ranks() { printf 'trainspool: {device: cpu, ranks: %s}\n' "$1"; }
losses() { grep -o "'loss': [0-9.]*, 'grad_norm': [0-9.]*" "$1"; }

# LIST LIST: as many numbers, equal but for the last of 4 digits.
like() {
    paste "$1" "$2" | tr -d "',:a-z_" | awk '
        NF != 4 { exit 1 }
        { for (i = 1; i < 3; i++) { d = $i - $(i + 2); if (d < 0) d = -d
            if (d > 0.002 * $(i + 2)) exit 1 } rows++ }
        END { if (rows < 5) exit 1 }'
}

{ job 12 "logging_steps: 1" "gradient_accumulation_steps: 2"; ranks 1; } |
    grep -v '^logging_steps: 10' >one.yaml
{ job 12 "logging_steps: 1"; ranks 2; } | grep -v '^logging_steps: 10' >two.yaml
ends "one process" 0 "$trainspool" run one.yaml
losses "$T/out" >one.losses
ends "two of half the work" 0 "$trainspool" run two.yaml
losses "$T/out" >two.losses
holds "learn the same" like two.losses one.losses
holds "the log names them" grep -q 'rank 1: started on the cpu' two.run/train.log
holds "and what a step has" grep -q '1 x 2 samples in each of 2 ranks' two.run/train.log
ends "plan tells it" 0 "$trainspool" plan two.yaml
says "with the batch of a step" '2 samples x 1 x 2 ranks = 4 per step'
ends "and as JSON" 0 "$trainspool" plan --json two.yaml
holds "with their number" sh -c "jq -e '.batch.devices == 2 and .batch.effective == 4' '$T/out' >'$T/null'"

ends "resumed with three ranks and more steps" 0 "$trainspool" run --resume --set max_steps=15 \
    --set 'trainspool.ranks=3' two.yaml
holds "from where it was" grep -q 'resume: from two.run/checkpoint-12' two.run/train.log
holds "in three" grep -q 'in each of 3 ranks' two.run/train.log
holds "to its end" test "$(step two.yaml)" -eq 15

# The process of a rank: the child of the child.
rank_of() { children "$(children "$1" | head -1)" | head -1; }

# The GPUs of this machine or, where it has not two, emulated ones.
gpus=$("$train" --probe | awk -F'\t' '$1 == "cuda" && $7 == 1' | wc -l)
emulated=$top/tests/emulation/trainspool-train
if [ "$gpus" -lt 2 ] && [ -x "$emulated" ]; then
    mkdir bin
    cp "$trainspool" "$emulated" bin
    run=$T/bin/trainspool
else
    run=$trainspool
fi
if [ "$gpus" -lt 2 ] && [ ! -x "$emulated" ]; then
    skip "the same on two GPUs" "this machine has $gpus"
else
    sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
    [ -d units-1m ] || cp -r "$source/jobs/samples/units-1m" .
    small() { # STEPS ACCUMULATION BLOCK
        job "$1" "train_from_scratch: true" "gradient_accumulation_steps: $2" \
            "trainspool: {$3}" | sed 's|^model_name.*|model_name_or_path: units-1m|
                s|^logging_steps.*|logging_steps: 1|; s|^cutoff_len.*|cutoff_len: 16|
                s|^dataset.*|dataset: units-text.jsonl|
                s|^per_device.*|per_device_train_batch_size: 1|'
    }
    small 5 2 "device: cuda:0" >gpu.yaml
    small 5 1 'device: "cuda:0,1"' >gpus.yaml
    ends "one GPU" 0 "$run" run gpu.yaml
    losses "$T/out" >gpu.losses
    ends "two of half the work" 0 "$run" run gpus.yaml
    losses "$T/out" >gpus.losses
    holds "learn the same" like gpus.losses gpu.losses
    holds "by NCCL" grep -q 'rank 0 of 2 by .*NCCL' gpus.run/train.log
    small 5 1 "device: cuda, ranks: 9" >nine.yaml
    ends "nine are too many" 1 "$run" check nine.yaml
    says "and it is said how many there are" 'ranks: 9 wants as many GPUs of one kind'
    small 100000 1 "device: cuda, ranks: 2" >lost.yaml
    background "$run" run -q lost.yaml
    await 60 running lost.yaml 3
    kill -KILL "$(rank_of "$daemon")"
    await 120 gone "$daemon" # an emulated GPU may wait a minute for what never comes
    ok $? "and end when a rank is killed"
    holds "as one that was killed itself: 1" leaves "$daemon" 1
fi

{ job 100000; ranks 2; } >killed.yaml
background "$trainspool" run -q killed.yaml
await 60 running killed.yaml 3
trainer=$(children "$daemon" | head -1)
kill -KILL "$(rank_of "$daemon")"
await 30 gone "$daemon"
ok $? "a run of which a rank is killed ends"
holds "as one that was killed itself: 1" leaves "$daemon" 1
holds "it failed" is killed.yaml failed
holds "the log says which" grep -q 'rank 1 was killed by signal 9' killed.run/train.log
holds "nothing is left of it" gone "$trainer"

background "$trainspool" run -q killed.yaml
await 60 running killed.yaml 3
other=$(rank_of "$daemon")
kill -KILL "$(children "$daemon" | head -1)"
await 30 gone "$daemon"
await 10 gone "$other"
ok $? "ranks end with rank 0"

background "$trainspool" run -q killed.yaml
await 60 running killed.yaml 3
other=$(rank_of "$daemon")
kill -TERM "$other"
at=$(step killed.yaml)
await 20 running killed.yaml $((at + 3))
ok $? "signals are rank 0's to answer"
kill -TERM "$daemon"
await 60 gone "$daemon"
holds "SIGTERM gives 143" leaves "$daemon" 143
holds "the job is stopped" is killed.yaml stopped
at=$(step killed.yaml)
holds "with a checkpoint" test -f "killed.run/checkpoint-$at/trainspool_manifest.json"
await 10 gone "$other"
ok $? "and no rank stays"

# 1e0: it goes over the end of float16 within a few steps
job 40 "fp16: true" "trainspool: {device: cpu, ranks: 2, keep: [fp16]}" |
    sed 's/1.0e-4/1.0/' >hot.yaml
ends "what cannot work is ended before it begins" 1 "$trainspool" run -q hot.yaml
complains "by all, with a diagnosis" 'preflight: 3 steps in a row .*; autopsy: '
job 12 "fp16: true" "logging_steps: 1" "trainspool: {device: cpu, ranks: 2, keep: [fp16], preflight: true}" |
    grep -v '^logging_steps: 10' >tried.yaml
sed 's/preflight: true/preflight: false/' tried.yaml >untried.yaml
ends "a trial of all" 0 "$trainspool" run tried.yaml
holds "says that it saw no gradients of all" \
    grep -q 'preflight: .*, gradients not checked per tensor, they are spread over 2 ranks' tried.run/train.log
losses "$T/out" >tried.losses
ends "leaves" 0 "$trainspool" run untried.yaml
losses "$T/out" >untried.losses
holds "no trace" cmp tried.losses untried.losses
holds "nor one in the weights" cmp tried.run/model.safetensors untried.run/model.safetensors

background "$trainspool" watch spool
{ job 120 "save_steps: 10"; ranks 2; } | grep -v '^save_steps: 20' >outside/job.yaml
mv outside/job.yaml spool/
await 60 running spool/job.yaml 15
kill -KILL "$(rank_of "$daemon")"
crashed() { grep -q '"crashes":1' "spool/$1.run/state.json"; }
await 30 crashed job
ok $? "under a watch a rank that is killed is a crash"
await 120 is spool/job.yaml done
ok $? "after which the job is started again"
holds "from its last checkpoint" grep -q 'resume: from job.run/checkpoint-' spool/job.run/train.log
kill -TERM "$daemon"
await 30 gone "$daemon"
plan
