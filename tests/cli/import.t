#!/bin/sh
# import: a file of another tool as a job, which check takes; statuses, files, JSON.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

cat >axolotl.yml <<'END'
base_model: org/model
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_target_linear: true
datasets:
  - path: org/data
    type: alpaca
sequence_len: 2048   # enough for us
micro_batch_size: 2
batch_size: 16
learning_rate: 2e-4
neftune_noise_alpha: 5
END
cp axolotl.yml was.yml

ends "a file of Axolotl is imported" 0 "$trainspool" import axolotl.yml
says "the model is carried over" '^model_name_or_path: org/model$'
says "a base in 4 bits stays one" '^quantization_bit: 4$'
says "alpha is said, as a job would take twice the rank" '^lora_alpha: 16$'
says "the batch of a step stays the same" '^gradient_accumulation_steps: 8  # batch_size 16'
says "a comment behind a value goes along" '^cutoff_len: 2048  # enough for us$'
says "what is not carried over is named" '^# not carried over: neftune_noise_alpha ('
complains "and a person is told of it" '1 key could not be converted'
holds "the file is left alone" cmp axolotl.yml was.yml
cp out job.yaml
ends "check takes the job" 0 "$trainspool" check --device 'A100 80GB' job.yaml
ends "on a card without bf16 too" 0 "$trainspool" check --device T4 job.yaml
try "$trainspool" import -q axolotl.yml
holds "with -q nothing is said" test ! -s "$T/err"

ends "a job is written to a file" 0 "$trainspool" import -o made.yaml axolotl.yml
says "and the next step is named" 'trainspool check made.yaml'
holds "it is the same job" cmp made.yaml job.yaml
echo mine >made.yaml
ends "a file that is there is not overwritten" 2 "$trainspool" import --output made.yaml axolotl.yml
complains "which is said" 'made.yaml exists and is not overwritten'
holds "it is as it was" sh -c '[ "$(cat made.yaml)" = mine ]'
ln -s nowhere.yaml link.yaml
ends "nor is a link followed" 2 "$trainspool" import -o link.yaml axolotl.yml
holds "nothing comes where it leads" test ! -e nowhere.yaml

ends "the account is JSON" 0 "$trainspool" import --json axolotl.yml
holds "by another's reader" sh -c 'is=$(jq -r ".keys[] | select(.key == \"neftune_noise_alpha\") | .fate" <"$1"); [ "$is" = differs ]' - out
holds "what is carried over has no reason why not" sh -c '[ "$(jq "[.keys[] | select((.into == null) == (.because == null))] | length" <"$1")" = 0 ]' - out
holds "the job is in it" sh -c 'jq -r .text <out | cmp -s - job.yaml || { jq -rj .text <out | cmp - job.yaml; }'

ends "a job is no file to import" 2 "$trainspool" import job.yaml
complains "it says so, with the place" 'job.yaml:[0-9]*:1: this is a job already'
echo "rl: kto" >>was.yml
ends "training on marks is refused" 1 "$trainspool" import was.yml
complains "with place and reason" 'was.yml:15:5: rl: kto is not done here'
holds "nothing is printed" test ! -s "$T/out"
ends "a refusal is JSON too" 1 "$trainspool" import --json was.yml
says "with the error" '"error":"rl: kto is not done here'
echo "tasks: [mmlu]
model: {_component_: torchtune.models.llama2.llama2_7b}" >eval.yaml
ends "what trains nothing is refused" 2 "$trainspool" import eval.yaml
ends "a file that is not there" 2 "$trainspool" import nowhere.yml
ends "a folder" 2 "$trainspool" import .
printf 'base_model: [\n' >broken.yml
ends "what is no YAML" 2 "$trainspool" import broken.yml
complains "has a place" 'broken.yml:[0-9]*:[0-9]*: '
ends "a file is wanted" 2 "$trainspool" import

trains="what is imported trains, as far as it says"
part="a part of a file is that part, as the job says to write it into dataset_info.json"
if has_model; then
    cat >real.yml <<END
base_model: $model
datasets: [{path: ./two.jsonl, type: alpaca}]
adapter: lora
lora_r: 4
lora_alpha: 8
lora_target_linear: true
sequence_len: 64
micro_batch_size: 1
batch_size: 2
max_steps: 3
learning_rate: 1e-3
bf16: auto
output_dir: ./adapter
END
    for i in 1 2 3 4; do
        echo "{\"instruction\": \"Count to $i\", \"output\": \"one two $i\"}"
    done >two.jsonl
    "$trainspool" import -q -o real.yaml real.yml
    ends "$trains" 0 "$trainspool" run --set trainspool.device=cpu real.yaml
    says "3 steps" 'done: 3 steps'
    holds "an adapter of that rank is there" grep -q '"r": *4' adapter/adapter_config.json

    sed 's/type: alpaca/type: alpaca, split: "train[:50%]"/; s/max_steps: 3/num_epochs: 1/; s/\.\/adapter$/.\/part/' real.yml >part.yml
    "$trainspool" import -q -o part.yaml part.yml
    mkdir data
    sed -n 's/^#   {/{/p' part.yaml >data/dataset_info.json
    ends "$part" 0 "$trainspool" run --set trainspool.device=cpu part.yaml
    says "of 4 samples 2, a step" 'done: 1 step'
else
    skip "$trains" "no $model"
    skip "$part" "no $model"
fi
plan
