#!/bin/sh
# tests/cli/broken.t - a model, a data set or a disk that is broken: the job fails with the place and
# a remedy, and what was good stays good.
. "${top_srcdir-.}/tests/cli/lib.sh"

model=$shared/data/stories260K/hf
if [ ! -d "$model" ]; then
    skip 'broken models, data and disks' 'the shared models are not here'
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
fails() { # NAME JOB PATTERN [STATUS]: it fails, and says so
    ends "$1" "${4-1}" "$trainspool" run "$2.yaml"
    cat "$T/out" >>"$T/err"
    complains "$1: says what and where" "$3"
}

mkdir empty
job no-config empty good.jsonl
fails 'a model folder without config.json' no-config 'config.json'

cp -r good cut
head -c 500000 good/model.safetensors >cut/model.safetensors
job cut cut good.jsonl
fails 'a safetensors file cut off' cut 'cut/model.safetensors'

cp -r good stub
head -c 4 good/model.safetensors >stub/model.safetensors
job stub stub good.jsonl
fails 'a safetensors file of four bytes' stub 'stub/model.safetensors'

cp -r good pointer
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1044992\n' \
    >pointer/model.safetensors
job pointer pointer good.jsonl
fails "a pointer of Git LFS in the place of weights" pointer 'model.safetensors.*git lfs pull'

cp -r good part
mv part/model.safetensors part/model-00001-of-00002.safetensors
echo '{"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}}' \
    >part/model.safetensors.index.json
job part part good.jsonl
fails 'a model of two files of which one is missing' part 'model-00002-of-00002.safetensors'
ends 'check tells it, too' 0 "$trainspool" check part.yaml
says 'as a warning' 'warning.TS713.*model-00002-of-00002.safetensors'

cp -r good lies
sed 's/"data_offsets": *\[0,/"data_offsets":[4,/' good/model.safetensors >lies/model.safetensors
cmp -s good/model.safetensors lies/model.safetensors
ok $((!$?)) 'the lying header differs from the good one'
job lies lies good.jsonl
fails 'a safetensors header that lies about offsets' lies 'lies/model.safetensors'

cp -r good nothing
rm nothing/tokenizer.json
job nothing nothing good.jsonl
fails 'a model folder without a tokenizer' nothing 'tokenizer.json'

{ head -n 4 good.jsonl; echo '{"instruction": "Say", "output": '; tail -n 4 good.jsonl; } >bad.jsonl
job bad-line good bad.jsonl
fails 'a data set with a broken line' bad-line 'bad.jsonl:5'

{ head -n 2 good.jsonl; echo '{"question": 1}'; } >odd.jsonl
job odd-line good odd.jsonl
fails 'a data set with a record of another form' odd-line 'odd.jsonl:3'

printf '' >none.jsonl
job no-data good none.jsonl
fails 'an empty data set' no-data 'none.jsonl'

job missing good nowhere.jsonl
fails 'a data set that is not there' missing 'nowhere.jsonl'

mkdir locked
job unwritable good good.jsonl 'output_dir: locked/out'
if [ "$(id -u)" -eq 0 ]; then
    : >locked/out # a file where the folder should be: root may write everywhere
else
    chmod a-w locked
fi
fails 'an output folder that cannot be written' unwritable 'locked/out' 3

# A full disk: a small file system of its own, filled behind the first checkpoint.
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
    ok $? 'a full disk is said in the log'
    good=0
    for folder in small/out/checkpoint-*; do
        [ -s "$folder/trainspool_manifest.json" ] || good=1
    done
    ok $good 'the checkpoints before it are whole'
    mount -o remount,size=1g small
    wait $pid
    ok $? 'the run goes on, and ends well when there is room again'
    test -z "$(find small/out -maxdepth 1 -name '.checkpoint-*')"
    ok $? 'no half checkpoint is left'
    ends 'the same job on a wide disk' 0 "$trainspool" run disk-wide.yaml
    cmp -s small/out/model.safetensors wide/out/model.safetensors
    ok $? 'both give the same bits'
    umount small
    mount -t tmpfs -o size=1m tmpfs small
    job disk-end good good.jsonl 'output_dir: small/out'
    "$trainspool" run disk-end.yaml >out 2>err &
    pid=$!
    pids="$pids $pid"
    await 90 grep -q 'cannot save the model.*No space' disk-end.run/train.log
    ok $? 'a disk that is full at the very end is said, and waited for'
    mount -o remount,size=1g small
    wait $pid
    ok $? 'and nothing is lost'
    holds 'the model is there' test -s small/out/model.safetensors
    umount small
else
    skip 'a full disk' 'no file system can be mounted here'
fi

plan
