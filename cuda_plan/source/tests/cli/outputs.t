#!/bin/sh
# What programs read: --json holds the documented fields and no other, --sarif holds the schema.
#
# TRAINSPOOL_SARIF_SCHEMA names sarif-schema-2.1.0.json of oasis-tcs/sarif-spec; it is held against
# the log where Python has jsonschema too.
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
holds "the manual has the fields" test -n "$outer" -a "$(echo "$inner" | jq length)" -gt 10

all="job.yaml broken.yaml empty.yaml"
ends "check --json of several files" 2 "$trainspool" check --json $rtx $all bad*.yaml
holds "is one object a line" sh -c "jq -ce . '$T/out' | wc -l | grep -qx 4 && wc -l <'$T/out' | grep -qx 4"
holds "with the documented fields" json -se --argjson want "$outer" 'all(.[]; keys == $want)' out
holds "each finding too" json -se --argjson want "$inner" --argjson edit "$edit" \
    'all(.[].findings[]; (keys == $want or keys == (($want + $edit) | sort)))' out
holds "an edit has both texts" json -se \
    'all(.[].findings[]; has("old") == has("new") and (has("new") or .applicability == "manual"))' out
holds "the schema is 1" json -se 'all(.[]; .schema == 1)' out
holds "severities and applicabilities are words" json -se 'all(.[].findings[];
    (.severity | IN("error", "warning", "info")) and (.applicability | IN("safe", "unsafe", "manual")))' out
holds "a name that is no UTF-8 is made visible" json -se 'any(.[]; .job == "bad\\xff é.yaml")' out
holds "text stays as it is" json -se 'any(.[].findings[]; .message | contains("汉字"))' out
holds "no secret" sh -c "! grep -q hush '$T/out'"
ends "a file that is not there" 2 "$trainspool" check --json $rtx nowhere.yaml
holds "is told as an object" json -e 'keys == ["error", "job", "schema"]' out
ends "plan --json" 1 "$trainspool" plan --json $rtx job.yaml
holds "has the documented fields" json -e --argjson more "$(fields "a plan")" \
    'keys == (["schema", "job", "device", "findings"] + $more | sort)' out
ends "status --json" 0 "$trainspool" status --json job.yaml
holds "has the documented fields" json -e --argjson want "$(fields "a status")" 'keys == $want' out
cp job.yaml patched.yaml
ends "patch --json" 1 "$trainspool" patch --json $rtx patched.yaml
holds "has the same fields" json -e --argjson want "$outer" \
    'keys == $want and .changed and (.backup | type == "string")' out
holds "and says what it made" json -e 'any(.findings[]; .fixed and .rule == "TS105")' out

ends "--sarif" 2 "$trainspool" check --sarif $rtx $all nowhere.yaml bad*.yaml
cp out log
holds "is one run" json -e '.version == "2.1.0" and (.runs | length == 1)' log
holds "of all jobs" json -e '.runs[0].artifacts | length == 4' log
holds "that tells what could not be read" json -e '.runs[0].invocations[0] |
    .executionSuccessful == false and (.toolExecutionNotifications | length == 1)' log
holds "names are URIs" json -e 'any(.runs[0].artifacts[]; .location.uri == "bad%FF%20%C3%A9.yaml")' log
try "$trainspool" check --sarif $rtx "$PWD/job.yaml" "$source/tests/patch/seed0/job.yaml"
holds "a path below the folder is told from there, others in full" json -e \
    '[.runs[0].artifacts[].location.uri[0:8]] == ["job.yaml", "file:///"]' out
holds "each result has its rule" json -e '.runs[0] | .tool.driver.rules as $rules |
    all(.results[]; $rules[.ruleIndex].id == .ruleId)' log
holds "each fix its bytes" json -e '[.runs[0].results[].fixes[]?.artifactChanges[].replacements[]] |
    length > 0 and all(.[]; .deletedRegion | has("byteOffset") and has("byteLength"))' log
holds "no secret" sh -c '! grep -q hush log'
ends "-v adds what is ignored" 2 "$trainspool" check --sarif -v --device A100 job.yaml broken.yaml
cp out ignored
holds "with its suppression" json -e 'any(.runs[0].results[]; .ruleId == "TS104" and
    .suppressions == [{"kind": "inSource"}])' ignored
holds "and says of all others that they have none" json -e \
    'all(.runs[0].results[]; .ruleId == "TS104" or .suppressions == [])' ignored

if [ -z "$TRAINSPOOL_SARIF_SCHEMA" ]; then
    skip "the log holds the published schema" "TRAINSPOOL_SARIF_SCHEMA names none"
elif ! "${PYTHON-python3}" -c 'import jsonschema' 2>/dev/null; then
    skip "the log holds the published schema" "Python has no jsonschema"
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
    ok "$status" "the log holds the published schema"
fi
plan
