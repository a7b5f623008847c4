#!/bin/sh
# plan: its text and JSON, and a comparison with the run.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

# A job without its model: the plan gives the reason for each unknown value.
cat >absent.yaml <<'END'
model_name_or_path: nowhere
dataset: nothing.jsonl
template: default
END
expect_status "plan of a job without its model succeeds" 0 "$trainspool" plan --device "TITAN RTX" absent.yaml
expect_output "memory is unknown without the model" '^  memory      unknown: nowhere does not exist here$'
expect_output "steps are unknown without the data" '^  steps       unknown: '
expect_output "the batch is known" '^  batch       8 samples x 1 = 8 per step$'
expect_status "plan --json of a job without its model succeeds" 0 "$trainspool" plan --json --device "TITAN RTX" absent.yaml
expect "unknown values are null" sh -c "jq -e '.memory == null and .steps == null and .time == null' out >null"

if ! has_model; then
    skip "the plan is compared with the run" "no $model"
    plan
    exit 0
fi
make_data .
read_jq() { jq "$1" out; }

# NAME LINES...: check that the peak memory of the process is between the bounds of the plan.
check_memory() {
    memory_name=$1
    shift
    job 3 >"$memory_name.yaml"
    for line in "logging_steps: 1" "$@"; do # replaces the existing line of the key
        sed -i "/^${line%%:*}:/d" "$memory_name.yaml"
        echo "$line" >>"$memory_name.yaml"
    done
    try "$trainspool" plan --json "$memory_name.yaml"
    low=$(read_jq .memory.process.low) high=$(read_jq .memory.process.high)
    total=$(read_jq .memory.total)
    expect "$memory_name: the planned total is exact" test "$(jq '.memory | .low == .total and
        .high == .total and .total == .weights + .gradients + .optimizer + .activations
        + .workspace' out)" = true
    expect_status "$memory_name: the run succeeds" 0 "$trainspool" run "$memory_name.yaml"
    most=$(jq -s 'map(select(.memory)) | last.memory' "$memory_name.run/metrics.jsonl")
    if [ "$sanitized" -eq 0 ]; then
        echo "# $memory_name: $most, from $low to $high"
        expect "$memory_name: the peak memory of the process is within the planned range" \
            test "$most" -ge "$low" -a "$most" -le "$high"
    else
        skip "$memory_name: the peak memory of the process is within the planned range" "sanitizers allocate memory"
    fi
}
sanitized=0
if grep -q libasan "$train"; then sanitized=1; fi
check_memory full
check_memory lora "finetuning_type: lora" "bf16: true"
small=$total
check_memory wide "per_device_train_batch_size: 64" "gradient_checkpointing: false"
expect "a larger batch needs more memory" test "$total" -gt "$small"
check_memory ranks "trainspool: {device: cpu, ranks: 2}"
try "$trainspool" plan --json full.yaml
many=$(read_jq .steps.per_epoch)
try "$trainspool" plan --json --set per_device_train_batch_size=64 full.yaml
expect "--set counts the steps with the setting" test "$(read_jq .steps.per_epoch)" -lt "$many"
for i in 1 2 3 4 5 6; do
    echo '{"instruction": "Tell me of a cat, please.", "output": "The cat sat on a mat '$i'."}'
done >asked.jsonl
check_memory taught "stage: distill" "dataset: asked.jsonl" "template: default" "teacher_model_name_or_path: $model" "kd_topk: 8"
expect_status "plan of a distillation succeeds" 0 "$trainspool" plan taught.yaml
expect_output "the plan names the teacher, its format and its size" '^  teacher     .*, float32, 1016 KiB of weights$'
expect_output "the plan shows the distillation settings" '^              0.5 of the loss, temperature 1, beta 0, the 8 largest logits$'
small=$total
check_memory filed "stage: distill" "dataset: asked.jsonl" "template: default" "teacher_model_name_or_path: $model" "kd_topk: 8" \
    "trainspool: {device: cpu, teacher_logits: kept.safetensors}"
expect_status "plan of a distillation from a logits file succeeds" 0 "$trainspool" plan --json filed.yaml
expect "the plan names the file and counts no teacher" sh -c "jq -e '.memory.total < $small and
    (.distillation.teacher_logits | endswith(\"kept.safetensors\"))' out >null"
for i in 1 2 3 4 5 6; do
    echo '{"instruction": "Tell me of a cat.", "chosen": "The cat sat on a mat '$i'.", "rejected": "No '$i'."}'
done >paired.jsonl
paired() { # NAME LINE...: write a preference job
    paired=$1
    shift
    printf '%s\n' "model_name_or_path: $model" "dataset: paired.jsonl" "template: default" "cutoff_len: 64" \
        "stage: dpo" "trainspool: {device: cpu}" "$@" >"$paired.yaml"
}
paired pairs "pref_beta: 0.2" "dpo_label_smoothing: 0.1" "pref_ftx: 0.5"
expect_status "plan of a preference job succeeds" 0 "$trainspool" plan pairs.yaml
expect_output "the plan shows the preference loss" '^  preference  sigmoid, beta 0.2, label smoothing 0.1, plus 0.5 x cross-entropy of the chosen answer$'
expect "it shows them once" sh -c 'test "$(grep -c "^  preference" out)" = 1'
expect_output "the reference is the model without its adapter" '^              compared with the model without its adapter$'
expect_output "the batch counts pairs" '^  batch       [0-9]* pairs x'
paired whole "finetuning_type: full" "pref_loss: ipo"
expect_status "plan of a full preference job succeeds" 0 "$trainspool" plan whole.yaml
expect_output "the reference is a copy of the initial model" '^              compared with the initial model, float32, 1016 KiB of weights$'
paired named "ref_model: $model" "pref_loss: hinge"
expect_status "plan with ref_model succeeds" 0 "$trainspool" plan --json named.yaml
expect "the reference is a folder" sh -c "jq -e '.preference | .pref_loss == \"hinge\" and .pref_beta == 0.1 and
    .reference == \"folder\" and .ref_model == \"$model\" and .dtype == \"float32\" and .bytes > 0' out >null"
paired simple "pref_loss: simpo" "pref_beta: 2.5"
expect_status "plan of a loss without a reference succeeds" 0 "$trainspool" plan simple.yaml
expect_output "the plan shows the margin" '^  preference  simpo, beta 2.5, gamma 0.5$'
expect_output "there is no reference model" '^              no reference model$'

sed "s/stage: dpo/stage: rm/" simple.yaml >scored.yaml
echo "center_rewards_coefficient: 0.01" >>scored.yaml
expect_status "plan of a reward model succeeds" 0 "$trainspool" plan scored.yaml
expect_output "the plan shows the loss of scores" \
    '^  reward      the difference of the scores of each pair, plus 0.01 x the square of their sum$'
expect_status "plan --json of a reward model succeeds" 0 "$trainspool" plan --json scored.yaml
expect "it has the settings of that loss alone" sh -c "jq -e '.preference ==
    {pref_loss: \"rm\", center_rewards_coefficient: 0.01}' out >null"

# A count that ends early says nothing about the data.
mkdir bin && cp "$trainspool" bin/trainspool
printf '#!/bin/sh\n[ "$1" != --steps ] || kill -9 $$\nexec "%s" "$@"\n' "$train" >bin/trainspool-train
chmod +x bin/trainspool-train
expect_status "plan succeeds where the count is killed" 0 bin/trainspool plan full.yaml
expect_output "it shows how the count ended" '^  steps       unknown: trainspool-train ended with status 137$'

expect_status "plan prints text" 0 "$trainspool" plan full.yaml
expect_output "the plan has the number of parameters" '^  model       [0-9,]* parameters, [0-9,]* trainable'
expect_output "the plan has the memory of the process" '^              the process with its data .* to '
gpt2=$shared/data/capp-gpt2/hf
sed "s|^model_name_or_path:.*|model_name_or_path: $gpt2|" full.yaml >dropping.yaml
expect_status "plan of a model with dropout succeeds" 0 "$trainspool" plan dropping.yaml
expect_output "the plan shows the dropout of the model" "^  dropout     0.1 of the embeddings, 0.1 of the output of each sublayer, 0.1 of attention weights; "
echo 'trainspool: {device: cpu, disable_dropout: true}' >>dropping.yaml
expect_status "plan with disable_dropout succeeds" 0 "$trainspool" plan dropping.yaml
expect "the plan shows no dropout" sh -c "! grep -q '^  dropout ' out"
expect_status "plan after a run succeeds" 0 "$trainspool" plan full.yaml
expect_output "the time comes from the last run" '^  time        .*, by the last run of this job$'

# The time: shown only if it was measured.
XDG_STATE_HOME=$T/state
export XDG_STATE_HOME
job 50 >new.yaml
expect_status "plan of a new job succeeds" 0 "$trainspool" plan new.yaml
expect_output "the time of a new job is unknown" '^  time        unknown: trainspool devices --calibrate measures it$'
expect_status "plan for another device succeeds" 0 "$trainspool" plan --device "TITAN RTX" new.yaml
expect_output "the time on another device is unknown" '^  time        unknown: the device is not in this machine$'
mkdir -p state/trainspool
echo '{"calibrations":[{"device":' >state/trainspool/calibrations.json
expect_status "plan with a broken calibration file succeeds" 0 "$trainspool" plan new.yaml
expect_output "the plan names the broken file" '^  time        unknown: .*calibrations.json'
expect_status "devices --calibrate succeeds" 0 "$trainspool" devices --calibrate
expect_output "the output has the measured rate" 'TFLOPS'
expect "only the owner can read the calibration file" \
    test "$(stat -c %a state/trainspool/calibrations.json)" = 600
expect "the calibration file is JSON" is_json <state/trainspool/calibrations.json
expect_status "plan after the calibration succeeds" 0 "$trainspool" plan --json new.yaml
expect "the time is a range from the calibration" sh -c "jq -e '.time | .low < .expected and .expected < .high and
    (.source | startswith(\"the calibration of 20\"))' out >null"
printf 'compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: fp16\n' >launcher.yaml
printf 'bf16: [\n' >broken.yaml
for file in launcher broken; do
    expect_status "a file that is not a job has no plan ($file)" 2 "$trainspool" plan --device A100 $file.yaml
    expect "its text shows only findings ($file)" sh -c '! grep -q precision "$1"' sh "$T/out"
    try "$trainspool" plan --json --device A100 $file.yaml
    expect_output "its JSON has null in place of each part ($file)" \
        '"precision":null,"distillation":null,"preference":null,"batch":null,"steps":null,"evaluation":null,"media":null,"memory":null,"time":null'
done

plan
