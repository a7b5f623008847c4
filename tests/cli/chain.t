#!/bin/sh
# Jobs dropped together, each starting from the output of an earlier one: a watch checks for missing
# files when the turn of a job comes.
. "${top_srcdir-.}/tests/cli/lib.sh"
if ! has_model; then
    skip 'jobs that build on one another' 'no shared models'
    plan
    exit 0
fi
cd "$T" || exit 99
mkdir spool
make_data spool
job 2 'output_dir: first' >spool/1-first.yaml
job 2 | sed 's/^model_name_or_path: .*/model_name_or_path: first/' >spool/2-second.yaml
job 2 | sed 's/^model_name_or_path: .*/model_name_or_path: nowhere/' >spool/3-third.yaml
expect_status 'watch --once runs three dependent jobs' 1 \
    timeout 120 "$trainspool" watch --once spool
expect 'the first job is done' state_is spool/1-first.yaml done
expect 'the second job, which starts from the first model, is done' state_is spool/2-second.yaml done
expect 'the third job fails when its turn comes' state_is spool/3-third.yaml failed
try reason spool/3-third.yaml
expect_output 'the reason is its missing model' 'TS713.*nowhere'
plan
