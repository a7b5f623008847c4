#!/bin/sh
# Findings about earlier runs: check reports what run, retry and watch will do.  These findings never
# change a job twice and never block a retry.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "jobs that have run" "no $model"
    plan
    exit 0
fi
make_data .
no_run_findings() { ! grep -q 'TS5[0-9]*\]\|TS405' "$T/out"; }

job 6 'trainspool: {device: cpu}' >a.yaml
expect_status "check of a new job succeeds" 0 "$trainspool" check a.yaml
expect "a new job has no findings about runs" no_run_findings
expect_status "a new job runs" 0 "$trainspool" run -q a.yaml
expect_status "check of a finished job succeeds" 0 "$trainspool" check a.yaml
expect "a finished job has no findings about runs" no_run_findings
expect_status "a finished job runs again from scratch" 0 "$trainspool" run -q a.yaml
expect "the old checkpoint is kept" test -d a.run/checkpoint-6.old-1

job 100000 'trainspool: {device: cpu}' >b.yaml
background "$trainspool" run -q b.yaml
wait_until 30 has_reached b.yaml 25
expect_status "check of a running job succeeds" 0 "$trainspool" check b.yaml
expect "a running job has no findings about checkpoints" no_run_findings
kill -TERM "$daemon"
wait_until 30 has_exited "$daemon"
at=$(step b.yaml)
expect_status "check of an interrupted job succeeds" 0 "$trainspool" check b.yaml
expect_output "TS502 reports the checkpoint" "warning\[TS502\]: checkpoint-$at of the last run"
expect_output "the advice names run --resume and retry" 'run --resume. and .retry. resume'
cp b.yaml before
expect_status "patch of an interrupted job succeeds" 0 "$trainspool" patch b.yaml
expect "patch does not change the job" cmp b.yaml before
sed 's/^max_steps: .*/max_steps: 100000/; s/^learning_rate: .*/learning_rate: 2.0e-4/' before >b.yaml
expect_status "check of an interrupted job with a new text succeeds" 0 "$trainspool" check b.yaml
expect_output "TS502 reports the new text" 'TS502.*saved under another text'
{ cat b.yaml; echo 'resume_from_checkpoint: true'; } >c && mv c b.yaml
expect_status "check with resume_from_checkpoint succeeds" 0 "$trainspool" check b.yaml
expect_output "TS503 shows the changed setting" 'TS503.*learning_rate: 0.0001 -> 0.0002$'
expect_status "a resumed run with a changed setting succeeds" 0 "$trainspool" run --set max_steps=$((at + 2)) b.yaml
expect_output "the run shows the changed setting before it starts" 'TS503.*learning_rate: 0.0001 -> 0.0002$'
expect "the run resumes from the checkpoint" grep -q "resume: from b.run/checkpoint-$at" b.run/train.log

mkdir spool
cp text.txt spool
{ job 100000 'output_dir: out'; echo 'trainspool: {device: cpu}'; } >spool/c.yaml
background "$trainspool" watch spool
wait_until 30 has_reached spool/c.yaml 25
expect_status "a job of a spool can be canceled" 0 "$trainspool" cancel spool/c.yaml
wait_until 30 state_is spool/c.yaml stopped
at=$(step spool/c.yaml)
expect_status "check of a canceled job succeeds" 0 "$trainspool" check spool/c.yaml
expect_output "TS502 reports the checkpoint of a canceled job" "TS502.*checkpoint-$at of the last run"
expect_status "retry of a canceled job succeeds" 0 "$trainspool" retry spool/c.yaml
wait_until 30 has_reached spool/c.yaml $((at + 1))
ok $? "the canceled job runs again"
expect "it resumes from its checkpoint" grep -q "resume: from out/checkpoint-$at\|resume: from .*spool/out/checkpoint-$at" \
    spool/c.run/train.log
expect "the job was never rejected" sh -c "! grep -q 'c: rejected' '$T/daemon.log'"
"$trainspool" cancel spool/c.yaml >/dev/null
wait_until 30 state_is spool/c.yaml stopped

# Files that a power failure may remove.
at=$(step spool/c.yaml)
kill -TERM "$daemon"
wait_until 30 has_exited "$daemon"
rm spool/c.run/state.json
background "$trainspool" watch spool
wait_until 30 has_reached spool/c.yaml $((at + 1))
ok $? "a job that lost its state starts again"
expect "it resumes from its last checkpoint" grep -q "resume: from .*out/checkpoint-$at" spool/c.run/train.log
"$trainspool" cancel spool/c.yaml >/dev/null
wait_until 30 state_is spool/c.yaml stopped

sed 's/^max_steps: .*/max_steps: 4/' spool/c.yaml >spool/.d.tmp
mv spool/.d.tmp spool/c.yaml
wait_until 30 state_is spool/c.yaml done
ok $? "a new text with the same output folder is accepted"
{ job 4 'output_dir: out'; echo 'trainspool: {device: cpu}'; echo 'seed: 5'; } >spool/d.yaml
wait_until 30 state_is spool/d.yaml rejected
ok $? "another job with that output folder is rejected"
expect "TS501 reports the existing model" sh -c "grep -q TS501 spool/d.run/state.json"
{ cat spool/d.yaml; echo 'overwrite_output_dir: true'; } >spool/.d.tmp
mv spool/.d.tmp spool/d.yaml
wait_until 30 state_is spool/d.yaml done
ok $? "the other job runs with overwrite_output_dir"
expect "the model of the first job is kept" test -f spool/out/model.safetensors.old-1
expect_status "retry of the first job succeeds" 0 "$trainspool" retry spool/c.yaml
wait_until 30 state_is spool/c.yaml done
ok $? "the first job can write to its folder again"
{ job 60 'output_dir: one'; echo 'trainspool: {device: cpu}'; } >spool/.f.tmp
{ job 4 'output_dir: one'; echo 'trainspool: {device: cpu}'; } >spool/.g.tmp
mv spool/.f.tmp spool/f.yaml
wait_until 30 state_is spool/f.yaml running
mv spool/.g.tmp spool/g.yaml
wait_until 60 state_is spool/g.yaml failed
ok $? "a waiting job fails if another job writes to its output folder"
expect "TS501 reports the model of the other job" sh -c "grep -q TS501 spool/g.run/state.json && test -f spool/one/model.safetensors"
expect "the model of the other job is not moved" test ! -e spool/one/model.safetensors.old-1
expect "the first attempt does not search for checkpoints" sh -c "! grep 'resume\|continuing' spool/f.run/train.log"
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"

# a float16 base that failed: one edit, and findings start over with the next run
write_nan_metrics() {
    for i in 10 20 30 40; do
        printf '{"step":%d,"loss":0.0,"grad_norm":"NaN","loss_scale":%d,"skipped":%d}\n' \
            $i $((1024 / i)) $i
    done >"$1/metrics.jsonl"
}
job 6 'model_dtype: float16' | sed 's/full/lora/' >e.yaml
echo 'fp16: true # as it was' >>e.yaml
expect_status "float16 with fp16 runs" 0 "$trainspool" run -q --no-patch e.yaml
write_nan_metrics e.run
expect_status "check of a run with NaN gradients gives 1" 1 "$trainspool" check --device "TITAN RTX" e.yaml
expect_output "TS109 changes the base to float32" 'TS109.*loss 0 at step 10'
expect_status "patch succeeds" 0 "$trainspool" patch --device "TITAN RTX" e.yaml
expect "the new format is written" grep -q '^model_dtype: float32' e.yaml
cp e.yaml before
expect_status "a second patch succeeds" 0 "$trainspool" patch --device "TITAN RTX" e.yaml
expect "a second patch changes nothing" cmp e.yaml before
expect_status "the patched job runs" 0 "$trainspool" run -q --no-patch e.yaml
expect "a patch after the run changes nothing" sh -c \
    "'$trainspool' patch --device 'TITAN RTX' e.yaml >/dev/null; cmp e.yaml before"
plan
