#!/bin/sh
# Jobs dropped together, where one begins with what another makes: each is looked at for what is
# missing when its turn comes.
. "${top_srcdir-.}/tests/cli/lib.sh"
if ! has_model; then
    skip 'jobs that build on one another' 'the shared models are not here'
    plan
    exit 0
fi
cd "$T" || exit 99
mkdir spool
make_data spool
job 2 'output_dir: first' >spool/1-first.yaml
job 2 | sed 's/^model_name_or_path: .*/model_name_or_path: first/' >spool/2-second.yaml
job 2 | sed 's/^model_name_or_path: .*/model_name_or_path: nowhere/' >spool/3-third.yaml
ends 'a watch of a folder that three jobs lie in' 1 \
    timeout 120 "$trainspool" watch --once spool
holds 'the first is done' is spool/1-first.yaml done
holds 'so is the second, which begins with what the first made' is spool/2-second.yaml done
holds 'the third fails when its turn comes' is spool/3-third.yaml failed
try reason spool/3-third.yaml
says 'as its model is not there' 'TS713.*nowhere'
plan
