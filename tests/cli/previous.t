#!/bin/sh
# What check says of a job that has run is what run, retry and watch then do; and nothing it says
# makes a job change twice, or keeps a retry from going on.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "jobs that have run" "no $model"
    plan
    exit 0
fi
make_data .
silent() { ! grep -q 'TS5[0-9]*\]\|TS405' "$T/out"; }

job 6 'trainspool: {device: cpu}' >a.yaml
ends "a new job" 0 "$trainspool" check a.yaml
holds "has nothing behind it" silent
ends "it runs" 0 "$trainspool" run -q a.yaml
ends "a job that is done" 0 "$trainspool" check a.yaml
holds "is told nothing of it" silent
ends "it runs again, anew" 0 "$trainspool" run -q a.yaml
holds "as nobody asked" test -d a.run/checkpoint-6.old-1

job 100000 'trainspool: {device: cpu}' >b.yaml
background "$trainspool" run -q b.yaml
await 30 running b.yaml 25
ends "a job that runs is looked at" 0 "$trainspool" check b.yaml
holds "without a word on its checkpoints" silent
kill -TERM "$daemon"
await 30 gone "$daemon"
at=$(step b.yaml)
ends "an interrupted one" 0 "$trainspool" check b.yaml
says "has a checkpoint" "warning\[TS502\]: checkpoint-$at of the last run"
says "and who goes on from it" 'run --resume. and .retry. go on'
cp b.yaml before
ends "patch changes nothing" 0 "$trainspool" patch b.yaml
holds "of it" cmp b.yaml before
sed 's/^max_steps: .*/max_steps: 100000/; s/^learning_rate: .*/learning_rate: 2.0e-4/' before >b.yaml
ends "with another text" 0 "$trainspool" check b.yaml
says "that is said" 'TS502.*saved under another text'
{ cat b.yaml; echo 'resume_from_checkpoint: true'; } >c && mv c b.yaml
ends "asked to go on" 0 "$trainspool" check b.yaml
says "the difference is shown" 'TS503.*learning_rate: 0.0001 -> 0.0002$'
ends "in a short run too" 0 "$trainspool" run --set max_steps=$((at + 2)) b.yaml
says "before it goes on" 'TS503.*learning_rate: 0.0001 -> 0.0002$'
holds "from where it was" grep -q "resume: from b.run/checkpoint-$at" b.run/train.log

mkdir spool
cp text.txt spool
{ job 100000 'output_dir: out'; echo 'trainspool: {device: cpu}'; } >spool/c.yaml
background "$trainspool" watch spool
await 30 running spool/c.yaml 25
ends "a job of a spool is cancelled" 0 "$trainspool" cancel spool/c.yaml
await 30 is spool/c.yaml stopped
at=$(step spool/c.yaml)
ends "looked at" 0 "$trainspool" check spool/c.yaml
says "its checkpoint is told" "TS502.*checkpoint-$at of the last run"
ends "queued again" 0 "$trainspool" retry spool/c.yaml
await 30 running spool/c.yaml $((at + 1))
ok $? "it runs"
holds "from there" grep -q "resume: from out/checkpoint-$at\|resume: from .*spool/out/checkpoint-$at" \
    spool/c.run/train.log
holds "and was never rejected" sh -c "! grep -q 'c: rejected' '$T/daemon.log'"
"$trainspool" cancel spool/c.yaml >/dev/null
await 30 is spool/c.yaml stopped

# What a power cut may take.
at=$(step spool/c.yaml)
kill -TERM "$daemon"
await 30 gone "$daemon"
rm spool/c.run/state.json
background "$trainspool" watch spool
await 30 running spool/c.yaml $((at + 1))
ok $? "a job that has lost its state is begun again"
holds "where it was" grep -q "resume: from .*out/checkpoint-$at" spool/c.run/train.log
"$trainspool" cancel spool/c.yaml >/dev/null
await 30 is spool/c.yaml stopped

sed 's/^max_steps: .*/max_steps: 4/' spool/c.yaml >spool/.d.tmp
mv spool/.d.tmp spool/c.yaml
await 30 is spool/c.yaml done
ok $? "a new text of the same folder is taken"
{ job 4 'output_dir: out'; echo 'trainspool: {device: cpu}'; echo 'seed: 5'; } >spool/d.yaml
await 30 is spool/d.yaml rejected
ok $? "another job of that folder is not"
holds "for the model that is there" sh -c "grep -q TS501 spool/d.run/state.json"
{ cat spool/d.yaml; echo 'overwrite_output_dir: true'; } >spool/.d.tmp
mv spool/.d.tmp spool/d.yaml
await 30 is spool/d.yaml done
ok $? "until it says that it is meant"
holds "and the other's model is kept" test -f spool/out/model.safetensors.old-1
ends "the first one" 0 "$trainspool" retry spool/c.yaml
await 30 is spool/c.yaml done
ok $? "may have its folder again"
{ job 60 'output_dir: one'; echo 'trainspool: {device: cpu}'; } >spool/.f.tmp
{ job 4 'output_dir: one'; echo 'trainspool: {device: cpu}'; } >spool/.g.tmp
mv spool/.f.tmp spool/f.yaml
await 30 is spool/f.yaml running
mv spool/.g.tmp spool/g.yaml
await 60 is spool/g.yaml failed
ok $? "a job that waited while another put its model into their folder fails"
holds "for that model" sh -c "grep -q TS501 spool/g.run/state.json && test -f spool/one/model.safetensors"
holds "which is where it was" test ! -e spool/one/model.safetensors.old-1
holds "a first attempt looks for no checkpoint" sh -c "! grep 'resume\|continuing' spool/f.run/train.log"
kill -TERM "$daemon"
await 10 gone "$daemon"

# a float16 base that went wrong: one edit, and the run after it is looked at with new eyes
sick() {
    for i in 10 20 30 40; do
        printf '{"step":%d,"loss":0.0,"grad_norm":"NaN","loss_scale":%d,"skipped":%d}\n' \
            $i $((1024 / i)) $i
    done >"$1/metrics.jsonl"
}
job 6 'model_dtype: float16' | sed 's/full/lora/' >e.yaml
echo 'fp16: true # as it was' >>e.yaml
ends "float16 with fp16" 0 "$trainspool" run -q --no-patch e.yaml
sick e.run
ends "its log says that it failed" 1 "$trainspool" check --device "TITAN RTX" e.yaml
says "so its base becomes float32" 'TS109.*loss 0 at step 10'
ends "by one patch" 0 "$trainspool" patch --device "TITAN RTX" e.yaml
holds "which is written" grep -q '^model_dtype: float32' e.yaml
cp e.yaml before
ends "a second patch" 0 "$trainspool" patch --device "TITAN RTX" e.yaml
holds "finds nothing to do" cmp e.yaml before
ends "it runs" 0 "$trainspool" run -q --no-patch e.yaml
holds "nor does one after the run" sh -c \
    "'$trainspool' patch --device 'TITAN RTX' e.yaml >/dev/null; cmp e.yaml before"
plan
