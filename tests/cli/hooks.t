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
    expect_status "the patch hook patches the bad job" 0 $(entry trainspool-patch) jobs/fine.yaml jobs/both.yaml
    expect_status "the check hook passes the patched job" 0 $(entry trainspool-check) jobs/fine.yaml jobs/both.yaml
}
plan
