#!/bin/sh
# A GPU from outside: trainspool with a trainer whose GPUs are emulated (tests/emulation): 8.0, 8.0,
# 7.5, 9.0 and 6.1 of 4 GiB each.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

emulated=$top/tests/emulation/trainspool-train
if [ ! -x "$emulated" ]; then
    skip "GPUs" "no emulated GPU in this build"
    plan
    exit 0
fi
# side by side, as the one looks for the other
mkdir bin
cp "$trainspool" "$emulated" bin
trainspool=$T/bin/trainspool
train=$T/bin/trainspool-train

sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
[ -d units-1m ] || cp -r "$source/jobs/samples/units-1m" .
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
# A B PERCENT: three losses each, that far from each other at most
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

ends "devices" 0 "$trainspool" devices
says "are the GPUs of the machine" 'Emulated 9.0'
job cpu "bf16: true" >cpu.yaml
job cuda:0 "bf16: true" >gpu.yaml
ends "a job on the CPU" 0 "$trainspool" run -q cpu.yaml
ends "the same on a GPU" 0 "$trainspool" run -q gpu.yaml
holds "learns the same" near cpu gpu 0.2
holds "and says where it ran" grep -q 'device: .*Emulated 8.0' gpu.run/train.log

job '"cuda:1,0"' "bf16: true" >two.yaml
ends "a job on two GPUs" 0 env EMULATION_CONTEXTS="$T/cards" "$train" two.yaml
holds "learns" test "$(losses two | wc -l)" -eq 3
holds "and each process touches its own alone" test "$(sort "$T/cards" | tr '\n' ' ')" = '0 1 '
job auto "use_cpu: true" | sed '/^trainspool:/,/device/d' >none.yaml
ends "a job on the CPU beside GPUs" 0 env EMULATION_CONTEXTS="$T/none" "$train" none.yaml
holds "touches none" test ! -e "$T/none"
job cuda:0 "bf16: true" >lost.yaml
ends "a card that is lost ends the job, not to come back" 1 \
    env EMULATION_LOSES=30 timeout -s KILL 20 "$train" lost.yaml
complains "with what was done" 'illegal memory access'
holds "and the job has failed" test "$(state lost.yaml)" = failed
job '"cuda:0,1"' "bf16: true" >lost-two.yaml
ends "so does one of two" 1 env EMULATION_LOSES=30 timeout -s KILL 20 "$train" lost-two.yaml
job cuda:0 "bf16: true" >again.yaml
ends "once more" 0 env TRAINSPOOL_NO_GRAPHS=1 "$trainspool" run -q again.yaml
holds "gives the same bits, without recordings too" test "$(weights gpu)" = "$(weights again)"

job cuda:2 "bf16: true" >turing.yaml
ends "bf16 on a card that has none" 0 "$trainspool" run -q turing.yaml
holds "is patched to fp16" grep -q '^fp16: true' turing.yaml
holds "and learns the same" near cpu turing 0.2

job cuda:1 "bf16: true" "finetuning_type: lora" | sed '/^train_from_scratch/d; /^finetuning_type: full/d; s/units-1m/gpu.run/' >lora.yaml
ends "adapters on what came out" 0 "$trainspool" run -q lora.yaml
holds "are PEFT's" test -s lora.run/adapter_model.safetensors

job cuda:0 "bf16: true" "gradient_checkpointing: true" |
    sed 's/^cutoff_len.*/cutoff_len: 1048576/; s/^max_samples.*//' >large.yaml
try "$trainspool" run -q large.yaml
ok $((status == 0)) "more than the card's memory is refused"
holds "before the first step" test ! -s large.run/metrics.jsonl
plan
