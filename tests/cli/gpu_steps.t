#!/bin/sh
# On emulated GPUs, a run whose steps are issued before the previous ones have ended writes the same files,
# to the byte, as one whose steps wait for each other (tests/emulation).
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

emulated=$top/tests/emulation/trainspool-train
if [ ! -x "$emulated" ]; then
    skip "GPUs" "the build has no emulated GPU"
    plan
    exit 0
fi
mkdir bin
cp "$trainspool" "$emulated" bin
trainspool=$T/bin/trainspool

sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
[ -d units-200k ] || cp -r "$source/jobs/samples/models/units-200k" .
job() { # MODEL METHOD DEVICE RATE, lines of the job on stdin
    cat <<EOF
model_name_or_path: $1
finetuning_type: $2
per_device_train_batch_size: 1
learning_rate: $4
max_grad_norm: 0
logging_steps: 1
EOF
    cat
    cat <<EOF
trainspool:
  device: $3
  preflight: false
EOF
}
text() {
    cat <<EOF
train_from_scratch: true
stage: pt
dataset: units-text.jsonl
cutoff_len: 32
max_samples: 40
EOF
    printf '%s\n' "$@"
}
# RUN: everything that it has written, without clocks and rates
files() {
    (
        cd "$1.run" || exit
        sed 's/"tokens_per_second":[^,]*,//' metrics.jsonl
        sed "s/^[^ ]* //; s/$1/NAME/g; s/read in [0-9.]* s/read/" train.log
        [ ! -f autopsy.json ] || cat autopsy.json
        find . -name '*.safetensors' -o -name '*.pt' -o -name trainer_state.json | LC_ALL=C sort |
            while read -r file; do echo "$file $(sha256sum <"$file")"; done
    )
}
# NAME: run NAME.yaml both ways
same_files() {
    cp "$1.yaml" "$1-alone.yaml"
    expect_status "$1: the run succeeds" 0 "$trainspool" run -q "$1.yaml"
    expect_status "$1: the run whose steps do not overlap succeeds" 0 \
        env TRAINSPOOL_NO_PIPELINE=1 "$trainspool" run -q "$1-alone.yaml"
    files "$1" >"$1.files"
    files "$1-alone" | sed "s/$1-alone/$1/g; s/NAME-alone/NAME/g" >"$1-alone.files"
    try diff "$1-alone.files" "$1.files"
    ok "$status" "$1: both write the same files"
}

text 'fp16: true' 'max_steps: 10' 'gradient_accumulation_steps: 2' 'save_steps: 5' 'val_size: 2' \
    'eval_strategy: steps' 'eval_steps: 4' | job units-200k full cuda:2 1.0 >many-skips.yaml
same_files many-skips
expect "many-skips: steps are applied before and after skipped ones" \
    awk '/skipped, gradients/ { skipped = 1 } /{.loss.:/ { n++ } END { exit !(skipped && n == 10) }' many-skips.run/train.log
expect "many-skips: the first value that is not finite is found" grep -q 'autopsy: step' many-skips.run/train.log

text 'fp16: true' 'max_steps: 8' 'save_steps: 4' | job units-200k full '"cuda:0,1"' 1.0 >two-gpus.yaml
same_files two-gpus
expect "two-gpus: a step is skipped" grep -q 'skipped, gradients' two-gpus.run/train.log

text 'bf16: true' 'max_steps: 20' 'save_steps: 2' 'val_size: 4' 'eval_strategy: steps' 'eval_steps: 2' \
    'early_stopping_steps: 2' 'load_best_model_at_end: true' | job units-200k full cuda:0 1.0e-12 >early-end.yaml
same_files early-end
expect "early-end: the run stops early" grep -q 'early stopping: step' early-end.run/train.log

text 'bf16: true' 'max_steps: 2' 'save_strategy: "no"' | job units-200k full cuda:0 1.0e-3 >base.yaml
expect_status "a model to prefer with succeeds" 0 "$trainspool" run -q base.yaml
job base.run lora cuda:0 1.0e-3 >preferring.yaml <<EOF
stage: dpo
lora_rank: 4
dataset: units-pairs.jsonl
template: default
cutoff_len: 64
max_samples: 12
max_steps: 4
bf16: true
save_steps: 3
EOF
same_files preferring
plan
