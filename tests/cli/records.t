#!/bin/sh
# Nothing of a record is left out silently: what is not trained or not read is counted in the log, and what
# cannot be trained is refused.
. "${top_srcdir-.}/tests/cli/lib.sh"

if [ ! -f "$shared/data/tokenizers/smollm2/tokenizer.json" ]; then
    skip "records" "no $shared/data/tokenizers"
    plan
    exit 0
fi
mkdir "$T/m" && cd "$T" || exit 99
cp "$shared/data/tokenizers/smollm2/tokenizer.json" m/
echo '{"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}' >m/tokenizer_config.json
cat >m/config.json <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 49152, "hidden_size": 16,
 "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
 "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "rope_theta": 10000.0,
 "hidden_act": "silu"}
END

# TEMPLATE: the model's own chat template.
template() { printf '%b' "$1" >m/chat_template.jinja; }
# [LINES...]: run a job on d.jsonl, from the beginning.
run() {
    rm -rf job.run
    printf '%s\n' "model_name_or_path: m" "train_from_scratch: true" "finetuning_type: full" "stage: sft" \
        "dataset: d.jsonl" "cutoff_len: 256" "max_steps: 1" 'save_strategy: "no"' "$@" >job.yaml
    "$trainspool" run job.yaml
}
# NAME PATTERN: check the log of the run.
expect_log() {
    grep -q -e "$2" job.run/train.log
    ok $? "$1"
}

prompt='{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
thought="{% if loop.last and m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
last="{% for m in messages %}<|im_start|>{{ m.role }}\n$thought{{ m.content }}<|im_end|>\n{% endfor %}$prompt"

template "$last"
cat >d.jsonl <<'END'
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}], "id": 1, "this_name_is_longer_than_the_48_bytes_that_the_log_shows": 1}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}], "id": 2, "this_name_is_longer_than_the_48_bytes_that_the_log_shows": 1, "tools": "[]"}
END
expect_status "a template that thinks only in the last answer trains" 0 run
expect_log "the answers that are not trained are counted, with the template that trains them" \
    'warn data: 2 of 4 answers are not trained: the template renders them differently; template: qwen3 trains all$'
expect_log "columns that are not read are listed once" 'info data: columns that are not read: id in 2 records, this_name_is_longer_than_the_48_bytes_that_the_[a-z]* in 2 records$'
expect_status "the named template trains all" 0 run "template: qwen3"
expect_status "nothing is reported then" 1 grep -q "are not trained" job.run/train.log
expect_status "nor with mask_history, which trains the last answers" 0 run "mask_history: true"
expect_status "nothing is reported here, either" 1 grep -q "are not trained" job.run/train.log

template "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}$prompt"
cat >d.jsonl <<'END'
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "r"}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": ""}]}
END
expect_status "a template that writes no thoughts trains" 0 run
expect_log "thoughts that it leaves out are counted" 'warn data: .* does not write: reasoning_content of 1 message$'
expect_status "so does a named one" 0 run "template: chatml"
expect_log "they are counted, too" 'warn data: chatml does not write: reasoning_content of 1 message$'
expect_status "a named template that reasons writes them" 0 run "template: qwen3"
expect_status "nothing is left out" 1 grep -q "does not write" job.run/train.log

for key in images audios image; do
    echo "{\"instruction\": \"<image>What is it?\", \"output\": \"A cat.\", \"$key\": [\"cat.png\"]}" >d.jsonl
    expect_status "a record with $key is refused by a model of texts" 1 run
    expect_error "the error says what to do" \
        "d.jsonl:1:1: the record has [is][a-z]*s, and trainspool cannot give those to a model of model_type .*; remove the column"
done
echo '{"instruction": "What is it?", "output": "A cat.", "videos": ["cat.mp4"]}' >d.jsonl
expect_status "a record with videos is refused" 1 run
expect_error "the error names the key" 'd.jsonl:1:1: the record has "videos", and videos are not supported'
echo '{"instruction": "What is it?", "output": "A cat.", "images": []}' >d.jsonl
expect_status "a record with an empty list of images trains" 0 run

cat >d.jsonl <<'END'
{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}], "chat_template_kwargs": {"x": 1}}
END
expect_status "TRL's prompt and completion train" 0 run
expect_status "nothing of them is unread" 1 grep -q "not read" job.run/train.log
expect_status "with a named template, too" 0 run "template: chatml"
expect_log "which has no variables" "info data: chatml does not write: chat_template_kwargs of 1"

deepseek="{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}{% else %}<｜Assistant｜>"
template "$deepseek{{ m.content }}<｜end▁of▁sentence｜>{% endif %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜><think>\n{% endif %}"
sed -i '/^template:/d' job.yaml
try "$trainspool" check --device cpu job.yaml
expect_output "a template that opens thoughts in its prompt alone is reported, with those that fit" \
    'TS716.*as template: deepseekr1, or deepseek3 for answers without thoughts'
plan
