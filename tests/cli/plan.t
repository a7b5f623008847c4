#!/bin/sh
# plan: what a person and a script are told before a run, and whether the run was like it.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

# A job whose model is not here: told what is not known, and why.
cat >absent.yaml <<'END'
model_name_or_path: nowhere
dataset: nothing.jsonl
template: default
END
ends "a job without its model can be planned" 0 "$trainspool" plan --device "TITAN RTX" absent.yaml
says "memory is not invented" '^  memory      unknown: nowhere does not exist here$'
says "nor are steps" '^  steps       unknown: '
says "what is known is told" '^  batch       8 samples x 1 = 8 per step$'
ends "as JSON" 0 "$trainspool" plan --json --device "TITAN RTX" absent.yaml
holds "the unknown is null" sh -c "jq -e '.memory == null and .steps == null and .time == null' out >null"

if ! has_model; then
    skip "the process against its plan" "no $model"
    plan
    exit 0
fi
make_data .
read_jq() { jq "$1" out; }

# NAME LINES...: the most the process had is between the bounds that plan told.
held() {
    held_name=$1
    shift
    job 3 >"$held_name.yaml"
    for line in "logging_steps: 1" "$@"; do # in the place of the line that says else
        sed -i "/^${line%%:*}:/d" "$held_name.yaml"
        echo "$line" >>"$held_name.yaml"
    done
    try "$trainspool" plan --json "$held_name.yaml"
    low=$(read_jq .memory.process.low) high=$(read_jq .memory.process.high)
    total=$(read_jq .memory.total)
    holds "$held_name: the block is exact" test "$(jq '.memory | .low == .total and
        .high == .total and .total == .weights + .gradients + .optimizer + .activations
        + .workspace' out)" = true
    ends "$held_name: it runs" 0 "$trainspool" run "$held_name.yaml"
    most=$(jq -s 'map(select(.memory)) | last.memory' "$held_name.run/metrics.jsonl")
    if [ "$sanitized" -eq 0 ]; then
        echo "# $held_name: $most, from $low to $high"
        holds "$held_name: the process had what was told" \
            test "$most" -ge "$low" -a "$most" -le "$high"
    else
        skip "$held_name: the process" "sanitizers hold memory of their own"
    fi
}
sanitized=0
if grep -q libasan "$train"; then sanitized=1; fi
held full
held lora "finetuning_type: lora" "bf16: true"
small=$total
held wide "per_device_train_batch_size: 64" "gradient_checkpointing: false"
holds "a larger batch takes more" test "$total" -gt "$small"
held ranks "trainspool: {device: cpu, ranks: 2}"
for i in 1 2 3 4 5 6; do
    echo '{"instruction": "Tell me of a cat, please.", "output": "The cat sat on a mat '$i'."}'
done >asked.jsonl
held taught "stage: distill" "dataset: asked.jsonl" "template: default" "teacher_model_name_or_path: $model" "kd_topk: 8"
ends "who teaches is told" 0 "$trainspool" plan taught.yaml
says "by name, format and size" '^  teacher     .*, float32, 1016 KiB of weights$'
says "and how" '^              0.5 of the loss, temperature 1, beta 0, the 8 largest logits$'
small=$total
held filed "stage: distill" "dataset: asked.jsonl" "template: default" "teacher_model_name_or_path: $model" "kd_topk: 8" \
    "trainspool: {device: cpu, teacher_logits: kept.safetensors}"
ends "a file in the teacher's place" 0 "$trainspool" plan --json filed.yaml
holds "is told, and no teacher is counted" sh -c "jq -e '.memory.total < $small and
    (.distillation.teacher_logits | endswith(\"kept.safetensors\"))' out >null"
paired() { # NAME LINE...
    paired=$1
    shift
    printf '%s\n' "model_name_or_path: $model" "dataset: asked.jsonl" "template: default" "cutoff_len: 64" \
        "stage: dpo" "trainspool: {device: cpu}" "$@" >"$paired.yaml"
}
paired pairs "pref_beta: 0.2" "dpo_label_smoothing: 0.1" "pref_ftx: 0.5"
ends "preferences are told" 0 "$trainspool" plan pairs.yaml
says "by their loss" '^  preference  sigmoid, beta 0.2, label smoothing 0.1, plus 0.5 x cross-entropy of the chosen answer$'
says "and what they are held against" '^              compared with the model without its adapter$'
says "in pairs" '^  batch       [0-9]* pairs x'
paired whole "finetuning_type: full" "pref_loss: ipo"
ends "where all weights are trained" 0 "$trainspool" plan whole.yaml
says "it is the model again" '^              compared with the initial model, float32, 1016 KiB of weights$'
paired named "ref_model: $model" "pref_loss: hinge"
ends "a reference of its own" 0 "$trainspool" plan --json named.yaml
holds "is an object" sh -c "jq -e '.preference | .pref_loss == \"hinge\" and .pref_beta == 0.1 and
    .reference == \"folder\" and .ref_model == \"$model\" and .dtype == \"float32\" and .bytes > 0' out >null"
paired simple "pref_loss: simpo" "pref_beta: 2.5"
ends "a loss without" 0 "$trainspool" plan simple.yaml
says "has a margin" '^  preference  simpo, beta 2.5, gamma 0.5$'
says "and nothing to be held against" '^              no reference model$'
ends "a person reads it" 0 "$trainspool" plan full.yaml
says "with its model" '^  model       [0-9,]* parameters, [0-9,]* trainable'
says "and the process" '^              the process with its data .* to '
gpt2=$TRAINSPOOL_SHARED/data/capp-gpt2/hf
sed "s|^model_name_or_path:.*|model_name_or_path: $gpt2|" full.yaml >dropping.yaml
ends "a model with dropout of its own" 0 "$trainspool" plan dropping.yaml
says "is told to have it" "^  dropout     0.1 of the embeddings, 0.1 of the output of each sublayer, 0.1 of attention weights; "
echo 'trainspool: {device: cpu, disable_dropout: true}' >>dropping.yaml
ends "which a job may refuse" 0 "$trainspool" plan dropping.yaml
holds "and then it has none" sh -c "! grep -q '^  dropout ' out"
ends "a person reads it again" 0 "$trainspool" plan full.yaml
says "and the time by its last run" '^  time        .*, by the last run of this job$'

# The time: never invented.
XDG_STATE_HOME=$T/state
export XDG_STATE_HOME
job 50 >new.yaml
ends "a job that never ran" 0 "$trainspool" plan new.yaml
says "has no time" '^  time        unknown: trainspool devices --calibrate measures it$'
ends "another's device" 0 "$trainspool" plan --device "TITAN RTX" new.yaml
says "has none either" '^  time        unknown: the device is not in this machine$'
mkdir -p state/trainspool
echo '{"calibrations":[{"device":' >state/trainspool/calibrations.json
ends "a broken file of calibrations" 0 "$trainspool" plan new.yaml
says "is told" '^  time        unknown: .*calibrations.json'
ends "a device is measured" 0 "$trainspool" devices --calibrate
says "and told" 'TFLOPS'
holds "and kept in its place, for its owner" \
    test "$(stat -c %a state/trainspool/calibrations.json)" = 600
holds "whole" is_json <state/trainspool/calibrations.json
ends "then there is a time" 0 "$trainspool" plan --json new.yaml
holds "as a range" sh -c "jq -e '.time | .low < .expected and .expected < .high and
    (.source | startswith(\"the calibration of 20\"))' out >null"
plan
