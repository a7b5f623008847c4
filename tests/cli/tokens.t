#!/bin/sh
# tokens: cached next to a job or in a shared folder, mapped by the next run, and computed again if
# anything that they depend on has changed.
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
expect_status "check of a job with tokenized_path succeeds" 0 "$trainspool" check first.yaml
expect "check writes no tokens" test ! -e kept
expect_status "plan of a job with tokenized_path succeeds" 0 "$trainspool" plan first.yaml
expect "plan writes no tokens" test ! -e kept
expect_status "the first run succeeds" 0 "$trainspool" run -q first.yaml
expect "the first run reads the texts" sh -c "grep -q 'data: texts read in' first.run/train.log"
expect "the first run writes the tokens" test -s kept/train.tokens
expect "the first run writes no other files" test "$(ls kept)" = train.tokens
sum=$(cksum <kept/train.tokens)
job 6 "tokenized_path: kept" "seed: 42" >second.yaml
expect_status "a second job with the same data succeeds" 0 "$trainspool" run -q second.yaml
expect "the second job maps the tokens" sh -c "grep -q 'data: tokens mapped from .*kept/train.tokens' second.run/train.log"
expect "the second job has the same losses" test "$(losses first)" = "$(losses second)"
expect_status "the second job resumes" 0 "$trainspool" run -q --resume --set max_steps=9 second.yaml
expect "the token file does not change" test "$(cksum <kept/train.tokens)" = "$sum"
job 6 "tokenized_path: kept" "overwrite_cache: true" >again.yaml
expect_status "a run with overwrite_cache succeeds" 0 "$trainspool" run -q again.yaml
expect "overwrite_cache reads the texts again" sh -c "grep -q 'data: texts read' again.run/train.log"
expect "the losses with overwrite_cache are the same" test "$(losses first)" = "$(losses again)"
truncate -s -100 kept/train.tokens
job 6 "tokenized_path: kept" >damaged.yaml
expect_status "a run with a damaged token file succeeds" 0 "$trainspool" run -q damaged.yaml
expect "the log reports the damaged file" grep -q 'the saved tokens are not used: it is damaged' damaged.run/train.log
expect "the losses with a damaged file are the same" test "$(losses first)" = "$(losses damaged)"
job 6 "tokenized_path: kept" | sed 's/cutoff_len: 64/cutoff_len: 40/' >shorter.yaml
expect_status "a run with another cutoff_len succeeds" 0 "$trainspool" run -q shorter.yaml
expect "the log reports the changed cutoff_len" grep -q 'not used: cutoff_len differs' shorter.run/train.log
mkdir theirs
echo '{}' >theirs/dataset_dict.json
job 6 "tokenized_path: theirs" >theirs.yaml
expect_status "a folder saved by Hugging Face gives 1" 1 "$trainspool" run -q theirs.yaml
expect "the log asks for another folder" grep -q 'name another folder' theirs.run/train.log
job 2 "tokenized_path: /proc/nowhere" >stuck.yaml
expect_status "a run that cannot write tokens succeeds" 0 "$trainspool" run -q stuck.yaml
expect "the log reports that the tokens are not kept" grep -q 'not saved for the next run' stuck.run/train.log
plan
