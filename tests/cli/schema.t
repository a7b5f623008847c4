#!/bin/sh
# schema: the JSON Schema of a job rejects what check rejects.
. "${top_srcdir-.}/tests/cli/lib.sh"

expect_status "the schema is printed" 0 "$trainspool" schema
cp "$T/out" "$T/schema"
expect "it is JSON" sh -c "jq -e . '$T/schema' >'$T/out'"
expect "it is of draft 2020-12" sh -c \
    "jq -e '.\"\$schema\" == \"https://json-schema.org/draft/2020-12/schema\"' '$T/schema' >'$T/out'"
expect "every key has a title and a description" sh -c \
    "jq -e '[.properties[], .properties.trainspool.properties[]
             | select((.title and .description) | not)] == []' '$T/schema' >'$T/out'"
expect "it has values and defaults" sh -c "jq -e '
    .properties.lr_scheduler_type.enum[1] == \"cosine\" and .properties.learning_rate.default == 5e-5
    and .properties.lora_rank.minimum == 1 and .properties.trainspool.properties.policy.default == \"sound\"
    ' '$T/schema' >'$T/out'"
expect "an old name is deprecated, an alias is not" sh -c "jq -e '
    .properties.evaluation_strategy.deprecated == true and .properties.torch_dtype.deprecated == null
    ' '$T/schema' >'$T/out'"
expect "a share is offered for memory_limit, not for max_bytes" sh -c "jq -e '
    [.properties | (.memory_limit, .trainspool.properties.max_bytes).pattern as \$pattern | (\"80%\", \"20GB\")
     | test(\$pattern)] == [true, true, false, true]' '$T/schema' >'$T/out'"
expect "the manual agrees" sh -c "! grep -q '^.BR max_bytes .*share' '$source/docs/trainspool-job.5'"
expect "every default is one of the values" sh -c "jq -e '
    [.properties[], .properties.trainspool.properties[] | select(.enum and has(\"default\"))
     | .default as \$value | select(.enum | index([\$value]) == null)] == []' '$T/schema' >'$T/out'"

name="a validator rejects the jobs in which check finds an error in a name or value"
jobs=$(find "$source/tests/patch" -name job.yaml)
if [ -d "$shared/corpus" ]; then
    jobs="$jobs $(find "$shared/corpus" -name '*.yaml' -o -name '*.yml')"
fi
if "${PYTHON-python3}" -c 'import jsonschema.validators, yaml; jsonschema.Draft202012Validator' 2>/dev/null; then
    # shellcheck disable=SC2086
    expect_status "$name" 0 "${PYTHON-python3}" "$source/tests/cli/schema.py" "$trainspool" $jobs
else
    skip "$name" "${PYTHON-python3} has no jsonschema and yaml"
fi
name="check accepts every value that the schema offers"
if "${PYTHON-python3}" -c 'import jsonschema.validators; jsonschema.Draft202012Validator' 2>/dev/null; then
    mkdir offers
    expect_status "$name" 0 "${PYTHON-python3}" "$source/tests/cli/schema_offers.py" "$trainspool" offers
else
    skip "$name" "${PYTHON-python3} has no jsonschema"
fi
plan
