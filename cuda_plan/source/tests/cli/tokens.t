#!/bin/sh
# tokens: kept beside a job or in a folder of several, mapped by the next run, read anew where
# anything they depend on has changed.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "tokens" "no $model"
    plan
    exit 0
fi
origin() { grep 'data: t' "$1.run/train.log" | tail -1; }
losses() { grep -o '"loss":[^,]*' "$1.run/metrics.jsonl"; }

make_data .
job 6 "tokenized_path: kept" >first.yaml
ends "check of a job that keeps its tokens" 0 "$trainspool" check first.yaml
holds "writes nothing" test ! -e kept
ends "plan reads the data" 0 "$trainspool" plan first.yaml
holds "and writes nothing" test ! -e kept
ends "a run" 0 "$trainspool" run -q first.yaml
holds "reads the texts" sh -c "grep -q 'data: texts read in' first.run/train.log"
holds "and keeps their tokens" test -s kept/train.tokens
holds "and nothing beside" test "$(ls kept)" = train.tokens
sum=$(cksum <kept/train.tokens)
job 6 "tokenized_path: kept" "seed: 42" >second.yaml
ends "another job with the same data" 0 "$trainspool" run -q second.yaml
holds "maps them" sh -c "grep -q 'data: tokens kept in .*kept/train.tokens, mapped' second.run/train.log"
holds "learns the same" test "$(losses first)" = "$(losses second)"
ends "goes on with them" 0 "$trainspool" run -q --resume --set max_steps=9 second.yaml
holds "which are as they were" test "$(cksum <kept/train.tokens)" = "$sum"
job 6 "tokenized_path: kept" "overwrite_cache: true" >anew.yaml
ends "overwrite_cache" 0 "$trainspool" run -q anew.yaml
holds "reads the texts" sh -c "grep -q 'data: texts read' anew.run/train.log"
holds "which are the same" test "$(losses first)" = "$(losses anew)"
truncate -s -100 kept/train.tokens
job 6 "tokenized_path: kept" >damaged.yaml
ends "a damaged file is no harm" 0 "$trainspool" run -q damaged.yaml
holds "is told" grep -q 'the tokens kept are not used: it is damaged' damaged.run/train.log
holds "and mended" test "$(losses first)" = "$(losses damaged)"
job 6 "tokenized_path: kept" | sed 's/cutoff_len: 64/cutoff_len: 40/' >shorter.yaml
ends "another cutoff_len" 0 "$trainspool" run -q shorter.yaml
holds "is told" grep -q 'not used: cutoff_len is another one' shorter.run/train.log
mkdir theirs
echo '{}' >theirs/dataset_dict.json
job 6 "tokenized_path: theirs" >theirs.yaml
ends "what Hugging Face has saved is refused: 1" 1 "$trainspool" run -q theirs.yaml
holds "with what to do" grep -q 'name another folder' theirs.run/train.log
job 2 "tokenized_path: /proc/nowhere" >stuck.yaml
ends "where nothing can be kept a run goes on" 0 "$trainspool" run -q stuck.yaml
holds "and says so" grep -q 'not kept for the next run' stuck.run/train.log
plan
