#!/bin/sh
# generate: completions of a model, an adapter and a job; they do not depend on the other prompts.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

expect_status "generate without a model gives 2" 2 "$trainspool" generate
expect_status "a folder without a model gives 2" 2 "$trainspool" generate . --prompt x
expect_error "the message names the missing files" 'neither config.json nor adapter_config.json'
expect_status "a missing file gives 2" 2 "$trainspool" generate nothing.yaml --prompt x
expect_error "the message says what can be named" 'there is no nothing.yaml; name the folder of a model'
expect_status "--temperature with a word gives 2" 2 "$trainspool" generate . --temperature warm
expect_error "the message asks for a number" 'temperature must be a number'

if ! has_model; then
    skip "a model completes prompts" "no model in $model"
    plan
    exit
fi
expect_status "generate completes a prompt" 0 "$trainspool" generate "$model" -p "Once upon a time" --max-new-tokens 30
expect_output "the completion is that of the model" '^, there was a little girl named Lily. She loved to play outside in the park'
expect_status "generate --json succeeds" 0 "$trainspool" generate "$model" -p "Once upon a time" --max-new-tokens 30 --json
expect "each completion is one JSON object" is_json <"$T/out"
expect_output "an object has the reason for the end" '"tokens":30,"end":"length"}$'
expect_status "generate --stop succeeds" 0 "$trainspool" generate "$model" -p "Once upon a time" --stop Lily --stop zebra
expect_output "the completion ends before the stop text" '^, there was a little girl named $'
printf 'Tom had\nThe dog\n' >lines.txt
"$trainspool" generate "$model" <lines.txt --max-new-tokens 8 --json >stdin.out
expect_status "standard input gives one completion per line" 0 test "$(wc -l <stdin.out)" -eq 2
expect_status "--prompts reads a file" 0 "$trainspool" generate "$model" --prompts lines.txt --max-new-tokens 8 --json
expect "a file and standard input give the same completions" cmp stdin.out "$T/out"
expect_status "--output succeeds" 0 "$trainspool" generate "$model" --prompts lines.txt --max-new-tokens 8 --json -o kept.jsonl
expect "--output writes the completions to the file" cmp stdin.out kept.jsonl
expect_status "--output does not overwrite a file" 2 "$trainspool" generate "$model" --prompts lines.txt -o kept.jsonl

# A reader that closes the pipe.
expect_status "generate into a pipe that closes succeeds" 0 sh -c '"$1" generate "$2" --prompts lines.txt --max-new-tokens 8 --batch 1 | true' \
    sh "$trainspool" "$model"
expect "a closed pipe gives no message" test ! -s "$T/err"
expect_status "a full disk gives 3" 3 sh -c '"$1" generate "$2" --prompts lines.txt --max-new-tokens 8 >/dev/full' \
    sh "$trainspool" "$model"
expect_error "the message mentions the full disk" 'cannot write the completions; is the disk full'

# A model whose last weight is NaN.
cp -r "$model" nan
chmod -R u+w nan
size=$(wc -c <nan/model.safetensors)
printf '\377\377\377\177' | dd of=nan/model.safetensors bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
expect_status "a model with a NaN gives 2" 2 "$trainspool" generate nan -p "Tom has" --json
expect_error "the message names the prompt and the token" 'nan: no logit after token [1-9] of prompt 1 is finite'
expect "nothing is printed as an answer" test ! -s "$T/out"

# Bits depend only on the seed and the index of the completion.
sample() { # THREADS ARGUMENTS...: print sampled completions
    threads=$1
    shift
    taskset -c 0-$((threads - 1)) "$trainspool" generate "$model" "$@" --temperature 1 --top-p 0.9 \
        --samples 3 --max-new-tokens 20 --json
}
if [ "$(nproc)" -ge 2 ] && command -v taskset >/dev/null; then
    sample 1 -p "Once upon" -p "Lily" >one.out
    sample 2 -p "Once upon" -p "Lily" >two.out
    expect "one and two threads give the same completions" cmp one.out two.out
    sample 2 -p "Once upon" >alone.out
    head -3 one.out | cmp - alone.out
    ok $? "a prompt alone gives the same completions"
    sample 2 -p "Once upon" --seed 7 >seven.out
    expect "another seed gives other completions" sh -c "! cmp -s alone.out seven.out"
else
    skip "one and two threads give the same completions" "one processor"
fi
expect_status "--template with --raw gives 2" 2 "$trainspool" generate "$model" -p x --raw --template chatml
expect_error "the message says which option to leave out" 'leave out --template or --raw'
expect_status "an unknown template gives 2" 2 "$trainspool" generate "$model" -p x --template chatmll
expect_error "the message lists the templates" 'the templates are default, .*chatml'
expect_status "--samples 0 gives 2" 2 "$trainspool" generate "$model" -p x --temperature 1 --samples 0
expect_status "--batch 0 gives 2" 2 "$trainspool" generate "$model" -p x --batch 0
expect_error "the message has the range of --batch" 'batch must be from 1 to 4096'
expect_status "--samples without a temperature gives 2" 2 "$trainspool" generate "$model" -p x --samples 2
expect_error "the message names the temperature" 'temperature above 0'
expect_status "--top-p without a temperature gives 2" 2 "$trainspool" generate "$model" -p x --top-p 0.9
expect_error "the message names the temperature for --top-p" 'top-p requires --temperature above 0'
expect_status "--top-p with --temperature 0 is accepted" 0 "$trainspool" generate "$model" -p x --top-p 0.9 --temperature 0 \
    --max-new-tokens 1

# A job before and after its run, and its adapter.
make_data .
job 4 >full.yaml
expect_status "a job without a trained model gives 2" 2 "$trainspool" generate full.yaml -p "Tom has"
expect_error "the message names the missing model" 'there is no model in full.run yet'
expect_status "the job runs" 0 "$trainspool" run -q full.yaml
expect_status "generate with the trained job succeeds" 0 "$trainspool" generate full.yaml -p "Tom has" --max-new-tokens 12 --json
expect "the job's completion is JSON" is_json <"$T/out"
cp "$T/out" job.out
sed '$a temperature: 0' full.yaml >likeliest.yaml
cp -r full.run likeliest.run
expect_status "temperature: 0 in a job selects the most likely token" 0 "$trainspool" generate likeliest.yaml -p "Tom has" --max-new-tokens 12 --json
cp "$T/out" likeliest.out
expect_status "the folder of the run completes the prompt" 0 "$trainspool" generate full.run -p "Tom has" --max-new-tokens 12 --json --temperature 0
expect "the job and its folder give the same completion" cmp likeliest.out "$T/out"
expect_status "--samples with temperature: 0 in the job gives 2" 2 "$trainspool" generate likeliest.yaml -p "Tom has" --samples 2
expect_status "the command line overrides the job" 0 "$trainspool" generate likeliest.yaml -p "Tom has" --samples 2 --temperature 1 --max-new-tokens 3
mv full.run/config.json config.json
expect_status "a job with only a checkpoint gives 2" 2 "$trainspool" generate full.yaml -p "Tom has"
expect_error "the message names the checkpoint" 'no model in full.run yet, only a checkpoint; name its folder, full.run/checkpoint-4'
mkdir whole
echo mine >whole/model.safetensors
job 4 "lora_rank: 4" "lora_target: all" "learning_rate: 1.0e-2" "export_dir: whole" |
    sed 's/finetuning_type: full/finetuning_type: lora/; /^learning_rate: 1.0e-4/d' >lora.yaml
expect_status "a job with an adapter runs" 0 "$trainspool" run -q lora.yaml
expect "an existing model in export_dir is kept" grep -q mine whole/model.safetensors.old-1
expect_status "the job with an adapter runs again" 0 "$trainspool" run -q lora.yaml
expect "its own exported model is not kept" test ! -e whole/model.safetensors.old-2
expect_status "generate with the job's adapter succeeds" 0 "$trainspool" generate lora.yaml -p "Tom has" --max-new-tokens 12 --temperature 0
cp "$T/out" lora.out
expect_status "generate with the adapter folder succeeds" 0 "$trainspool" generate lora.run -p "Tom has" --max-new-tokens 12
expect "the job and the adapter folder give the same completion" cmp lora.out "$T/out"
expect_status "generate with the merged model succeeds" 0 "$trainspool" generate whole -p "Tom has" --max-new-tokens 12
expect "the merged model gives the same completion" cmp lora.out "$T/out"
rm lora.run/adapter_model.safetensors
expect_status "an adapter without weights gives 3" 3 "$trainspool" generate lora.run -p "Tom has"
plan
