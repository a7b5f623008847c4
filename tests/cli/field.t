#!/bin/sh
# Jobs of a field test, in the folder field/ that TRAINSPOOL_SHARED names: one function per folder, which
# runs in a copy of it.  The functions check rules, edits and exit statuses, never the whole output.
. "${top_srcdir-.}/tests/cli/lib.sh"

# FOLDER FUNCTION: call the function in a copy of the folder.
field() {
    field_folder=$shared/field/$1
    if [ ! -d "$field_folder" ]; then
        skip "$1" "no $field_folder"
        return
    fi
    rm -rf "$T/field" && cp -r "$field_folder" "$T/field" && chmod -R u+w "$T/field"
    cd "$T/field" || exit 99
    $2
    cd "$T" || exit 99
}
# NAME PATTERN: check that no line of the last command's output matches.
expect_no_output() {
    ! grep -q -e "$2" "$T/out"
    ok $? "$1"
}

other_tools() {
    for other in job:AutoTrain ludwig:Ludwig verl:verl; do
        expect_status "D18: import refuses a file of ${other#*:}" 2 "$trainspool" import "${other%:*}.yaml"
        expect "D18: it prints no job" test ! -s "$T/out"
        expect_error "D18: it names ${other#*:}" "this is an\{0,1\} ${other#*:} file "
    done
}
field patcher/D18-other-tools-mistaken-for-axolotl other_tools

no_plan() {
    for command in check patch plan; do
        expect_status "D29: $command of a file that is not a job exits with 2" 2 "$trainspool" $command --device A100 job.yaml
        expect_output "D29: $command reports whose file it is" 'error\[TS706\].*Accelerate'
        expect_no_output "D29: $command shows no plan" precision
    done
    try "$trainspool" plan --json --device A100 job.yaml
    expect_output "D29: each part of the plan is null" '"precision":null.*"batch":null,"steps":null,"evaluation":null,"media":null,"memory":null'
}
field patcher/D29-plan-of-a-file-that-is-no-job no_plan

duplicate_policy() {
    cp job.yaml first
    expect_status "D22: patch of a job with two policies fails" 1 "$trainspool" patch --device A100 job.yaml
    expect_output "D22: the duplicate is an error" 'error\[TS005\].*policy'
    expect_no_output "D22: neither policy decides an edit" TS125
    expect "D22: the file stays as it is" cmp job.yaml first
}
field patcher/D22-duplicate-policy-is-followed duplicate_policy

bf16_replaced() {
    expect_status "D23: bf16 on a T4 is an error" 1 "$trainspool" check --device T4 job.yaml
    expect "D23: the first finding names the fault, although its line is that of fp16" \
        sh -c "grep 'error\[' '$T/out' | head -1 | grep -q 'TS102.*this device has no bf16'"
    expect_output "D23: the other line says what it becomes" 'TS102.*fp16: true replaces it'
    for form in alias anchor merge; do
        try "$trainspool" check --device T4 $form.yaml
        expect_output "D23: $form: what to write for bf16" '^    write `bf16: false` by hand'
        expect_output "D23: $form: what to write for fp16" '^    write `fp16: true` by hand'
    done
    try "$trainspool" check --device T4 alias.yaml
    expect_no_output "D23: no finding is after the end of the file" '^alias.yaml:13'
}
field patcher/D23-bf16-replacement-message bf16_replaced

repeated() {
    expect_status "D27: a job with quoted values passes" 0 "$trainspool" check --device A100 job.yaml
    expect "D27: one block reports them" test "$(grep -c TS014 "$T/out")" -eq 1
    expect_output "D27: it lists the other values" "^    also in line 10: learning_rate: '1.0e-5' -> 1.0e-5"
    try "$trainspool" check --json --device A100 job.yaml
    expect "D27: the JSON has one finding for each" test "$(grep -o '"rule":"TS014"' "$T/out" | wc -l)" -eq 8
    try "$trainspool" check --device T4 idle-keys.yaml
    expect "D27: keys without effect are reported once" test "$(grep -c TS708 "$T/out")" -eq 1
    expect_output "D27: those of the text after the edits" '2 keys have no effect here: plot_loss, ddp_timeout'
}
field patcher/D27-repeated-findings repeated

yaml_hints() {
    expect_status "D28: text with a full-width colon is no job" 2 "$trainspool" check --device A100 job.yaml
    expect_output "D28: the character is named" ':11:5: error\[TS009\].*U+FF1A is a full-width colon'
    expect_status "D28: a template is no job" 2 "$trainspool" check --device A100 jinja.yaml
    expect_output "D28: it must be rendered first" 'template.*render it first'
    expect_status "D28: None is an error" 1 "$trainspool" check --device A100 none.yaml
    expect_output "D28: as a path" ":12:.*error\[TS704\]: resume_from_checkpoint is the string 'None'"
    expect_output "D28: and of a key without effect" ":13:.*TS704.*deepspeed is the string 'None'"
    expect_output "D28: the hint says what to write" 'remove the line or write null'
    expect_no_output "D28: no other finding takes None for a name" 'TS513\|TS707'
}
field patcher/D28-yaml-hints yaml_hints

local_folder() {
    expect_status "D26: a missing model is a warning" 0 "$trainspool" check --device A100 job.yaml
    expect_no_output "D26: a local path is no repository" 'hf download'
    expect_output "D26: relative paths start at the job" 'relative path is relative to the job file'
    sed 's,models_hub/,HuggingFaceH4/,' job.yaml >hub.yaml
    try "$trainspool" check --device A100 hub.yaml
    expect_output "D26: a name of the hub keeps the advice" 'hf download HuggingFaceH4/zephyr-7b-beta'
}
field patcher/D26-download-advice-for-local-folders local_folder

target_without_layer() {
    expect_status "D20: a lora_target without a layer is an error" 1 "$trainspool" check --device A100 job.yaml
    expect_output "D20: the finding lists the layers" 'error\[TS705\]: lora_target: the model has no layer named c_attn; its linear layers are q_proj, k_proj'
    sed 's/^lora_target: .*/lora_target: q_proj,c_attn/' job.yaml >some.yaml
    expect_status "D20: PEFT trains the layers that it finds" 0 "$trainspool" check --device A100 some.yaml
    expect_output "D20: a warning names the others" 'warning\[TS705\].*no layer named c_attn;'
}
field patcher/D20-lora-target-without-a-layer target_without_layer

import_details() {
    expect_status "D30: import of a torchtune file succeeds" 0 "$trainspool" import job.yaml
    expect_output "D30: the checkpointer's output_dir is carried over" '^output_dir: results/run1$'
    expect_output "D30: a local source stays a local folder" '^dataset: \./spider/spider/$'
    expect_no_output "D30: it is not on the hub" 'Hugging Face hub'
    expect_status "D30: import of an Axolotl file succeeds" 0 "$trainspool" import axolotl.yaml
    expect_output "D30: one of two exclusive keys is kept" '^warmup_steps: 10$'
    expect_output "D30: the job says that Axolotl refuses both" 'Axolotl refuses a file with both warmup_steps and'
}
field patcher/D30-import-details import_details

card_without_code() {
    expect_status "D13: a Blackwell card with torch 2.5 fails the check" 1 "$trainspool" check --device "RTX 5090" job.yaml
    expect_output "D13: no code for the card is an error" 'error\[TS808\].*no code for RTX 5090'
    expect_output "D13: the build that works is named" 'torch 2\.7 built with CUDA 12\.8'
    expect_status "D13: a Pascal card with CUDA 12.8 fails the check" 1 "$trainspool" check --device P100 pascal.yaml
    expect_output "D13: the older toolkit is named" 'whl/cu126'
    expect_status "D13: a Blackwell card with a build for it passes" 0 "$trainspool" check --device "RTX 5090" fine.yaml
    expect_no_output "D13: it has no finding about builds" TS808
}
field patcher/D13-card-against-pytorch-build card_without_code

laptop() {
    if "$trainspool" devices | grep -q '^cuda'; then
        skip "D16: patch on a machine without a GPU" "this machine has one"
        return
    fi
    cp job.yaml first
    expect_status "D16: patch on a laptop succeeds" 0 "$trainspool" patch job.yaml
    expect "D16: fp16 stays on" cmp job.yaml first
    expect_output "D16: an info says how to name the device" 'info\[TS208\].*no device is named'
    sed '$a use_cpu: true' first >job.yaml
    expect_status "D16: patch of a CPU job succeeds" 0 "$trainspool" patch job.yaml
    expect "D16: use_cpu: true turns fp16 off" grep -qx 'fp16: false' job.yaml
    cp first job.yaml
    expect_status "D16: patch --device cpu succeeds" 0 "$trainspool" patch --device cpu job.yaml
    expect "D16: --device cpu turns fp16 off" grep -qx 'fp16: false' job.yaml
    cp first job.yaml
    expect_status "D16: TRAINSPOOL_DEVICE names a card" 0 env TRAINSPOOL_DEVICE=T4 "$trainspool" patch job.yaml
    expect "D16: fp16 is right on a T4" cmp job.yaml first
}
field patcher/D16-patch-on-a-laptop-turns-fp16-off laptop

disk_elsewhere() {
    try "$trainspool" check --device "H100 80GB" job.yaml
    expect_no_output "D21: the disk of another machine is no warning" 'warning\[TS31[34]\]'
    expect "D21: if it is mentioned, as this machine's" \
        sh -c "! grep 'TS313' '$T/out' | grep -qv 'disk of this machine'"
    expect_no_output "D21: nor is its memory" 'TS314'
}
field patcher/D21-disk-of-another-machine disk_elsewhere

scaler_over_bf16() {
    cp job.yaml first.yaml
    expect_status "D01: an edit to fp16 that would stop the run is not made" 1 "$trainspool" patch --device V100 first.yaml
    expect "D01: the job stays as it is" cmp -s job.yaml first.yaml
    expect_output "D01: the remedy is named" 'dtype=torch.float32'
    expect_status "D01: bfloat16 weights under a scaler fail the check" 1 "$trainspool" check --device A100 explicit.yaml trl.yaml
    expect_output "D01: the line of a script is edited" 'torch_dtype: bfloat16 -> float32'
    expect_output "D01: the line of TRL is edited" ' dtype: bfloat16 -> float32'
    try "$trainspool" plan --json --device A100 explicit.yaml
    expect_output "D01: a run with a scaler is mixed" '"mode":"fp16-mixed"'
    "$trainspool" patch -q --device A100 explicit.yaml trl.yaml
    try "$trainspool" plan --json --device A100 explicit.yaml
    expect_output "D01: the patched job trains float32 weights" '"trainable_dtype":"float32"'
}
field patcher/D01-fp16-scaler-over-bf16-weights scaler_over_bf16

explicit_auto() {
    try "$trainspool" plan --json --device T4 job.yaml
    expect_output "D02: the plan is of the patched job" '"trainable_dtype":"float32"'
    expect_status "D02: the job is patched" 0 "$trainspool" patch --device T4 job.yaml
    expect_output "D02: auto becomes float32" 'torch_dtype: auto -> float32'
    sed -i 's/"float16"/"bfloat16"/' h/config.json
    sed -i -e 's/float32/auto/' -e 's/^fp16:/bf16:/' job.yaml
    try "$trainspool" plan --json --device A100 job.yaml
    expect_output "D02: bfloat16 files give bfloat16 weights" '"trainable_dtype":"bfloat16"'
    sed -i '/^torch_dtype/d' job.yaml
    try "$trainspool" plan --json --device A100 job.yaml
    expect_output "D02: without the line nothing changes" '"trainable_dtype":"float32"'
}
field patcher/D02-explicit-dtype-auto explicit_auto

modules_trained_whole() {
    expect_status "D03: 16-bit copies of modules fail the check" 1 "$trainspool" check --device T4 job.yaml trl.yaml
    expect_output "D03: additional_target" 'error\[TS902\].*additional_target'
    expect_output "D03: lora_modules_to_save" 'error\[TS902\].*lora_modules_to_save'
    expect_output "D03: the dtype is edited" 'dtype: float16 -> float32'
    sed -i 's/command: \[python, train.py\], versions: {/versions: {llamafactory: 0.9.3, /' job.yaml
    sed -i -e '/torch_dtype/d' job.yaml
    try "$trainspool" check --device T4 job.yaml
    expect_no_output "D03: LLaMA-Factory casts what it trains" TS902
}
field patcher/D03-modules-trained-whole-next-to-lora modules_trained_whole

pure_bf16_adapters() {
    try "$trainspool" plan --json --device A100 job.yaml
    expect_output "D11: adapters are float32" '"trainable_dtype":"float32","frozen_dtype":"bfloat16"'
    expect_no_output "D11: nothing is rounded away" 'rounded away'
    sed -i 's/finetuning_type: lora/finetuning_type: full/' job.yaml
    try "$trainspool" plan --json --device A100 job.yaml
    expect_output "D11: all weights are bfloat16" '"mode":"bf16-pure".*"trainable_dtype":"bfloat16"'
    expect_output "D11: their updates are rounded" 'rounded away'
}
field patcher/D11-pure-bf16-lora-adapters-are-float32 pure_bf16_adapters

trl_qlora() {
    expect_status "D12: QLoRA of TRL 0.24 is patched" 0 "$trainspool" patch --device T4 job.yaml
    expect "D12: 4-bit weights are computed in float16" grep -q '^dtype: float16$' job.yaml
    expect "D12: fp16 is on" grep -q '^fp16: true$' job.yaml
    cp trl-0.26.yaml first.yaml
    expect_status "D12: QLoRA of TRL 0.26 is an error" 1 "$trainspool" patch --device T4 first.yaml
    expect "D12: it stays as it is" cmp -s trl-0.26.yaml first.yaml
    expect_output "D12: the note names the alternatives" 'TRL 0\.25 or earlier or a GPU with bf16'
}
field patcher/D12-trl-qlora-on-cards-without-bf16 trl_qlora

no_float32_copy() {
    expect_status "D15: bfloat16 weights are a warning" 0 "$trainspool" check --device A100 job.yaml explicit.yaml
    expect_output "D15: the loss is named" 'warning\[TS127\].*1/512'
    expect_output "D15: the script is named" 'dtype=torch.float32'
    "$trainspool" patch -q --unsafe --device A100 explicit.yaml
    expect "D15: an unsafe edit stores float32" grep -q '^torch_dtype: float32$' explicit.yaml
}
field patcher/D15-bf16-weights-without-master-copy no_float32_copy

overflow_on_bf16_cards() {
    try "$trainspool" check --device A100 job.yaml
    expect_output "D17: the overflow is a warning where the fix is free" 'warning\[TS103\].*65504'
    expect_no_output "D17: the same edit is not proposed twice" TS104
    "$trainspool" patch -q --unsafe --device A100 job.yaml
    expect "D17: the unsafe edit is bf16" grep -q '^bf16: true$' job.yaml
}
field patcher/D17-fp16-overflow-unreported-on-bf16-cards overflow_on_bf16_cards

old_cards() {
    expect_status "D14: bf16 on a card before Volta is patched" 0 "$trainspool" patch --device "GTX 1080 Ti" job.yaml
    expect_no_output "D14: nothing promises float32" 'float32, as'
    expect "D14: fp16 is what LLaMA-Factory then computes in" grep -qx 'fp16: true' job.yaml
    try "$trainspool" check --device "GTX 1080 Ti" job.yaml
    expect_output "D14: its speed is reported" 'TS203'
    expect_no_output "D14: no rule asks for the opposite" 'fp16: true -> false'
    try "$trainspool" plan --json --device "GTX 1080 Ti" neither.yaml
    expect_output "D14: the mode is what computes" '"mode":"bf16-mixed","compute_dtype":"bfloat16"'
    sed -i 's/finetuning_type: lora/finetuning_type: full/' neither.yaml
    try "$trainspool" plan --json --device "GTX 1080 Ti" neither.yaml
    expect_output "D14: full training computes in float32" '"mode":"fp32","compute_dtype":"float32"'
}
field patcher/D14-old-cards-two-rules-disagree old_cards

refused() {
    for refused in job:Quantization galore-badam:GaLore,.*BAdam lora-galore:LoRA.with.GaLore streaming-val-size:integer.val.size \
        mask-and-prompt:mask_history predict-val-size:eval_dataset unsloth-zero3:ZeRO-3 early-stopping:EarlyStoppingCallback; do
        expect_status "D08: ${refused%:*}.yaml is an error" 1 "$trainspool" check --device "A100 80GB" "${refused%:*}.yaml"
        expect_output "D08: it quotes the exception" "error\[TS812\].*raises.*${refused#*:}"
    done
    sed -i 's/finetuning_type: full/finetuning_type: lora/' job.yaml
    expect_status "D08: quantization with LoRA passes" 0 "$trainspool" check --device "A100 80GB" job.yaml
}
field patcher/D08-refused-by-llamafactory refused

quoted_booleans() {
    try "$trainspool" plan --device A100 job.yaml
    expect_output "D10: plan shows what LLaMA-Factory does with the file as it is" 'precision .*fp16: true; with bf16: true the Trainer refuses it'
    expect_status "D10: a quoted false is an error" 1 "$trainspool" check --device A100 job.yaml
    for quoted in fp16 push_to_hub; do
        expect_output "D10: $quoted counts as true" "error\[TS014\].*$quoted: .*counts as true"
    done
    expect_status "D10: the safe edits suffice" 0 "$trainspool" patch --device A100 job.yaml
    expect "D10: they remove the quotes" sh -c "grep -qx 'fp16: False' job.yaml && grep -qx 'bf16: True' job.yaml && grep -qx 'push_to_hub: False' job.yaml"
    try "$trainspool" plan --device A100 job.yaml
    expect_output "D10: then plan shows bf16" 'precision .*bf16-mixed'
}
field patcher/D10-quoted-booleans quoted_booleans

tab() {
    expect_status "D28: PyYAML rejects a tab after the colon" 1 "$trainspool" check --device A100 tab.yaml
    expect_output "D28: the exception is quoted" 'error\[TS004\].*cannot start any token'
    expect_status "D28: the safe edit writes a blank" 0 "$trainspool" patch --device A100 tab.yaml
    expect "D28: the value stays" grep -qx 'bf16: true' tab.yaml
}
field patcher/D28-yaml-hints tab

device_names() {
    try "$trainspool" check --device m2 job.yaml
    expect "D25: m2 is no A2" sh -c "! grep -q 'mean A2' '$T/err'"
    for card in "RTX 4090 48GB=sm_89:48GiB" "RTX 2080 Ti 22GB=sm_75:22GiB"; do
        expect_status "D25: ${card%=*} is unknown" 2 "$trainspool" check --device "${card%=*}" job.yaml
        expect_error "D25: the known card is suggested" "did you mean ${card% *}"
        expect_error "D25: the exact way out is named" "${card#*=}"
    done
    for device in MI300X mps npu xpu hpu Radeon; do
        expect_status "D25: $device is checked" 0 "$trainspool" check --device "$device" job.yaml
        expect_output "D25: rules about devices know NVIDIA cards only" 'info\[TS208\].*NVIDIA'
    done
}
field patcher/D25-device-names device_names
optimizers_and_shards() {
    sed '/galore/d; s/^pure_bf16.*/pure_bf16: true\noptim: lomo/' job.yaml >lomo.yaml
    sed '/galore/d; s/^pure_bf16.*/pure_bf16: true\nuse_adam_mini: true/' job.yaml >mini.yaml
    expect_status "D05: optimizers that keep little are no error" 0 "$trainspool" check --device "RTX 4090" \
        job.yaml badam.yaml lomo.yaml mini.yaml
    expect_no_output "D05: none of them counts as two full moments" 'needs about 30'
    sed '/galore/d' job.yaml >adamw.yaml
    expect_status "D05: AdamW is still an error" 1 "$trainspool" check --device "RTX 4090" adamw.yaml
    for device in A100 "RTX 4090"; do
        expect_status "D05: ZeRO 3 without ranks is no error on $device" 0 "$trainspool" check --device "$device" zero3.yaml
        expect_output "D05: it names ranks" 'set .ranks. in the trainspool block'
    done
    sed 's/{target: external,/{target: external, ranks: 2,/' zero3.yaml >two.yaml
    expect_status "D05: with too few ranks it is an error" 1 "$trainspool" check --device "RTX 4090" two.yaml
    expect_no_output "D05: no board is advised" 'Jetson\|Orin\|Thor\|GB10'
}
field patcher/D05-memory-error-for-jobs-that-fit optimizers_and_shards

orphans() {
    try "$trainspool" check --device T4 orphans.yaml
    expect_output "D27: TS302 belongs to TS301" TS302
    for ignored in TS301 TS30; do
        try "$trainspool" check --device T4 --ignore $ignored orphans.yaml
        expect_no_output "D27: with $ignored ignored, TS302 is not reported" 'TS302'
    done
    echo 'trainspool: {ignore: [TS301]}' >>orphans.yaml
    try "$trainspool" check --device T4 orphans.yaml
    expect_no_output "D27: nor if the job ignores TS301" 'TS30[12]'
}
field patcher/D27-repeated-findings orphans


trl_defaults() {
    try "$trainspool" check --device T4 job.yaml
    expect_no_output "D04: TRL evaluates on a split of the dataset" TS507
    expect_output "D04: FlashAttention 2 requires another card" 'error\[TS205\].*compute capability 8\.0'
    try "$trainspool" plan --device T4 job.yaml
    expect_output "D04: lora_r counts" 'trainable (lora, rank 16)'
    try "$trainspool" plan --device A100 minimal.yaml
    expect_output "D04: bf16 is TRL's default" "bfloat16 autocast by TRL's default"
    try "$trainspool" plan --device V100 minimal.yaml
    expect_output "D04: checkpointing is on by default" 'activations recomputed in each layer'
    expect_output "D04: the card lacks bf16" 'error\[TS102\]'
    sed -i 's/trl: 0.24.0, //' job.yaml minimal.yaml
    expect_status "D04: with an unknown TRL, memory is no error" 0 "$trainspool" check --device V100 --ignore TS102 minimal.yaml
    expect_output "D04: it says that the defaults are unknown" 'info\[TS810\].*version of TRL is unknown'
    sed -i 's/^trainspool:.*//; s/^max_length/max_seq_length/' job.yaml
    expect_status "D04: max_seq_length is gone in 0.24" 1 "$trainspool" check --device A100 --target trl --versions trl=0.24 job.yaml
    expect_output "D04: its name is max_length" 'error\[TS813\].*max_seq_length.*use max_length'
    try "$trainspool" check --device A100 --target trl --versions trl=0.19.1 job.yaml
    expect_no_output "D04: 0.19 still has it" 'TS813.*max_seq_length'
}
field patcher/D04-trl-defaults-and-keys trl_defaults

unknown_keys() {
    expect_status "D09: unknown keys are errors" 1 "$trainspool" check --device A100 job.yaml
    for name in dev_ratio:val_size sft_packing:packing max_source_length:cutoff_len; do
        expect_output "D09: ${name%:*} is called ${name#*:}" "error\[TS813\].*${name%:*} is not a key of .*; use ${name#*:}"
    done
    expect_output "D09: the block stays an info" 'info\[TS811\].*does not know trainspool '
    for key in torch_dtype checkpoint_dir dpo_beta padding_side split compute_dtype model_dtype loss_scale; do
        sed "s/^torch_dtype: .*/$key: 1/" torch-dtype.yaml >other.yaml
        try "$trainspool" check --device A100 other.yaml
        expect_output "D09: LLaMA-Factory does not know $key" "error\[TS813\].*$key is not a key of "
    done
    sed -i 's/target: external,/target: external, env: {ALLOW_EXTRA_ARGS: "1"},/' job.yaml
    expect_status "D09: ALLOW_EXTRA_ARGS makes them warnings" 0 "$trainspool" check --device A100 job.yaml
    expect_output "D09: it says so" 'warning\[TS813\]'
}
field patcher/D09-keys-llamafactory-does-not-know unknown_keys

fractional_warmup() {
    expect_status "D19: transformers 4.51.3 raises" 1 "$trainspool" check --device A100 job.yaml
    expect_output "D19: one message says why" 'error\[TS407\].*must be of type int'
    try "$trainspool" check --device A100 dtype.yaml
    expect_output "D19: dtype is too new" 'warning\[TS607\].*dtype is called torch_dtype before transformers 4.56'
    sed 's/4.51.3/4.41.1/' job.yaml >older.yaml
    expect_status "D19: 4.41.1 does not check the type" 0 "$trainspool" check --device A100 older.yaml
    expect_output "D19: it stays a warning" 'warning\[TS407\]'
    sed 's/4.51.3/5.0.0/' job.yaml >newer.yaml
    try "$trainspool" check --device A100 newer.yaml
    expect_no_output "D19: from 5.0 on it is a ratio" TS407
}
field patcher/D19-fractional-warmup-steps fractional_warmup

no_auto_advice() {
    try "$trainspool" check --device A40 job.yaml
    expect_output "D24: the job contradicts LLaMA-Factory" 'error\[TS805\].*pure_bf16'
    expect_output "D24: the advice helps" 'replace pure_bf16 with bf16: true, or use ZeRO 2'
    expect_no_output "D24: auto would not help" '"auto"'
    sed -i 's/"fp16": {"enabled": "auto"}/"fp16": {"enabled": true}/' zero3.json
    sed -i 's/pure_bf16/bf16/' job.yaml
    try "$trainspool" check --device A40 job.yaml
    expect_output "D24: auto helps against a value" 'write "auto"'
}
field patcher/D24-auto-advice-where-it-does-not-help no_auto_advice
counted_data() {
    try "$trainspool" check --device cpu job.yaml
    expect_no_output "D06: it is no error" 'error\[TS301\]'
    expect_output "D06: the longest sample is the reason" \
        'TS301.*the longest sample has 39 tokens; samples of cutoff_len would need 123 MiB'
    for command in 'check --device cpu' 'plan --device cpu' run; do
        expect_status "D06: ${command%% *} refuses a tokenizer with more tokens than the model" 1 \
            "$trainspool" $command job.yaml
        grep -q 'token 258, but the model has only 256 tokens' "$T/out" "$T/err"
        ok $? "D06: ${command%% *} names the token"
    done
    try "$trainspool" plan --json --alternatives --device cpu job.yaml
    expect "D06: the alternatives start from the memory of the plan" \
        jq_accepts -e '.memory.total > 0 and .alternatives[0].memory.total == .memory.total' "$T/out"
    cp m/config.json config.json
    sed -i 's/"vocab_size": 256/"vocab_size": 300/' m/config.json
    for command in check plan; do
        expect_status "D06: $command accepts a model with enough tokens" 0 "$trainspool" $command --device cpu job.yaml
        expect_no_output "D06: $command has no error" 'error\[\|does not fit'
    done
    mv config.json m/config.json
    sed 's/100MiB/60MiB/' job.yaml >small.yaml
    for command in check plan; do
        expect_status "D06: $command refuses it where the data do not fit" 1 "$trainspool" $command --device cpu small.yaml
        expect_output "D06: $command names what the data take" 'error\[TS301\].*64.5 MiB'
    done
    rm train.jsonl
    expect_status "D06: without the data the estimate for cutoff_len stands" 1 "$trainspool" check --device cpu job.yaml
    expect_output "D06: it is that of full batches" 'error\[TS301\].*123 MiB'
}
field patcher/D06-check-contradicts-plan counted_data

memory_advice() {
    expect_status "D07: a job that an edit of --unsafe makes fit is no error" 0 "$trainspool" check --device "RTX 3090" job.yaml
    expect_output "D07: bf16 keeps the base in 16 bits" 'bf16: true (1[0-9.]* GiB), which keeps the base in 16 bits'
    expect_no_output "D07: no board and no laptop is advised" 'Jetson\|Orin\|Thor\|GB10\|Laptop'
    expect_status "D07: --unsafe would make it" 0 "$trainspool" patch --diff --unsafe --exit-zero --device "RTX 3090" job.yaml
    expect_output "D07: by TS118" '^+bf16: true'
    expect_status "D07: a full job that does not fit is an error" 1 "$trainspool" check --device "H100 80GB" pure_bf16.yaml
    expect_output "D07: pure_bf16 is the first change that fits" 'it fits with pure_bf16: true (7[0-9.]* GiB)'
    expect_status "D07: a needless reference is a warning" 0 "$trainspool" check --device "V100 32GB" dpo.yaml
    expect_output "D07: its memory is named" 'warning\[TS910\].*12.6 GiB'
    expect_output "D07: it can go" 'remove ref_model'
    try "$trainspool" plan --json --alternatives --device "V100 32GB" dpo.yaml
    expect "D07: bf16 does not work on a V100" sh -c \
        "jq -e '.alternatives[] | select(.name == \"bf16\") | .reason == \"this device has no bf16\"' '$T/out' >null"
    expect "D07: without the reference the job takes less" sh -c \
        "jq -e '.alternatives | (.[0].memory.total - .[1].memory.total) / 1e9 | . > 12 and . < 15' '$T/out' >null"
}
field patcher/D07-memory-advice memory_advice

plan
