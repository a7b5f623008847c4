#!/bin/sh
# Tables as datasets: the same records in JSON, CSV, Parquet and Arrow train the same bits.
. "${top_srcdir-.}/tests/cli/lib.sh"
if ! has_model; then
    skip 'tables as datasets' 'no shared models'
    plan
    exit 0
fi
cd "$T" || exit 99
golden=$source/tests/golden/tables
cp "$golden/texts.jsonl" "$golden/texts.parquet" "$golden/texts_feather.feather" "$golden/chats.parquet" .
mkdir shards data
cp texts.parquet shards/train-00000-of-00001.parquet
printf '{"listed": {"file_name": "texts.parquet"}}\n' >data/dataset_info.json
cp texts.parquet data/
{
    echo 'instruction,input,output'
    jq -r '[.instruction, .input // "", .output] | @csv' texts.jsonl
} >texts.csv
gzip -c texts.csv >packed.csv.gz
trained() { # NAME DATASET: train on it; the result is NAME/model.safetensors
    job 2 "output_dir: $1" | sed "s|^stage: .*|stage: sft|; s|^dataset: .*|dataset: $2|" >"$1.yaml"
    "$trainspool" run -q "$1.yaml" >out 2>err
}
trained jsonl texts.jsonl
ok $? 'a job trains on JSON lines'
for data in texts.parquet texts_feather.feather texts.csv packed.csv.gz shards/ listed; do
    name=$(echo "$data" | tr -c 'a-z\n' '-')
    trained "$name" "$data"
    ok $? "a job trains on $data"
    cmp -s jsonl/model.safetensors "$name/model.safetensors"
    ok $? "$data trains the same bits"
done

printf 'instruction,output\nSay 1,"1\n' >open.csv
! trained open open.csv
ok $? 'an open quote fails the job'
expect 'the message has the line' grep -q 'open.csv:2:1: the quote that starts here does not end' err
head -c 900 texts.parquet >cut.parquet
! trained cut cut.parquet
ok $? 'a truncated file fails the job'
expect 'the message says that it is truncated' grep -q 'cut.parquet: the Parquet file is truncated' err
trained sheet sheet.xlsx
expect 'the advice for a spreadsheet names pandas' grep -q 'read_excel' out
plan
