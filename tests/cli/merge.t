#!/bin/sh
# A job that names a model, an adapter and export_dir, and no data, merges and trains nothing.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

# LINES...: LLaMA-Factory's examples/merge_lora, on a model of ours.
merge() {
    printf '%s\n' "### model" "model_name_or_path: $model" "template: default" \
        "trust_remote_code: true" "" "### export" "export_size: 5" \
        "export_device: cpu  # choices: [cpu, auto]" "export_legacy_format: false" "$@"
}

if ! has_model; then
    skip "an adapter is merged" "no model in $model"
    plan
    exit
fi
make_data .
job 2 "output_dir: adapter" "export_dir: trained" | sed 's/: full/: lora/; s/1.0e-4/1.0e-2/' >train.yaml
ends "a training that merges at its end" 0 "$trainspool" run -q train.yaml

merge "finetuning_type: lora" "adapter_name_or_path: adapter" "export_dir: merged" >merge.yaml
ends "a merge alone is a sound job" 0 "$trainspool" check merge.yaml
holds "of which nothing is told but a key without effect" \
    sh -c "grep -o 'TS[0-9]*' '$T/out' | grep -qx TS708 && ! grep -o 'TS[0-9]*' '$T/out' | grep -vqx TS708"
ends "plan" 0 "$trainspool" plan merge.yaml
says "says what it will do" 'adapter into the model, written to merged; nothing is trained$'
holds "and of no step" sh -c "! grep -q 'steps\|batch' '$T/out'"
ends "nor of a batch for others" 0 sh -c \
    "'$trainspool' plan --json merge.yaml | jq -e '.batch == null and .steps == null and .memory != null'"
ends "run" 0 "$trainspool" run merge.yaml
says "says where the model is" 'merge.yaml: done: merged, model in merged$'
holds "which is that of the training, byte for byte" cmp trained/model.safetensors merged/model.safetensors
holds "with what goes along" cmp trained/tokenizer.json merged/tokenizer.json
holds "it is done" is merge.yaml done
holds "with no batch" sh -c "jq -e '.batch == null' merge.run/run.json >'$T/out' &&
    ! grep -q 'samples per step' merge.run/report.html"
memory() { jq -c '.memory | {weights, gradients, optimizer, activations}'; }
"$trainspool" plan --json merge.yaml | memory >planned
memory <merge.run/run.json >taken
holds "in the memory that was planned" cmp planned taken
merge "adapter_name_or_path: adapter" "export_dir: other" "per_device_train_batch_size: 64" \
    "cutoff_len: 2048" "quantization_bit: 4" "predict_with_generate: true" "do_sample: false" \
    "eval_dataset: text.txt" "eval_strategy: steps" >large.yaml
"$trainspool" plan --json large.yaml | memory >large
holds "whatever a training would take" cmp planned large
holds "its log tells" grep -q 'merge: the adapter adapter into the model' merge.run/train.log
holds "there is no step and no checkpoint" sh -c \
    "! ls -d merge.run/checkpoint* merge.run/adapter* merge.run/metrics.jsonl 2>/dev/null | grep -q ."
ends "the model answers" 0 "$trainspool" generate merged -p "Tom" --max-new-tokens 3

mkdir spool
merge "do_train: false" "adapter_name_or_path: $T/adapter" "export_dir: out" >spool/dropped.yaml
ends "a dropped one" 0 timeout 60 "$trainspool" watch --once spool
holds "is done too" is spool/dropped.yaml done
holds "the same" cmp trained/model.safetensors spool/out/model.safetensors

merge "adapter_name_or_path: adapter" "export_dir: again" "do_train: true" >trains.yaml
ends "one that says it trains" 1 "$trainspool" run trains.yaml
says "wants data" 'TS713.*dataset is not given'
merge "adapter_name_or_path: adapter" >alone.yaml
ends "so does one that exports nowhere" 1 "$trainspool" run alone.yaml
says "as ever" 'TS713.*dataset is not given'
merge "export_dir: again" >base.yaml
ends "and one without an adapter" 1 "$trainspool" run base.yaml
holds "none of them exports" test ! -e again
plan
