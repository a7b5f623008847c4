#!/bin/sh
# trainspool on GPUs, with a trainer that emulates them (tests/emulation): capabilities 8.0, 8.0, 7.5,
# 9.0 and 6.1, with 4 GiB each.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

emulated=$top/tests/emulation/trainspool-train
if [ ! -x "$emulated" ]; then
    skip "GPUs" "the build has no emulated GPU"
    plan
    exit 0
fi
# in one folder, because trainspool searches for trainspool-train there
mkdir bin
cp "$trainspool" "$emulated" bin
trainspool=$T/bin/trainspool
train=$T/bin/trainspool-train

sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
[ -d units-1m ] || cp -r "$source/jobs/samples/models/units-1m" .
job() { # DEVICE [LINE]...
    cat <<EOF
model_name_or_path: units-1m
train_from_scratch: true
stage: pt
finetuning_type: full
dataset: units-text.jsonl
cutoff_len: 32
max_samples: 40
per_device_train_batch_size: 1
max_steps: 3
learning_rate: 1.0e-3
max_grad_norm: 1.0
logging_steps: 1
save_strategy: "no"
trainspool:
  device: $1
EOF
    shift
    printf '%s\n' "$@"
}
losses() { sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' "$1.run/metrics.jsonl"; }
# A B PERCENT: both runs have three losses that differ by at most this much
near() {
    { losses "$1"; losses "$2"; } | awk -v most="$3" '
        { x[NR] = $1 }
        END {
            if (NR != 6) exit 1
            for (i = 1; i <= 3; i++) {
                d = x[i] - x[i + 3]
                if (d * d > x[i] * x[i] * most * most / 1e4) exit 1
            }
        }'
}
weights() { sha256sum <"$1.run/model.safetensors"; }

expect_status "devices succeeds" 0 "$trainspool" devices
expect_output "devices lists the GPUs" 'Emulated 9.0'
job cpu "bf16: true" >cpu.yaml
job cuda:0 "bf16: true" >gpu.yaml
expect_status "a job on the CPU succeeds" 0 "$trainspool" run -q cpu.yaml
expect_status "the same job on a GPU succeeds" 0 "$trainspool" run -q gpu.yaml
expect "both runs have nearly the same losses" near cpu gpu 0.2
expect "the log names the GPU" grep -q 'device: .*Emulated 8.0' gpu.run/train.log

job '"cuda:1,0"' "bf16: true" >two.yaml
expect_status "a job on two GPUs succeeds" 0 env EMULATION_CONTEXTS="$T/cards" "$train" two.yaml
expect "the job on two GPUs logs every loss" test "$(losses two | wc -l)" -eq 3
expect "each process uses only its own GPU" test "$(sort "$T/cards" | tr '\n' ' ')" = '0 1 '
job auto "use_cpu: true" | sed '/^trainspool:/,/device/d' >none.yaml
expect_status "a job on the CPU of a machine with GPUs succeeds" 0 env EMULATION_CONTEXTS="$T/none" "$train" none.yaml
expect "the job on the CPU uses no GPU" test ! -e "$T/none"
job cuda:0 "bf16: true" >lost.yaml
expect_status "a lost GPU ends the job" 1 \
    env EMULATION_LOSES=30 timeout -s KILL 20 "$train" lost.yaml
expect_error "the message has the error of the GPU" 'illegal memory access'
expect "the job has failed" test "$(state lost.yaml)" = failed
job '"cuda:0,1"' "bf16: true" >lost-two.yaml
expect_status "a lost GPU ends a job on two GPUs" 1 env EMULATION_LOSES=30 timeout -s KILL 20 "$train" lost-two.yaml
job cuda:0 "bf16: true" >again.yaml
expect_status "a second run on the GPU succeeds" 0 env TRAINSPOOL_NO_GRAPHS=1 "$trainspool" run -q again.yaml
expect "it gives the same bits without graphs" test "$(weights gpu)" = "$(weights again)"

# Attention by cuDNN, which is emulated: what computed it is part of a checkpoint.
fused() { EMULATION_CUDNN=91900 "$train" "$1" 2>"$T/err"; }
attention() { sed -n 's/.* attention: //p' "$1.run/train.log"; }
job cuda:3 "bf16: true" "save_steps: 2" | sed '/^save_strategy/d' >fused.yaml
job cuda:3 "bf16: true" "resume_from_checkpoint: fused.run/checkpoint-2" >on.yaml
sed '/^trainspool:/a\  deterministic: false' on.yaml >varied.yaml
cp on.yaml off.yaml
expect_status "a job with cuDNN succeeds" 0 fused fused.yaml
expect "the log names cuDNN" test "$(attention fused)" = 'trainspool for 9.0, else cuDNN 9.19.0 (emulated)'
expect "its losses are nearly those of the CPU" near cpu fused 0.2
expect "the checkpoint names it" grep -q '"attention": "trainspool for 9.0, else cuDNN 9.19.0 (emulated)"' fused.run/checkpoint-2/trainspool_state.json
expect_status "the job resumes with it" 0 fused on.yaml
expect "the resumed job gives the same bits with cuDNN" test "$(weights fused)" = "$(weights on)"
expect_status "the job resumes without it" 0 "$train" off.yaml
expect "the log says that the bits may differ" grep -q 'attention was computed by trainspool for 9.0, else cuDNN 9.19.0 (emulated), and is now by trainspool for 9.0' off.run/train.log
expect_status "a job whose bits may vary succeeds" 0 fused varied.yaml
expect "the log says so" grep -q 'attention: .*gradients by cuDNN, whose bits differ from run to run' varied.run/train.log
use() { "$trainspool" plan --json "$1" | jq ".memory.$2"; }
expect "plan counts the memory of its gradients" test "$(use varied.yaml workspace)" -gt "$(use on.yaml workspace)"

# Moments in host memory.
job cuda:0 "  offload_optimizer: true" "bf16: true" "save_steps: 2" | sed '/^save_strategy/d' >host.yaml
expect_status "a job with its optimizer in host memory succeeds" 0 "$trainspool" run -q host.yaml
expect "it gives the same bits" test "$(weights gpu)" = "$(weights host)"
expect "the moments take no memory of the GPU" test "$(use host.yaml optimizer)" -eq 0
expect "they take that of the host" test "$(use host.yaml host)" -eq "$(use gpu.yaml optimizer)"
expect_status "plan of that job succeeds" 0 "$trainspool" plan host.yaml
expect_output "plan shows where the optimizer is" 'the optimizer is in host memory, 8.0 MiB'
job cuda:0 "bf16: true" "resume_from_checkpoint: host.run/checkpoint-2" >back.yaml
expect_status "a job without it resumes from its checkpoint" 0 "$trainspool" run -q back.yaml
expect "the resumed job gives the same bits" test "$(weights gpu)" = "$(weights back)"
job cuda:0 "  offload_optimizer: true" "  preflight: true" "bf16: true" \
    "resume_from_checkpoint: back.run/checkpoint-2" >there.yaml
job cuda:0 "  preflight: true" "bf16: true" "save_steps: 2" | sed '/^save_strategy/d' >back.yaml
expect_status "a job without it, with a trial first, writes a checkpoint" 0 "$trainspool" run -q back.yaml
expect_status "a job with it resumes from that checkpoint" 0 "$trainspool" run -q there.yaml
expect "both give the same bits" test "$(weights gpu) $(weights gpu)" = "$(weights back) $(weights there)"
job cuda:0 "  offload_optimizer: true" "  preflight: true" "bf16: true" >tried.yaml
expect_status "a job with it and with a trial first succeeds" 0 "$trainspool" run -q tried.yaml
expect "the trial leaves no trace" test "$(weights gpu)" = "$(weights tried)"
job '"cuda:0,1"' "  offload_optimizer: true" "  zero_stage: 2" "bf16: true" >both.yaml
job '"cuda:0,1"' "bf16: true" >plain.yaml
expect_status "a job of two ranks with both succeeds" 0 "$trainspool" run -q both.yaml
expect_status "the same job with neither succeeds" 0 "$trainspool" run -q plain.yaml
expect "both jobs of two ranks give the same bits" test "$(weights both)" = "$(weights plain)"
job '"cuda:0,1"' "bf16: true" "memory_limit: $(($(use plain.yaml total) - 1000000))" >least.yaml
expect_status "plan of that job with less memory succeeds" 0 "$trainspool" plan least.yaml
expect_output "its ranks divide all that they can" 'zero_stage 3: each of 2 ranks'
expect_status "it succeeds" 0 "$trainspool" run -q least.yaml
expect "its log says so" grep -q 'ranks: each of 2 has 1/2 of the weights of layers' least.run/train.log
expect "it gives the same bits" test "$(weights least)" = "$(weights plain)"
job '"cuda:0,1"' "  zero_stage: 3" "bf16: true" >layers.yaml
expect_status "a job that divides the layers succeeds" 0 "$trainspool" run -q layers.yaml
expect "it gives the same bits, too" test "$(weights layers)" = "$(weights plain)"
# Files in the format of the copies: each rank widens its part of them.
job cuda:0 "pure_bf16: true" >narrow.yaml
expect_status "a job that saves bfloat16 succeeds" 0 "$trainspool" run -q narrow.yaml
from_narrow() { job "$1" "bf16: true" "gradient_accumulation_steps: $2" | sed '/^train_from_scratch/d; s/units-1m/narrow.run/'; }
from_narrow cuda:0 2 >one.yaml
from_narrow '"cuda:0,1"' 1 >halves.yaml
expect_status "a job from its model succeeds" 0 "$trainspool" run -q one.yaml
expect_status "one of two ranks succeeds" 0 "$trainspool" run -q halves.yaml
expect "both have nearly the same losses" near one halves 0.2
job cuda:0 "memory_limit: $(($(use gpu.yaml total) - 1000000))" "bf16: true" "optim: paged_adamw_32bit" >paged.yaml
expect "a paged optimizer that does not fit on the GPU is in host memory" test "$(use paged.yaml host)" -gt 0
expect "the job then fits" sh -c '"$0" plan --json paged.yaml | jq -e .memory.fits >"$1"' "$trainspool" "$T/null"
sed -i '/memory_limit/d' paged.yaml
expect "one that fits is not" test "$(use paged.yaml host)" -eq 0

job cuda:2 "bf16: true" >turing.yaml
expect_status "bf16 on a GPU without bf16 succeeds" 0 "$trainspool" run -q turing.yaml
expect "the job is patched to fp16" grep -q '^fp16: true' turing.yaml
expect "the fp16 run has nearly the same losses" near cpu turing 0.2

job cuda:1 "bf16: true" "finetuning_type: lora" | sed '/^train_from_scratch/d; /^finetuning_type: full/d; s/units-1m/gpu.run/' >lora.yaml
expect_status "LoRA on the trained model succeeds" 0 "$trainspool" run -q lora.yaml
expect "the adapter is in PEFT's format" test -s lora.run/adapter_model.safetensors

# The fastest algorithm of each matmul: here all shapes choose the third, or the fourth.
tuned() { # TIMES CACHE COMMAND...
    times=$1 cache=$T/$2
    shift 2
    env TRAINSPOOL_TUNE_MATMULS=all EMULATION_VARIANTS="$times" XDG_CACHE_HOME="$cache" "$@"
}
timed() { grep -q 'timed the algorithms of' "$1.run/train.log"; }
job cuda:0 "save_steps: 2" | sed '/^save_strategy/d' >tuned.yaml
cp tuned.yaml tuned-again.yaml
cp tuned.yaml fourth.yaml
expect_status "a job whose matmuls are timed succeeds" 0 tuned 9,8,4,5 third "$train" tuned.yaml
expect "its log says so" timed tuned
expect_status "a second job succeeds" 0 tuned 9,8,5,4 third "$train" tuned-again.yaml
expect "it times nothing" test "$(timed tuned-again; echo $?)" -eq 1
expect "it gives the same bits" test "$(weights tuned)" = "$(weights tuned-again)"
expect_status "a job with an empty cache folder succeeds" 0 tuned 9,8,5,4 fourth "$train" fourth.yaml
expect "it gives other bits" test "$(weights tuned)" != "$(weights fourth)"
job cuda:0 "resume_from_checkpoint: tuned.run/checkpoint-2" >replayed.yaml
expect_status "a job resumes from the checkpoint of the first" 0 tuned 9,8,5,4 fourth "$train" replayed.yaml
expect "it gives the bits of the first" test "$(weights tuned)" = "$(weights replayed)"
expect "its log says why" grep -q 'matmuls use the algorithms that the checkpoint names' replayed.run/train.log
job cuda:0 "  tune_matmuls: false" >untuned.yaml
expect_status "a job that does not time them succeeds" 0 tuned 9,8,4,5 untuned "$train" untuned.yaml
expect "it uses another algorithm" test "$(weights tuned)" != "$(weights untuned)"
expect "it creates no file" test ! -e untuned
job '"cuda:0,1"' >tuned-two.yaml
cp tuned-two.yaml tuned-two-again.yaml
expect_status "a job on two GPUs whose matmuls are timed succeeds" 0 tuned 9,8,4,5 two "$train" tuned-two.yaml
expect "each shape has one line" test "$(cut -d ' ' -f 1-18 two/trainspool/matmuls-*.txt | sort | uniq -d | wc -l)" -eq 0
expect_status "the same job again succeeds" 0 tuned 9,8,5,4 two "$train" tuned-two-again.yaml
expect "both give the same bits" test "$(weights tuned-two)" = "$(weights tuned-two-again)"

# its one text has 68,000 tokens, which take 1 GiB
job cuda:0 "memory_limit: 512MiB" "bf16: true" "gradient_checkpointing: true" |
    sed 's/^cutoff_len.*/cutoff_len: 1048576/; s/^max_samples.*//' >large.yaml
try "$trainspool" run -q large.yaml
ok $((status == 0)) "a job larger than its memory limit is rejected"
expect "it is rejected before the first step" test ! -s large.run/metrics.jsonl
plan
