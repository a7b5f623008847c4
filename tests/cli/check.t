#!/bin/sh
# check: findings like a compiler's, statuses, JSON, bad files; it never writes.
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
cat >told.yaml <<'END'
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
ends "an error finding gives 1" 1 "$trainspool" check --device "TITAN RTX" fp16.yaml
says "it is told with place, severity and rule" '^fp16.yaml:5:14: error\[TS105\]: '
sed -n '/^fp16.yaml:5:14/{n;p;n;p;n;p;n;p;}' "$T/out" >excerpt
cat >wanted <<'END'
  5 | model_dtype: float16   # half
    |              ^^^^^^^
    model_dtype: float16 -> float32   (fp16 compute, clipping and checkpointing stay as they are)

END
holds "then the line with carets, the edit, and a blank line" cmp excerpt wanted
rm excerpt wanted
ends "warnings alone give 0" 0 "$trainspool" check --device "TITAN RTX" fine.yaml
says "and are told" 'warning\[TS713\]'
ends "--fail-on warning counts them" 1 \
    "$trainspool" check --device "TITAN RTX" --fail-on warning fine.yaml
ends "--quiet leaves only errors" 1 "$trainspool" check -q --device "TITAN RTX" fp16.yaml
holds "no warning among them" sh -c "! grep -q warning '$T/out'"
ends "the worst of several jobs counts" 1 \
    "$trainspool" check --device "TITAN RTX" fine.yaml fp16.yaml
says "and all are looked at" '^fine.yaml: '

# What a person needs to go on.
try "$trainspool" check --device "RTX 3090" told.yaml
says "a folder of models is no owner on the hub" '^    nothing is downloaded: name a folder of this machine; a relative path begins where the job lies$'
holds "and nobody is sent there for it" sh -c "! grep -q 'hf download models' '$T/out'"
says "an owner is one" 'hf download owner/adapter '
says "None is no null" '^    None is Python for null'
says "a name that is missed gets the right one" 'use per_device_train_batch_size$'
says "what other edits mend says so" '^    gone after the other edits$'
try "$trainspool" check named.yaml
says "a file in the place of a folder is told as one" 'TS713.: .*named/config.json is a file'
says "with what to write" 'name the folder it lies in'
ends "a colon without a blank is no YAML" 2 "$trainspool" check colon.yaml
says "and the remedy is told" '^colon.yaml:2:1: .*; a key, a colon and a blank'

try "$trainspool" check --device T4 pair.yaml
holds "edits that go together are told once" sh -c "[ \$(grep -c '^    and in line' '$T/out') -eq 1 ]"
try "$trainspool" check --device "RTX 3090" --select TS104 fp16.yaml
says "what a plain patch does not do says so" '^    with --unsafe: fp16: true -> false '
try "$trainspool" plan --device T4 pair.yaml
says "one sample is one" '  1 sample x 1 = 1 per step$'
ends "--json and --sarif at once" 2 "$trainspool" check --json --sarif pair.yaml

ends "--json" 1 "$trainspool" check --json --device "TITAN RTX" fp16.yaml fine.yaml
holds "is one object a line" is_json <"$T/out"
holds "for each job" sh -c "[ \$(wc -l <'$T/out') -eq 2 ]"
says "with the bytes of the edit" '"byte_offset":[0-9]*,"byte_length":7,"old":"float16","new":"float32"'
ends "--sarif" 1 "$trainspool" check --sarif --device "TITAN RTX" fp16.yaml fine.yaml
holds "is one object for all jobs" sh -c "[ \$(wc -l <'$T/out') -eq 1 ]"
holds "and JSON" is_json <"$T/out"
says "with rule, level and place" '"ruleId":"TS105","ruleIndex":[0-9]*,"level":"error",.*"startLine":5,"startColumn":14'
says "and the edit by bytes" '"byteLength":7},"insertedContent":{"text":"float32"}'
ends "-v tells the fact" 1 "$trainspool" check -v --device "TITAN RTX" fp16.yaml
says "that decided" 'because: TITAN RTX, compute capability 7.5'
holds "a secret is in no output" sh -c "! grep -q hush '$T/out'"

ends "--color always colours" 1 \
    "$trainspool" check --color always --device "TITAN RTX" fp16.yaml
says "the severity" "$(printf '\033\[31m')"
ends "a file takes no colours" 1 "$trainspool" check --device "TITAN RTX" fp16.yaml
holds "of itself" sh -c "! grep -q '$(printf '\033')' '$T/out'"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    env -u NO_COLOR TERM=xterm script -qec "'$trainspool' check --device cpu fp16.yaml" /dev/null \
        >"$T/out" 2>&1 </dev/null
    holds "a terminal does" grep -q "$(printf '\033')" "$T/out"
    NO_COLOR=1 TERM=xterm script -qec "'$trainspool' check --device cpu fp16.yaml" /dev/null \
        >"$T/out" 2>&1 </dev/null
    holds "unless NO_COLOR is set" sh -c "! grep -q '$(printf '\033')' '$T/out'"
else
    skip "a terminal does" "no script(1), or no terminals here"
    skip "unless NO_COLOR is set" "no script(1), or no terminals here"
fi

ends "an unknown device gives 2" 2 "$trainspool" check --device "TITAN RTY" fine.yaml
complains "and tells where they are" 'devices --known'
ends "no job gives 2" 2 "$trainspool" check
ends "a job that is not there gives 2" 2 "$trainspool" check --device cpu nowhere.yaml
ls -lR >../after
holds "nothing was written" cmp ../before ../after

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
    ends "$name is no job: 2" 2 timeout 20 "$trainspool" check --device cpu $name.yaml
    ends "$name with --json: 2" 2 timeout 20 "$trainspool" check --json --device cpu $name.yaml
    holds "$name gives JSON all the same" is_json <"$T/out"
done
for command in check patch plan review run; do
    ends "$command of a folder: 2" 2 "$trainspool" $command folder.yaml/
    complains "says what it is" 'folder.yaml/ is a directory; name a file in it$'
done
holds "and writes nothing in it" rmdir folder.yaml
for command in check patch plan; do
    ends "$command of standard input: 2" 2 "$trainspool" $command -
    complains "says that it is not read" 'cannot read a job from standard input: - is not a job; name a file$'
done
ends "more than 1 MiB is TS009" 2 "$trainspool" check --device cpu huge.yaml
says "in line 1" '^huge.yaml:1:1: error\[TS009\]: the file has 104857600 bytes; a job has at most 1048576$'
ends "in JSON" 2 "$trainspool" check --json --device cpu huge.yaml
holds "with place, and no digest" json -e '.sha256 == null and .sha256_after == null and
    (.findings | length == 1) and (.findings[0] | .rule == "TS009" and .line == 1)' "$T/out"
ends "and in SARIF" 2 "$trainspool" check --sarif --device cpu huge.yaml
holds "too" json -e '.runs[0].results | length == 1 and .[0].ruleId == "TS009" and
    .[0].locations[0].physicalLocation.region.startLine == 1' "$T/out"
for command in patch plan run; do
    ends "for $command as well: 2" 2 "$trainspool" $command huge.yaml
    says "by its name" 'error\[TS009\]'
done
holds "as status says" is huge.yaml rejected
ends "a job cut off inside a value has an error" 1 "$trainspool" check --device cpu cut.yaml
if [ "$(id -u)" -eq 0 ]; then
    skip "an unreadable job: 2" "root reads everything"
else
    chmod 0 fine.yaml
    ends "an unreadable job: 2" 2 "$trainspool" check --device cpu fine.yaml
fi

name=$(printf 'a\033]0;owned\007\nb.yaml')
cp fp16.yaml "$name"
ends "a hostile name" 1 "$trainspool" check --device "TITAN RTX" "$name"
holds "sends no escape to anybody" sh -c "! grep -q '$(printf '\033')' '$T/out'"
holds "and forges no line" sh -c "! grep -q '^b.yaml' '$T/out'"
ends "nor in JSON" 1 "$trainspool" check --json --device "TITAN RTX" "$name"
holds "which stays one line" is_json <"$T/out"
ends "no batch is small enough" 1 "$trainspool" check --device "TITAN RTX" \
    "$source/tests/patch/ts301-never-lora/job.yaml"
says "what would fit is named" 'would fit as it is: memory_limit: 79[67]MiB; with a batch of 1: cutoff_len: [0-9]*$'
sed 's/[0-9]*MiB/1MiB/' "$source/tests/patch/ts301-never-lora/job.yaml" >never.yaml
sed -i "s|\.\./|$source/tests/patch/|" never.yaml
ends "nor for the weights" 1 "$trainspool" check --device "TITAN RTX" never.yaml
says "which no batch makes smaller" 'weights, gradients and optimizer alone need'

printf 'model_name_or_path: nowhere\nddp_timeout: 3\nbf16: yes\n' >quiet.yaml
ends "-q and an edit that would be made" 1 "$trainspool" check -q --device A100 quiet.yaml
says "which it tells in its first line" '^quiet.yaml:3:7: warning\[TS012\]: '
holds "and in no other" sh -c "! grep -v '^quiet.yaml:' '$T/out'"
holds "and nothing that does not count" sh -c "! grep -q 'info' '$T/out'"
ends "-q and what is to count" 1 "$trainspool" check -q --fail-on info --device A100 quiet.yaml
says "tells that too" 'info.*ddp_timeout'

# Stages that are refused, and what does their work.
printf '%s\n' "model_name_or_path: m" "dataset: x.json" "stage: orpo" "orpo_beta: 0.1" >odds.yaml
ends "a stage of older LLaMA-Factory" 1 "$trainspool" check odds.yaml
says "is refused" 'error\[TS707\]: stage must be sft, pt, distill or dpo, not orpo'
says "with what does it" '^    use stage: dpo with pref_loss: orpo$'
printf '%s\n' "model_name_or_path: m" "dataset: x.json" "stage: dpo" "pref_loss: orpo" "orpo_beta: 0.1" >odds.yaml
ends "that" 0 "$trainspool" check --fail-on error odds.yaml

# A config.json that is another model's.
if has_model; then
    mkdir other
    cp "$model"/*.json "$model"/model.safetensors other
    sed -i 's/"hidden_size": *64/"hidden_size": 128/' other/config.json
    printf '%s\n' "model_name_or_path: other" "dataset: x.jsonl" >other.yaml
    ends "weights of another shape than config.json has" 1 "$trainspool" check other.yaml
    says "are told by name" 'error\[TS716\]: .*embed_tokens.weight has the shape \[512, 64\], config.json wants \[512, 128\]'
    echo "train_from_scratch: true" >>other.yaml
    ends "weights that are not read" 0 "$trainspool" check --fail-on error other.yaml
    printf '%s\n' "model_name_or_path: $model" "teacher_model_name_or_path: other" "stage: distill" \
        "dataset: x.jsonl" >taught.yaml
    ends "a teacher's of another shape" 1 "$trainspool" check taught.yaml
    says "are told at his key" '^taught.yaml:2:29: error\[TS716\]: .*embed_tokens.weight has the shape'
else
    skip "weights are held against config.json" "no model in $model"
fi

# a job for the CPU, whatever card is named
printf '%s\n' 'model_name_or_path: nowhere' 'dataset: d.jsonl' 'finetuning_type: full' \
    'model_dtype: float16' 'bf16: auto' 'use_cpu: true' >cpu.yaml
ends "use_cpu beside a named card" 1 "$trainspool" check --device T4 cpu.yaml
says "is judged as on a CPU" 'TS108'
cp -r "$source/tests/patch/model-fp32" "$source/tests/patch/ts301-kept-unsafe" .
cp "$source/tests/patch/data.jsonl" .
ends "memory that only what is kept could save" 1 \
    "$trainspool" check --device 'TITAN RTX' ts301-kept-unsafe/job.yaml
says "tells so" 'an edit would do, but of what the job keeps'
says "and what would do besides" 'with a batch of 1: finetuning_type: lora$'
plan
