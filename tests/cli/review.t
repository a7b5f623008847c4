#!/bin/sh
# review: several patches with manual edits in between, and undo; each line has its reason.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
cat >job.yaml <<'END'
model_name_or_path: model
hub_token: "hush
  hush"
fp16: true
model_dtype: float16
finetuning_type: full
seed: 1
dataset: d.jsonl
template: chatml
output_dir: out
bf16: no
cutoff_len: 64
num_train_epochs: 1
run_name: a
logging_steps: 10
# the end
END
cp job.yaml first

expect_status "review of an unpatched job succeeds" 0 "$trainspool" review job.yaml
expect_output "the output says that nothing changed" 'job.yaml: unchanged$'
expect_status "patch -q succeeds" 0 "$trainspool" patch -q --device T4 --select TS105 job.yaml
expect "patch -q prints no fixed findings" test ! -s "$T/out"
sed -i 's/logging_steps: 10/logging_steps: 5/' job.yaml
sed -i '/^# the end/d' job.yaml
"$trainspool" patch -q --device "TITAN RTX" --select TS012 job.yaml >/dev/null
cp job.yaml second
expect_status "review after two patches and a manual edit succeeds" 0 "$trainspool" review job.yaml
cat >expected <<'END'
--- original
+++ current
@@ -3,5 +3,5 @@
 ***
 fp16: true
-model_dtype: float16
+model_dtype: float32
 finetuning_type: full
 seed: 1
# TS105: trainable weights would be stored in float16, which the loss scaler cannot unscale (T4, compute capability 7.5)
@@ -9,8 +9,7 @@
 template: chatml
 output_dir: out
-bf16: no
+bf16: false
 cutoff_len: 64
 num_train_epochs: 1
 run_name: a
-logging_steps: 10
-# the end
+logging_steps: 5
# TS012: bf16: no is a boolean in some YAML parsers and a string in others
# by hand: line 15
END
diff expected out >differ
expect "each changed line has its reason" test ! -s differ
expect "review prints no secret" sh -c "! grep -q hush '$T/out'"
expect_status "review --color always succeeds" 0 "$trainspool" review --color always job.yaml
expect "the rule is colored" grep -q "$(printf '\033\[33m# TS105\033\[m: ')" out

"$trainspool" undo job.yaml >/dev/null
expect_status "review after an undo succeeds" 0 "$trainspool" review job.yaml
expect "the reason of the first patch is shown" grep -q '^# TS105: ' out
expect "the reason of the undone patch is not shown" sh -c "! grep -q TS012 '$T/out'"
expect_status "review --json succeeds" 0 "$trainspool" review --json job.yaml
expect "line_now shows which edits still exist" jq_accepts -e \
    '[.findings[] | [.rule, .line_now]] == [["TS105", 5], ["TS012", null]]' out
"$trainspool" undo job.yaml >/dev/null
expect_status "review after a redo succeeds" 0 "$trainspool" review job.yaml
expect "the reason of the second patch is shown again" grep -q '^# TS012: ' out
sed -i 's/^bf16: false/bf16: auto/' job.yaml
expect_status "review of a line patched and then edited succeeds" 0 "$trainspool" review job.yaml
expect "the edited line counts as a manual edit" grep -q '^# by hand: lines 11, 15$' out
cp first job.yaml
expect_status "review of a restored job succeeds" 0 "$trainspool" review job.yaml
expect_output "the output says that all patches are undone" 'unchanged; its patches are undone'

cp second job.yaml
sed -i 's/,"edits":\[.*\],"policy"/,"policy"/' job.run/changes.jsonl
expect_status "review with a journal without reasons succeeds" 0 "$trainspool" review job.yaml
expect_output "the missing reasons are mentioned" '^# by hand, or by a patch whose reasons are lost: line 5$'
echo '{"action":"patch","before":1,"edits":[{"byte_offset":1e30,"new":7}]' >>job.run/changes.jsonl
echo '{"action":"patch","edits":[3,{"byte_offset":99999999999,"byte_length":-4}]}' >>job.run/changes.jsonl
expect_status "review with a broken journal succeeds" 0 "$trainspool" review job.yaml
rm job.run/backups/*
expect_status "review without backups succeeds" 0 "$trainspool" review job.yaml
expect_output "the missing backups are mentioned" 'its backups are missing, so its original text is unknown'
expect_status "backups without backups succeeds" 0 "$trainspool" backups job.yaml
expect_output "the missing backup files are mentioned" 'no backups; the backups of its patches are missing from its run folder'
plan
