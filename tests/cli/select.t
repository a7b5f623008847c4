#!/bin/sh
# --select, --ignore, --exit-zero, and suppressions in a job.
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

expect_status "check --select gives 1" 1 "$trainspool" check $rtx --select ts105,TS708 job.yaml
expect_output "the first selected rule is reported" 'TS105'
expect_output "the second selected rule is reported" 'TS708'
expect "other rules are not reported" sh -c "! grep -qE 'TS(012|713)' '$T/out'"
expect_status "check --ignore succeeds" 0 "$trainspool" check $rtx --ignore TS1 --ignore TS012 job.yaml
expect "ignored rules and families are not reported" sh -c "! grep -qE 'TS(105|012)' '$T/out'"
expect_status "the longer of two names decides" 0 "$trainspool" check $rtx --select TS1 --ignore TS105 job.yaml
expect_status "check --exit-zero gives 0" 0 "$trainspool" check $rtx --exit-zero job.yaml
expect_output "--exit-zero still reports errors" 'error\[TS105\]'
cp job.yaml first
expect_status "patch --select succeeds" 0 "$trainspool" patch $rtx --select TS012 job.yaml
sed 's/bf16: no/bf16: false/' first >expected
expect "patch makes only the selected edits" cmp job.yaml expected
expect_status "patch --ignore succeeds" 0 "$trainspool" patch $rtx --ignore TS105 job.yaml
expect "patch does not make ignored edits" cmp job.yaml expected
printf '[' >broken.yaml
expect_status "a file that is not a job gives 2 despite --exit-zero" 2 "$trainspool" check --select TS1 --exit-zero broken.yaml
expect_output "TS009 is reported despite --select" 'TS009'

expect_status "an unknown rule gives 2" 2 "$trainspool" check --select TS1O5 job.yaml
expect_error "the message suggests a rule" 'no rule TS1O5; did you mean TS105?'
expect_status "an unknown family gives 2" 2 "$trainspool" check --ignore TS1,E5 job.yaml
expect_error "the message names explain" 'no rule E5; trainspool explain'
expect_status "a misspelled option gives 2" 2 "$trainspool" check --fail_on error job.yaml
expect_error "the message suggests the option" 'did you mean --fail-on?'
expect_status "a misspelled option value gives 2" 2 "$trainspool" check --fail-on eror job.yaml
expect_error "the message suggests the value" 'did you mean error?'
expect_status "a misspelled command gives 2" 2 "$trainspool" chek job.yaml
expect_error "the message suggests the command" 'did you mean check?'
expect_status "help of a misspelled command gives 2" 2 "$trainspool" help chek
expect_error "help suggests the command" "did you mean check?"

sed 's/float16/& # trainspool: ignore[TS105]/' first >job.yaml
expect_status "check of a job that ignores an error gives 1" 1 "$trainspool" check $rtx job.yaml
expect "the ignored error is not reported" sh -c "! grep -q 'error' '$T/out' || grep -q '(0 errors), 1 ignored' '$T/out'"
expect_output "the ignored error is counted" ', 1 ignored; '
expect_status "patch of the job succeeds" 0 "$trainspool" patch $rtx job.yaml
expect "patch does not edit the ignored line" grep -q 'float16 # trainspool' job.yaml
sed 's/fp16: true/& # trainspool: ignore[TS114]/' first >job.yaml
expect_status "check of an unused suppression succeeds" 0 "$trainspool" check $rtx --select TS714 job.yaml
expect_output "TS714 is an info if the rule depends on the device" 'info\[TS714\]: TS114 finds nothing in this line on ' 
plan
