#!/bin/sh
# A job of several ranks: it gives the results of one process, and ends when one rank ends.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

invalid_job >many.yaml
printf 'trainspool: {ranks: 3, device: "cuda:0,1"}\n' >>many.yaml
expect_status "a conflict of ranks and device gives 1" 1 "$trainspool" check --device A100 many.yaml
expect_output "TS207 reports the conflict" 'error\[TS207\]: ranks: 3, but device: cuda:0,1 names 2'
{ invalid_job && echo 'trainspool: {ranks: 20, device: cpu}'; } >crowd.yaml
expect_status "20 ranks on one machine give 1" 1 "$trainspool" check crowd.yaml
expect_output "TS207 names the maximum" 'error\[TS207\]: ranks: 20, but at most 16 run on one machine'
expect_output "the remedy is more nodes" 'distribute the ranks among more nodes'
expect_status "--rank without a link gives 2" 2 "$train" --rank=1 many.yaml

if ! has_model; then
    skip "training" "no $model"
    plan
    exit 0
fi
mkdir spool outside
for dir in . spool; do make_data "$dir"; done
ranks() { printf 'trainspool: {device: cpu, ranks: %s}\n' "$1"; }
losses() { grep -o "'loss': [0-9.]*, 'grad_norm': [0-9.]*" "$1"; }

# LIST LIST: both have the same number of values, equal to 0.2 %.
nearly_equal() {
    paste "$1" "$2" | tr -d "',:a-z_" | awk '
        NF != 4 { exit 1 }
        { for (i = 1; i < 3; i++) { d = $i - $(i + 2); if (d < 0) d = -d
            if (d > 0.002 * $(i + 2)) exit 1 } rows++ }
        END { if (rows < 5) exit 1 }'
}

{ job 12 "logging_steps: 1" "gradient_accumulation_steps: 2"; ranks 1; } |
    grep -v '^logging_steps: 10' >one.yaml
{ job 12 "logging_steps: 1"; ranks 2; } | grep -v '^logging_steps: 10' >two.yaml
expect_status "a run with one rank succeeds" 0 "$trainspool" run one.yaml
losses "$T/out" >one.losses
expect_status "a run with two ranks and half the batch each succeeds" 0 "$trainspool" run two.yaml
losses "$T/out" >two.losses
expect "both runs have nearly the same losses" nearly_equal two.losses one.losses
expect "the log shows the start of rank 1" grep -q 'rank 1: started on the cpu' two.run/train.log
expect "the log has the batch of each rank" grep -q '1 x 2 samples in each of 2 ranks' two.run/train.log
expect_status "plan of two ranks succeeds" 0 "$trainspool" plan two.yaml
expect_output "the plan has the batch of a step" '2 samples x 1 x 2 ranks = 4 per step'
expect_status "plan --json of two ranks succeeds" 0 "$trainspool" plan --json two.yaml
expect "the plan has the number of ranks" sh -c "jq -e '.batch.devices == 2 and .batch.effective == 4' '$T/out' >'$T/null'"

expect_status "a run resumes with three ranks and more steps" 0 "$trainspool" run --resume --set max_steps=15 \
    --set 'trainspool.ranks=3' two.yaml
expect "the resumed run starts from the checkpoint" grep -q 'resume: from two.run/checkpoint-12' two.run/train.log
expect "the resumed run has three ranks" grep -q 'in each of 3 ranks' two.run/train.log
expect "the resumed run does all steps" test "$(step two.yaml)" -eq 15

{ job 12 "logging_steps: 1" "gradient_accumulation_steps: 2"
    printf 'trainspool: {device: cpu, ranks: 2, zero_stage: 2}\n'; } | grep -v '^logging_steps: 10' >zero.yaml
sed 's/, zero_stage: 2//' zero.yaml >zero1.yaml
expect_status "a run with sharded gradients succeeds" 0 "$trainspool" run zero.yaml
losses "$T/out" >zero.losses
expect_status "the same run with whole gradients succeeds" 0 "$trainspool" run zero1.yaml
losses "$T/out" >zero1.losses
expect "both stages have nearly the same losses" nearly_equal zero.losses zero1.losses
gradients() { "$trainspool" plan --json "$1" | jq '.memory.gradients'; }
expect "sharded gradients take less memory" test "$(gradients zero.yaml)" -lt "$(gradients zero1.yaml)"
expect_status "plan --alternatives of whole gradients succeeds" 0 "$trainspool" plan --alternatives zero1.yaml
expect_output "the plan offers sharded gradients" 'trainspool: {zero_stage: 2}'
saved_ranks() { jq -cS .ranks "$1.run/checkpoint-12/trainspool_state.json"; }
expect "a checkpoint names the stage that was chosen" test "$(saved_ranks zero1)" = \
    '{"count":2,"reduce_dtype":"fp32","zero_stage":1}'
expect_status "a run with whole gradients resumes one with sharded gradients" 0 "$trainspool" run --resume \
    --set max_steps=15 --set 'trainspool.zero_stage=1' --set 'trainspool.reduce_dtype=bf16' zero.yaml
expect "its log names what differs" grep -q 'checkpoint is of 2 ranks, zero_stage 2, reduce_dtype fp32, this run has 2 ranks, zero_stage 1, reduce_dtype bf16' zero.run/train.log
expect "that run starts from the checkpoint" grep -q 'resume: from zero.run/checkpoint-12' zero.run/train.log
expect "that run does all steps" test "$(step zero.yaml)" -eq 15

# PROCESS: print the process id of a rank, which is a grandchild.
rank_of() { children "$(children "$1" | head -1)" | head -1; }

# Use the GPUs of this machine, or emulated ones if it has fewer than two.
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
    skip "training on two GPUs" "this machine has $gpus"
else
    sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
    [ -d units-1m ] || cp -r "$source/jobs/samples/models/units-1m" .
    small() { # STEPS ACCUMULATION BLOCK: print a job for GPUs
        job "$1" "train_from_scratch: true" "gradient_accumulation_steps: $2" \
            "trainspool: {$3}" | sed 's|^model_name.*|model_name_or_path: units-1m|
                s|^logging_steps.*|logging_steps: 1|; s|^cutoff_len.*|cutoff_len: 16|
                s|^dataset.*|dataset: units-text.jsonl|
                s|^per_device.*|per_device_train_batch_size: 1|'
    }
    small 5 2 "device: cuda:0" >gpu.yaml
    small 5 1 'device: "cuda:0,1"' >gpus.yaml
    expect_status "a run on one GPU succeeds" 0 "$run" run gpu.yaml
    losses "$T/out" >gpu.losses
    expect_status "a run on two GPUs succeeds" 0 "$run" run gpus.yaml
    losses "$T/out" >gpus.losses
    expect "both GPU runs have nearly the same losses" nearly_equal gpus.losses gpu.losses
    small 5 2 'device: "cuda:0,1", zero_stage: 2' >sharded.yaml
    small 5 2 'device: "cuda:0,1"' >whole.yaml
    expect_status "a run on two GPUs with sharded gradients succeeds" 0 "$run" run sharded.yaml
    losses "$T/out" >sharded.losses
    expect_status "a run on two GPUs with whole gradients succeeds" 0 "$run" run whole.yaml
    losses "$T/out" >whole.losses
    expect "both runs on two GPUs have nearly the same losses" nearly_equal sharded.losses whole.losses
    expect "the ranks use NCCL" grep -q 'rank 0 of 2 by .*NCCL' gpus.run/train.log
    small 5 1 "device: cuda, ranks: 9" >nine.yaml
    expect_status "nine ranks on GPUs give 1" 1 "$run" check nine.yaml
    expect_output "the message has the number of GPUs" 'ranks: 9 requires that many GPUs of one kind'
    small 100000 1 "device: cuda, ranks: 2" >lost.yaml
    background "$run" run -q lost.yaml
    wait_until 60 has_reached lost.yaml 3
    kill -KILL "$(rank_of "$daemon")"
    wait_until 120 has_exited "$daemon" # an emulated GPU may wait a minute before it gives up
    ok $? "a killed rank ends a run on GPUs"
    expect "the run with the killed rank on a GPU exits with 1" exited_with "$daemon" 1
fi

{ job 100000; ranks 2; } >killed.yaml
background "$trainspool" run -q killed.yaml
wait_until 60 has_reached killed.yaml 3
trainer=$(children "$daemon" | head -1)
kill -KILL "$(rank_of "$daemon")"
wait_until 30 has_exited "$daemon"
ok $? "a killed rank ends a run"
expect "the run with the killed rank exits with 1" exited_with "$daemon" 1
expect "the job has failed" state_is killed.yaml failed
expect "the log names the killed rank" grep -q 'rank 1 was killed by signal 9' killed.run/train.log
expect "no trainer is left" has_exited "$trainer"

background "$trainspool" run -q killed.yaml
wait_until 60 has_reached killed.yaml 3
other=$(rank_of "$daemon")
kill -KILL "$(children "$daemon" | head -1)"
wait_until 30 has_exited "$daemon"
wait_until 10 has_exited "$other"
ok $? "other ranks end when rank 0 is killed"

background "$trainspool" run -q killed.yaml
wait_until 60 has_reached killed.yaml 3
other=$(rank_of "$daemon")
kill -TERM "$other"
at=$(step killed.yaml)
wait_until 20 has_reached killed.yaml $((at + 3))
ok $? "only rank 0 reacts to signals"
kill -TERM "$daemon"
wait_until 60 has_exited "$daemon"
expect "SIGTERM gives 143" exited_with "$daemon" 143
expect "the job is stopped" state_is killed.yaml stopped
at=$(step killed.yaml)
expect "the stopped job has a checkpoint" test -f "killed.run/checkpoint-$at/trainspool_manifest.json"
wait_until 10 has_exited "$other"
ok $? "no rank is left"

# A stop during an evaluation, or while the data are read, is one of all ranks.  Each would take minutes.
for i in 1 2 3 4 5 6 7 8 9 10; do cat text.txt; done >long.txt
for i in 1 2 3 4 5 6 7 8 9 10; do cat long.txt; done >longer.txt
{ job 3 "eval_dataset: longer.txt" "eval_strategy: steps" "eval_steps: 2" "eval_on_start: false" \
    "per_device_eval_batch_size: 1"; ranks 2; } >evaluates.yaml
background "$trainspool" run -q evaluates.yaml
wait_until 60 has_reached evaluates.yaml 2
sleep 1
other=$(rank_of "$daemon")
kill -TERM "$daemon"
wait_until 20 has_exited "$daemon"
ok $? "SIGTERM ends an evaluation of all ranks"
expect "the evaluation has no result" sh -c '! grep -q eval_loss evaluates.run/train.log'
expect "the job is stopped at its last step" test "$(reason evaluates.yaml)" = "stopped by SIGTERM at step 2"
expect "the other rank ends with it" has_exited "$other"
{ job 3; ranks 2; } | sed 's/text.txt/longest.txt/' >reads.yaml
for i in 1 2 3 4 5 6 7 8 9 10; do cat longer.txt; done >longest.txt
background "$trainspool" run -q reads.yaml
has_rank() { rank=$(rank_of "$daemon" 2>/dev/null) && [ "$rank" ]; }
wait_until 60 has_rank
sleep 0.5
kill -TERM "$daemon"
wait_until 60 has_exited "$daemon"
expect "SIGTERM ends the reading of all ranks" test "$(reason reads.yaml)" = "stopped by SIGTERM while reading the data"
expect "no rank has to be killed" sh -c '! grep -q "does not end" reads.run/train.log'

# learning rate 1.0: values exceed the range of float16 within a few steps
job 40 "fp16: true" "trainspool: {device: cpu, ranks: 2, keep: [fp16]}" |
    sed 's/1.0e-4/1.0/' >hot.yaml
expect_status "a job that diverges ends in preflight" 1 "$trainspool" run -q hot.yaml
expect_error "all ranks report the diagnosis" 'preflight: 3 steps in a row .*; autopsy: '
job 12 "fp16: true" "logging_steps: 1" "trainspool: {device: cpu, ranks: 2, keep: [fp16], preflight: true}" |
    grep -v '^logging_steps: 10' >tried.yaml
sed 's/preflight: true/preflight: false/' tried.yaml >untried.yaml
expect_status "a run with preflight succeeds" 0 "$trainspool" run tried.yaml
expect "the log says that gradients are not inspected with several ranks" \
    grep -q 'preflight: .*, gradients not checked per tensor, they are spread over 2 ranks' tried.run/train.log
losses "$T/out" >tried.losses
expect_status "the same run without preflight succeeds" 0 "$trainspool" run untried.yaml
losses "$T/out" >untried.losses
expect "preflight does not change the losses" cmp tried.losses untried.losses
expect "preflight does not change the weights" cmp tried.run/model.safetensors untried.run/model.safetensors

background "$trainspool" watch spool
{ job 120 "save_steps: 10"; ranks 2; } | grep -v '^save_steps: 20' >outside/job.yaml
mv outside/job.yaml spool/
wait_until 60 has_reached spool/job.yaml 15
kill -KILL "$(rank_of "$daemon")"
crashed() { grep -q '"crashes":1' "spool/$1.run/state.json"; }
wait_until 30 crashed job
ok $? "a watch counts a killed rank as a crash"
wait_until 120 state_is spool/job.yaml done
ok $? "the watch starts the job again"
expect "the job resumes from its last checkpoint" grep -q 'resume: from job.run/checkpoint-' spool/job.run/train.log
kill -TERM "$daemon"
wait_until 30 has_exited "$daemon"
plan
