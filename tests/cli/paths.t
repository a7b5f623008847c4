#!/bin/sh
# Relative paths: inputs are in the job's folder or in the working directory, outputs in the job's folder.
. "${top_srcdir-.}/tests/cli/lib.sh"

if ! has_model; then
    skip "paths" "no model in $model"
    plan
    exit 0
fi

# A repository as LLaMA-Factory lays it out: its examples start from the root.
mkdir -p "$T/repo/examples/train_lora" "$T/repo/data" "$T/repo/models" && cd "$T/repo" || exit 99
cp -R "$model" models/small
for i in 1 2 3 4; do echo "{\"instruction\": \"count to $i\", \"input\": \"\", \"output\": \"done\"}"; done >data/counts.jsonl
echo '{"counts": {"file_name": "counts.jsonl"}}' >data/dataset_info.json
job=examples/train_lora/small.yaml
printf '%s\n' "model_name_or_path: models/small" "stage: sft" "finetuning_type: lora" "dataset: counts" \
    "template: alpaca" "cutoff_len: 64" "output_dir: saves/small" "max_steps: 2" "per_device_train_batch_size: 1" \
    "gradient_accumulation_steps: 1" 'use_cpu: true' 'bf16: false' >$job

expect_status "check from the root finds model and data" 0 "$trainspool" check --fail-on error $job
expect_output "check names what it reads from the working directory" \
    '^examples/train_lora/small.yaml:1:21: info\[TS717\]: .*models/small (model_name_or_path), data (dataset_dir)'
expect_status "nothing is missing" 1 grep -q TS713 "$T/out"
expect_status "plan counts the steps of this data" 0 "$trainspool" plan $job
expect_output "plan has the number of records" ' 4 samples'
expect_status "trainspool-train --steps agrees" 0 "$train" --steps --set cutoff_len=32 $job
expect_status "run trains from the root" 0 "$trainspool" run --no-patch $job
expect "outputs are next to the job" [ -f examples/train_lora/saves/small/adapter_model.safetensors ]
expect "none are in the working directory" [ ! -e saves ]
expect "train.log has the choice" grep -q 'TS717.*models/small (model_name_or_path)' examples/train_lora/small.run/train.log
expect_status "a run resumes from the root" 0 "$trainspool" run --no-patch --resume $job
expect_status "the frozen text finds its inputs, too" 0 "$train" --steps --frozen $job
expect_status "generate finds the base model" 0 "$trainspool" generate --max-new-tokens 2 -p "count to 1" $job
(cd examples/train_lora && "$trainspool" check small.yaml) >"$T/out" 2>&1
expect_output "from the job's folder the model is missing" 'TS713.*models/small'

# The job's folder comes first.
mkdir examples/train_lora/data
cp data/dataset_info.json examples/train_lora/data
head -n 2 data/counts.jsonl >examples/train_lora/data/counts.jsonl
expect_status "the data of the job's folder are counted" 0 "$trainspool" plan $job
expect_output "they win over those of the working directory" ' 2 samples'
try "$trainspool" check $job
expect "TS717 names the model only" sh -c "! grep -q 'dataset_dir' '$T/out'"
rm -r examples/train_lora/data

# Data files, and each kind of input.
printf '%s\n' "model_name_or_path: models/small" "dataset: data/counts.jsonl" "eval_dataset: [data/counts.jsonl]" \
    "stage: distill" "teacher_model_name_or_path: models/small" "use_cpu: true" >$job
try "$trainspool" check $job
for key in model_name_or_path teacher_model_name_or_path dataset eval_dataset; do
    expect_output "$key may be in the working directory" "TS717.*($key)"
done
expect "none is missing" sh -c "! grep -q 'TS713' '$T/out'"

expect "dataset_dir is none of them" sh -c "! grep -q '(dataset_dir)' '$T/out'"

# A watched folder is the working directory of its jobs.
mkdir spool
printf '%s\n' "model_name_or_path: models/small" "dataset: data/counts.jsonl" "use_cpu: true" >spool/a.yaml
printf '%s\n' "model_name_or_path: ../models/small" "dataset: ../data/counts.jsonl" "use_cpu: true" "max_steps: 1" \
    "cutoff_len: 64" "output_dir: ../out" >spool/b.yaml
expect_status "watch does not look in the folder it was started in" 1 "$trainspool" watch --once spool
expect "the job fails for its model" grep -q 'TS713.*models/small' spool/a.run/train.log
expect "an output outside a watched folder is an error" grep -q 'error\[TS710\]: output_dir is outside' spool/b.run/train.log
expect "nothing is written there" [ ! -e out ]

# An output that leaves the job's folder, in a command of the user.
printf '%s\n' "model_name_or_path: models/small" "dataset: counts" "template: alpaca" "use_cpu: true" "max_steps: 1" \
    "cutoff_len: 64" "output_dir: ../../out" "bf16: false" >$job
expect_status "it is no error of check" 0 "$trainspool" check --fail-on error $job
expect_output "the warning names the folder" "warning\[TS710\]: output_dir .*: the run writes to $(pwd)/out$"
expect_status "the run writes to it" 0 "$trainspool" run --no-patch $job
expect "the model is there" [ -f out/adapter_model.safetensors ]

# A shell stays in its working directory when another process deletes it.
printf '%s\n' "model_name_or_path: models/small" "dataset: data/counts.jsonl" "template: alpaca" "cutoff_len: 64" \
    "use_cpu: true" "output_dir: saves/gone" >gone.yaml
mkdir "$T/gone" && cd "$T/gone" && rmdir "$T/gone" || exit 99
expect_status "check from a deleted folder reads a job elsewhere" 0 timeout 60 "$trainspool" check --fail-on error "$T/repo/gone.yaml"
expect "it finds model and data next to the job" sh -c '! grep -q "TS713\|TS717" "$1"' sh "$T/out"
expect_status "check of a job that was deleted with its folder ends" 2 timeout 60 "$trainspool" check gone.yaml
expect_error "it names the job" 'cannot open the job gone.yaml: No such file or directory'
cd "$T" || exit 99

plan
