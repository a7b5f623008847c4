#!/bin/sh
# import: a file of another tool becomes a job that check accepts; exit statuses, files, JSON.
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
fp32_norms: true
END
cp axolotl.yml was.yml

expect_status "import of an Axolotl file succeeds" 0 "$trainspool" import axolotl.yml
expect_output "the model is carried over" '^model_name_or_path: org/model$'
expect_output "a 4-bit base stays a 4-bit base" '^quantization_bit: 4$'
expect_output "lora_alpha is written because its default differs" '^lora_alpha: 16$'
expect_output "the batch of a step stays the same" '^gradient_accumulation_steps: 8  # batch_size 16'
expect_output "a comment after a value is kept" '^cutoff_len: 2048  # enough for us$'
expect_output "a key that is not carried over is listed" '^# not carried over: fp32_norms ('
expect_error "a message counts these keys" '1 key could not be converted'
expect "the input file does not change" cmp axolotl.yml was.yml
cp out job.yaml
expect_status "check accepts the job" 0 "$trainspool" check --device 'A100 80GB' job.yaml
expect_status "check accepts the job on a card without bf16" 0 "$trainspool" check --device T4 job.yaml
try "$trainspool" import -q axolotl.yml
expect "import -q prints no message" test ! -s "$T/err"

expect_status "import -o succeeds" 0 "$trainspool" import -o made.yaml axolotl.yml
expect_output "the output names the next command" 'trainspool check made.yaml'
expect "the file has the same job" cmp made.yaml job.yaml
echo mine >made.yaml
expect_status "import does not overwrite a file" 2 "$trainspool" import --output made.yaml axolotl.yml
expect_error "the message says that the file exists" 'made.yaml exists and is not overwritten'
expect "the existing file does not change" sh -c '[ "$(cat made.yaml)" = mine ]'
ln -s nowhere.yaml link.yaml
expect_status "import does not write through a link" 2 "$trainspool" import -o link.yaml axolotl.yml
expect "the target of the link is not created" test ! -e nowhere.yaml

expect_status "import --json succeeds" 0 "$trainspool" import --json axolotl.yml
expect "the result for a key is reported" sh -c 'is=$(jq -r ".keys[] | select(.key == \"fp32_norms\") | .fate" <"$1"); [ "$is" = differs ]' - out
expect "exactly the keys that are not carried over have a reason" sh -c '[ "$(jq "[.keys[] | select((.into == null) == (.because == null))] | length" <"$1")" = 0 ]' - out
expect "the JSON contains the job" sh -c 'jq -r .text <out | cmp -s - job.yaml || { jq -rj .text <out | cmp - job.yaml; }'

expect_status "a job as input gives 2" 2 "$trainspool" import job.yaml
expect_error "the message has the position" 'job.yaml:[0-9]*:1: this is already a job'
echo "rl: ebft" >>was.yml
expect_status "an unsupported method gives 1" 1 "$trainspool" import was.yml
expect_error "the message has position and reason" 'was.yml:15:5: rl must be dpo, ipo, orpo, simpo, kto, grpo or gdpo, not ebft'
expect "no job is printed" test ! -s "$T/out"
expect_status "--json of an unsupported method gives 1" 1 "$trainspool" import --json was.yml
expect_output "the JSON has the error" '"error":"rl must be dpo, ipo, orpo, simpo, kto, grpo or gdpo, not ebft'
echo "tasks: [mmlu]
model: {_component_: torchtune.models.llama2.llama2_7b}" >eval.yaml
expect_status "a file that trains nothing gives 2" 2 "$trainspool" import eval.yaml
expect_status "a missing file gives 2" 2 "$trainspool" import nowhere.yml
expect_status "a folder gives 2" 2 "$trainspool" import .
printf 'base_model: [\n' >broken.yml
expect_status "a file that is not YAML gives 2" 2 "$trainspool" import broken.yml
expect_error "the message has the position of the YAML error" 'broken.yml:[0-9]*:[0-9]*: '
expect_status "import without a file gives 2" 2 "$trainspool" import

# a file of LLaMA-Factory v1, whose data are in a list of its own
mkdir -p v1/data
cat >v1/train.yaml <<'END'
model: org/model
model_class: llm
peft_config: {name: lora, r: 16}
train_dataset: data/demo.yaml
micro_batch_size: 2   # per card
global_batch_size: 16
dist_config: {name: fsdp2}
END
cat >v1/data/demo.yaml <<'END'
demo:
  path: data/demo.json
  source: local
  converter: alpaca
END
expect_status "check names import for a file of LLaMA-Factory v1" 2 "$trainspool" check v1/train.yaml
expect_output "the finding names the command" 'TS706.*this is a LLaMA-Factory v1 file (model_class), not a job: `trainspool import` converts it'
expect_status "import of a LLaMA-Factory v1 file succeeds" 0 "$trainspool" import v1/train.yaml
expect_output "the list of datasets next to the file is read" '^dataset: data/demo.json$'
expect_output "the members of peft_config become keys" '^lora_rank: 16$'
expect_output "the batch is divided" '^gradient_accumulation_steps: 8  # global_batch_size 16'
expect_output "a comment says how to train on several cards" '{ranks: N, zero_stage: 3}'
cp out v1job.yaml
expect_status "check accepts the job of a LLaMA-Factory v1 file" 0 "$trainspool" check --device 'A100 80GB' v1job.yaml

trains="the imported job trains"
part="the suggested dataset_info.json selects a part of a file"
v1="a job of a LLaMA-Factory v1 file trains on a part of its conversations"
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
    expect_status "$trains" 0 "$trainspool" run --set trainspool.device=cpu real.yaml
    expect_output "the run has 3 steps" 'done: 3 steps'
    expect "the adapter has the given rank" grep -q '"r": *4' adapter/adapter_config.json

    sed 's/type: alpaca/type: alpaca, split: "train[:50%]"/; s/max_steps: 3/num_epochs: 1/; s/\.\/adapter$/.\/part/' real.yml >part.yml
    "$trainspool" import -q -o part.yaml part.yml
    mkdir data
    sed -n 's/^#   {/{/p' part.yaml >data/dataset_info.json
    expect_status "$part" 0 "$trainspool" run --set trainspool.device=cpu part.yaml
    expect_output "the run uses 2 of 4 samples" 'done: 1 step'

    for i in 1 2 3; do
        echo "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"value\": \"Count to $i\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"value\": \"one two $i\"}], \"loss_weight\": 1.0}]}"
    done >chat.jsonl
    echo "a: {path: chat.jsonl, source: local, size: 2}" >list.yaml
    cat >v1chat.yml <<END
model: $model
model_class: llm
train_dataset: list.yaml
num_train_epochs: 1
cutoff_len: 64
output_dir: v1out
END
    "$trainspool" import -q -o v1chat.yaml v1chat.yml
    sed -n 's/^#   {/{/p' v1chat.yaml >data/dataset_info.json
    expect_status "$v1" 0 "$trainspool" run --set trainspool.device=cpu --set template=empty v1chat.yaml
    expect_output "the run uses 2 of 3 conversations" 'done: 2 steps'
else
    skip "$v1" "no $model"
    skip "$trains" "no $model"
    skip "$part" "no $model"
fi
plan
