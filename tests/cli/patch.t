#!/bin/sh
# patch, review, backups, undo, plan, explain, devices: the commands before a run.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

cat >job.yaml <<'END'
# mine
model_name_or_path: model
stage: sft
finetuning_type: full
fp16: true
model_dtype: float16   # half

learning_rate: 2.0e-5
hf_hub_token: hush-hush
END
sed 's/float16/float32/' job.yaml >expected
cp job.yaml first
rtx="--device sm_75:24GiB"

expect_status "patch --diff gives 1 if there are edits" 1 "$trainspool" patch --diff $rtx job.yaml
expect_output "patch --diff shows the edits" '^+model_dtype: float32   # half'
expect "patch --diff does not change the job" cmp job.yaml first
expect "patch --diff makes no folder" test ! -e job.run
expect "the diff has no secret" sh -c "! grep -q hush '$T/out'"

sed 's/2.0e-5/-1/' job.yaml >left.yaml
expect_status "patch --diff of a job with an unfixable error gives 1" 1 "$trainspool" patch --diff $rtx left.yaml
expect_output "the diff shows the possible edits" '^+model_dtype: float32'
expect_error "the message counts the remaining findings" 'left.yaml: 1 finding is left that no edit fixes; trainspool check lists it'
rm left.yaml
expect_status "patch gives 0 if no error is left" 0 "$trainspool" patch $rtx job.yaml
expect "only the value changes" cmp job.yaml expected
expect "there is one backup" sh -c 'cmp -s first job.run/backups/*.yaml'
expect "only the owner can read the backup" sh -c '[ "$(stat -c %a job.run/backups/*.yaml)" = 600 ]'
before=$(stat -c '%i %y' job.yaml)
expect_status "a second patch succeeds" 0 "$trainspool" patch $rtx job.yaml
expect "a second patch does not write the job" test "$before" = "$(stat -c '%i %y' job.yaml)"
expect_status "patch --diff gives 0 if there are no edits" 0 "$trainspool" patch --diff $rtx job.yaml

expect_status "review succeeds" 0 "$trainspool" review job.yaml
expect_output "review shows the change" '^+model_dtype: float32'
expect_output "review shows the rule" '^# TS105: '
expect_status "review --json succeeds" 0 "$trainspool" review --json job.yaml
expect "review --json prints JSON" is_json <"$T/out"
expect "review --json prints no secret" sh -c "! grep -q hush '$T/out'"
expect_status "backups succeeds" 0 "$trainspool" backups job.yaml
expect "backups lists the backup" grep -q 'job.run/backups/' "$T/out"

expect_status "undo succeeds" 0 "$trainspool" undo job.yaml
expect "undo restores every byte" cmp job.yaml first
expect_status "a second undo succeeds" 0 "$trainspool" undo job.yaml
expect "a second undo is a redo" cmp job.yaml expected
printf '%s\n' "# later" "hub_token: whisper" >>job.yaml
expect_status "undo of an edited job gives 1" 1 "$trainspool" undo job.yaml
expect "the edited job does not change" grep -q later job.yaml
expect_error "the message names --force" 'job.yaml was changed after the last patch; --force'
expect_output "undo shows the later changes" '^+# later$'
expect "undo shows no other changes" sh -c \
    "! sed '/^+++ after undo --force/,\$d' '$T/out' | grep '^[+-][^+-]' | grep -v 'later\|hub_token'"
expect_output "undo announces the text that --force would restore" '^+++ after undo --force$'
expect "undo shows the text that --force would restore" sh -c "sed '1,/^+++ after undo --force/d' '$T/out' | grep -q '^+model_dtype: float16'"
expect "undo shows no secret" sh -c "! grep 'whisper\|hush' '$T/out'"
expect_status "undo -q of an edited job gives 1" 1 "$trainspool" undo -q job.yaml
expect "undo -q prints nothing" test ! -s "$T/out"
expect_status "undo --force succeeds" 0 "$trainspool" undo --force job.yaml
expect "undo --force restores the job" cmp job.yaml first
id=$("$trainspool" backups job.yaml | tail -1 | cut -d' ' -f1)
expect_status "undo --to succeeds" 0 "$trainspool" undo --force --to "$id" job.yaml
expect_status "undo --to an unknown backup gives 2" 2 "$trainspool" undo --to 19700101 job.yaml

cp first link-target.yaml
ln -s link-target.yaml link.yaml
ln link-target.yaml hard.yaml
expect_status "patch of a symbolic link gives 1" 1 "$trainspool" patch $rtx link.yaml
expect "the link is not replaced" test -L link.yaml
expect_status "patch of a file with two names gives 1" 1 "$trainspool" patch $rtx hard.yaml
expect "the file with two names does not change" cmp hard.yaml first

expect_status "patch --json succeeds" 0 "$trainspool" patch --json $rtx job.yaml
expect "patch --json prints JSON" is_json <"$T/out"
expect_output "patch --json reports fixed findings" '"fixed":true'
expect_status "check after patch succeeds" 0 "$trainspool" check $rtx job.yaml

expect_status "plan succeeds" 0 "$trainspool" plan $rtx job.yaml
expect_output "plan shows the mode" 'fp16-mixed'
expect_status "plan --json succeeds" 0 "$trainspool" plan --json $rtx job.yaml
expect "plan --json prints JSON" is_json <"$T/out"
expect_output "plan --json has the mode" '"precision":{"mode":"fp16-mixed","compute_dtype":"float16","trainable_dtype":"float32"'
expect_output "plan --json has the batch" '"effective":8'

expect_status "explain succeeds" 0 "$trainspool" explain ts105
expect_output "explain accepts a rule in lower case" '^TS105: '
expect_status "explain --json succeeds" 0 "$trainspool" explain --json
expect "explain --json prints one object per line" is_json <"$T/out"
expect_status "explain of an unknown rule gives 2" 2 "$trainspool" explain TS999
expect_status "explain of a misspelled rule gives 2" 2 "$trainspool" explain ts-1O5
expect_error "the message suggests the rule" 'did you mean TS105?'
expect_status "devices succeeds" 0 "$trainspool" devices
expect_output "devices lists the CPU first" '^cpu '
expect_status "devices --json succeeds" 0 "$trainspool" devices --json
expect "devices --json prints JSON" is_json <"$T/out"
expect_status "devices --known succeeds" 0 "$trainspool" devices --known
expect_output "devices --known lists the TITAN RTX" '^TITAN RTX  *7\.5  *24 GiB'
reports_write_error() { # COMMAND...: it fails with a message if its output cannot be written
    try sh -c '"$@" >/dev/full' reports_write_error "$@"
    [ "$status" -eq 3 ] && grep -q 'standard output' "$T/err"
}
sed 's/2.0e-5/-1/' first >left.yaml
for command in --help --version help "check --help" "check --version" schema explain \
    "explain ts105" "completion bash" "devices --known" "devices --json" "status ." "status --json ." \
    "backups job.yaml" "review job.yaml" "plan $rtx job.yaml" "check $rtx left.yaml" \
    "check --json $rtx left.yaml" "check --sarif $rtx left.yaml" "patch --diff $rtx left.yaml"; do
    expect "$command reports a failed write" reports_write_error "$trainspool" $command
done
expect "trainspool-train reports a failed write" reports_write_error "$train" --help
"$trainspool" schema 2>err | head -n 1 >out
expect "a closed pipe gives no message" test -s out -a ! -s err
for command in undo logs; do
    expect_status "$command of a missing job gives 2" 2 "$trainspool" "$command" nowhere.yaml
    expect_error "$command reports the missing job" 'there is no job nowhere.yaml'
done
plan
