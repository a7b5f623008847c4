#!/bin/sh
# A job with a model, an adapter and export_dir, but no data, merges and does not train.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

# LINES...: print LLaMA-Factory's examples/merge_lora with our model.
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
expect_status "a training run with export_dir succeeds" 0 "$trainspool" run -q train.yaml

merge "finetuning_type: lora" "adapter_name_or_path: adapter" "export_dir: merged" >merge.yaml
expect_status "a merge job has no errors" 0 "$trainspool" check merge.yaml
expect "check reports only a key without effect" \
    sh -c "grep -o 'TS[0-9]*' '$T/out' | grep -qx TS708 && ! grep -o 'TS[0-9]*' '$T/out' | grep -vqx TS708"
expect_status "plan of a merge succeeds" 0 "$trainspool" plan merge.yaml
expect_output "the plan describes the merge" 'adapter into the model, written to merged; nothing is trained$'
expect "the plan mentions no steps and no batch" sh -c "! grep -q 'steps\|batch' '$T/out'"
expect_status "plan --json has no batch and no steps" 0 sh -c \
    "'$trainspool' plan --json merge.yaml | jq -e '.batch == null and .steps == null and .memory != null'"
expect_status "run of a merge succeeds" 0 "$trainspool" run merge.yaml
expect_output "the output names the merged model" 'merge.yaml: done: merged, model in merged$'
expect "the merged model equals that of the training run" cmp trained/model.safetensors merged/model.safetensors
expect "the tokenizer is copied" cmp trained/tokenizer.json merged/tokenizer.json
expect "the job is done" state_is merge.yaml done
expect "run.json and the report have no batch" sh -c "jq -e '.batch == null' merge.run/run.json >'$T/out' &&
    ! grep -q 'samples per step' merge.run/report.html"
memory() { jq -c '.memory | {weights, gradients, optimizer, activations}'; }
"$trainspool" plan --json merge.yaml | memory >planned
memory <merge.run/run.json >taken
expect "the merge uses the planned memory" cmp planned taken
merge "adapter_name_or_path: adapter" "export_dir: other" "per_device_train_batch_size: 64" \
    "cutoff_len: 2048" "quantization_bit: 4" "predict_with_generate: true" "do_sample: false" \
    "eval_dataset: text.txt" "eval_strategy: steps" >large.yaml
"$trainspool" plan --json large.yaml | memory >large
expect "settings of training do not change the memory" cmp planned large
expect "the log describes the merge" grep -q 'merge: adapter adapter into model' merge.run/train.log
expect "the run has no steps and no checkpoints" sh -c \
    "! ls -d merge.run/checkpoint* merge.run/adapter* merge.run/metrics.jsonl 2>/dev/null | grep -q ."
expect_status "generate with the merged model succeeds" 0 "$trainspool" generate merged -p "Tom" --max-new-tokens 3

# New tokens are in the tokenizer next to the adapter: the merge does not name them again.
job 2 "output_dir: grown" "export_dir: trained_grown" "add_tokens: <a>" "add_special_tokens: <b>" |
    sed 's/: full/: lora/; s/1.0e-4/1.0e-2/' >grows.yaml
expect_status "a training run with new tokens succeeds" 0 "$trainspool" run -q grows.yaml
merge "adapter_name_or_path: grown" "export_dir: merged_grown" >merge_grown.yaml
expect_status "check accepts its adapter without add_tokens" 0 "$trainspool" check merge_grown.yaml
expect_status "the merge of its adapter succeeds" 0 "$trainspool" run -q merge_grown.yaml
expect "the merged model has the new rows" cmp trained_grown/model.safetensors merged_grown/model.safetensors
expect "and the new tokens" cmp trained_grown/tokenizer.json merged_grown/tokenizer.json
expect_status "generate with the adapter succeeds" 0 "$trainspool" generate grown -p "Tom" --max-new-tokens 3
merge "adapter_name_or_path: grown" "export_dir: merged_other" "add_tokens: <other>" >other.yaml
expect_status "check rejects other tokens" 1 "$trainspool" check other.yaml
expect_output "the finding names the token" 'other.yaml:[0-9:]*: error\[TS716\]: add_tokens: .*without the token <other>'
expect_status "so does the run" 1 "$trainspool" run -q other.yaml
job 2 "adapter_name_or_path: grown" "output_dir: continued" | sed 's/: full/: lora/' >continue.yaml
expect_status "a run continues the adapter without add_tokens" 0 "$trainspool" run -q continue.yaml

mkdir spool
merge "do_train: false" "adapter_name_or_path: $T/adapter" "export_dir: out" >spool/dropped.yaml
expect_status "a watch runs a dropped merge" 0 timeout 60 "$trainspool" watch --once spool
expect "the dropped merge is done" state_is spool/dropped.yaml done
expect "the dropped merge gives the same model" cmp trained/model.safetensors spool/out/model.safetensors

merge "adapter_name_or_path: adapter" "export_dir: again" "do_train: true" >trains.yaml
expect_status "a merge with do_train: true fails" 1 "$trainspool" run trains.yaml
expect_output "the message asks for a dataset" 'TS713.*dataset is not given'
merge "adapter_name_or_path: adapter" >alone.yaml
expect_status "a job without export_dir fails" 1 "$trainspool" run alone.yaml
expect_output "the message asks for a dataset without export_dir" 'TS713.*dataset is not given'
expect "these jobs export nothing" test ! -e again

# Without an adapter, the model is written as it is, in the format of infer_dtype.
merge "export_dir: again" >base.yaml
expect_status "check accepts the export of a model" 0 "$trainspool" check base.yaml
expect_status "plan of an export succeeds" 0 "$trainspool" plan base.yaml
expect_output "the plan describes the export" 'export      the model, written to again; nothing is trained$'
expect_status "run of an export succeeds" 0 "$trainspool" run base.yaml
expect_output "the output names the exported model" 'base.yaml: done: exported, model in again$'
cat >same.py <<'END'
import json, struct, sys
def read(name):
    data = open(name + "/model.safetensors", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (each["dtype"], data[8 + size:][slice(*each["data_offsets"])])
            for name, each in header.items()}
before, after = read(sys.argv[1]), read(sys.argv[2])
if sys.argv[3] == "same":
    sys.exit(before != after)
sys.exit(set(before) != set(after) or {each[0] for each in after.values()} != {sys.argv[3]})
END
expect "the tensors are those of the model" python3 same.py "$model" again same
expect "the tokenizer is copied, too" cmp "$model/tokenizer.json" again/tokenizer.json
merge "export_dir: again" "infer_dtype: bfloat16" >base.yaml
expect_status "an export in bfloat16 succeeds" 0 "$trainspool" run base.yaml
expect "all tensors are bfloat16" python3 same.py "$model" again BF16
expect "config.json says so" grep -q '"torch_dtype": *"bfloat16"' again/config.json
expect_status "generate with the exported model succeeds" 0 "$trainspool" generate again -p "Tom" --max-new-tokens 3
merge "export_dir: pushed" "export_hub_model_id: me/model" >push.yaml
expect_status "an upload is refused" 1 "$trainspool" run push.yaml
expect_output "with the command that does it" 'hf upload NAME EXPORT_DIR'
plan
