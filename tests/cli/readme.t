#!/bin/sh
# The sample output of README.md matches the output of the programs.
. "${top_srcdir-.}/tests/cli/lib.sh"
readme=$source/README.md
cd "$T" || exit 99

block() { # PATTERN: print the block that starts with the first line that matches
    awk -v start="$1" '$0 ~ start { found = 1 } found && /^```/ { exit } found' "$readme"
}
awk '/^```yaml/ { job = 1; next } /^```/ { job = 0 } job' "$readme" >gsm8k.yaml
expect 'the README has a job' test -s gsm8k.yaml

expect_status 'check of the job gives 1' 1 "$trainspool" check --device 'TITAN RTX' gsm8k.yaml
cp out all
block '^\$ trainspool check' | sed 1d >shown
expect 'the README has output of check' test -s shown
missing=$(while IFS= read -r line; do grep -qxF -e "$line" all || echo "$line"; done <shown)
echo "$missing" | sed 's/^/# missing: /'
expect 'every line of it is in the output of check' test -z "$missing"

try "$trainspool" patch --device 'TITAN RTX' --diff gsm8k.yaml
cp out all
block '^\$ trainspool patch' | sed 1d >shown
expect 'the README has the output of patch --diff' cmp -s shown all

for name in $(awk '/^```/ { code = !code } code && $1 == "trainspool" { print $2 }' "$readme" | sort -u); do
    expect_status "the command $name exists" 0 "$trainspool" "$name" --help
done
for name in $(grep -o 'docs/[a-z-]*\.[a-z0-9]*' "$readme" | sort -u); do
    expect "$name exists" test -f "$source/$name"
done
plan
