#!/bin/sh
# Phi-4-multimodal by the config.json of its published folder: check says what of it is not trained or
# read, and what to do.
. "${top_srcdir-.}/tests/cli/lib.sh"

model=$source/tests/patch/model-phi4mm
mkdir "$T/model" "$T/adapter"
cp "$model/config.json" "$source/tests/patch/ts716-chat-answer/model/tokenizer.json" "$T/model/"
cd "$T" || exit 99

# job LINE...: write job.yaml with these lines.
job() {
    printf '%s\n' 'model_name_or_path: model' 'dataset: d.jsonl' 'template: phi4_mini' 'bf16: true' "$@" >job.yaml
}
# record CONTENT [COLUMN]: write d.jsonl, whose second record has this question.
record() {
    answer='{"role": "assistant", "content": "A."}'
    printf '{"messages": [{"role": "user", "content": "%s"}, %s]%s}\n' 'Is it?' "$answer" '' "$1" "$answer" "${2:+, $2}" >d.jsonl
}
checks() { # NAME STATUS: check job.yaml for a card with bf16
    expect_status "$1" "$2" "$trainspool" check --device A100 job.yaml
}

# ---- what is trained ----

record 'What is it?'
job
checks "the text model is trained" 0
job 'freeze_vision_tower: false'
checks "the encoder is not" 1
expect_output "it names key and reason" 'job.yaml:5:22: error\[TS716\]: freeze_vision_tower: false is not supported for this model: its projector is only computed next to a frozen encoder'
expect_output "and what to do" '^    remove the key, which keeps the encoder frozen, or train it all with LLaMA-Factory: trainspool: {target: external}'
job 'freeze_multi_modal_projector: false'
checks "nor is the projector" 1
expect_output "it names that key" 'job.yaml:5:31: error\[TS716\]: freeze_multi_modal_projector: false is not supported: of this model, the projector stays as it is'
expect_output "and what to do with it" '^    remove the key to train the text model alone, or train it all with LLaMA-Factory: trainspool: {target: external}'

# ---- what is read ----

job
record '<image>What is it?' '"images": ["cat.png"]'
checks "an image is refused" 1
expect_output "it names record and model" 'error\[TS713\]: .*d.jsonl:2:1: the record has images, and trainspool cannot give those to a model of model_type phi4mm; remove the column, and its placeholders in the text, to train on the text alone'
record '<|image_1|>What is it?' '"images": ["cat.png"]'
checks "so is one at the placeholder of the model" 1
expect_output "with the same sentence" 'd.jsonl:2:1: the record has images, and trainspool cannot give those to a model of model_type phi4mm'

# ---- adapters ----

# adapter TARGETS: write the adapter_config.json of one like the model's own for speech.
adapter() {
    printf '{"peft_type": "LORA", "r": 320, "lora_alpha": 640, "lora_dropout": 0.01, "target_modules": %s}\n' "$1" >adapter/adapter_config.json
}
record 'What is it?'
job 'adapter_name_or_path: adapter'
adapter '"((layers.*self_attn\\.(qkv|o)_proj)|(layers.*mlp\\.(gate_up|down)_proj))"'
checks "the pattern of the published adapters names no layer" 1
expect_output "it says what a pattern and a list are compared with" 'job.yaml:5:23: error\[TS716\]: adapter/adapter_config.json: target_modules: the pattern matches no layer; whole names, such as model.layers.0.self_attn.qkv_proj, are compared with it, and the ends of names with a list, such as qkv_proj'
adapter '["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]'
checks "a list of the four names is accepted" 0
adapter '"(.*layers.*self_attn\\.(qkv|o)_proj)|(.*layers.*mlp\\.(gate_up|down)_proj)"'
checks "and so is a pattern of whole names" 0

# ---- the plan that docs/media.md shows ----

mkdir case && cp -R "$source/tests/patch/ts103-founding-phi4mm" "$source/tests/patch/model-phi4mm" "$source/tests/patch/data.jsonl" case/
expect_status "a LoRA job of rank 64 is planned for a TITAN RTX" 0 "$trainspool" plan --device "TITAN RTX" case/ts103-founding-phi4mm/job.yaml
cp "$T/out" "$T/out.plan"
sed -n '/on a TITAN RTX/,/^Adapters/s/^    \( *[a-z]\)/\1/p' "$source/docs/media.md" >shown
expect "the documentation shows four lines of the plan" test "$(wc -l <shown)" -eq 4
while read -r line; do
    expect_status "one of them is: $line" 0 grep -qF -- "$line" "$T/out.plan"
done <shown

plan
