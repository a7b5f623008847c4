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

# A learning rate that changes no weight: the first evaluation after a step is the best there is.
evaluated 60 "early_stopping_steps: 2" "load_best_model_at_end: true" |
    sed 's/^learning_rate: .*/learning_rate: 1.0e-30/' >still.yaml
ends "a run that gets no better ends by itself" 0 "$trainspool" run still.yaml
says "and says at which step" 'done: 6 steps'
holds "as its log does" grep -q 'early stopping: step 6, 2 evaluations without improvement since step 2' \
    still.run/train.log
holds "the best model is the first of equals" grep -q 'best model: step 2, eval_loss' still.run/train.log
holds "the job is done" is still.yaml done
ends "a resume has nothing left to do" 0 "$trainspool" run --resume still.yaml
holds "and stays where it was" test "$(step still.yaml)" -eq 6

# Questions whose answers can be learnt: 60 of them, the last 12 for evaluation.
questions() { # FROM TO
    awk -v from="$1" -v to="$2" 'BEGIN {
        split("Tom Lily Ben Mia", who); split("cat dog ball hat cup", what)
        for (i = from; i <= to; i++) {
            thing = what[i * 7 % 5 + 1]
            printf "{\"instruction\": \"%s has a %s. What is it?\", ", who[i % 4 + 1], thing
            printf "\"output\": \"It is <answer>%s</answer>\"}\n", thing
        } }'
}
questions 1 48 >train.jsonl
questions 49 60 >eval.jsonl
answering() { # STEPS MORE...
    job "$1" | sed 's/stage: pt/stage: sft/; s/text.txt/train.jsonl/; s/^\(learning_rate:\).*/\1 2.0e-3/
        s/^\(per_device_train_batch_size:\).*/\1 8/; s/^\(cutoff_len:\).*/\1 128/'
    printf '%s\n' "eval_dataset: eval.jsonl" "per_device_eval_batch_size: 4" "eval_strategy: steps" \
        "predict_with_generate: true" "do_sample: false" "max_new_tokens: 30"
    shift
    printf '%s\n' "$@" "trainspool:" "  answer_tag: answer" "  samples: 5"
}
answering 60 "eval_steps: 20" "metric_for_best_model: accuracy" "load_best_model_at_end: true" >answer.yaml
ends "a job that answers questions" 0 "$trainspool" run answer.yaml
says "says how many are right" "^{'eval_loss': .*, 'eval_accuracy': 0, 'eval_answer_rate': 0, 'epoch': 0.00}"
says "and learns to" "^{'eval_loss': .*, 'eval_accuracy': 1, 'eval_answer_rate': 1, 'epoch': 10.00}"
holds "which the metrics have" grep -q '"step":60,.*"eval_accuracy":1.0,"eval_answer_rate":1.0,' answer.run/metrics.jsonl
holds "with the documented fields" json -se --argjson step "$(fields "a step")" \
    --argjson evaluation "$(fields "an evaluation")" '
    (map(select(has("loss")) | keys - ["epoch", "step"]) | length > 0 and
        all(.[]; . == $step - ["ce_loss", "kd_loss"])) and
    (map(select(has("loss") | not) | keys - ["epoch", "step"]) | length > 0 and
        all(.[]; . == $evaluation))' answer.run/metrics.jsonl
holds "and trainer_state.json" sh -c "jq -e '.best_metric == 1 and .log_history[-1].eval_accuracy == 1' \
    answer.run/checkpoint-60/trainer_state.json >/dev/null"
holds "five answers are kept" test "$(wc -l <answer.run/samples.jsonl)" -eq 5
holds "from before and after" sh -c "jq -e '.before != .after and .correct and (.correct_before | not)' \
    answer.run/samples.jsonl >/dev/null"
"$trainspool" plan answer.yaml >"$T/out"
says "the plan counts what was taken" "memory  *$(sed -n 's/.*trainable, \(.*\) in memory$/\1/p' answer.run/train.log)"

# Samples longer than cutoff_len are learnt cut, but asked and judged whole; a question that is longer
# itself is not asked.  Packed, they lie in another order.
{
    questions 49 52 | sed 's/It is <answer>/It is what is said here, and that is this: <answer>/'
    awk 'BEGIN { printf "{\"instruction\": \""; for (i = 0; i < 70; i++) printf "word "
        print "\", \"output\": \"It is <answer>cat</answer>\"}" }'
} >long.jsonl
for packed in false true; do
    answering 1 "packing: $packed" "eval_steps: 1" | sed 's/^cutoff_len: .*/cutoff_len: 42/
        s/^eval_dataset: .*/eval_dataset: long.jsonl/' >cut.yaml
    ends "questions of samples that are cut, packing: $packed" 0 "$trainspool" run cut.yaml
    holds "are whole, and what is expected, too" sh -c "
        jq -r .prompt cut.run/samples.jsonl | grep -c '^Human: .* What is it? *$' | grep -qx 4 &&
        jq -r .expected cut.run/samples.jsonl | grep -c '^It is what .*<answer>[a-z]*</answer>$' | grep -qx 4"
    holds "one that is too long is told" grep -q \
        'evaluation: skipping 1 of 5 prompts, which are longer than cutoff_len, 42 tokens' cut.run/train.log
    "$trainspool" plan cut.yaml >"$T/out"
    says "and the plan counts the others" \
        "memory  *$(sed -n 's/.*trainable, \(.*\) in memory$/\1/p' cut.run/train.log)"
done
sed -i 's/^cutoff_len: .*/cutoff_len: 12/' cut.yaml
ends "a job all of whose questions are too long" 1 "$trainspool" run cut.yaml
complains "says so" 'all prompts of the evaluation data have more than cutoff_len, 12, tokens; raise cutoff_len'

# A template whose end of an answer is no token of the model, and answers without thoughts.
answering 60 "template: qwen3" "enable_thinking: false" "eval_steps: 60" | sed '/answer_tag/d' >words.yaml
sed -i 's/^cutoff_len: .*/cutoff_len: 256/' words.yaml
ends "whole answers before words of the template" 0 "$trainspool" run words.yaml
holds "are compared without these" sh -c "grep -q '\"correct\":true' words.run/samples.jsonl &&
    jq -se 'all(.[]; .correct == (.after == .expected))' words.run/samples.jsonl >/dev/null"
ends "the model is asked once more" 0 "$trainspool" generate words.yaml --prompts eval.jsonl --json
head -5 "$T/out" >asked.jsonl
holds "in the same words" sh -c "jq .completion asked.jsonl >a && jq .after words.run/samples.jsonl | cmp - a"

# Stopped and gone on with, and whatever the threads, it says the same.
answering 30 "eval_steps: 10" "lr_scheduler_type: constant" >stopped.yaml
cp stopped.yaml whole.yaml
ends "one thread answers" 0 "$trainspool" run -q --set trainspool.threads=1 whole.yaml
"$trainspool" run -q --set max_steps=20 stopped.yaml
ends "a run is gone on with" 0 "$trainspool" run -q --resume stopped.yaml
holds "and keeps what was said before it" cmp stopped.run/samples.jsonl whole.run/samples.jsonl
for run in whole stopped; do
    sed -n 's/"eval_perplexity.*//; /eval_loss/p' $run.run/metrics.jsonl >$run.eval
done
holds "with the same losses" cmp whole.eval stopped.eval
holds "at each evaluation" test "$(wc -l <whole.eval)" -eq 4

# A run that is to stop does not wait for the last answer.
answering 60 "eval_steps: 20" | sed 's/^max_new_tokens: .*/max_new_tokens: 380/' >slow.yaml
questions 1 400 >many.jsonl
sed -i 's/eval.jsonl/many.jsonl/' slow.yaml
background "$trainspool" run -q slow.yaml
await 60 grep -qs 'steps: 60 total' slow.run/train.log
sleep 1
kill -TERM "$daemon"
await 30 gone "$daemon"
holds "a run that answers questions can be stopped" leaves "$daemon" 143
holds "at its step" grep -q 'stopped by SIGTERM at step 0' slow.run/state.json
sed -i 's/many.jsonl/eval.jsonl/; s/^max_new_tokens: .*/max_new_tokens: 30/' slow.yaml
ends "it goes on" 0 "$trainspool" run -q --resume --set max_steps=20 slow.yaml
holds "with the evaluation that was cut short" grep -q '"step":0,.*"eval_accuracy"' slow.run/metrics.jsonl

# Two processes share the questions.
sed 's/^model_name_or_path: .*/model_name_or_path: answer.run/' answer.yaml >learnt.yaml
for ranks in 1 2; do
    "$trainspool" run -q --set max_steps=1 --set trainspool.ranks=$ranks --set trainspool.eval_questions=11 learnt.yaml
    sed -n 's/.*"step":0,.*\("eval_accuracy":.*\),"eval_loss.*/\1/p' learnt.run/metrics.jsonl >ranks.$ranks
done
holds "questions are shared by two" sh -c "test -s ranks.1 && cmp ranks.1 ranks.2"

# A model's own right answers, to learn from.
ends "right answers are kept" 0 "$trainspool" generate answer.yaml --samples 4 --temperature 1.5 --top-p 1 --top-k 0 \
    --keep-correct --output right.jsonl
complains "and counted" '^192 completions: accuracy 0\.[0-9]*, answer_rate 0\.[0-9]*; [0-9]* records kept'
holds "all of them" sh -c "test -s right.jsonl && grep -q \"; \$(wc -l <right.jsonl) records kept\" '$T/err'"
holds "as conversations" sh -c "jq -e '.messages | length == 2 and .[1].role == \"assistant\"' right.jsonl >/dev/null"
sed 's/train.jsonl/right.jsonl/' answer.yaml >second.yaml
ends "a second job learns from them" 0 "$trainspool" run -q --set max_steps=4 second.yaml

answering 8 "train_on_prompt: true" >hidden.yaml
ends "questions that cannot be told from answers" 1 "$trainspool" run -q hidden.yaml
complains "are told" 'train_on_prompt'
# Tokens that come out as the likeliest.
evaluated 8 "compute_accuracy: true" "metric_for_best_model: eval_accuracy" "load_best_model_at_end: true" >tokens.yaml
ends "the accuracy of tokens" 0 "$trainspool" run tokens.yaml
says "is counted" "^{'eval_loss': .*, 'eval_accuracy': 0\.[0-9]*, 'epoch': 0.00}"
holds "and chooses the best" grep -q 'best model: step [0-9]*, eval_accuracy 0\|done: 8 steps' tokens.run/train.log
answering 1 "eval_steps: 1" "compute_accuracy: true" |
    sed '/predict_with_generate/d; s/^model_name_or_path: .*/model_name_or_path: answer.run/' >known.yaml
ends "tokens of answers that a model has learnt" 0 "$trainspool" run known.yaml
says "are all right" "^{'eval_loss': .*, 'eval_accuracy': 1, 'epoch': 0.00}"
answering 1 "eval_steps: 1" | sed '/predict_with_generate/d; s/train.jsonl/eval.jsonl/
    s/^\(per_device_train_batch_size:\).*/\1 12/; s/^\(logging_steps:\).*/\1 1/' >both.yaml
ends "data that are trained and evaluated" 0 "$trainspool" run -q both.yaml
holds "have one loss before the first step" sh -c "jq -se '(map(.eval_loss // empty)[0]) as \$eval |
    (map(.loss // empty)[0]) as \$loss | (\$loss - \$eval) / \$eval | fabs < 1e-5' both.run/metrics.jsonl >'$T/out'"
evaluated 8 "metric_for_best_model: rouge" "load_best_model_at_end: true" >rouge.yaml
ends "a metric that is not taken" 1 "$trainspool" run -q rouge.yaml
says "is told" 'TS514.*loss, accuracy and answer_rate are'
job 8 "early_stopping_steps: 2" >never.yaml
ends "early stopping without evaluations" 1 "$trainspool" run -q never.yaml
says "is told" 'TS514.*give eval_strategy'

# Of preferences rewards are told, by a job that names no evaluation of its own.
awk 'BEGIN { for (i = 1; i <= 24; i++)
    printf "{\"question\": \"What is %d?\", \"chosen\": \"A number.\", \"rejected\": \"A cat %d.\"}\n", i, i }' \
    >pairs.jsonl
evaluated 4 "logging_steps: 2" | grep -v '^logging_steps: 10' |
    sed 's/stage: pt/stage: dpo/; s/text.txt/pairs.jsonl/; s/val_size: .*/val_size: 4/' >prefer.yaml
ends "a job of preferences" 0 "$trainspool" run prefer.yaml
holds "says what answers are held against" grep -q 'reference: .* parameters in' prefer.run/train.log
holds "and counts pairs" grep -q 'data: 20 pairs, ' prefer.run/train.log
says "tells rewards" "^{'loss': .*'rewards/accuracies': .*'logps/rejected': .*'grad_norm': "
says "and evaluates them" "^{'eval_loss': .*'eval_rewards/margins': .*'epoch': "
holds "and has the documented fields" json -se --argjson step "$(fields "a step")" \
    --argjson rewards "$(fields preferences)" '
    (map(select(has("loss")) | keys - ["epoch", "step"]) | length > 0 and
        all(.[]; . - $rewards == $step - ["ce_loss", "kd_loss"] and $rewards - . == [])) and
    (map(select(has("loss") | not) | keys - ["epoch", "step"]) | length > 0 and
        all(.[]; . - ($rewards | map("eval_" + .)) == ["eval_loss"] and
            ($rewards | map("eval_" + .)) - . == []))' prefer.run/metrics.jsonl
plan
