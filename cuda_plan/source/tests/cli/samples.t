#!/bin/sh
# The sample jobs: their data are the same each time, are JSON lines as far as a shell can see,
# and the test is not a part of the training.
echo 1..8
n=0
check() { # NAME, then a command
    name=$1
    shift
    n=$((n + 1))
    if "$@"; then echo "ok $n - $name"; else echo "not ok $n - $name"; fi
}
samples=$(cd "${top_srcdir:-.}/jobs/samples" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/trainspool-samples-XXXXXX")
trap 'rm -rf "$work"' EXIT

check "generate runs" "$samples/generate" "$work/one"
check "generate runs again" "$samples/generate" "$work/two"
check "the same data each time" diff -r "$work/one" "$work/two"
cd "$work/one" || exit 1

form_is_kept() {
    ! grep -vE '^\{"text": "[^"\\]*"\}$' units-text.jsonl &&
        ! grep -hvE '^\{"question": "[^"\\]*", "answer": "[^"\\]* <answer>[0-9]+</answer>"\}$' \
            units-train.jsonl units-test.jsonl
}
check "every line is a record" form_is_kept

count_is() {
    test "$(cat units-text.jsonl units-train.jsonl units-test.jsonl | wc -l)" -eq 3000
}
check "3000 records" count_is

none_is_shared() {
    sed 's/.*"question": "\([^"]*\)".*/\1/' units-test.jsonl | sort -u >asked
    sed 's/.*"question": "\([^"]*\)".*/\1/; s/.*"text": "\([^?.]*[?.]\).*/\1/' \
        units-train.jsonl units-text.jsonl | sort -u >learnt
    test -s asked -a -s learnt && test "$(comm -12 asked learnt | wc -l)" -eq 0
}
check "no question of the test is learnt" none_is_shared

# ", so 6 kg is 6 * 1000 = 6000. <answer>6000</answer>": what is said is true
sums_are_right() {
    awk '{ sub(/.*, so /, ""); split($0, word, "[ .<>]+")
           good += word[8] == (word[5] == "*" ? word[4] * word[6] : word[4] / word[6]) &&
                   word[10] == word[8] }
         END { exit good != NR }' units-train.jsonl units-test.jsonl units-text.jsonl
}
check "the sums are right" sums_are_right

files_are_there() {
    for file in $(sed -n 's/^dataset: //p; s/^eval_dataset: //p' "$samples"/[0-9]*.yaml); do
        test -s "$file" || return 1
    done
}
check "each job's data are there" files_are_there
