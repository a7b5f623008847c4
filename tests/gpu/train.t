#!/bin/sh
# trainspool and trainspool-train on a real GPU, built by tests/gpu/gpu.sh: the losses are near those of
# the CPU, and bits are the same without graphs, if steps do not overlap, and after kill -9 and resume.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

"$trainspool" devices >"$T/devices" 2>&1
if ! grep -q 'cuda:0' "$T/devices"; then
    echo "1..0 # SKIP no GPU: $(tail -n 1 "$T/devices")"
    exit 0
fi
sed 's/^/# /' "$T/devices"
sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
[ -d units-1m ] || cp -r "$source/jobs/samples/models/units-1m" .
job() { # DEVICE STEPS [LINE]...
    cat <<EOF
model_name_or_path: units-1m
train_from_scratch: true
stage: pt
finetuning_type: full
dataset: units-text.jsonl
cutoff_len: 128
per_device_train_batch_size: 8
num_train_epochs: 1000
max_steps: $2
learning_rate: 1.0e-3
max_grad_norm: 1.0
logging_steps: 1
save_strategy: "no"
trainspool:
  device: $1
EOF
    shift 2
    [ $# -eq 0 ] || printf '%s\n' "$@"
}
losses() { sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' "$1.run/metrics.jsonl"; }
# A B PERCENT: both runs have the same number of losses, and these differ by at most this much
near() {
    { losses "$1"; echo; losses "$2"; } | awk -v most="$3" '
        $1 == "" { second = NR; next }
        !second { x[NR] = $1 }
        second { d = $1 - x[NR - second]; n++; if (d * d > $1 * $1 * most * most / 1e4) exit bad = 1 }
        END { exit bad || n != second - 1 || n == 0 }'
}
weights() { sha256sum <"$1.run/model.safetensors"; }
# NAME [VARIABLE=VALUE]: run NAME.yaml
run() {
    run_name=$1
    shift
    try env "$@" "$trainspool" run -q "$run_name.yaml"
    ok "$status" "$run_name: the run succeeds"
    sed -n 's/^.*\(device: .*\)/# \1/p' "$run_name.run/train.log" | head -n 1
}

for format in fp32 bf16 fp16; do
    line="$format: true" most=0.5
    [ $format != fp32 ] || line='fp16: false' most=0.01
    job cpu 20 "$line" >cpu-$format.yaml
    job cuda:0 20 "$line" >gpu-$format.yaml
    run cpu-$format
    run gpu-$format
    expect "$format: losses are within $most % of the CPU's" near cpu-$format gpu-$format $most
    losses gpu-$format | tail -n 1 | sed "s/^/# $format: loss of step 20: /"
    cp gpu-$format.yaml again-$format.yaml
    run again-$format TRAINSPOOL_NO_GRAPHS=1
    expect "$format: the same bits without graphs" test "$(weights gpu-$format)" = "$(weights again-$format)"
    cp gpu-$format.yaml alone-$format.yaml
    run alone-$format TRAINSPOOL_NO_PIPELINE=1
    expect "$format: the same bits if no steps overlap" \
        test "$(weights gpu-$format) $(losses gpu-$format)" = "$(weights alone-$format) $(losses alone-$format)"
done

sed -e 's/^train_from_scratch.*//' -e 's/^finetuning_type.*/finetuning_type: lora/' -e 's,units-1m,gpu-bf16.run,' \
    gpu-bf16.yaml >lora.yaml
run lora
expect 'the adapter is in PEFT'\''s format' test -s lora.run/adapter_model.safetensors

steps=2000
resumable() { # a job that is killed midway
    job cuda:0 $steps "$1" | sed -e 's/^save_strategy.*/save_steps: 50/' -e 's/^logging_steps.*/logging_steps: 10/'
}
for format in bf16 fp16; do
    resumable "$format: true" >whole-$format.yaml
    cp whole-$format.yaml killed-$format.yaml
    run whole-$format
    background "$trainspool" run -q killed-$format.yaml
    wait_until 60 has_reached killed-$format.yaml 120
    ok $? "$format: the run reaches step 120"
    expect "$format: the run is contained" \
        grep -q '^NoNewPrivs:.*1' "/proc/$(children "$daemon" | head -n 1)/status"
    kill -KILL "$(children "$daemon" | head -n 1)" "$daemon"
    wait_until 10 has_exited "$daemon"
    echo "# killed at step $(step killed-$format.yaml)"
    expect_status "$format: the killed run resumes and finishes" 0 "$trainspool" run -q --resume killed-$format.yaml
    expect "$format: it resumes from a checkpoint" grep -q "resume: from killed-$format.run/checkpoint-" killed-$format.run/train.log
    expect "$format: the weights are those of an uninterrupted run" \
        test "$(weights whole-$format)" = "$(weights killed-$format)"
done

job cuda:0 20 "  memory_limit: 4MiB" "bf16: true" >large.yaml
try "$trainspool" run -q large.yaml
ok $((status == 0)) 'a job that needs more memory than it may use is rejected'
plan
