#!/bin/sh
# zero_stage: 3, which divides the weights of layers among ranks, gives the bits of zero_stage: 2, in whatever
# the ranks of a job do together.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "training with divided weights" "no $model"
    plan
    exit
fi
make_data .
head -c 3000 text.txt >few.txt
awk 'BEGIN { for (i = 1; i <= 12; i++)
    printf "{\"instruction\": \"Tom has %d cats. How many?\", \"output\": \"<answer>%d</answer>\"}\n", i, i }' >questions.jsonl

# NAME STAGE LINE...: print a job of two ranks.  Evaluations have an odd number of batches.
zero() {
    name=$1 stage=$2
    shift 2
    job 6 "gradient_accumulation_steps: 2" "lr_scheduler_type: constant" "$@" "trainspool:" "  device: cpu" \
        "  ranks: 2" "  zero_stage: $stage" | awk '
        /^ / { block = block $0 "\n"; next }
        { key = $1; if (!(key in line)) order[++count] = key; line[key] = $0 }
        /^eval_dataset/ { line[key] = $0 "\neval_strategy: steps\neval_steps: 3" }
        END { for (i = 1; i <= count; i++) if (order[i] != "trainspool:") print line[order[i]]
            printf "trainspool:\n%s", block }' |
        sed 's/^logging_steps.*/logging_steps: 1/; s/^save_steps.*/save_steps: 3/; s/^dataset: .*/dataset: few.txt/' |
        if [ "$name" = prefer ]; then sed 's/few.txt/pairs.jsonl/'; else cat; fi
}
results() { grep -o "{'\(eval_\)\?loss'.*" "$1.run/train.log"; } # NAME: losses, norms and evaluations
same() { # WHAT A B FILE: both runs have the same results and the same file
    results "$2" >a.results
    results "$3" >b.results
    expect "$1: the losses and evaluations are the same" sh -c 'test -s a.results && cmp a.results b.results'
    expect "$1: the result is the same" cmp "$2.run/$4" "$3.run/$4"
}
both() { # NAME FILE LINE...: run a job in both stages and compare
    both=$1 file=$2
    shift 2
    for stage in 2 3; do
        zero "$both" $stage "$@" >"$both$stage.yaml"
        expect_status "$both in stage $stage succeeds" 0 "$trainspool" run -q "$both$stage.yaml"
    done
    same "$both" "${both}2" "${both}3" "$file"
}

both full model.safetensors "eval_dataset: few.txt" "per_device_eval_batch_size: 3"
for file in model trainspool_optimizer-00001-of-00002 trainspool_optimizer-00002-of-00002; do
    expect "checkpoints have the same $file" cmp "full2.run/checkpoint-6/$file.safetensors" \
        "full3.run/checkpoint-6/$file.safetensors"
done
weights() { "$trainspool" plan --json "$1" | jq '.memory.weights'; }
expect "divided weights take less memory" test "$(weights full3.yaml)" -lt "$(weights full2.yaml)"
expect_status "plan succeeds" 0 "$trainspool" plan full3.yaml
expect_output "plan says what each rank holds" 'zero_stage 3: each of 2 ranks has 1/2 of the weights of layers, '

# Without zero_stage, a job gets the lowest that fits on the card.
mkdir large
cp "$model"/tok* large
sed 's/"vocab_size": *[0-9]*/"vocab_size": 128256/; s/"hidden_size": *[0-9]*/"hidden_size": 4096/
    s/"intermediate_size": *[0-9]*/"intermediate_size": 14336/; s/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 32/
    s/"num_attention_heads": *[0-9]*/"num_attention_heads": 32/; s/"head_dim": *[0-9]*/"head_dim": 128/
    s/"num_key_value_heads": *[0-9]*/"num_key_value_heads": 8/' "$model/config.json" >large/config.json
stage=1
for limit in 76 38 30; do
    zero large 3 "bf16: true" "gradient_checkpointing: true" "memory_limit: ${limit}GiB" |
        sed "s|^model_name.*|model_name_or_path: large|; /device: cpu/d; /zero_stage/d; s/ranks: 2/ranks: 8/" >large.yaml
    "$trainspool" plan --device H100 large.yaml >"$T/out" 2>&1
    expect_output "8 billion weights in $limit GiB of 8 GPUs get stage $stage" "zero_stage $stage: each of 8 "
    stage=$((stage + 1))
done
zero large 3 "bf16: true" "gradient_checkpointing: true" "memory_limit: 76GiB" |
    sed "s|^model_name.*|model_name_or_path: large|; /device: cpu/d; /zero_stage/d; s/ranks: 2/ranks: 8/
        s/^cutoff_len.*/cutoff_len: 32768/" >large.yaml
"$trainspool" plan --device H100 large.yaml >"$T/out" 2>&1
expect_output "data that are shorter than cutoff_len need no higher stage" "zero_stage 1: each of 8 "
for from in 2 3; do
    zero again 3 "eval_dataset: few.txt" "per_device_eval_batch_size: 3" \
        "resume_from_checkpoint: full$from.run/checkpoint-3" >again$from.yaml
    expect_status "stage 3 resumes a checkpoint of stage $from" 0 "$trainspool" run -q again$from.yaml
    expect "it ends as without the interruption" cmp again$from.run/model.safetensors full3.run/model.safetensors
done
zero more 3 "resume_from_checkpoint: full3.run/checkpoint-3" | sed 's/ranks: 2/ranks: 7/' >more.yaml
expect_status "more ranks than layers resume it" 0 "$trainspool" run -q more.yaml
expect "they do all steps" test "$(step more.yaml)" -eq 6

both rounded model.safetensors "  reduce_dtype: bf16"
expect "gradients sent in bf16 give other bits" sh -c '! cmp -s rounded3.run/model.safetensors full3.run/model.safetensors'
zero resumed 3 "  reduce_dtype: bf16" "resume_from_checkpoint: rounded2.run/checkpoint-3" >resumed.yaml
expect_status "a run that sends gradients in bf16 resumes" 0 "$trainspool" run -q resumed.yaml
expect "it ends as without the interruption" cmp resumed.run/model.safetensors rounded3.run/model.safetensors
expect_status "plan of gradients in bf16 succeeds" 0 "$trainspool" plan rounded2.yaml
rounded=$(sed -n 's/.*links: \(.*\) of gradients per step, in bf16$/\1/p' "$T/out")
expect_status "plan of gradients in fp32 succeeds" 0 "$trainspool" plan full2.yaml
expect_output "plan says what bf16 saves" 'of gradients per step, in fp32; reduce_dtype: bf16 sends half of that$'
whole=$(sed -n 's/.*links: \(.*\) of gradients per step, in fp32.*/\1/p' "$T/out")
expect "bf16 sends half the bytes" awk -v a="$rounded" -v b="$whole" '
    function bytes(text) { split(text, w, " "); return w[1] * (w[2] == "KiB" ? 1 : w[2] == "MiB" ? 1024 : 1048576) }
    BEGIN { exit !(bytes(a) > 0 && bytes(b) > 1.9 * bytes(a) && bytes(b) < 2.1 * bytes(a)) }'

both tried model.safetensors "  preflight: true" "load_best_model_at_end: true" "eval_dataset: few.txt"
both lora adapter_model.safetensors "finetuning_type: lora" "lora_dropout: 0.1" "export_dir: lora.merged" \
    "eval_dataset: few.txt"
both qlora adapter_model.safetensors "finetuning_type: lora" "quantization_bit: 4" "gradient_checkpointing: true"
awk 'BEGIN { for (i = 1; i <= 24; i++)
    printf "{\"question\": \"What is %d?\", \"chosen\": \"A number.\", \"rejected\": \"A cat %d.\"}\n", i, i }' >pairs.jsonl
both prefer model.safetensors "stage: dpo" "eval_dataset: pairs.jsonl" "per_device_eval_batch_size: 3"

# Each rank generates answers to its own questions, some sooner than others.
answers() { sed 's/stage: pt/stage: sft/; s/few.txt/questions.jsonl/; s/^trainspool:/&\n  answer_tag: answer\n  samples: 12/'; }
for stage in 2 3; do
    zero answers $stage "eval_dataset: questions.jsonl" "predict_with_generate: true" "do_sample: false" \
        "max_new_tokens: 9" | answers >answers$stage.yaml
    expect_status "generation in stage $stage succeeds" 0 "$trainspool" run -q answers$stage.yaml
done
same "generation" answers2 answers3 samples.jsonl

# A learning rate that ends in inf: rank 0 searches for it, and the others take part.
zero hot 3 "fp16: true" "  keep: [fp16]" | sed 's/1.0e-4/1.0/; s/^max_steps.*/max_steps: 40/' >hot.yaml
expect_status "a job that diverges ends" 1 timeout 60 "$trainspool" run -q hot.yaml
expect_error "its ranks find the cause" 'autopsy: the '

# A stop during an evaluation ends it on all ranks.
zero stopped 3 "eval_dataset: long.txt" "per_device_eval_batch_size: 1" "eval_on_start: false" >stopped.yaml
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do cat text.txt; done >long.txt
background "$trainspool" run -q stopped.yaml
wait_until 60 has_reached stopped.yaml 3
sleep 0.5
kill -TERM "$daemon"
wait_until 30 has_exited "$daemon"
ok $? "SIGTERM ends an evaluation"
expect "the job is stopped at its last step" test "$(reason stopped.yaml)" = "stopped by SIGTERM at step 3"
plan
