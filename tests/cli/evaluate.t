#!/bin/sh
# evaluation: the best model, early stopping, generated answers and preferences.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "a run is evaluated" "no model in $model"
    plan
    exit
fi
make_data .
evaluated() { # STEPS LINE...: print a job with an evaluation every 2 steps
    job "$@" "val_size: 0.05" "eval_strategy: steps" "eval_steps: 2"
}

# With a learning rate that changes no weight, the first evaluation after a step is the best.
evaluated 60 "early_stopping_steps: 2" "load_best_model_at_end: true" |
    sed 's/^learning_rate: .*/learning_rate: 1.0e-30/' >still.yaml
expect_status "early stopping ends a run that does not improve" 0 "$trainspool" run still.yaml
expect_output "the output has the number of steps" 'done: 6 steps'
expect "the log reports early stopping" grep -q 'early stopping: step 6, 2 evaluations without improvement since step 2' \
    still.run/train.log
expect "the first of equal evaluations is the best model" grep -q 'best model: step 2, eval_loss' still.run/train.log
expect "the job is done" state_is still.yaml done
expect_status "a resume of a finished run succeeds" 0 "$trainspool" run --resume still.yaml
expect "a resume of a finished run does no steps" test "$(step still.yaml)" -eq 6

# 60 questions with answers that can be learned, the last 12 for evaluation.
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
answering() { # STEPS LINE...: print a job that answers the questions at each evaluation
    job "$1" | sed 's/stage: pt/stage: sft/; s/text.txt/train.jsonl/; s/^\(learning_rate:\).*/\1 2.0e-3/
        s/^\(per_device_train_batch_size:\).*/\1 8/; s/^\(cutoff_len:\).*/\1 128/'
    printf '%s\n' "eval_dataset: eval.jsonl" "per_device_eval_batch_size: 4" "eval_strategy: steps" \
        "predict_with_generate: true" "do_sample: false" "max_new_tokens: 30"
    shift
    printf '%s\n' "$@" "trainspool:" "  answer_tag: answer" "  samples: 5"
}
answering 60 "eval_steps: 20" "metric_for_best_model: accuracy" "load_best_model_at_end: true" >answer.yaml
expect_status "a job with predict_with_generate succeeds" 0 "$trainspool" run answer.yaml
expect_output "the output has the accuracy before training" "^{'eval_loss': .*, 'eval_accuracy': 0, 'eval_answer_rate': 0, 'epoch': 0.00}"
expect_output "the output has the accuracy after training" "^{'eval_loss': .*, 'eval_accuracy': 1, 'eval_answer_rate': 1, 'epoch': 10.00}"
expect "the metrics have the accuracy" grep -q '"step":60,.*"eval_accuracy":1.0,"eval_answer_rate":1.0,' answer.run/metrics.jsonl
expect "the metrics have the documented fields" jq_accepts -se --argjson step "$(fields "a step")" \
    --argjson evaluation "$(fields "an evaluation")" '
    (map(select(has("loss")) | keys - ["epoch", "step"]) | length > 0 and
        all(.[]; . == $step - ["ce_loss", "kd_loss"])) and
    (map(select(has("loss") | not) | keys - ["epoch", "step"]) | length > 0 and
        all(.[]; . == $evaluation))' answer.run/metrics.jsonl
expect "trainer_state.json has the accuracy" sh -c "jq -e '.best_metric == 1 and .log_history[-1].eval_accuracy == 1' \
    answer.run/checkpoint-60/trainer_state.json >/dev/null"
expect "samples.jsonl has five answers" test "$(wc -l <answer.run/samples.jsonl)" -eq 5
expect "samples.jsonl has answers from before and after" sh -c "jq -e '.before != .after and .correct and (.correct_before | not)' \
    answer.run/samples.jsonl >/dev/null"
"$trainspool" plan answer.yaml >"$T/out"
expect_output "the plan matches the memory of the run" "memory  *$(sed -n 's/.*trainable, \(.*\) in memory$/\1/p' answer.run/train.log)"

# Samples longer than cutoff_len are truncated for training, but not for generation.  A question longer
# than cutoff_len is skipped.  Packing changes the order of the samples.
{
    questions 49 52 | sed 's/It is <answer>/It is what is said here, and that is this: <answer>/'
    awk 'BEGIN { printf "{\"instruction\": \""; for (i = 0; i < 70; i++) printf "word "
        print "\", \"output\": \"It is <answer>cat</answer>\"}" }'
} >long.jsonl
for packed in false true; do
    answering 1 "packing: $packed" "eval_steps: 1" | sed 's/^cutoff_len: .*/cutoff_len: 42/
        s/^eval_dataset: .*/eval_dataset: long.jsonl/' >cut.yaml
    expect_status "truncated samples are evaluated, packing: $packed" 0 "$trainspool" run cut.yaml
    expect "questions and expected answers are not truncated" sh -c "
        jq -r .prompt cut.run/samples.jsonl | grep -c '^Human: .* What is it? *$' | grep -qx 4 &&
        jq -r .expected cut.run/samples.jsonl | grep -c '^It is what .*<answer>[a-z]*</answer>$' | grep -qx 4"
    expect "the log reports a question that is too long" grep -q \
        'evaluation: skipping 1 of 5 prompts, which are longer than cutoff_len, 42 tokens' cut.run/train.log
    "$trainspool" plan cut.yaml >"$T/out"
    expect_output "the plan excludes questions that are too long" \
        "memory  *$(sed -n 's/.*trainable, \(.*\) in memory$/\1/p' cut.run/train.log)"
done
sed -i 's/^cutoff_len: .*/cutoff_len: 12/' cut.yaml
expect_status "a job fails if all questions are too long" 1 "$trainspool" run cut.yaml
expect_error "the message names cutoff_len" 'all prompts of the evaluation data have more than cutoff_len, 12, tokens; raise cutoff_len'

# A template whose end of an answer is not a token of the model, with enable_thinking: false.
answering 60 "template: qwen3" "enable_thinking: false" "eval_steps: 60" | sed '/answer_tag/d' >words.yaml
sed -i 's/^cutoff_len: .*/cutoff_len: 256/' words.yaml
expect_status "a job with template tokens after its answers succeeds" 0 "$trainspool" run words.yaml
expect "answers are compared without template tokens" sh -c "grep -q '\"correct\":true' words.run/samples.jsonl &&
    jq -se 'all(.[]; .correct == (.after == .expected))' words.run/samples.jsonl >/dev/null"
expect_status "generate answers the same questions" 0 "$trainspool" generate words.yaml --prompts eval.jsonl --json
head -5 "$T/out" >asked.jsonl
expect "generate gives the same answers" sh -c "jq .completion asked.jsonl >a && jq .after words.run/samples.jsonl | cmp - a"

# Answers do not depend on interruptions or on the number of threads.
answering 30 "eval_steps: 10" "lr_scheduler_type: constant" >stopped.yaml
cp stopped.yaml whole.yaml
expect_status "a run with one thread succeeds" 0 "$trainspool" run -q --set trainspool.threads=1 whole.yaml
"$trainspool" run -q --set max_steps=20 stopped.yaml
expect_status "an interrupted run resumes" 0 "$trainspool" run -q --resume stopped.yaml
expect "the resumed run keeps the answers from before" cmp stopped.run/samples.jsonl whole.run/samples.jsonl
for run in whole stopped; do
    sed -n 's/"eval_perplexity.*//; /eval_loss/p' $run.run/metrics.jsonl >$run.eval
done
expect "the resumed run has the same losses" cmp whole.eval stopped.eval
expect "the resumed run has all evaluations" test "$(wc -l <whole.eval)" -eq 4

# A stopped run does not wait for the last answer.
answering 60 "eval_steps: 20" | sed 's/^max_new_tokens: .*/max_new_tokens: 380/' >slow.yaml
questions 1 400 >many.jsonl
sed -i 's/eval.jsonl/many.jsonl/' slow.yaml
background "$trainspool" run -q slow.yaml
wait_until 60 grep -qs 'steps: 60 total' slow.run/train.log
sleep 1
kill -TERM "$daemon"
wait_until 30 has_exited "$daemon"
expect "SIGTERM stops a run during generation" exited_with "$daemon" 143
expect "the run stops at step 0" grep -q 'stopped by SIGTERM at step 0' slow.run/state.json
sed -i 's/many.jsonl/eval.jsonl/; s/^max_new_tokens: .*/max_new_tokens: 30/' slow.yaml
expect_status "the run resumes" 0 "$trainspool" run -q --resume --set max_steps=20 slow.yaml
expect "the resumed run repeats the interrupted evaluation" grep -q '"step":0,.*"eval_accuracy"' slow.run/metrics.jsonl

# Two ranks divide the questions.
sed 's/^model_name_or_path: .*/model_name_or_path: answer.run/' answer.yaml >learned.yaml
for ranks in 1 2; do
    "$trainspool" run -q --set max_steps=1 --set trainspool.ranks=$ranks --set trainspool.eval_questions=11 learned.yaml
    sed -n 's/.*"step":0,.*\("eval_accuracy":.*\),"eval_loss.*/\1/p' learned.run/metrics.jsonl >ranks.$ranks
done
expect "two ranks give the same accuracy as one" sh -c "test -s ranks.1 && cmp ranks.1 ranks.2"

# Training on the model's own correct answers.
expect_status "generate --keep-correct succeeds" 0 "$trainspool" generate answer.yaml --samples 4 --temperature 1.5 --top-p 1 --top-k 0 \
    --keep-correct --output right.jsonl
expect_error "the summary has the accuracy and the record count" '^192 completions: accuracy 0\.[0-9]*, answer_rate 0\.[0-9]*; [0-9]* records kept'
expect "all counted records are written" sh -c "test -s right.jsonl && grep -q \"; \$(wc -l <right.jsonl) records kept\" '$T/err'"
expect "records are conversations" sh -c "jq -e '.messages | length == 2 and .[1].role == \"assistant\"' right.jsonl >/dev/null"
sed 's/train.jsonl/right.jsonl/' answer.yaml >second.yaml
expect_status "a second job trains on the records" 0 "$trainspool" run -q --set max_steps=4 second.yaml

answering 8 "train_on_prompt: true" >hidden.yaml
expect_status "predict_with_generate with train_on_prompt fails" 1 "$trainspool" run -q hidden.yaml
expect_error "the message names train_on_prompt" 'train_on_prompt'
# Accuracy of the most likely tokens.
evaluated 8 "compute_accuracy: true" "metric_for_best_model: eval_accuracy" "load_best_model_at_end: true" >tokens.yaml
expect_status "a job with compute_accuracy succeeds" 0 "$trainspool" run tokens.yaml
expect_output "the output has the token accuracy" "^{'eval_loss': .*, 'eval_accuracy': 0\.[0-9]*, 'epoch': 0.00}"
expect "the token accuracy selects the best model" grep -q 'best model: step [0-9]*, eval_accuracy 0\|done: 8 steps' tokens.run/train.log
answering 1 "eval_steps: 1" "compute_accuracy: true" |
    sed '/predict_with_generate/d; s/^model_name_or_path: .*/model_name_or_path: answer.run\ntemplate: default/' >known.yaml
expect_status "a trained model is evaluated with compute_accuracy" 0 "$trainspool" run known.yaml
expect_output "the token accuracy of a trained model is 1" "^{'eval_loss': .*, 'eval_accuracy': 1, 'epoch': 0.00}"
answering 1 "eval_steps: 1" | sed '/predict_with_generate/d; s/train.jsonl/eval.jsonl/
    s/^\(per_device_train_batch_size:\).*/\1 12/; s/^\(logging_steps:\).*/\1 1/' >both.yaml
expect_status "a job evaluates its training data" 0 "$trainspool" run -q both.yaml
expect "the first evaluation loss equals the first training loss" sh -c "jq -se '(map(.eval_loss // empty)[0]) as \$eval |
    (map(.loss // empty)[0]) as \$loss | (\$loss - \$eval) / \$eval | fabs < 1e-5' both.run/metrics.jsonl >'$T/out'"
evaluated 8 "metric_for_best_model: rouge" "load_best_model_at_end: true" >rouge.yaml
expect_status "an unsupported metric_for_best_model fails" 1 "$trainspool" run -q rouge.yaml
expect_output "the message lists the supported metrics" 'TS514.*must be loss, accuracy or answer_rate'
job 8 "early_stopping_steps: 2" >never.yaml
expect_status "early stopping without evaluations fails" 1 "$trainspool" run -q never.yaml
expect_output "the message names eval_strategy" 'TS514.*give eval_strategy'

# Preference training reports rewards.
awk 'BEGIN { for (i = 1; i <= 24; i++)
    printf "{\"question\": \"What is %d?\", \"chosen\": \"A number.\", \"rejected\": \"A cat %d.\"}\n", i, i }' \
    >pairs.jsonl
evaluated 4 "logging_steps: 2" | grep -v '^logging_steps: 10' |
    sed 's/stage: pt/stage: dpo/; s/text.txt/pairs.jsonl/; s/val_size: .*/val_size: 4/' >prefer.yaml
expect_status "a preference job succeeds" 0 "$trainspool" run prefer.yaml
expect "the log has the reference model" grep -q 'reference: .* parameters in' prefer.run/train.log
expect "the log counts pairs" grep -q 'data: 20 pairs, ' prefer.run/train.log
expect_output "the output has rewards" "^{'loss': .*'rewards/accuracies': .*'logps/rejected': .*'grad_norm': "
expect_output "the evaluation has rewards" "^{'eval_loss': .*'eval_rewards/margins': .*'epoch': "
expect "the metrics have the documented fields of preferences" jq_accepts -se --argjson step "$(fields "a step")" \
    --argjson rewards "$(fields preferences)" '
    (map(select(has("loss")) | keys - ["epoch", "step"]) | length > 0 and
        all(.[]; . - $rewards == $step - ["ce_loss", "kd_loss"] and $rewards - . == [])) and
    (map(select(has("loss") | not) | keys - ["epoch", "step"]) | length > 0 and
        all(.[]; . - ($rewards | map("eval_" + .)) == ["eval_loss"] and
            ($rewards | map("eval_" + .)) - . == []))' prefer.run/metrics.jsonl
plan
