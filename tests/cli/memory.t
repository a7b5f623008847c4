#!/bin/sh
# Memory: check, plan, run and watch agree on whether a job fits, with and without its data.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "the verdicts are compared" "no $model"
    plan
    exit 0
fi
echo '{"instruction": "Count.", "output": "One, two, three."}' >short.jsonl
awk 'BEGIN { printf "{\"instruction\": \"Count.\", \"output\": \""
    for (i = 0; i < 100; i++) printf "apple %d, ", i
    print "\"}" }' >long.jsonl
cat short.jsonl long.jsonl >both.jsonl

# CUTOFF DATA BATCH LIMIT: write the job that the verdicts are about.
write_job() {
    rm -rf job.yaml job.run
    cat >job.yaml <<END
model_name_or_path: $model
stage: sft
finetuning_type: full
dataset: $2
template: default
cutoff_len: $1
per_device_train_batch_size: $3
max_steps: 1
save_strategy: "no"
memory_limit: $4
use_cpu: true
trainspool: {device: cpu}
END
}
# COMMAND...: print the verdict of the command: yes, no, or edit if the job does not fit but an edit of --unsafe
# makes it fit, which is a warning.
verdict() {
    "$@" >verdict.out 2>&1
    verdict_status=$?
    if grep -q 'error\[TS301\]' verdict.out; then
        [ "$verdict_status" -eq 1 ] && echo no
    elif [ "$verdict_status" -eq 0 ]; then
        if grep -q 'warning\[TS301\].*needs about' verdict.out; then echo edit; else echo yes; fi
    else
        cat verdict.out >&2
        echo "status $verdict_status"
    fi
}
planned() { "$trainspool" plan --json job.yaml | jq ".memory.$1"; }

# The limits around what the plan says: a byte less does not fit.
agree=0 edited=0 accepted=0 refused=0 jobs=0
for data in short.jsonl long.jsonl both.jsonl; do
    for cutoff in 64 512; do
        for batch in 1 2; do
            write_job $cutoff $data $batch 64GiB
            counted=$(planned total)
            write_job $cutoff none.jsonl $batch 64GiB
            full=$(planned total)
            for limit in $((counted - 1)) "$counted" $((full - 1)) "$full"; do
                write_job $cutoff $data $batch "$limit"
                jobs=$((jobs + 1))
                fits=$(planned fits)
                check=$(verdict "$trainspool" check job.yaml)
                plan=$(verdict "$trainspool" plan job.yaml)
                run=$(verdict "$trainspool" run job.yaml)
                case $fits-$check-$plan-$run in
                    true-yes-yes-yes) agree=$((agree + 1)) accepted=$((accepted + 1)) ;;
                    false-edit-edit-edit) agree=$((agree + 1)) edited=$((edited + 1)) ;;
                    false-no-no-no) agree=$((agree + 1)) refused=$((refused + 1)) ;;
                    *) echo "# $data, cutoff_len $cutoff, batch $batch, limit $limit: $fits $check $plan $run" ;;
                esac
            done
        done
    done
done
expect "check, plan and run agree on $jobs jobs" test "$agree" -eq "$jobs"
expect "there is each verdict" test "$accepted" -gt 10 -a "$refused" -gt 5 -a "$edited" -gt 1

# The finding gives the reason.
write_job 512 short.jsonl 1 64GiB
counted=$(planned total)
write_job 512 short.jsonl 1 "$counted"
expect_status "a job whose data fit passes" 0 "$trainspool" check job.yaml
expect_output "the longest sample is the reason" 'TS301.*the longest sample has [0-9]* tokens; samples of cutoff_len would need'
expect_status "run with settings decides about the job with them" 1 "$trainspool" run --set dataset=long.jsonl job.yaml
expect_output "the other data do not fit" 'error\[TS301\]'

# Without the data the estimate for cutoff_len stands.
write_job 512 none.jsonl 1 "$counted"
expect_status "a job whose data are unknown is refused" 1 "$trainspool" check job.yaml
expect_output "it needs what samples of cutoff_len take" 'error\[TS301\].*the job needs about'

# The watch admits by the same verdict.
mkdir spool
for data in short long; do
    write_job 512 "$T/$data.jsonl" 1 "$counted"
    mv job.yaml spool/$data.yaml
done
"$trainspool" watch --once spool >out 2>&1
expect "watch runs the job whose data fit" state_is spool/short.yaml done
expect "watch rejects the job whose data do not" state_is spool/long.yaml rejected
# The alternatives: one row each, as text and as JSON, on a CPU and on cards of each kind.
for i in 1 2 3 4 5 6 7 8; do cat long.jsonl; done >eight.jsonl
write_job 512 eight.jsonl 4 64GiB
sed -i '/^use_cpu/d; s/^trainspool.*/bf16: true/' job.yaml
for device in cpu T4 "GTX 1650" P40 "RTX 4090" "H100 80GB"; do
    expect_status "plan --alternatives works on $device" 0 "$trainspool" plan --alternatives --device "$device" job.yaml
    expect_output "the job as it is comes first on $device" '^    as is  *[0-9.]* [KMG]iB  *fits  *time x1.00$'
    expect_output "there is a row of fp32 on $device" '^    fp32 '
    "$trainspool" plan --json --alternatives --device "$device" job.yaml >out
    expect "each row of $device has a memory or a reason" sh -c \
        "jq -e '.alternatives | length > 10 and all(if .applies then .memory.total > 0 and .relative_time > 0
            and .reason == null else .memory == null and (.reason | length) > 0 end)' out >null"
    expect "each but the first costs something, on $device" sh -c \
        "jq -e '.alternatives[1:] | all((.cost | length) > 10 and (.setting | length) > 3)' out >null"
done
# NAME FIELD: print a field of a row.
row() { jq ".alternatives[] | select(.name == \"$1\") | $2" out; }
expect "without checkpointing activations grow" test "$(row "no checkpointing" .memory.activations)" -gt \
    "$(row "as is" .memory.activations)"
expect "a batch of 1 needs less" test "$(row "smaller batch" .memory.total)" -lt "$(row "as is" .memory.total)"
expect "pure_bf16 halves the moments" test "$(row pure_bf16 .memory.optimizer)" -lt "$(row "as is" .memory.optimizer)"
expect "adapters have few moments" test "$(row LoRA .memory.optimizer)" -lt "$(row pure_bf16 .memory.optimizer)"
"$trainspool" plan --json --alternatives --device T4 job.yaml >out
expect "bf16 does not work on a T4" test "$(row bf16 .reason)" = '"this device has no bf16"'
"$trainspool" plan --json job.yaml >out
expect "without the option there are none" sh -c "jq -e 'has(\"alternatives\") | not' out >null"
{
    sed '/^trainspool/d; /^memory_limit/d' job.yaml
    echo 'trainspool: {target: external}'
} >other.yaml
"$trainspool" plan --json --alternatives --device "RTX 4090" other.yaml >out
expect "a full job of stage sft has no reference model" test "$(row "no ref_model" .reason)" = \
    '"the job has no second model"'
# bitsandbytes keeps the moments of the embeddings, 512 rows of 64 columns, in 32 bits
want=$(row "as is" .memory.optimizer | awk '{ embeddings = 512 * 64; printf "%d", 8 * embeddings + 2.03 * ($1 / 8 - embeddings) }')
expect "the optimizer of another program can have 8 bits" test "$(row "8-bit optimizer" .memory.optimizer)" -eq "$want"
{
    grep '^model_name_or_path' job.yaml
    echo 'dataset_name: org/chats'
    echo 'trainspool: {target: external, command: [trl, sft], versions: {trl: 0.24.0, transformers: 4.57.1}}'
} >trl.yaml
"$trainspool" plan --json --alternatives --device "RTX 4090" trl.yaml >out
expect "for TRL they have TRL's keys" test "$(row LoRA .setting)" = '"use_peft: true"'
expect "which pure_bf16 is not" test "$(row pure_bf16 .applies)" = false

expect_status "a job without its model has no alternatives" 0 sh -c \
    "sed 's/^model_name.*/model_name_or_path: nowhere/' job.yaml >absent.yaml
    '$trainspool' plan --alternatives --device T4 absent.yaml"
expect_output "the reason is given" '^  alternatives unknown: nowhere does not exist here$'

plan
