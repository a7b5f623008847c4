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
plan
