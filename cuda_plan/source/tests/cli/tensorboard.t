#!/bin/sh
# Event files: TensorBoard reads from them what metrics.jsonl says, of a run killed on its way too.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
python=${PYTHON-python3}

if ! has_model; then
    skip "event files of a run" "no $model"
    plan
    exit 0
fi
make_data .
job 60 "max_grad_norm:" "eval_strategy: steps" "eval_steps: 20" "val_size: 0.1" "hub_token: sesame-77" |
    sed 's/^logging_steps:.*/logging_steps: 1/' >a.yaml
ends "a run" 0 "$trainspool" run -q a.yaml
holds "has one event file" test "$(ls a.run/events.out.tfevents.* | wc -l)" -eq 1
holds "without the secret" sh -c '! grep -q sesame-77 a.run/events.out.tfevents.*'
holds "with the job" grep -aq 'max_steps: 60' a.run/events.out.tfevents.*
holds "and what was patched in it" grep -aq '# TS401: ' a.run/events.out.tfevents.*
sed 's/max_steps: 60/max_steps: 4000/' a.yaml >b.yaml
background "$trainspool" run -q b.yaml
await 30 test -e b.run/checkpoint-40
trainer=$(children "$daemon" | head -1)
kill -KILL "$trainer"
wait "$daemon"
ends "one that was killed goes on" 0 "$trainspool" run -q --resume --set max_steps=80 b.yaml
holds "in a second file" test "$(ls b.run/events.out.tfevents.* | wc -l)" -eq 2
if "$python" -c 'import tensorboard' 2>/dev/null; then
    ends "TensorBoard reads the first" 0 "$python" "$source/tests/golden/event_files.py" a.run 1
    ends "and the second, each step once" 0 "$python" "$source/tests/golden/event_files.py" b.run 2
else
    skip "TensorBoard reads both" "there is no $python with tensorboard; PYTHON names another"
fi
plan
