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
cp -r "$model" spool/damaged
chmod -R u+w spool/damaged
head -c 100000 "$model/model.safetensors" >spool/damaged/model.safetensors
cp -r spool/damaged spool/replaced
job 2 | sed 's/^model_name_or_path: .*/model_name_or_path: damaged/' >spool/4-damaged.yaml
job 2 'output_dir: replaced
overwrite_output_dir: true' | sed 's/^model_name_or_path: .*/model_name_or_path: first/' >spool/5-replaces.yaml
job 2 'trainspool: {after: [5-replaces]}' | sed 's/^model_name_or_path: .*/model_name_or_path: replaced/' \
    >spool/6-follows.yaml
expect_status 'watch --once runs dependent jobs' 1 \
    timeout 120 "$trainspool" watch --once spool
expect 'the first job is done' state_is spool/1-first.yaml done
expect 'the second job, which starts from the first model, is done' state_is spool/2-second.yaml done
expect 'the third job fails when its turn comes' state_is spool/3-third.yaml failed
expect 'a job whose model is damaged is rejected while others wait' state_is spool/4-damaged.yaml rejected
expect 'a job may replace a damaged model' state_is spool/5-replaces.yaml done
expect 'a job that names it in after waits for it' state_is spool/6-follows.yaml done
try reason spool/3-third.yaml
expect_output 'the reason is its missing model' 'TS713.*nowhere'
plan
