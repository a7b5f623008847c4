#!/bin/sh
# .pre-commit-hooks.yaml: its entries run on the files it names and tell by their status.
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

entry() { # ID
    sed -n "/id: $1\$/,/language/s/^  entry: //p" "$hooks"
}
pattern=$(sed -n 's/^  files: //p' "$hooks" | sort -u)
for name in jobs/a.yaml team/jobs/b.yml; do
    holds "$name is looked at" sh -c "echo '$name' | grep -qE '$pattern'"
done
for name in jobs/a.run/job.yaml config.yaml jobs/a.json; do
    holds "$name is not" sh -c "! echo '$name' | grep -qE '$pattern'"
done
# shellcheck disable=SC2046
{
    ends "a good job passes" 0 $(entry trainspool-check) jobs/fine.yaml
    ends "a bad one fails" 1 $(entry trainspool-check) jobs/fine.yaml jobs/both.yaml
    ends "and is mended" 0 $(entry trainspool-patch) jobs/fine.yaml jobs/both.yaml
    ends "for good" 0 $(entry trainspool-check) jobs/fine.yaml jobs/both.yaml
}
plan
