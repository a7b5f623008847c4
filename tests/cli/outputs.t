#!/bin/sh
# Output for programs: --json has exactly the documented fields, and --sarif conforms to the schema.
#
# TRAINSPOOL_SARIF_SCHEMA names sarif-schema-2.1.0.json of oasis-tcs/sarif-spec.  The log is validated
# if Python has jsonschema.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

cat >job.yaml <<'END'
model_name_or_path: "mödel/汉字"   # 😀
finetuning_type: full
fp16: true # trainspool: ignore[TS104]
model_dtype: float16
learnin_rate: 1
hf_hub_token: hush-hush
dataset: none
END
cp job.yaml "$(printf 'bad\377 \303\251.yaml')"
printf '[' >broken.yaml
: >empty.yaml
rtx="--device sm_75:24GiB"

outer=$(fields "a job") inner=$(fields "a finding") edit=$(fields "an edit")
expect "the manual lists the fields" test -n "$outer" -a "$(echo "$inner" | jq length)" -gt 10

all="job.yaml broken.yaml empty.yaml"
expect_status "check --json of several files gives 2" 2 "$trainspool" check --json $rtx $all bad*.yaml
expect "check --json prints one object per line" sh -c "jq -ce . '$T/out' | wc -l | grep -qx 4 && wc -l <'$T/out' | grep -qx 4"
expect "jobs have the documented fields" jq_accepts -se --argjson expected "$outer" 'all(.[]; keys == $expected)' out
expect "findings have the documented fields" jq_accepts -se --argjson expected "$inner" --argjson edit "$edit" \
    'all(.[].findings[]; (keys == $expected or keys == (($expected + $edit) | sort)))' out
expect "an edit has the old and the new text" jq_accepts -se \
    'all(.[].findings[]; has("old") == has("new") and (has("new") or .applicability == "manual"))' out
expect "the schema version is 1" jq_accepts -se 'all(.[]; .schema == 1)' out
expect "severity and applicability have known values" jq_accepts -se 'all(.[].findings[];
    (.severity | IN("error", "warning", "info")) and (.applicability | IN("safe", "unsafe", "manual")))' out
expect "a file name that is not UTF-8 is escaped" jq_accepts -se 'any(.[]; .job == "bad\\xff é.yaml")' out
expect "UTF-8 text is not escaped" jq_accepts -se 'any(.[].findings[]; .message | contains("汉字"))' out
expect "check --json prints no secret" sh -c "! grep -q hush '$T/out'"
expect_status "check --json of a missing file gives 2" 2 "$trainspool" check --json $rtx nowhere.yaml
expect "a missing file gives an error object" jq_accepts -e 'keys == ["error", "job", "schema"]' out
expect_status "plan --json gives 1" 1 "$trainspool" plan --json $rtx job.yaml
expect "the plan has the documented fields" jq_accepts -e --argjson more "$(fields "a plan")" \
    'keys == (["schema", "job", "device", "findings"] + $more | sort)' out
expect_status "status --json succeeds" 0 "$trainspool" status --json job.yaml
expect "the status has the documented fields" jq_accepts -e --argjson expected "$(fields "a status")" 'keys == $expected' out
cp job.yaml patched.yaml
expect_status "patch --json gives 1" 1 "$trainspool" patch --json $rtx patched.yaml
expect "patch has the fields of check" jq_accepts -e --argjson expected "$outer" \
    'keys == $expected and .changed and (.backup | type == "string")' out
expect "patch reports the edits" jq_accepts -e 'any(.findings[]; .fixed and .rule == "TS105")' out

expect_status "check --sarif gives 2" 2 "$trainspool" check --sarif $rtx $all nowhere.yaml bad*.yaml
cp out log
expect "the log has one run" jq_accepts -e '.version == "2.1.0" and (.runs | length == 1)' log
expect "the log covers all jobs" jq_accepts -e '.runs[0].artifacts | length == 4' log
expect "the log reports unreadable files" jq_accepts -e '.runs[0].invocations[0] |
    .executionSuccessful == false and (.toolExecutionNotifications | length == 1)' log
expect "file names are URIs" jq_accepts -e 'any(.runs[0].artifacts[]; .location.uri == "bad%FF%20%C3%A9.yaml")' log
try "$trainspool" check --sarif $rtx "$PWD/job.yaml" "$source/tests/patch/seed0/job.yaml"
expect "paths below the current folder are relative, others absolute" jq_accepts -e \
    '[.runs[0].artifacts[].location.uri[0:8]] == ["job.yaml", "file:///"]' out
expect "each result has its rule" jq_accepts -e '.runs[0] | .tool.driver.rules as $rules |
    all(.results[]; $rules[.ruleIndex].id == .ruleId)' log
expect "each fix has byte offsets" jq_accepts -e '[.runs[0].results[].fixes[]?.artifactChanges[].replacements[]] |
    length > 0 and all(.[]; .deletedRegion | has("byteOffset") and has("byteLength"))' log
expect "check --sarif prints no secret" sh -c '! grep -q hush log'
expect_status "check --sarif -v gives 2" 2 "$trainspool" check --sarif -v --device A100 job.yaml broken.yaml
cp out ignored
expect "ignored findings have a suppression" jq_accepts -e 'any(.runs[0].results[]; .ruleId == "TS104" and
    .suppressions == [{"kind": "inSource"}])' ignored
expect "other findings have an empty list of suppressions" jq_accepts -e \
    'all(.runs[0].results[]; .ruleId == "TS104" or .suppressions == [])' ignored

if [ -z "$TRAINSPOOL_SARIF_SCHEMA" ]; then
    skip "the log conforms to the published schema" "TRAINSPOOL_SARIF_SCHEMA is not set"
elif ! "${PYTHON-python3}" -c 'import jsonschema' 2>/dev/null; then
    skip "the log conforms to the published schema" "Python has no jsonschema"
else
    cat >validate.py <<'END'
import json, sys
import jsonschema
schema = json.load(open(sys.argv[1]))
check = jsonschema.validators.validator_for(schema)(schema, format_checker=jsonschema.FormatChecker())
errors = [e for name in sys.argv[2:] for e in check.iter_errors(json.load(open(name)))]
for error in errors:
    print(list(error.path), error.message[:200])
sys.exit(bool(errors))
END
    try "${PYTHON-python3}" validate.py "$TRAINSPOOL_SARIF_SCHEMA" log ignored
    ok "$status" "the log conforms to the published schema"
fi
plan
