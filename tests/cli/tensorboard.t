#!/bin/sh
# Event files: TensorBoard reads the values of metrics.jsonl from them, also after a killed run.
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
expect_status "a run succeeds" 0 "$trainspool" run -q a.yaml
expect "the run has one event file" test "$(ls a.run/events.out.tfevents.* | wc -l)" -eq 1
expect "the event file has no secret" sh -c '! grep -q sesame-77 a.run/events.out.tfevents.*'
expect "the event file has the job" grep -aq 'max_steps: 60' a.run/events.out.tfevents.*
expect "the event file has the patches" grep -aq '# TS401: ' a.run/events.out.tfevents.*
sed 's/max_steps: 60/max_steps: 4000/' a.yaml >b.yaml
background "$trainspool" run -q b.yaml
wait_until 30 test -e b.run/checkpoint-40
trainer=$(children "$daemon" | head -1)
kill -KILL "$trainer"
wait "$daemon"
expect_status "a killed run resumes" 0 "$trainspool" run -q --resume --set max_steps=80 b.yaml
expect "the resumed run has two event files" test "$(ls b.run/events.out.tfevents.* | wc -l)" -eq 2
if "$python" -c 'import tensorboard' 2>/dev/null; then
    expect_status "TensorBoard reads the event file of the run" 0 "$python" "$source/tests/golden/event_files.py" a.run 1
    expect_status "TensorBoard shows each step of the resumed run once" 0 "$python" "$source/tests/golden/event_files.py" b.run 2
else
    skip "TensorBoard reads the event files" "$python has no tensorboard; set PYTHON to another"
fi
plan
