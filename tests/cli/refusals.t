#!/bin/sh
# tests/cli/refusals.t - what run refuses, check and plan report as an error: the same jobs exit with a
# status other than 0.  Missing files are a warning there, because the job may be for another machine.
. "${top_srcdir-.}/tests/cli/lib.sh"

model=$shared/data/stories260K/hf
if [ ! -d "$model" ]; then
    skip 'check, plan and run refuse the same jobs' 'no shared models'
    plan
    exit 0
fi

cd "$T" || exit 99
cp -r "$model" good
chmod -R u+w good
i=0
while [ $i -lt 40 ]; do
    echo "{\"instruction\": \"Say $i\", \"output\": \"It is $i, and it was $i.\"}"
    i=$((i + 1))
done >good.jsonl

# NAME MODEL DATA [LINE...]: write a job; a line replaces the one with the same key.
job() {
    printf 'model_name_or_path: %s\ndataset: %s\nstage: sft\nfinetuning_type: full\ntemplate: alpaca\n' \
        "$2" "$3" >"$1.yaml"
    printf 'per_device_train_batch_size: 4\nmax_steps: 2\ncutoff_len: 64\n' >>"$1.yaml"
    name=$1
    shift 3
    for line; do
        sed -i "/^${line%%:*}:/d" "$name.yaml"
        echo "$line" >>"$name.yaml"
    done
}
# STATUS NAME: check, plan and run agree that the job is fine (0) or not (1).
agree() {
    "$trainspool" check --device cpu "$name.yaml" >"$T/out" 2>"$T/err"
    checked=$?
    "$trainspool" plan --device cpu "$name.yaml" >>"$T/out" 2>>"$T/err"
    planned=$?
    "$trainspool" run "$name.yaml" >>"$T/out" 2>>"$T/err"
    ran=$?
    [ $checked -eq "$1" ] && [ $planned -eq "$1" ] && [ $((ran != 0)) -eq "$1" ]
    agreed=$?
    [ $agreed -eq 0 ] || echo "# check exits with $checked, plan with $planned, run with $ran"
    ok $agreed "$2"
}
fine() { agree 0 "check, plan and run accept $1"; }
refused() { agree 1 "check, plan and run refuse $1"; }

job fine good good.jsonl
fine 'a good job'
job fine-lora good good.jsonl 'finetuning_type: lora' 'val_size: 4' 'eval_strategy: epoch'
fine 'adapters with an evaluation'
sed 's/"instruction": \(.*\), "output".*/"text": \1}/' good.jsonl >text.jsonl
job fine-pt good text.jsonl 'stage: pt'
fine 'plain text'

job template good good.jsonl 'template: nope'
refused 'a template that does not exist'
job lora-target good good.jsonl 'finetuning_type: lora' 'lora_target: c_attn'
refused 'a lora_target without a layer'
job memory good good.jsonl 'memory_limit: 1MiB'
refused 'a job that does not fit'
mkdir empty
job resume good good.jsonl 'resume_from_checkpoint: empty'
refused 'a checkpoint without files'
job no-teacher good good.jsonl 'stage: distill'
refused 'a distillation without a teacher'

for broken in '{' '{"model": {"type": "WordPiece", "vocab": {}}}'; do
    rm -rf tokens && cp -r good tokens && echo "$broken" >tokens/tokenizer.json
    job tokens tokens good.jsonl
    refused "the tokenizer $broken"
done
for change in 's/"vocab_size": *[0-9]*/"vocab_size": 300/' 's/"num_attention_heads": *[0-9]*/"num_attention_heads": 7/' \
    's/"hidden_size": *[0-9]*/"hidden_size": 32/' 's/"model_type": *"[a-z]*"/"model_type": "mamba"/'; do
    rm -rf other && cp -r good other && sed "$change" good/config.json >other/config.json
    job other other good.jsonl
    refused "a config.json changed by $change"
done

{ head -n 4 good.jsonl; echo '{"instruction": "Say", "output": '; } >line.jsonl
job line good line.jsonl
refused 'a broken line of data'
{ head -n 2 good.jsonl; echo '{"question": 1}'; } >record.jsonl
job record good record.jsonl
refused 'a record of another form'
: >none.jsonl
job none good none.jsonl
refused 'an empty data set'
gzip -c good.jsonl | head -c 100 >cut.jsonl.gz
job gzip good cut.jsonl.gz
refused 'a truncated archive'
mkdir nothing
job nothing good nothing/
refused 'a folder without data'
echo '{"a": {"file_name": "good.jsonl", "formatting": "sharegpt"}}' >dataset_info.json
job columns good a 'dataset_dir: .'
refused 'an entry with the wrong columns'
job pairs good good.jsonl 'stage: dpo' 'finetuning_type: lora'
refused 'preferences without pairs'
head -n 1 good.jsonl >one.jsonl
job one good one.jsonl 'per_device_train_batch_size: 8' 'dataloader_drop_last: true'
refused 'data without one whole batch'
job val-size good good.jsonl 'val_size: 100' 'eval_strategy: epoch'
refused 'an evaluation that takes all data'
job cutoff good good.jsonl 'cutoff_len: 4'
refused 'a cutoff_len that leaves no answer'
job prompts good good.jsonl 'val_size: 4' 'predict_with_generate: true' 'eval_strategy: epoch'
refused 'prompts that leave no room for an answer'

: >file
job out-file good good.jsonl 'output_dir: file'
refused 'an output_dir that is a file'
job out-under good good.jsonl 'output_dir: file/out'
refused 'an output_dir below a file'

# A call with many jobs does not start a process for each.
mkdir many
i=0
while [ $i -lt 33 ]; do
    sed 's,: good$,: ../good,; s,: line.jsonl,: ../line.jsonl,' line.yaml >many/$i.yaml
    i=$((i + 1))
done
expect_status 'a check of 33 jobs reads no data' 0 "$trainspool" check --device cpu many/*.yaml
expect_error 'and says so' 'the data of 33 jobs were not read'
rm many/0.yaml
expect_status 'a check of 32 jobs reads them' 1 "$trainspool" check --device cpu many/*.yaml
expect 'without a note' [ ! -s "$T/err" ]

plan
