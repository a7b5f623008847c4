#!/bin/sh
# --select, --ignore, --exit-zero, and what a job asks not to be told.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
cat >job.yaml <<'END'
model_name_or_path: model
finetuning_type: full
fp16: true
model_dtype: float16
bf16: no
ddp_timeout: 3
END
rtx="--device sm_75:24GiB"

ends "--select leaves the rules named" 1 "$trainspool" check $rtx --select ts105,TS708 job.yaml
says "this one" 'TS105'
says "and that" 'TS708'
holds "and no other" sh -c "! grep -qE 'TS(012|713)' '$T/out'"
ends "--ignore leaves them out" 0 "$trainspool" check $rtx --ignore TS1 --ignore TS012 job.yaml
holds "of every family" sh -c "! grep -qE 'TS(105|012)' '$T/out'"
ends "the longer name decides" 0 "$trainspool" check $rtx --select TS1 --ignore TS105 job.yaml
ends "--exit-zero" 0 "$trainspool" check $rtx --exit-zero job.yaml
says "tells all the same" 'error\[TS105\]'
cp job.yaml first
ends "patch makes the edits selected" 0 "$trainspool" patch $rtx --select TS012 job.yaml
sed 's/bf16: no/bf16: false/' first >wanted
holds "alone" cmp job.yaml wanted
ends "what is ignored is not edited" 0 "$trainspool" patch $rtx --ignore TS105 job.yaml
holds "either" cmp job.yaml wanted
printf '[' >broken.yaml
ends "what is no job" 2 "$trainspool" check --select TS1 --exit-zero broken.yaml
says "is told whatever is selected" 'TS009'

ends "a rule that is none" 2 "$trainspool" check --select TS1O5 job.yaml
complains "is told, with what is meant" 'no rule TS1O5; did you mean TS105?'
ends "nor a family" 2 "$trainspool" check --ignore TS1,E5 job.yaml
complains "is guessed" 'no rule E5; trainspool explain'
ends "an option misspelt" 2 "$trainspool" check --fail_on error job.yaml
complains "is told too" 'did you mean --fail-on?'
ends "and its word" 2 "$trainspool" check --fail-on eror job.yaml
complains "with the nearest" 'did you mean error?'
ends "and a command" 2 "$trainspool" chek job.yaml
complains "with the nearest one" 'did you mean check?'
ends "whose page there is not" 2 "$trainspool" help chek
complains "neither" "did you mean check?"

sed 's/float16/& # trainspool: ignore[TS105]/' first >job.yaml
ends "an error ignored by the job" 1 "$trainspool" check $rtx job.yaml
holds "is not told" sh -c "! grep -q 'error' '$T/out' || grep -q '(0 errors), 1 ignored' '$T/out'"
says "but counted" ', 1 ignored; '
ends "nor is it edited" 0 "$trainspool" patch $rtx job.yaml
holds "by patch" grep -q 'float16 # trainspool' job.yaml
sed 's/fp16: true/& # trainspool: ignore[TS114]/' first >job.yaml
ends "a suppression that suppresses nothing" 0 "$trainspool" check $rtx --select TS714 job.yaml
says "is an info where another device may need it" 'info\[TS714\]: TS114 finds nothing in this row on ' 
plan
