#!/bin/sh
# patch, review, backups, undo, plan, explain, devices: what a person does before a run.
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
sed 's/float16/float32/' job.yaml >wanted
cp job.yaml first
rtx="--device sm_75:24GiB"

ends "patch --diff gives 1 when there are edits" 1 "$trainspool" patch --diff $rtx job.yaml
says "shows them" '^+model_dtype: float32   # half'
holds "changes nothing" cmp job.yaml first
holds "and makes no folder" test ! -e job.run
holds "the diff has no secret" sh -c "! grep -q hush '$T/out'"

sed 's/2.0e-5/-1/' job.yaml >left.yaml
ends "patch --diff of a job with an error that stays" 1 "$trainspool" patch --diff $rtx left.yaml
says "shows the edits" '^+model_dtype: float32'
complains "and tells what is left" 'left.yaml: 1 finding is left that no edit fixes; trainspool check lists it'
rm left.yaml
ends "patch gives 0 when no error is left" 0 "$trainspool" patch $rtx job.yaml
holds "only the value changed" cmp job.yaml wanted
holds "one backup" sh -c 'cmp -s first job.run/backups/*.yaml'
holds "that only its owner reads" sh -c '[ "$(stat -c %a job.run/backups/*.yaml)" = 600 ]'
before=$(stat -c '%i %y' job.yaml)
ends "patch again" 0 "$trainspool" patch $rtx job.yaml
holds "touches nothing" test "$before" = "$(stat -c '%i %y' job.yaml)"
ends "patch --diff gives 0 when there is nothing to edit" 0 "$trainspool" patch --diff $rtx job.yaml

ends "review" 0 "$trainspool" review job.yaml
says "shows the change" '^+model_dtype: float32'
says "and its rule" '^# TS105: '
ends "review --json" 0 "$trainspool" review --json job.yaml
holds "is JSON" is_json <"$T/out"
holds "without secrets" sh -c "! grep -q hush '$T/out'"
ends "backups" 0 "$trainspool" backups job.yaml
holds "lists it" grep -q 'job.run/backups/' "$T/out"

ends "undo" 0 "$trainspool" undo job.yaml
holds "puts it back byte for byte" cmp job.yaml first
ends "undo again" 0 "$trainspool" undo job.yaml
holds "redoes" cmp job.yaml wanted
printf '%s\n' "# later" "hub_token: whisper" >>job.yaml
ends "undo of a job that was changed since is refused" 1 "$trainspool" undo job.yaml
holds "and leaves it" grep -q later job.yaml
complains "tells how to do it all the same" 'job.yaml was changed since the last patch; --force'
says "and shows what was changed" '^+# later$'
holds "and nothing else" sh -c \
    "! sed '/^+++ as --force/,\$d' '$T/out' | grep '^[+-][^+-]' | grep -v 'later\|hub_token'"
says "and what would be put back" '^+++ as --force would restore it$'
holds "as it was" sh -c "sed '1,/^+++ as --force/d' '$T/out' | grep -q '^+model_dtype: float16'"
holds "with no secret" sh -c "! grep 'whisper\|hush' '$T/out'"
ends "-q" 1 "$trainspool" undo -q job.yaml
holds "shows nothing" test ! -s "$T/out"
ends "undo --force" 0 "$trainspool" undo --force job.yaml
holds "does it" cmp job.yaml first
id=$("$trainspool" backups job.yaml | tail -1 | cut -d' ' -f1)
ends "undo --to" 0 "$trainspool" undo --force --to "$id" job.yaml
ends "undo to nowhere" 2 "$trainspool" undo --to 19700101 job.yaml

cp first link-target.yaml
ln -s link-target.yaml link.yaml
ln link-target.yaml hard.yaml
ends "a link is looked at" 1 "$trainspool" patch $rtx link.yaml
holds "and not replaced" test -L link.yaml
ends "nor a file with two names" 1 "$trainspool" patch $rtx hard.yaml
holds "neither way" cmp hard.yaml first

ends "patch --json" 0 "$trainspool" patch --json $rtx job.yaml
holds "is JSON" is_json <"$T/out"
says "tells what was fixed" '"fixed":true'
ends "check after it" 0 "$trainspool" check $rtx job.yaml

ends "plan" 0 "$trainspool" plan $rtx job.yaml
says "tells the mode" 'fp16-mixed'
ends "plan --json" 0 "$trainspool" plan --json $rtx job.yaml
holds "is JSON" is_json <"$T/out"
says "with the mode" '"precision":{"mode":"fp16-mixed","compute_dtype":"float16","trainable_dtype":"float32"'
says "and the batch" '"effective":8'

ends "explain" 0 "$trainspool" explain ts105
says "knows the rule" '^TS105: '
ends "explain --json" 0 "$trainspool" explain --json
holds "is JSON, a line a rule" is_json <"$T/out"
ends "explain of no rule" 2 "$trainspool" explain TS999
ends "explain of one misspelt" 2 "$trainspool" explain ts-1O5
complains "says which is meant" 'did you mean TS105?'
ends "devices" 0 "$trainspool" devices
says "has the CPU first" '^cpu '
ends "devices --json" 0 "$trainspool" devices --json
holds "is JSON" is_json <"$T/out"
ends "devices --known" 0 "$trainspool" devices --known
says "has the TITAN RTX" '^TITAN RTX  *7\.5  *24 GiB'
unsaid() { # COMMAND...: its output cannot be written, which it tells
    try sh -c '"$@" >/dev/full' unsaid "$@"
    [ "$status" -eq 3 ] && grep -q 'standard output' "$T/err"
}
sed 's/2.0e-5/-1/' first >left.yaml
for command in --help --version help "check --help" "check --version" schema explain \
    "explain ts105" "completion bash" "devices --known" "devices --json" "status ." "status --json ." \
    "backups job.yaml" "review job.yaml" "plan $rtx job.yaml" "check $rtx left.yaml" \
    "check --json $rtx left.yaml" "check --sarif $rtx left.yaml" "patch --diff $rtx left.yaml"; do
    holds "output of $command that cannot be written is told" unsaid "$trainspool" $command
done
holds "of trainspool-train, too" unsaid "$train" --help
"$trainspool" schema 2>err | head -n 1 >out
holds "whoever reads along may leave" test -s out -a ! -s err
for command in undo logs; do
    ends "$command of a job that is not there" 2 "$trainspool" "$command" nowhere.yaml
    complains "is told as that" 'there is no job nowhere.yaml'
done
plan
