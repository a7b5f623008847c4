#!/bin/sh
# .pre-commit-hooks.yaml: the file pattern, and the entries with their exit statuses.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
hooks=$source/.pre-commit-hooks.yaml
PATH=$(dirname "$trainspool"):$PATH
export PATH
mkdir jobs
cat >jobs/fine.yaml <<'END'
model_name_or_path: model
dataset: data.jsonl
END
sed 's/$/ /; $a fp16: true\nbf16: true' jobs/fine.yaml >jobs/both.yaml
sed '$a finetuning_type: full\nfp16: true\nmodel_dtype: float16' jobs/fine.yaml >jobs/unscaled.yaml
sed '$a fp16: true' jobs/fine.yaml >jobs/half.yaml
cp jobs/half.yaml half

entry() { # ID: print its command
    sed -n "/id: $1\$/,/language/s/^  entry: //p" "$hooks"
}
pattern=$(sed -n 's/^  files: //p' "$hooks" | sort -u)
for name in jobs/a.yaml team/jobs/b.yml; do
    expect "the hooks run on $name" sh -c "echo '$name' | grep -qE '$pattern'"
done
for name in jobs/a.run/job.yaml config.yaml jobs/a.json; do
    expect "the hooks do not run on $name" sh -c "! echo '$name' | grep -qE '$pattern'"
done
# shellcheck disable=SC2046
{
    expect_status "the check hook passes a good job" 0 $(entry trainspool-check) jobs/fine.yaml
    expect_status "the check hook fails a bad job" 1 $(entry trainspool-check) jobs/fine.yaml jobs/both.yaml
    expect_status "the patch hook patches the bad job" 0 $(entry trainspool-patch) jobs/fine.yaml jobs/unscaled.yaml
    expect_status "the check hook passes the patched job" 0 $(entry trainspool-check) jobs/fine.yaml jobs/unscaled.yaml
    expect "the edit does not depend on the device" grep -q '^model_dtype: float32' jobs/unscaled.yaml

    # This machine is a laptop; no file and no variable says what the jobs run on.
    if "$trainspool" devices | grep -q ^cuda; then
        skip "the hooks on a machine without a GPU" "this machine has one"
    else
        expect_status "the patch hook passes an fp16 job" 0 $(entry trainspool-patch) jobs/half.yaml
        expect_output "it says how to name the device" 'info\[TS208\].*no device is named'
        expect "it does not edit the job" cmp jobs/half.yaml half
        expect_status "it does not choose between fp16 and bf16" 1 $(entry trainspool-patch) jobs/both.yaml
        expect "the job keeps both" grep -qx 'fp16: true' jobs/both.yaml
        expect_status "the patch hook with args: [--device, cpu] edits" 0 $(entry trainspool-patch) --device cpu jobs/half.yaml
        expect "fp16 is off" grep -qx 'fp16: false' jobs/half.yaml
    fi
    mkdir .git
    echo 'device = "V100"' >.trainspool.toml
    expect_status "the patch hook uses .trainspool.toml" 0 $(entry trainspool-patch) jobs/both.yaml
    expect "fp16 is what a V100 computes in" grep -qx 'bf16: false' jobs/both.yaml
    echo 'gpu = "V100"' >.trainspool.toml
    expect_status "a wrong .trainspool.toml gives 2" 2 $(entry trainspool-check) jobs/both.yaml
    expect_error "the message has a position" '\.trainspool\.toml:1:1: unknown key'
}
plan
