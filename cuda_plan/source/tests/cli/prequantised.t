#!/bin/sh
# A base that was saved in 4 bits: checked, planned, trained, gone on with and asked as one that is
# quantised when it is read.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model || ! python3 -c '' 2>/dev/null; then
    skip "a base in 4 bits is trained" "no model in $model, or no python3"
    plan
    exit
fi
make_data .
holds "a base is saved in 4 bits" python3 "$source/tests/cli/prequantised.py" "$model" narrow
lora() { # MODEL OUTPUT MORE...: two steps
    lora_model=$1 lora_output=$2
    shift 2
    job 2 "output_dir: $lora_output" "$@" |
        sed "s,^model_name_or_path: .*,model_name_or_path: $lora_model,
             s/full/lora/; s/^learning_rate: .*/learning_rate: 1.0e-2/; s/^save_steps: .*/save_steps: 1/"
}
lora "$model" wide "quantization_bit: 4" "double_quantization: false" >wide.yaml
lora narrow taken >taken.yaml

ends "check has nothing against it" 0 "$trainspool" check taken.yaml
ends "plan counts it" 0 "$trainspool" plan --json taken.yaml
holds "in 4 bits" json -e '.precision.quantization_bit == 4' "$T/out"
jq .memory.total "$T/out" >taken.memory
"$trainspool" plan --json wide.yaml | jq .memory.total >wide.memory
holds "with the bytes of one that is quantised when it is read" cmp taken.memory wide.memory
ends "plan says so" 0 "$trainspool" plan taken.yaml
says "of its formats" 'linear layers in 4 bits (nf4)$'
lora "$model" wide "quantization_bit: 4" >twice.yaml
ends "of one that will be quantised" 0 "$trainspool" plan twice.yaml
says "of the scales, too" 'linear layers in 4 bits (nf4, scales in 8)$'

ends "a base is quantised when it is read" 0 "$trainspool" run wide.yaml
ends "the one that was before is trained" 0 "$trainspool" run taken.yaml
holds "to the same bits" cmp taken/adapter_model.safetensors wide/adapter_model.safetensors
ends "its report" 0 "$trainspool" report -q taken.yaml
holds "tells of 4 bits" grep -q 'linear layers in 4 bits' taken.run/report.html
lora narrow again "resume_from_checkpoint: taken/checkpoint-1" >again.yaml
ends "a run goes on from a checkpoint" 0 "$trainspool" run again.yaml
holds "to the same bits" cmp again/adapter_model.safetensors wide/adapter_model.safetensors

"$trainspool" generate taken.yaml -p "Tom has" --max-new-tokens 12 --temperature 0 >taken.text
"$trainspool" generate wide.yaml -p "Tom has" --max-new-tokens 12 --temperature 0 >wide.text
holds "it answers" test -s taken.text
holds "as the other does" cmp taken.text wide.text
ends "and by the adapter's folder" 0 "$trainspool" generate taken -p "Tom has" --max-new-tokens 12 --temperature 0
holds "with the same words" cmp "$T/out" taken.text
ends "the base answers alone" 0 "$trainspool" generate narrow -p "Once upon a time" --max-new-tokens 12
says "in words" '[a-z]'

lora narrow whole | sed 's/lora/full/' >full.yaml
ends "its weights are not trained: 1" 1 "$trainspool" check full.yaml
says "by TS707" 'full.yaml:3:18: error.TS707.: the files of the model have its weights in 4 bits'
lora narrow out "export_dir: merged" >export.yaml
ends "nothing is merged into it: 1" 1 "$trainspool" check export.yaml
says "by TS707" 'error.TS707.: an adapter is not merged into a model whose files have 4 bits'
lora narrow out "quantization_bit: 8" >eight.yaml
ends "what the job says otherwise" 0 "$trainspool" check eight.yaml
says "is told" 'warning.TS707.: the files of the model have its weights in 4 bits'
holds "and its files decide" sh -c '"$1" plan --json eight.yaml | jq -e ".precision.quantization_bit == 4" >/dev/null' \
    sh "$trainspool"

# Of a distillation the teacher may be such a base, with an adapter beside it too.
distilled() { # LINE...
    lora "$model" kd "stage: distill" "dataset: kd.jsonl" "template: chatml" \
        "teacher_model_name_or_path: narrow" "$@" | sed '/^stage: pt/d; /^dataset: text/d'
}
echo '{"instruction": "Tom has a cat.", "output": "It is a cat."}' >kd.jsonl
distilled >kd.yaml
ends "such a base teaches" 0 "$trainspool" run kd.yaml
distilled "teacher_adapter_name_or_path: taken" "output_dir: kd2" | sed '/^output_dir: kd$/d' >kd2.yaml
ends "with its adapter" 0 "$trainspool" run kd2.yaml
holds "which makes another student" sh -c '! cmp -s kd/adapter_model.safetensors kd2/adapter_model.safetensors'

# The text beside a matrix is anybody's.
cp -r narrow broken
sed -i 's/"blocksize": 64/"blocksize": 32/' broken/model.safetensors
lora broken out >broken.yaml
ends "another size of blocks is refused: 1" 1 "$trainspool" run broken.yaml
holds "by the tensor and the key" grep -q 'quant_state.bitsandbytes__nf4: blocksize must be 64' broken.run/train.log
plan
