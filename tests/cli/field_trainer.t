#!/bin/sh
# Inputs of a field test of training, in the folder field/trainer/ that TRAINSPOOL_SHARED names: one function per
# folder, which runs in a copy of it.
. "${top_srcdir-.}/tests/cli/lib.sh"

# FOLDER FUNCTION: call the function in a copy of the folder.
field() {
    field_folder=$shared/field/trainer/$1
    if [ ! -d "$field_folder" ]; then
        skip "$1" "no $field_folder"
        return
    fi
    rm -rf "$T/field" && cp -r "$field_folder" "$T/field" && chmod -R u+w "$T/field"
    cd "$T/field" || exit 99
    $2
    cd "$T" || exit 99
}

# Give the model in m/ the tokenizer that the field test used.
add_tokenizer() {
    cp "$shared/data/tokenizers/smollm2/tokenizer.json" m/
    echo '{"eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}' >m/tokenizer_config.json
}

# NAME COUNT: check the number of tokens of the run's data.
expect_tokens() {
    grep -q "data: 1 samples, $2 tokens" job.run/train.log
    ok $? "$1"
}

# transformers 5.24 makes 26 and 38 tokens of the two records.
reasoning() {
    add_tokenizer
    expect_status "D01: a record with reasoning_content trains" 0 "$trainspool" run job.yaml
    expect_tokens "D01: its thoughts are part of the text" 26
    sed 's/reasoning_content/thinking/' d.jsonl >t && mv t d.jsonl && rm -rf job.run tok
    expect_status "D01: so does one with thinking" 0 "$trainspool" run job.yaml
    expect_tokens "D01: it is the same text" 26
    sed 's/thinking/remark/' d.jsonl >t && mv t d.jsonl && rm -rf job.run tok
    expect_status "D01: a key that the template does not write trains" 0 "$trainspool" run job.yaml
    expect "D01: and is reported" grep -q "does not write: remark of 1 message" job.run/train.log
}
field D01-reasoning-dropped reasoning

calls() {
    add_tokenizer
    expect_status "D02: a record with text next to tool_calls trains" 0 "$trainspool" run job.yaml
    expect_tokens "D02: the text is part of it" 38
    sed 's/"Let me look that up first."/null/' d.jsonl >t && mv t d.jsonl && rm -rf job.run tok
    expect_status "D02: so does one with null" 0 "$trainspool" run job.yaml
    expect_tokens "D02: null is no text" 32
}
field D02-text-next-to-tool-calls calls

# The base is random; the tokenizer is Llama 3's without its chat template.
saved() {
    mkdir base
    cp "$shared/data/tokenizers/llama3/tokenizer.json" base/
    jq 'del(.chat_template)' "$shared/data/tokenizers/llama3/tokenizer_config.json" >base/tokenizer_config.json
    echo '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "hidden_size": 16,
        "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 128,
        "bos_token_id": 128000, "eos_token_id": 128001, "tie_word_embeddings": true}' >base/config.json
    expect_status "D03: the job trains" 0 "$trainspool" run -q --set train_from_scratch=true --set max_steps=1 job.yaml
    expect "D03: the chat template is saved" grep -q '<|start_header_id|>assistant' out/chat_template.jinja
    expect "D03: the tokenizer ends answers with the template's token" jq_accepts -e '.eos_token == "<|eot_id|>"
        and .pad_token == "<|eot_id|>"' out/tokenizer_config.json
    expect "D03: so do config.json and generation_config.json" jq_accepts -es '.[0].eos_token_id == 128009
        and .[1].eos_token_id[0] == 128009' out/config.json out/generation_config.json
    sed 's/finetuning_type: full/finetuning_type: lora/; s/^model_name_or_path: .*/model_name_or_path: out/
        s/^output_dir: .*/output_dir: lora/' job.yaml >lora.yaml
    expect_status "D05: an adapter trains" 0 "$trainspool" run -q --set max_steps=1 lora.yaml
    expect "D05: its folder has no config.json" test ! -e lora/config.json -a ! -e lora/generation_config.json
    expect "D05: and has the chat template" test -s lora/chat_template.jinja
}
field D03-template-and-stop-token-missing saved
plan
