#!/bin/sh
# evaluation: the best model, and the end of a run that gets no better.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "a run is evaluated" "no model in $model"
    plan
    exit
fi
make_data .
evaluated() { # STEPS MORE...: a job that is evaluated every 2 steps
    job "$@" "val_size: 0.05" "eval_strategy: steps" "eval_steps: 2"
}

# A learning rate that only spoils the model: the second evaluation is the best there is.
evaluated 60 "early_stopping_steps: 2" "load_best_model_at_end: true" |
    sed 's/^learning_rate: .*/learning_rate: 0.5/' >spoiled.yaml
ends "a run that gets no better ends by itself" 0 "$trainspool" run spoiled.yaml
says "and says at which step" 'done: [0-9]* steps'
holds "as its log does" grep -q 'early stopping: step [0-9]*, 2 evaluations without a better one' spoiled.run/train.log
at=$(step spoiled.yaml)
best=$(sed -n 's/.*best model: step \([0-9]*\), eval_loss.*/\1/p' spoiled.run/train.log)
holds "two evaluations after the best" test "$at" -eq $((${best:-$((at - 4))} + 4))
holds "long before its last step" test "$at" -lt 60
holds "the job is done" is spoiled.yaml done
ends "a resume has nothing left to do" 0 "$trainspool" run --resume spoiled.yaml
holds "and stays where it was" test "$(step spoiled.yaml)" -eq "$at"

evaluated 8 "metric_for_best_model: rouge" >rouge.yaml
ends "a metric that is not taken" 1 "$trainspool" run -q rouge.yaml
complains "is told" 'loss, accuracy and answer_rate are'
job 8 "early_stopping_steps: 2" >never.yaml
ends "early stopping without evaluations" 1 "$trainspool" run -q never.yaml
complains "is told" 'give eval_strategy'
plan
