#!/bin/sh
# tests/cli/broken.t - broken models, datasets and disks: the job fails with the position and advice,
# and existing results are kept.
. "${top_srcdir-.}/tests/cli/lib.sh"

model=$shared/data/stories260K/hf
if [ ! -d "$model" ]; then
    skip 'broken models, data and disks' 'no shared models'
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

job() { # NAME MODEL DATA [LINE...]
    {
        echo "model_name_or_path: $2"
        echo "dataset: $3"
        echo 'stage: sft'
        echo 'finetuning_type: full'
        echo 'template: alpaca'
        echo 'per_device_train_batch_size: 4'
        echo 'max_steps: 6'
        echo 'logging_steps: 1'
    } >"$1.yaml"
    name=$1
    shift 3
    for line; do echo "$line" >>"$name.yaml"; done
}
fails() { # NAME JOB PATTERN [STATUS]: the job fails with a message that matches
    expect_status "$1" "${4-1}" "$trainspool" run "$2.yaml"
    cat "$T/out" >>"$T/err"
    expect_error "$1: the message names the file" "$3"
}

mkdir empty
job no-config empty good.jsonl
fails 'model folder without config.json' no-config 'config.json'

cp -r good cut
head -c 500000 good/model.safetensors >cut/model.safetensors
job cut cut good.jsonl
fails 'truncated safetensors file' cut 'cut/model.safetensors'

cp -r good stub
head -c 4 good/model.safetensors >stub/model.safetensors
job stub stub good.jsonl
fails 'safetensors file of four bytes' stub 'stub/model.safetensors'

cp -r good pointer
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1044992\n' \
    >pointer/model.safetensors
job pointer pointer good.jsonl
fails "Git LFS pointer in place of the weights" pointer 'model.safetensors.*git lfs pull'

cp -r good part
mv part/model.safetensors part/model-00001-of-00002.safetensors
echo '{"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}}' \
    >part/model.safetensors.index.json
job part part good.jsonl
fails 'model of two files, one of them missing' part 'model-00002-of-00002.safetensors'
expect_status 'check reports the missing model file' 0 "$trainspool" check part.yaml
expect_output 'check names the remedy' 'copy or download it, too'
expect_output 'check reports it as a warning' 'warning.TS713.*model-00002-of-00002.safetensors'

cp -r good offsets
sed 's/"data_offsets": *\[0,/"data_offsets":[4,/' good/model.safetensors >offsets/model.safetensors
cmp -s good/model.safetensors offsets/model.safetensors
ok $((!$?)) 'the header with wrong offsets differs from the good one'
job offsets offsets good.jsonl
fails 'safetensors header with wrong offsets' offsets 'offsets/model.safetensors'

# Llama 4's layers attend in chunks or to all rows, as layer_types says.
mkdir chunks
cp good/tokenizer* chunks
chunks_config() { # TYPE: write a config.json whose two layers have it
    printf '{"model_type": "llama4_text", "vocab_size": 512, "hidden_size": 16, "head_dim": 4' >chunks/config.json
    printf ', "intermediate_size": 16, "intermediate_size_mlp": 16, "num_hidden_layers": 2' >>chunks/config.json
    printf ', "num_attention_heads": 4, "num_key_value_heads": 2, "moe_layers": [1]' >>chunks/config.json
    printf ', "num_local_experts": 2, "no_rope_layers": [0, 0], "attn_temperature_tuning": false' >>chunks/config.json
    printf ', "attention_chunk_size": 8, "layer_types": ["%s", "%s"]}' "$1" "$1" >>chunks/config.json
}
job chunks chunks good.jsonl 'train_from_scratch: true'
chunks_config chunked_attention
expect_status 'layers that attend in chunks train' 0 "$trainspool" run chunks.yaml
chunks_config sliding_attention
fails 'layer_types of another kind' chunks 'layer_types must say full_attention or chunked_attention for layer 0'
chunks_config full_attention
expect_status 'layers that attend to all rows train' 0 "$trainspool" run chunks.yaml

# transformers does not tie a head that differs, so training the embeddings alone would lose it.
add_head() { # BYTE: give good's model a head like the embeddings, whose first byte is this
    mkdir -p tied
    cp good/*.json tied
    python3 - "$1" <<'END'
import json, struct, sys
data = open("good/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, data = json.loads(data[8:8 + size]), data[8 + size:]
embed = header["model.embed_tokens.weight"]
head = data[slice(*embed["data_offsets"])]
head = (bytes([int(sys.argv[1])]) if sys.argv[1] else head[:1]) + head[1:]
header["lm_head.weight"] = embed | {"data_offsets": [len(data), len(data) + len(head)]}
text = json.dumps(header).encode()
open("tied/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data + head)
END
}
if python3 -c '' 2>/dev/null; then
    job tied tied good.jsonl
    add_head ''
    expect_status 'tied head that equals the embeddings' 0 "$trainspool" run tied.yaml
    add_head 85
    fails 'tied head that differs from the embeddings' tied \
        'tied/model.safetensors: lm_head.weight differs from the embeddings.*set it to false there to use this head.*or remove the tensor'
else
    skip 'tied head' 'no python3'
fi

cp -r good nothing
rm nothing/tokenizer.json
job nothing nothing good.jsonl
fails 'model folder without a tokenizer' nothing 'tokenizer.json'

{ head -n 4 good.jsonl; echo '{"instruction": "Say", "output": '; tail -n 4 good.jsonl; } >bad.jsonl
job bad-line good bad.jsonl
fails 'dataset with a broken line' bad-line 'bad.jsonl:5'

{ head -n 2 good.jsonl; echo '{"question": 1}'; } >odd.jsonl
job odd-line good odd.jsonl
fails 'dataset with a record of another format' odd-line 'odd.jsonl:3'

printf '' >none.jsonl
job no-data good none.jsonl
fails 'empty dataset' no-data 'none.jsonl'

job missing good nowhere.jsonl
fails 'missing dataset' missing 'nowhere.jsonl'

mkdir locked
job unwritable good good.jsonl 'output_dir: locked/out'
if [ "$(id -u)" -eq 0 ]; then
    : >locked/out # a file in place of the folder, because root can write everywhere
    fails 'output folder that is a file' unwritable 'locked/out'
else
    chmod a-w locked
    fails 'output folder without write permission' unwritable 'locked/out' 3
fi

# A full disk: a small file system that is full after the first checkpoint.
mkdir small
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=20m tmpfs small 2>/dev/null; then
    for where in small/out wide/out; do
        job "disk-${where%/out}" good good.jsonl "output_dir: $where" 'save_steps: 2'
        sed -i 's/^max_steps: 6/max_steps: 30/' "disk-${where%/out}.yaml"
    done
    "$trainspool" run disk-small.yaml >out 2>err &
    pid=$!
    pids="$pids $pid"
    tries=0
    until grep -q 'cannot save step' disk-small.run/train.log 2>/dev/null || [ $tries -ge 900 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    grep -q 'cannot save step.*No space' disk-small.run/train.log
    ok $? 'the log reports the full disk'
    good=0
    for folder in small/out/checkpoint-*; do
        [ -s "$folder/trainspool_manifest.json" ] || good=1
    done
    ok $good 'earlier checkpoints are complete'
    mount -o remount,size=1g small
    wait $pid
    ok $? 'the run continues and finishes once there is space'
    test -z "$(find small/out -maxdepth 1 -name '.checkpoint-*')"
    ok $? 'no partial checkpoint is left'
    expect_status 'the same job finishes on a large disk' 0 "$trainspool" run disk-wide.yaml
    cmp -s small/out/model.safetensors wide/out/model.safetensors
    ok $? 'both runs give the same bits'
    umount small
    job disk-six good good.jsonl 'output_dir: wide/six'
    "$trainspool" run -q disk-six.yaml
    mount -t tmpfs -o size=1m tmpfs small
    job disk-end good good.jsonl 'output_dir: small/out'
    "$trainspool" run disk-end.yaml >out 2>err &
    pid=$!
    pids="$pids $pid"
    wait_until 90 grep -q 'cannot save the model.*No space' disk-end.run/train.log
    ok $? 'a run waits and reports a disk that is full at the end'
    mount -o remount,size=1g small
    wait $pid
    ok $? 'the run then finishes'
    expect 'the model is saved' test -s small/out/model.safetensors
    grep -q '^disk-end.yaml: error: end: cannot save the model.*retrying every' err
    ok $? 'the terminal says what the run waits for'
    umount small
    mount -t tmpfs -o size=2600k tmpfs small
    job disk-tight good good.jsonl 'output_dir: small/out'
    expect_status 'a disk with room for the model alone does not fail the run' 0 \
        timeout 60 "$trainspool" run disk-tight.yaml
    expect 'the model is saved first' cmp small/out/model.safetensors wide/six/model.safetensors
    expect_error 'the terminal names the checkpoint that is missing' \
        '^disk-tight.yaml: error: checkpoint: cannot save step 6: .*No space'
    expect_output 'the last line counts it' 'model in small/out; 1 warning, also in disk-tight.run/train.log'
    umount small
else
    skip 'full disk' 'cannot mount a file system'
fi

plan
