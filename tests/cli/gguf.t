#!/bin/sh
# export_gguf writes a file for llama.cpp next to the model in export_dir.
. "${top_srcdir-.}/tests/cli/lib.sh"
reader=$(realpath "${top_srcdir-.}")/tests/cli/gguf.py
cd "$T" || exit 99

if ! has_model; then
    skip "a file for llama.cpp is written" "no model in $model"
    plan
    exit
fi

# MODEL DIR FORMAT LINES...: print a job that exports a model.
export_job() {
    printf '%s\n' "model_name_or_path: $1" "export_dir: $2"
    printf 'trainspool:\n  export_gguf: %s\n' "$3"
}

# changed MODEL PYTHON: copy a model, with changes of its config c and tokenizer t.
changed() {
    rm -rf changed
    cp -r "$1" changed
    chmod -R u+w changed
    python3 - "$2" <<'EOF'
import json, sys
c, t = [json.load(open(f"changed/{name}.json")) for name in ("config", "tokenizer")]
exec(sys.argv[1])
for name, value in (("config", c), ("tokenizer", t)):
    json.dump(value, open(f"changed/{name}.json", "w"))
EOF
    export_job changed made f16 >job.yaml
}

for form in f16:F16 bf16:BF16 q8_0:Q8_0; do
    name=model-${form#*:}.gguf
    export_job "$model" made "${form%:*}" >job.yaml
    expect_status "an export in ${form%:*} succeeds" 0 "$trainspool" run -q job.yaml
    expect "$name has the model's tensors and tokens" python3 "$reader" made "made/$name"
done
cp made/model-F16.gguf first
export_job "$model" made f16 >job.yaml
expect_status "a second export succeeds" 0 "$trainspool" run -q job.yaml
expect "it has the same bytes" cmp first made/model-F16.gguf
export_job "$model-qwen2" qwen f16 >job.yaml
expect_status "an export of type qwen2 succeeds" 0 "$trainspool" run -q job.yaml
expect "its rows keep their order" python3 "$reader" qwen qwen/model-F16.gguf
export_job "$model" plain none >job.yaml
expect_status "none exports only the model" 0 "$trainspool" run -q job.yaml
expect "there is no such file" sh -c "! ls plain | grep gguf"

# Byte-level BPE: the first 512 tokens of published tokenizers, and how each splits texts.
for pair in gpt2:gpt-2 llama3:llama-bpe qwen2.5:qwen2 smollm2:smollm; do
    name=${pair%:*}
    if ! [ -e "$shared/data/tokenizers/$name" ]; then
        skip "the tokenizer of $name is written" "no folder $shared/data/tokenizers/$name"
        continue
    fi
    changed "$model" "
u = json.load(open('$shared/data/tokenizers/$name/tokenizer.json'))
v = {name: at for name, at in u['model']['vocab'].items() if at < 512}
pairs = [p.split(' ') if isinstance(p, str) else p for p in u['model']['merges']]
u['model'].update(vocab=v, merges=[p for p in pairs if p[0] in v and p[1] in v and p[0] + p[1] in v])
u.update(added_tokens=[], post_processor=None)
t.clear()
t.update(u)"
    expect_status "an export with the tokenizer of $name succeeds" 0 "$trainspool" run -q job.yaml
    expect "its tokens, merges and splits are in the file" python3 "$reader" made made/model-F16.gguf "${pair#*:}"
done

# A broken file is noticed.
python3 - <<'EOF'
data = bytearray(open("first", "rb").read())
data[-40] ^= 1
open("broken", "wb").write(data)
EOF
expect "the reader sees a changed weight" sh -c "! python3 '$reader' made broken >/dev/null"

export_job "$model" made f16 | sed /export_dir/d >alone.yaml
printf 'dataset: text.txt\nstage: pt\n' >>alone.yaml
expect_status "export_gguf without export_dir is refused" 1 "$trainspool" check alone.yaml
expect_output "the message names both" 'TS707.*export_gguf requires export_dir'

changed "$model" 'c["hidden_act"] = "gelu"'
expect_status "another activation is refused" 1 "$trainspool" check job.yaml
expect_output "the message says so" 'TS707.*llama.cpp does not have this activation'
changed "$model" 'c["rope_scaling"] = {"rope_type": "dynamic", "factor": 2.0}'
expect_status "dynamic scaling is refused" 1 "$trainspool" check job.yaml
expect_output "the message names what is supported" 'TS707.*only the types linear, llama3, yarn and longrope'
changed "$model" 'c["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}'
expect_status "an export with yarn succeeds" 0 "$trainspool" run -q job.yaml
cat >yarn.py <<EOF
import sys
sys.path.insert(0, "$(dirname "$reader")")
from gguf import read_gguf
values, _ = read_gguf("made/model-F16.gguf")
found = {key[19:]: value for key, value in values.items() if key.startswith("llama.rope.scaling.")}
print(found)
sys.exit(found != {"type": "yarn", "factor": 4.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0,
                   "original_context_length": 128})
EOF
expect "the file has its settings" python3 -B yarn.py
changed "$model" 'c["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5,
                        "original_max_position_embeddings": 128}'
expect_status "yarn with a factor of its own is refused" 1 "$trainspool" check job.yaml
expect_output "the message names it" 'TS707.*this attention_factor'
changed "$model" 'c["model_type"] = "granite"'
expect_status "another type is refused" 1 "$trainspool" check job.yaml
expect_output "the message lists the types" 'TS707.*models of type llama, mistral.*not granite'
changed "$model" 't["normalizer"] = {"type": "Lowercase"}'
expect_status "another tokenizer is refused" 1 "$trainspool" check job.yaml
expect_output "the message names the file" 'TS707.*no name for the way in which tokenizer.json splits'
plan
