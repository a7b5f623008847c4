#!/bin/sh
# The sample jobs: their data is the same each time and looks like JSON lines, and no test question is
# in the training data.
echo 1..9
n=0
check() { # NAME COMMAND...: check that the command succeeds
    name=$1
    shift
    n=$((n + 1))
    if "$@"; then echo "ok $n - $name"; else echo "not ok $n - $name"; fi
}
trainspool=$(cd "${top_builddir:-.}" && pwd)/trainspool
samples=$(cd "${top_srcdir:-.}/jobs/samples" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/trainspool-samples-XXXXXX")
trap 'rm -rf "$work"' EXIT

check "generate succeeds" "$samples/generate" "$work/one"
check "generate succeeds again" "$samples/generate" "$work/two"
check "generate writes the same data each time" diff -r "$work/one" "$work/two"
cd "$work/one" || exit 1

is_record() {
    ! grep -vE '^\{"text": "[^"\\]*"\}$' units-text.jsonl &&
        ! grep -hvE '^\{"question": "[^"\\]*", "answer": "[^"\\]* <answer>[0-9]+</answer>"\}$' \
            units-train.jsonl units-test.jsonl
}
check "every line is a record" is_record

count_is() {
    test "$(cat units-text.jsonl units-train.jsonl units-test.jsonl | wc -l)" -eq 3000
}
check "there are 3000 records" count_is

no_shared_questions() {
    sed 's/.*"question": "\([^"]*\)".*/\1/' units-test.jsonl | sort -u >asked
    sed 's/.*"question": "\([^"]*\)".*/\1/; s/.*"text": "\([^?.]*[?.]\).*/\1/' \
        units-train.jsonl units-text.jsonl | sort -u >learned
    test -s asked -a -s learned && test "$(comm -12 asked learned | wc -l)" -eq 0
}
check "no test question is in the training data" no_shared_questions

# ", so 6 kg is 6 * 1000 = 6000. <answer>6000</answer>": check the arithmetic
sums_are_right() {
    awk '{ sub(/.*, so /, ""); split($0, word, "[ .<>]+")
           good += word[8] == (word[5] == "*" ? word[4] * word[6] : word[4] / word[6]) &&
                   word[10] == word[8] }
         END { exit good != NR }' units-train.jsonl units-test.jsonl units-text.jsonl
}
check "the arithmetic is correct" sums_are_right

files_are_there() {
    for file in $(sed -n 's/^dataset: //p; s/^eval_dataset: //p' "$samples"/[0-9]*.yaml); do
        test -s "$file" || return 1
    done
}
check "the data of every job exists" files_are_there

# The samples are submitted in their order, and each reads what an earlier one writes.
cd "$samples/.." || exit 1
check "every job can be submitted" "$trainspool" submit -q "$work/one" samples/[0-9]*.yaml
