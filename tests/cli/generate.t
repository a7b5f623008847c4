#!/bin/sh
# generate: a model, an adapter and a job's result complete prompts, the same whatever is beside them.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

ends "a model is needed: 2" 2 "$trainspool" generate
ends "a folder that is no model: 2" 2 "$trainspool" generate . --prompt x
complains "is told as that" 'neither config.json nor adapter_config.json'
ends "a file that is not there: 2" 2 "$trainspool" generate nothing.yaml --prompt x
complains "is told, with what may be named" 'there is no nothing.yaml; name the folder of a model'
ends "a number that is none: 2" 2 "$trainspool" generate . --temperature warm
complains "is told" 'temperature must be a number'

if ! has_model; then
    skip "a model completes prompts" "no model in $model"
    plan
    exit
fi
ends "a model goes on with a text" 0 "$trainspool" generate "$model" -p "Once upon a time" --max-new-tokens 30
says "in its own words" '^, there was a little girl named Lily. She loved to play outside in the park'
ends "with --json" 0 "$trainspool" generate "$model" -p "Once upon a time" --max-new-tokens 30 --json
holds "each is one object" is_json <"$T/out"
says "with what ended it" '"tokens":30,"end":"length"}$'
ends "up to a text" 0 "$trainspool" generate "$model" -p "Once upon a time" --stop Lily --stop zebra
says "that is not in it" '^, there was a little girl named $'
printf 'Tom had\nThe dog\n' >lines.txt
"$trainspool" generate "$model" <lines.txt --max-new-tokens 8 --json >stdin.out
ends "lines of standard input are prompts" 0 test "$(wc -l <stdin.out)" -eq 2
ends "and those of a file" 0 "$trainspool" generate "$model" --prompts lines.txt --max-new-tokens 8 --json
holds "the same" cmp stdin.out "$T/out"
ends "--output" 0 "$trainspool" generate "$model" --prompts lines.txt --max-new-tokens 8 --json -o kept.jsonl
holds "writes it there" cmp stdin.out kept.jsonl
ends "but over nothing" 2 "$trainspool" generate "$model" --prompts lines.txt -o kept.jsonl

# Whoever has read enough.
ends "a reader who leaves" 0 sh -c '"$1" generate "$2" --prompts lines.txt --max-new-tokens 8 --batch 1 | true' \
    sh "$trainspool" "$model"
holds "is no reason to complain" test ! -s "$T/err"
ends "but a disk that is full is one: 3" 3 sh -c '"$1" generate "$2" --prompts lines.txt --max-new-tokens 8 >/dev/full' \
    sh "$trainspool" "$model"
complains "is told" 'cannot write the completions; is the disk full'

# A model whose last numbers are NaN.
cp -r "$model" nan
chmod -R u+w nan
size=$(wc -c <nan/model.safetensors)
printf '\377\377\377\177' | dd of=nan/model.safetensors bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
ends "a model with a NaN says nothing: 2" 2 "$trainspool" generate nan -p "Tom has" --json
complains "and why" 'nan: no logit after token [1-9] of prompt 1 is finite'
holds "not as an answer" test ! -s "$T/out"

# Bits go by seed and number alone.
sample() { # THREADS ARGUMENTS...: sampled completions, sorted
    threads=$1
    shift
    taskset -c 0-$((threads - 1)) "$trainspool" generate "$model" "$@" --temperature 1 --top-p 0.9 \
        --samples 3 --max-new-tokens 20 --json
}
if [ "$(nproc)" -ge 2 ] && command -v taskset >/dev/null; then
    sample 1 -p "Once upon" -p "Lily" >one.out
    sample 2 -p "Once upon" -p "Lily" >two.out
    holds "one thread and two say the same" cmp one.out two.out
    sample 2 -p "Once upon" >alone.out
    head -3 one.out | cmp - alone.out
    ok $? "and so does a prompt alone"
    sample 2 -p "Once upon" --seed 7 >seven.out
    holds "another seed says something else" sh -c "! cmp -s alone.out seven.out"
else
    skip "one thread and two say the same" "one processor"
fi
ends "a template with none: 2" 2 "$trainspool" generate "$model" -p x --raw --template chatml
complains "with what to leave out" 'leave out --template or --raw'
ends "a template that is none: 2" 2 "$trainspool" generate "$model" -p x --template chatmll
complains "with those there are" 'the templates are default, .*chatml'
ends "no samples at all: 2" 2 "$trainspool" generate "$model" -p x --temperature 1 --samples 0
ends "none at once: 2" 2 "$trainspool" generate "$model" -p x --batch 0
complains "with how many" 'batch must be from 1 to 4096'
ends "many samples of the likeliest are refused" 2 "$trainspool" generate "$model" -p x --samples 2
complains "with what to do" 'temperature above 0'
ends "so is a share of them to draw from" 2 "$trainspool" generate "$model" -p x --top-p 0.9
complains "with what to do" 'top-p requires --temperature above 0'
ends "but not where the likeliest is asked for" 0 "$trainspool" generate "$model" -p x --top-p 0.9 --temperature 0 \
    --max-new-tokens 1

# A job: before its run, after it, and its adapter.
make_data .
job 4 >full.yaml
ends "a job that made nothing yet: 2" 2 "$trainspool" generate full.yaml -p "Tom has"
complains "is told so" 'there is no model in full.run yet'
ends "it is run" 0 "$trainspool" run -q full.yaml
ends "what it made" 0 "$trainspool" generate full.yaml -p "Tom has" --max-new-tokens 12 --json
holds "completes" is_json <"$T/out"
cp "$T/out" job.out
sed '$a temperature: 0' full.yaml >likeliest.yaml
cp -r full.run likeliest.run
ends "a job of temperature 0 takes the likeliest" 0 "$trainspool" generate likeliest.yaml -p "Tom has" --max-new-tokens 12 --json
cp "$T/out" likeliest.out
ends "as its folder does" 0 "$trainspool" generate full.run -p "Tom has" --max-new-tokens 12 --json --temperature 0
holds "the same" cmp likeliest.out "$T/out"
ends "so that several are refused" 2 "$trainspool" generate likeliest.yaml -p "Tom has" --samples 2
ends "the command line wins" 0 "$trainspool" generate likeliest.yaml -p "Tom has" --samples 2 --temperature 1 --max-new-tokens 3
mv full.run/config.json config.json
ends "a job with a checkpoint alone: 2" 2 "$trainspool" generate full.yaml -p "Tom has"
complains "is told its name" 'no model in full.run yet, only a checkpoint; name its folder, full.run/checkpoint-4'
mkdir whole
echo mine >whole/model.safetensors
job 4 "lora_rank: 4" "lora_target: all" "learning_rate: 1.0e-2" "export_dir: whole" |
    sed 's/finetuning_type: full/finetuning_type: lora/; /^learning_rate: 1.0e-4/d' >lora.yaml
ends "a job with an adapter" 0 "$trainspool" run -q lora.yaml
holds "what another had in export_dir is kept" grep -q mine whole/model.safetensors.old-1
ends "once more" 0 "$trainspool" run -q lora.yaml
holds "its own is not" test ! -e whole/model.safetensors.old-2
ends "completes too" 0 "$trainspool" generate lora.yaml -p "Tom has" --max-new-tokens 12 --temperature 0
cp "$T/out" lora.out
ends "and so does the adapter's folder" 0 "$trainspool" generate lora.run -p "Tom has" --max-new-tokens 12
holds "the same" cmp lora.out "$T/out"
ends "and the merged model" 0 "$trainspool" generate whole -p "Tom has" --max-new-tokens 12
holds "says the same, too" cmp lora.out "$T/out"
rm lora.run/adapter_model.safetensors
ends "an adapter without its numbers: 3" 3 "$trainspool" generate lora.run -p "Tom has"
plan
