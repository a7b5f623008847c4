#!/bin/sh
# check: text output, exit statuses, JSON and bad files; check never writes files.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir jobs
cd jobs || exit 99

cat >fp16.yaml <<'END'
model_name_or_path: model
stage: sft
finetuning_type: full
fp16: true
model_dtype: float16   # half
dataset: text.txt
hf_hub_token: hush-hush
END
cat >fine.yaml <<'END'
model_name_or_path: model
stage: sft
dataset: text.txt
END
cat >advice.yaml <<'END'
model_name_or_path: models/smollm2
adapter_name_or_path: owner/adapter
dataset: text.txt
max_grad_norm: None
per_device_batch_size: 4
model_dtype: float16
fp16: true
bf16: true
END
printf 'stage: sft\ndataset:d.jsonl\nfp16: true\n' >colon.yaml
printf 'bf16: true\nper_device_train_batch_size: 1\n' >pair.yaml
mkdir named
echo '{"model_type": "llama"}' >named/config.json
printf 'model_name_or_path: named/config.json\ndataset: x.jsonl\n' >named.yaml
ls -lR >../before
expect_status "check exits with 1 for an error finding" 1 "$trainspool" check --device "TITAN RTX" fp16.yaml
expect_output "a finding has position, severity and rule" '^fp16.yaml:5:14: error\[TS105\]: '
sed -n '/^fp16.yaml:5:14/{n;p;n;p;n;p;n;p;}' "$T/out" >excerpt
cat >expected <<'END'
  5 | model_dtype: float16   # half
    |              ^^^^^^^
    model_dtype: float16 -> float32   (fp16 compute, clipping and checkpointing stay unchanged)

END
expect "the line with carets, the edit and a blank line follow" cmp excerpt expected
rm excerpt expected
expect_status "check exits with 0 for warnings alone" 0 "$trainspool" check --device "TITAN RTX" fine.yaml
expect_output "check reports warnings" 'warning\[TS713\]'
expect_status "--fail-on warning makes the status 1" 1 \
    "$trainspool" check --device "TITAN RTX" --fail-on warning fine.yaml
expect_status "check --quiet exits with 1 for an error" 1 "$trainspool" check -q --device "TITAN RTX" fp16.yaml
expect "--quiet prints no warnings" sh -c "! grep -q warning '$T/out'"
expect_status "the worst of several jobs decides the status" 1 \
    "$trainspool" check --device "TITAN RTX" fine.yaml fp16.yaml
expect_output "check reports on all jobs" '^fine.yaml: '

# Advice for the user.
try "$trainspool" check --device "RTX 3090" advice.yaml
expect_output "a relative folder is not treated as a hub repository" '^    nothing is downloaded: name a folder on this machine; a relative path is relative to the job file$'
expect "no download of the folder is suggested" sh -c "! grep -q 'hf download models' '$T/out'"
expect_output "an owner and a name are treated as a hub repository" 'hf download owner/adapter '
expect_output "None is not null" '^    None is Python for null'
expect_output "an unknown key gets a suggestion" 'use per_device_train_batch_size$'
expect_output "a finding that another edit fixes is marked" '^    gone after the other edits$'
try "$trainspool" check named.yaml
expect_output "a file in place of a folder is reported" 'TS713.: .*named/config.json is a file'
expect_output "the advice is to name the folder" 'name the folder that contains it'
expect_status "a colon without a space is not YAML" 2 "$trainspool" check colon.yaml
expect_output "the advice is to add a space" '^colon.yaml:2:1: .*; write a key, a colon and a space'

try "$trainspool" check --device T4 pair.yaml
expect "a group of edits is shown once" sh -c "[ \$(grep -c '^    and in line' '$T/out') -eq 1 ]"
try "$trainspool" check --device "RTX 3090" --select TS104 fp16.yaml
expect_output "an unsafe edit is marked with --unsafe" '^    with --unsafe: fp16: true -> false '
try "$trainspool" plan --device T4 pair.yaml
expect_output "one sample is singular" '  1 sample x 1 = 1 per step$'
expect_status "--json and --sarif exclude each other" 2 "$trainspool" check --json --sarif pair.yaml

expect_status "check --json exits with 1 for an error" 1 "$trainspool" check --json --device "TITAN RTX" fp16.yaml fine.yaml
expect "check --json prints JSON" is_json <"$T/out"
expect "check --json prints one line per job" sh -c "[ \$(wc -l <'$T/out') -eq 2 ]"
expect_output "check --json has the byte range of the edit" '"byte_offset":[0-9]*,"byte_length":7,"old":"float16","new":"float32"'
expect_status "check --sarif exits with 1 for an error" 1 "$trainspool" check --sarif --device "TITAN RTX" fp16.yaml fine.yaml
expect "check --sarif prints one line for all jobs" sh -c "[ \$(wc -l <'$T/out') -eq 1 ]"
expect "check --sarif prints JSON" is_json <"$T/out"
expect_output "a SARIF result has rule, level and position" '"ruleId":"TS105","ruleIndex":[0-9]*,"level":"error",.*"startLine":5,"startColumn":14'
expect_output "a SARIF fix has byte offsets" '"byteLength":7},"insertedContent":{"text":"float32"}'
expect_status "check -v exits with 1 for an error" 1 "$trainspool" check -v --device "TITAN RTX" fp16.yaml
expect_output "check -v prints the reason for a finding" 'because: TITAN RTX, compute capability 7.5'
expect "no output contains a secret" sh -c "! grep -q hush '$T/out'"

expect_status "--color always exits with 1 for an error" 1 \
    "$trainspool" check --color always --device "TITAN RTX" fp16.yaml
expect_output "--color always colors the severity" "$(printf '\033\[31m')"
expect_status "output to a file exits with 1 for an error" 1 "$trainspool" check --device "TITAN RTX" fp16.yaml
expect "output to a file has no colors" sh -c "! grep -q '$(printf '\033')' '$T/out'"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    env -u NO_COLOR TERM=xterm script -qec "'$trainspool' check --device cpu fp16.yaml" /dev/null \
        >"$T/out" 2>&1 </dev/null
    expect "output to a terminal has colors" grep -q "$(printf '\033')" "$T/out"
    NO_COLOR=1 TERM=xterm script -qec "'$trainspool' check --device cpu fp16.yaml" /dev/null \
        >"$T/out" 2>&1 </dev/null
    expect "NO_COLOR turns colors off on a terminal" sh -c "! grep -q '$(printf '\033')' '$T/out'"
else
    skip "output to a terminal has colors" "no script(1), or no terminals here"
    skip "NO_COLOR turns colors off on a terminal" "no script(1), or no terminals here"
fi

expect_status "an unknown device gives 2" 2 "$trainspool" check --device "TITAN RTY" fine.yaml
expect_error "the message names devices --known" 'devices --known'
expect_status "check without a job gives 2" 2 "$trainspool" check
expect_status "a missing job gives 2" 2 "$trainspool" check --device cpu nowhere.yaml
ls -lR >../after
expect "check writes no files" cmp ../before ../after

mkdir folder.yaml
mkfifo fifo.yaml
: >empty.yaml
printf 'fp16: tr' >cut.yaml
printf 'a: [b\n' >broken.yaml
printf 'a: 1\n---\nb: 2\n' >several.yaml
printf '\377\376a\0' >latin.yaml
printf 'a:\n\tb: 1\n' >tab.yaml
truncate -s 100M huge.yaml
head -c 900000 /dev/zero | tr '\0' '[' >deep.yaml
ln -s nowhere dangling.yaml
for name in folder fifo empty broken several latin tab huge deep dangling; do
    expect_status "$name is not a job: 2" 2 timeout 20 "$trainspool" check --device cpu $name.yaml
    expect_status "$name is not a job with --json: 2" 2 timeout 20 "$trainspool" check --json --device cpu $name.yaml
    expect "$name gives JSON" is_json <"$T/out"
done
for command in check patch plan review run; do
    expect_status "$command of a folder gives 2" 2 "$trainspool" $command folder.yaml/
    expect_error "$command reports that it is a folder" 'folder.yaml/ is a directory; name a file in it$'
done
expect "no command writes into the folder" rmdir folder.yaml
for command in check patch plan; do
    expect_status "$command of standard input gives 2" 2 "$trainspool" $command -
    expect_error "$command reports that it does not read standard input" 'cannot read a job from standard input: - is not a job; name a file$'
done
expect_status "a file larger than 1 MiB is not a job: 2" 2 "$trainspool" check --device cpu huge.yaml
expect_output "TS009 is reported for line 1" '^huge.yaml:1:1: error\[TS009\]: the file has 104857600 bytes; a job may have at most 1048576$'
expect_status "--json gives 2 for a file larger than 1 MiB" 2 "$trainspool" check --json --device cpu huge.yaml
expect "--json has the position and no digest" jq_accepts -e '.sha256 == null and .sha256_after == null and
    (.findings | length == 1) and (.findings[0] | .rule == "TS009" and .line == 1)' "$T/out"
expect_status "--sarif gives 2 for a file larger than 1 MiB" 2 "$trainspool" check --sarif --device cpu huge.yaml
expect "--sarif has the finding" jq_accepts -e '.runs[0].results | length == 1 and .[0].ruleId == "TS009" and
    .[0].locations[0].physicalLocation.region.startLine == 1' "$T/out"
for command in patch plan run; do
    expect_status "$command of a file larger than 1 MiB gives 2" 2 "$trainspool" $command huge.yaml
    expect_output "$command reports TS009" 'error\[TS009\]'
done
expect "status shows the job as rejected" state_is huge.yaml rejected
expect_status "a job that ends inside a value has an error" 1 "$trainspool" check --device cpu cut.yaml
if [ "$(id -u)" -eq 0 ]; then
    skip "an unreadable job gives 2" "root reads everything"
else
    chmod 0 fine.yaml
    expect_status "an unreadable job gives 2" 2 "$trainspool" check --device cpu fine.yaml
fi

name=$(printf 'a\033]0;owned\007\nb.yaml')
cp fp16.yaml "$name"
expect_status "a file name with control characters is accepted" 1 "$trainspool" check --device "TITAN RTX" "$name"
expect "no escape sequence is printed" sh -c "! grep -q '$(printf '\033')' '$T/out'"
expect "a line break in the name does not start a line" sh -c "! grep -q '^b.yaml' '$T/out'"
expect_status "--json accepts a name with control characters" 1 "$trainspool" check --json --device "TITAN RTX" "$name"
expect "--json prints one line for it" is_json <"$T/out"
expect_status "a job that needs too much memory with any batch has an error" 1 "$trainspool" check --device "TITAN RTX" \
    "$source/tests/patch/ts301-never-fits-lora/job.yaml"
expect_output "the advice names settings that would fit" 'the unchanged job would fit with memory_limit: 79[45]MiB; with a batch of 1, it would fit with cutoff_len: [0-9]*$'
sed 's/[0-9]*MiB/1MiB/' "$source/tests/patch/ts301-never-fits-lora/job.yaml" >never.yaml
sed -i "s|\.\./|$source/tests/patch/|" never.yaml
expect_status "a job whose weights need too much memory has an error" 1 "$trainspool" check --device "TITAN RTX" never.yaml
expect_output "the message says that weights, gradients and optimizer do not fit" 'weights, gradients and optimizer alone need'

printf 'model_name_or_path: nowhere\nddp_timeout: 3\nbf16: yes\n' >quiet.yaml
expect_status "check -q exits with 1 for an edit that would be made" 1 "$trainspool" check -q --device A100 quiet.yaml
expect_output "-q prints the first line of the finding" '^quiet.yaml:3:7: warning\[TS012\]: '
expect "-q prints no other lines" sh -c "! grep -v '^quiet.yaml:' '$T/out'"
expect "-q prints no finding that does not affect the status" sh -c "! grep -q 'info' '$T/out'"
expect_status "-q --fail-on info exits with 1 for an info" 1 "$trainspool" check -q --fail-on info --device A100 quiet.yaml
expect_output "-q --fail-on info prints the info" 'info.*ddp_timeout'

# Unsupported stages and their replacements.
printf '%s\n' "model_name_or_path: m" "dataset: x.json" "stage: orpo" "orpo_beta: 0.1" >odds.yaml
expect_status "a stage of older LLaMA-Factory versions has an error" 1 "$trainspool" check odds.yaml
expect_output "the message lists the supported stages" 'error\[TS707\]: stage must be sft, pt, distill, dpo, kto, grpo or rm, not orpo'
expect_output "the advice names the equivalent settings" '^    use stage: dpo with pref_loss: orpo$'
printf '%s\n' "model_name_or_path: m" "dataset: x.json" "stage: dpo" "pref_loss: orpo" "orpo_beta: 0.1" >odds.yaml
expect_status "the equivalent settings have no error" 0 "$trainspool" check --fail-on error odds.yaml

mkdir odd
echo '{"model_type": "llama", "hidden_size": 64, "rms_norm_eps": 1}' >odd/config.json
printf '%s\n' "model_name_or_path: odd" "dataset: x.jsonl" >odd.yaml
expect_status "a wrong value in config.json is an error" 1 "$trainspool" check odd.yaml
expect_output "the message names the file and the key" 'error\[TS716\]: config.json: vocab_size must be a number from 1'

# A config.json that does not match the weights.
if has_model; then
    mkdir other
    cp "$model"/*.json "$model"/model.safetensors other
    sed -i 's/"hidden_size": *64/"hidden_size": 128/' other/config.json
    printf '%s\n' "model_name_or_path: other" "dataset: x.jsonl" >other.yaml
    expect_status "weights with a shape other than in config.json have an error" 1 "$trainspool" check other.yaml
    expect_output "the message names the tensor and both shapes" 'error\[TS716\]: .*embed_tokens.weight has the shape \[512, 64\], config.json requires \[512, 128\]'
    printf '%s\n' 'train_from_scratch: true' 'finetuning_type: full' >>other.yaml
    expect_status "train_from_scratch ignores the weights" 0 "$trainspool" check --fail-on error other.yaml
    printf '%s\n' "model_name_or_path: $model" "teacher_model_name_or_path: other" "stage: distill" \
        "dataset: x.jsonl" >taught.yaml
    expect_status "a teacher with a wrong shape has an error" 1 "$trainspool" check taught.yaml
    expect_output "the finding is at the key of the teacher" '^taught.yaml:2:29: error\[TS716\]: .*embed_tokens.weight has the shape'
else
    skip "weights are compared with config.json" "no model in $model"
fi

# a job for the CPU on a machine with a GPU
printf '%s\n' 'model_name_or_path: nowhere' 'dataset: d.jsonl' 'finetuning_type: full' \
    'model_dtype: float16' 'bf16: auto' 'use_cpu: true' >cpu.yaml
expect_status "use_cpu overrides a named device" 1 "$trainspool" check --device T4 cpu.yaml
expect_output "the job is checked for a CPU" 'TS108'
cp -r "$source/tests/patch/model-fp32" "$source/tests/patch/ts301-kept-unsafe" .
cp "$source/tests/patch/data.jsonl" .
expect_status "a job that keeps its memory settings has an error" 1 \
    "$trainspool" check --device 'TITAN RTX' ts301-kept-unsafe/job.yaml
expect_output "the message names the kept setting" 'an edit would suffice, but the job keeps the key'
expect_output "the advice names other settings" 'with a batch of 1, .* would fit with finetuning_type: lora$'
printf 'model_name_or_path: m\noverwrite_cache: &on true\nbf16: *on\n' >alias.yaml
expect_status "bf16 through an alias is an error on a T4" 1 "$trainspool" check --device T4 alias.yaml
expect "the fault comes before the reason why nothing is edited" \
    sh -c "grep ':3:7:' '$T/out' | head -1 | grep -q 'TS102.*this device has no bf16'"
expect_output "the line that replaces the alias is shown" '^    write `bf16: false` by hand'
expect_output "the line that would be inserted is shown" '^    write `fp16: true` by hand'

printf 'model_name_or_path: m\nseed: "1"\nmax_steps: "2"\ncutoff_len: 8\nlogging_steps: "3"\n' >quoted.yaml
try "$trainspool" check --device T4 quoted.yaml
expect "findings that differ only in the key are one block" test "$(grep -c TS014 "$T/out")" -eq 1
expect_output "the block lists each edit" '^    also in line 5: logging_steps: "3" -> 3$'
expect_output "the summary counts them all" '^quoted.yaml: 5 findings'
printf 'model_name_or_path: m\nflash_attn: fa2\nplot_loss: true\n' >idle.yaml
try "$trainspool" check --json --device T4 idle.yaml
expect_output "keys without effect are those after the edits" '"rule":"TS708".*"plot_loss has no effect here"'
expect "they are reported once" test "$(grep -o TS708 "$T/out" | wc -l)" -eq 1

mkdir -p zoo_of_mine
for name in zoo_of_mine/tiny ckpt/tiny saves/a ./a/b ../a/b /a/b; do
    printf 'model_name_or_path: %s\n' $name >local.yaml
    try "$trainspool" check --device T4 local.yaml
    expect "a local folder is not downloaded ($name)" sh -c '! grep -q "hf download" "$1"' sh "$T/out"
done
printf 'model_name_or_path: Qwen/Qwen3-0.6B\n' >hub.yaml
try "$trainspool" check --device T4 hub.yaml
expect_output "a repository of the hub is" 'hf download Qwen/Qwen3-0.6B'

plan
