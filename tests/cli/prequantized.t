#!/bin/sh
# A base saved in 4 bits: check, plan, training, resume and generation give the results of a base that
# is quantized at load time.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model || ! python3 -c '' 2>/dev/null; then
    skip "training on a 4-bit base" "no model in $model, or no python3"
    plan
    exit
fi
make_data .
expect "a 4-bit base is written" python3 "$source/tests/cli/prequantized.py" "$model" narrow
lora() { # MODEL OUTPUT LINE...: print a job of two steps
    lora_model=$1 lora_output=$2
    shift 2
    job 2 "output_dir: $lora_output" "$@" |
        sed "s,^model_name_or_path: .*,model_name_or_path: $lora_model,
             s/full/lora/; s/^learning_rate: .*/learning_rate: 1.0e-2/; s/^save_steps: .*/save_steps: 1/"
}
lora "$model" wide "quantization_bit: 4" "double_quantization: false" >wide.yaml
lora narrow taken >taken.yaml

expect_status "check of a 4-bit base succeeds" 0 "$trainspool" check taken.yaml
expect_status "plan --json of a 4-bit base succeeds" 0 "$trainspool" plan --json taken.yaml
expect "the plan has 4 bits" jq_accepts -e '.precision.quantization_bit == 4' "$T/out"
jq .memory.total "$T/out" >taken.memory
"$trainspool" plan --json wide.yaml | jq .memory.total >wide.memory
expect "the plan has the memory of a base quantized at load time" cmp taken.memory wide.memory
expect_status "plan of a 4-bit base succeeds" 0 "$trainspool" plan taken.yaml
expect_output "the plan shows nf4" 'linear layers in 4 bits (nf4)$'
lora "$model" wide "quantization_bit: 4" >twice.yaml
expect_status "plan of a base quantized at load time succeeds" 0 "$trainspool" plan twice.yaml
expect_output "the plan shows quantized scales" 'linear layers in 4 bits (nf4, scales in 8)$'

expect_status "training with quantization at load time succeeds" 0 "$trainspool" run wide.yaml
expect_status "training on a 4-bit base succeeds" 0 "$trainspool" run taken.yaml
expect "both adapters have the same bits" cmp taken/adapter_model.safetensors wide/adapter_model.safetensors
expect_status "report of a 4-bit base succeeds" 0 "$trainspool" report -q taken.yaml
expect "the report shows 4 bits" grep -q 'linear layers in 4 bits' taken.run/report.html
lora narrow again "resume_from_checkpoint: taken/checkpoint-1" >again.yaml
expect_status "a run resumes on a 4-bit base" 0 "$trainspool" run again.yaml
expect "the resumed run gives the same bits" cmp again/adapter_model.safetensors wide/adapter_model.safetensors

"$trainspool" generate taken.yaml -p "Tom has" --max-new-tokens 12 --temperature 0 >taken.text
"$trainspool" generate wide.yaml -p "Tom has" --max-new-tokens 12 --temperature 0 >wide.text
expect "generate with a 4-bit base succeeds" test -s taken.text
expect "both adapters give the same completion" cmp taken.text wide.text
expect_status "generate with the adapter folder succeeds" 0 "$trainspool" generate taken -p "Tom has" --max-new-tokens 12 --temperature 0
expect "the adapter folder gives the same completion" cmp "$T/out" taken.text
expect_status "generate with the 4-bit base alone succeeds" 0 "$trainspool" generate narrow -p "Once upon a time" --max-new-tokens 12
expect_output "the base prints words" '[a-z]'

lora narrow whole | sed 's/lora/full/' >full.yaml
expect_status "full training of a 4-bit base gives 1" 1 "$trainspool" check full.yaml
expect_output "TS707 reports full training" 'full.yaml:3:18: error.TS707.: the files of the model are quantized'
lora narrow trained "export_dir: merged" >export.yaml
expect_status "merging into a 4-bit base gives 1" 1 "$trainspool" check export.yaml
expect_output "TS707 reports the merge" 'error.TS707.: cannot merge an adapter into a model whose files are quantized'
lora narrow trained "quantization_bit: 8" >eight.yaml
expect_status "another quantization_bit in the job is only a warning" 0 "$trainspool" check eight.yaml
expect_output "TS707 reports the difference" 'warning.TS707.: the files of the model are 4-bit'
expect "the files decide the quantization" sh -c '"$1" plan --json eight.yaml | jq -e ".precision.quantization_bit == 4" >/dev/null' \
    sh "$trainspool"

# In 8 bits as GPTQ has them, the loss is close to that of the original.
expect "a base in GPTQ is written" python3 "$source/tests/cli/prequantized.py" "$model" integers gptq
lora integers gptq >gptq.yaml
lora "$model" original >original.yaml
expect_status "check of a base in GPTQ succeeds" 0 "$trainspool" check gptq.yaml
expect_status "plan of a base in GPTQ succeeds" 0 "$trainspool" plan gptq.yaml
expect_output "the plan shows the format" 'linear layers in 8 bits (GPTQ)$'
expect_status "training on a base in GPTQ succeeds" 0 "$trainspool" run gptq.yaml
expect_status "training on its original succeeds" 0 "$trainspool" run original.yaml
expect "the losses are close" jq_accepts -es \
    'map(select(.loss).loss) | length == 2 and (.[0] / .[1] - 1 | fabs) < 1e-3' \
    gptq.run/metrics.jsonl original.run/metrics.jsonl
expect_status "generate with a base in GPTQ succeeds" 0 "$trainspool" generate gptq.yaml -p "Tom has" --max-new-tokens 12 --temperature 0
"$trainspool" generate original.yaml -p "Tom has" --max-new-tokens 12 --temperature 0 >original.text
expect "the adapters on both give the same completion" cmp "$T/out" original.text
lora integers trained "quantization_bit: 4" >four.yaml
expect_status "quantization_bit next to GPTQ is only a warning" 0 "$trainspool" check four.yaml
expect_output "TS707 reports that it has no effect" 'warning.TS707.: the files of the model are in GPTQ, with 8 bits'
lora integers whole | sed 's/lora/full/' >full.yaml
expect_status "full training of a base in GPTQ gives 1" 1 "$trainspool" check full.yaml
expect_output "TS707 reports it" 'error.TS707.: the files of the model are quantized, and such weights cannot be trained'

# The teacher of a distillation may be such a base, with or without an adapter.
distilled() { # LINE...: print a distillation job
    lora "$model" kd "stage: distill" "dataset: kd.jsonl" "template: chatml" \
        "teacher_model_name_or_path: narrow" "$@" | sed '/^stage: pt/d; /^dataset: text/d'
}
echo '{"instruction": "Tom has a cat.", "output": "It is a cat."}' >kd.jsonl
distilled >kd.yaml
expect_status "a 4-bit base as the teacher succeeds" 0 "$trainspool" run kd.yaml
distilled "teacher_adapter_name_or_path: taken" "output_dir: kd2" | sed '/^output_dir: kd$/d' >kd2.yaml
expect_status "a 4-bit base with an adapter as the teacher succeeds" 0 "$trainspool" run kd2.yaml
expect "the adapter of the teacher changes the student" sh -c '! cmp -s kd/adapter_model.safetensors kd2/adapter_model.safetensors'

# The metadata of a matrix is not trusted.
cp -r narrow broken
sed -i 's/"blocksize": 64/"blocksize": 32/' broken/model.safetensors
lora broken trained >broken.yaml
expect_status "an unsupported block size gives 1" 1 "$trainspool" run broken.yaml
expect "the log names the tensor and the key" grep -q 'quant_state.bitsandbytes__nf4: blocksize must be 64' broken.run/train.log
plan
