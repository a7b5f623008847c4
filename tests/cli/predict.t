#!/bin/sh
# do_eval and do_predict without training: a model is evaluated, and its answers are scored.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

# FROM TO: questions with answers that can be learned.
questions() {
    awk -v from="$1" -v to="$2" 'BEGIN {
        split("Tom Lily Ben Mia", who); split("cat dog ball hat cup", what)
        for (i = from; i <= to; i++) {
            thing = what[i * 7 % 5 + 1]
            printf "{\"instruction\": \"%s has a %s. What is it?\", ", who[i % 4 + 1], thing
            printf "\"output\": \"It is a %s.\"}\n", thing
        } }'
}
questions 1 48 >train.jsonl
questions 49 60 >eval.jsonl
# LINES...: print a job that evaluates, in the style of LLaMA-Factory's examples/train_lora.
evaluates() {
    printf '%s\n' "model_name_or_path: $model" "stage: sft" "do_train: false" "finetuning_type: lora" \
        "template: default" "cutoff_len: 128" "per_device_eval_batch_size: 4" "max_new_tokens: 20" \
        "do_sample: false" "eval_dataset: eval.jsonl" "$@"
}

evaluates "do_eval: true" >eval.yaml
evaluates "do_predict: true" "predict_with_generate: true" | sed '/do_train/d' >predict.yaml
for fault in "do_predict: true|do_predict generates answers" "do_eval: false|asks for nothing else" \
    "do_eval: true,stage: dpo|stage dpo cannot only evaluate" \
    "do_predict: true,predict_with_generate: true,stage: pt|plain text (stage: pt) has none"; do
    lines=${fault%|*}
    evaluates | sed '/^stage/d' >wrong.yaml
    echo "$lines" | tr ',' '\n' >>wrong.yaml
    expect_status "$lines: check fails" 1 "$trainspool" check --select TS707 wrong.yaml
    expect_output "$lines: the message says why" "TS707.*${fault#*|}"
done
evaluates "do_predict: true" "predict_with_generate: true" | sed '/eval_dataset/d' >wrong.yaml
expect_status "a job without evaluation data fails" 1 "$trainspool" check --select TS507 wrong.yaml
expect_output "the message names do_predict" 'TS507.*do_predict asks for an evaluation, but there is no data'
evaluates "do_eval: true" "learning_rate: 7" "optim: adamw_torch_fused" "max_grad_norm: -1" "fp16: true" \
    "model_dtype: float16" "save_strategy: steps" "load_best_model_at_end: true" \
    "metric_for_best_model: rouge" "early_stopping_steps: 2" "num_train_epochs: 3" "max_steps: 5" \
    "save_only_model: true" >training.yaml
expect_status "rules about training are silent" 0 "$trainspool" check --device T4 \
    --ignore TS308,TS704,TS705,TS713,TS716 training.yaml
expect "no rule about training reports the job" sh -c "! grep -o 'TS[0-9]*' '$T/out' | grep -v TS7"

if ! has_model; then
    skip "a model is evaluated" "no model in $model"
    plan
    exit
fi

# value FILE KEY: print a number of a JSON file.
value() { jq -r --arg key "$2" '.[$key]' "$1"; }
close_to() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d * d <= 1e-10 * b * b) }'; }

expect_status "plan of an evaluation succeeds" 0 "$trainspool" plan eval.yaml
expect_output "the plan names what is evaluated" 'evaluation  12 samples with [0-9]* tokens; loss; nothing is trained'
expect "the plan has no steps and no batch" sh -c "! grep -q '  steps \|  batch \|  clipping ' '$T/out'"
cp "$T/out" planned
expect_status "plan --json of an evaluation succeeds" 0 sh -c "'$trainspool' plan --json predict.yaml | jq -e \
    '.batch == null and .steps == null and .evaluation == {loss: false, answers: true, per_device_eval_batch_size: 4, samples: 12}'"
expect_status "run of an evaluation succeeds" 0 "$trainspool" run eval.yaml
expect_output "the output has the loss" "^{'eval_loss': .*, 'eval_perplexity': .*, 'eval_runtime': .*, 'eval_samples_per_second': .*, 'eval_steps_per_second': "
expect_output "the output names the results" 'eval.yaml: done: evaluated, results in eval.run$'
expect "the job is done" state_is eval.yaml done
expect "the run takes the planned memory" grep -q "memory  *$(sed -n 's/.*trainable, \(.*\) in memory$/\1/p' eval.run/train.log)" planned
expect "the results have the fields" sh -c "jq -e 'keys == [\"eval_loss\", \"eval_perplexity\", \"eval_runtime\",
    \"eval_samples_per_second\", \"eval_steps_per_second\"]' eval.run/eval_results.json && cmp eval.run/eval_results.json eval.run/all_results.json"
expect "nothing is trained or saved" sh -c "! ls eval.run | grep -q 'checkpoint\|safetensors'"
expect "metrics.jsonl has the results" sh -c "jq -e --slurpfile r eval.run/eval_results.json '. == \$r[0] + {step: 0, epoch: 0}' eval.run/metrics.jsonl"
expect "run.json has no steps" sh -c "jq -e '.steps == null and .batch == null and .data.eval_samples == 12 and .data.samples == 0' eval.run/run.json"
expect "the page has the loss" grep -q 'evaluation loss' eval.run/report.html
"$trainspool" status eval.yaml >"$T/out"
expect_output "status shows the job" 'done  *3/3'

# The loss is that of the first evaluation of a training run.
sed 's/^do_train: false/eval_strategy: steps\neval_steps: 1\nmax_steps: 1\nlearning_rate: 1.0e-30\ndataset: train.jsonl/; /do_eval/d' \
    eval.yaml >trains.yaml
"$trainspool" run -q trains.yaml
expect "the loss is that of a training run" close_to "$(value eval.run/eval_results.json eval_loss)" \
    "$(jq -s 'map(select(.eval_loss))[0].eval_loss' trains.run/metrics.jsonl)"
# A part of dataset, and accuracy of tokens; eval_strategy turns do_eval on.
evaluates "eval_strategy: steps" "dataset: train.jsonl" "val_size: 6" "compute_accuracy: true" "per_device_eval_batch_size: 1" |
    sed '/eval_dataset/d; /batch_size: 4/d' >part.yaml
expect_status "a part of the dataset is evaluated" 0 "$trainspool" run part.yaml
expect "the results have the accuracy of tokens" sh -c "jq -e '.eval_accuracy > 0 and .eval_accuracy < 1' part.run/eval_results.json"
expect "six samples are evaluated" grep -q 'done: evaluated 6 samples' part.run/train.log
make_data .
evaluates "do_eval: true" | sed 's/stage: sft/stage: pt/; s/eval.jsonl/text.txt/; /template/d' >plain.yaml
expect_status "plain text is evaluated" 0 "$trainspool" run -q --set max_samples=20 plain.yaml
expect "two ranks are one in an evaluation" sh -c "'$trainspool' run -q --set trainspool.ranks=2 eval.yaml"

# Train an adapter; its answers are right, with the adapter and with the merged model.
sed 's/^do_train: false/do_train: true\ndataset: train.jsonl\nmax_steps: 60\nlearning_rate: 1.0e-2/
    s/^max_new_tokens.*/per_device_train_batch_size: 8\noutput_dir: adapter\nexport_dir: merged/; /eval_dataset/d; /do_eval/d' eval.yaml >adapter.yaml
expect_status "an adapter is trained" 0 "$trainspool" run -q adapter.yaml
expect_status "prediction with the base model succeeds" 0 "$trainspool" run predict.yaml
expect_output "the output has the scores" "^{'predict_rouge-1': .*, 'predict_bleu-4': .*, 'predict_runtime': "
{
    cat predict.yaml
    echo "adapter_name_or_path: adapter"
    echo "output_dir: answers"
    echo "do_eval: true"
    echo "do_train: false"
} >learned.yaml
expect_status "prediction with an adapter succeeds" 0 "$trainspool" run learned.yaml
expect "the results have the fields" sh -c "jq -e 'keys == [\"predict_accuracy\", \"predict_answer_rate\", \"predict_bleu-4\",
    \"predict_rouge-1\", \"predict_rouge-2\", \"predict_rouge-l\", \"predict_runtime\", \"predict_samples_per_second\",
    \"predict_steps_per_second\"]' answers/predict_results.json"
expect "the adapter gives better answers" sh -c "jq -se '.[1].\"predict_rouge-l\" > .[0].\"predict_rouge-l\" + 20 and
    .[1].\"predict_bleu-4\" > .[0].\"predict_bleu-4\" + 20' predict.run/predict_results.json answers/predict_results.json"
expect "each prompt has an answer" sh -c "jq -se 'length == 12 and all(.[]; keys == [\"label\", \"predict\", \"prompt\"]) and
    (.[0].prompt | test(\"Human: Lily has a \")) and all(.[]; .label | test(\"^It is a [a-z]*\\\\.\"))' answers/generated_predictions.jsonl"
expect "all results are in one file" sh -c "jq -e 'has(\"eval_loss\") and has(\"eval_bleu-4\") and has(\"predict_rouge-l\")' answers/all_results.json"
sed "s|^model_name_or_path: .*|model_name_or_path: merged|; /^adapter_name/d; s/: answers/: whole/" learned.yaml >whole.yaml
expect_status "prediction with the merged model succeeds" 0 "$trainspool" run -q whole.yaml
expect "the merged model gives the same answers" cmp answers/generated_predictions.jsonl whole/generated_predictions.jsonl
cp answers/generated_predictions.jsonl before.jsonl
expect_status "the job runs again" 0 "$trainspool" run -q --resume learned.yaml
expect "the answers are the same" cmp before.jsonl answers/generated_predictions.jsonl
expect_status "a part of the prompts is answered" 0 "$trainspool" run -q --set trainspool.eval_questions=5 learned.yaml
expect "five prompts have an answer" test "$(wc -l <answers/generated_predictions.jsonl)" -eq 5
expect "they are the first of all" sh -c "head -5 before.jsonl | cmp - answers/generated_predictions.jsonl"
sed 's/do_sample: false/do_sample: true\ntemperature: 2.0\nseed: 7/' learned.yaml >sampled.yaml
expect_status "answers are sampled" 0 "$trainspool" run -q sampled.yaml
expect "sampled answers differ" sh -c "! cmp -s before.jsonl answers/generated_predictions.jsonl"

# Chinese answers: ROUGE has another name, because it counts characters.
printf '{"instruction": "%s", "output": "%s"}\n' "Who is it?" "我喜欢你" >chinese.jsonl
sed 's/eval.jsonl/chinese.jsonl/' predict.yaml >chinese.yaml
expect_status "Chinese answers are scored" 0 "$trainspool" run chinese.yaml
expect "ROUGE has another name" sh -c "jq -e 'has(\"predict_rouge-1-char\") and has(\"predict_bleu-4\") and (has(\"predict_rouge-1\") | not)' chinese.run/predict_results.json"
expect "the log says why" grep -q 'warn evaluation: the texts have Chinese characters' chinese.run/train.log

# Stop, and the spool.
questions 1 600 >many.jsonl
sed 's/eval.jsonl/many.jsonl/; s/^max_new_tokens: .*/max_new_tokens: 380/' predict.yaml >slow.yaml
background "$trainspool" run -q slow.yaml
wait_until 60 grep -qs '"step":[1-9]' slow.run/state.json
kill -TERM "$daemon"
wait_until 30 has_exited "$daemon"
expect "SIGTERM stops a prediction" exited_with "$daemon" 143
expect "the job is stopped" state_is slow.yaml stopped
expect "no results are written" sh -c "! ls slow.run/*results.json slow.run/generated_predictions.jsonl 2>/dev/null"
mkdir spool
sed 's|eval_dataset: |&../|; s|adapter_name_or_path: |&../|' learned.yaml >spool/dropped.yaml
expect_status "a watch evaluates a dropped job" 0 timeout 60 "$trainspool" watch --once spool
expect "the dropped job is done" state_is spool/dropped.yaml done
expect "the dropped job gives the same answers" cmp before.jsonl spool/answers/generated_predictions.jsonl
plan
