#!/bin/sh
# review: several patches, hands in between, an undo; each line has its reason.
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

ends "review of a job that was never changed" 0 "$trainspool" review job.yaml
says "says so" 'job.yaml: unchanged since it was dropped$'
ends "patch -q" 0 "$trainspool" patch -q --device T4 --select TS105 job.yaml
holds "says nothing of what it mended" test ! -s "$T/out"
sed -i 's/logging_steps: 10/logging_steps: 5/' job.yaml
sed -i '/^# the end/d' job.yaml
"$trainspool" patch -q --device "TITAN RTX" --select TS012 job.yaml >/dev/null
cp job.yaml second
ends "after two patches with a hand between" 0 "$trainspool" review job.yaml
cat >wanted <<'END'
--- as dropped
+++ now
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
diff wanted out >differ
holds "each line has its reason" test ! -s differ
holds "no secret" sh -c "! grep -q hush '$T/out'"
ends "--color always" 0 "$trainspool" review --color always job.yaml
holds "colours the rule" grep -q "$(printf '\033\[33m# TS105\033\[m: ')" out

"$trainspool" undo job.yaml >/dev/null
ends "after an undo" 0 "$trainspool" review job.yaml
holds "the first reason stays" grep -q '^# TS105: ' out
holds "the other goes" sh -c "! grep -q TS012 '$T/out'"
ends "review --json" 0 "$trainspool" review --json job.yaml
holds "knows which edit is still there" json -e \
    '[.findings[] | [.rule, .line_now]] == [["TS105", 5], ["TS012", null]]' out
"$trainspool" undo job.yaml >/dev/null
ends "after a second undo" 0 "$trainspool" review job.yaml
holds "it is back" grep -q '^# TS012: ' out
sed -i 's/^bf16: false/bf16: auto/' job.yaml
ends "a line changed again by hand" 0 "$trainspool" review job.yaml
holds "is by hand" grep -q '^# by hand: lines 11, 15$' out
cp first job.yaml
ends "as it was" 0 "$trainspool" review job.yaml
says "by whatever way" 'unchanged since it was dropped; its patches are undone'

cp second job.yaml
sed -i 's/,"edits":\[.*\],"policy"/,"policy"/' job.run/changes.jsonl
ends "a journal without reasons" 0 "$trainspool" review job.yaml
says "is told" '^# by hand, or by a patch whose reasons are lost: line 5$'
echo '{"action":"patch","before":1,"edits":[{"byte_offset":1e30,"new":7}]' >>job.run/changes.jsonl
echo '{"action":"patch","edits":[3,{"byte_offset":99999999999,"byte_length":-4}]}' >>job.run/changes.jsonl
ends "a broken one" 0 "$trainspool" review job.yaml
rm job.run/backups/*
ends "without the backups" 0 "$trainspool" review job.yaml
says "it says that they are gone" 'its backups are missing, so its original text is unknown'
ends "and so does backups" 0 "$trainspool" backups job.yaml
says "rather than that nothing was changed" 'no backups; the backups of its patches are missing from its run folder'
plan
