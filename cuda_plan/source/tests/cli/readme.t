#!/bin/sh
# What README.md shows is what the programs say.
. "${top_srcdir-.}/tests/cli/lib.sh"
readme=$source/README.md
cd "$T" || exit 99

block() { # PATTERN: the lines of the first block behind a line like it
    awk -v start="$1" '$0 ~ start { found = 1 } found && /^```/ { exit } found' "$readme"
}
awk '/^```yaml/ { job = 1; next } /^```/ { job = 0 } job' "$readme" >gsm8k.yaml
holds 'there is a job' test -s gsm8k.yaml

ends 'its check gives 1' 1 "$trainspool" check --device 'TITAN RTX' gsm8k.yaml
cp out all
block '^\$ trainspool check' | sed 1d >shown
holds 'the README shows what check says' test -s shown
missing=$(while IFS= read -r line; do grep -qxF -e "$line" all || echo "$line"; done <shown)
echo "$missing" | sed 's/^/# not said: /'
holds 'every line of it' test -z "$missing"

try "$trainspool" patch --device 'TITAN RTX' --diff gsm8k.yaml
cp out all
block '^\$ trainspool patch' | sed 1d >shown
holds 'the diff is what patch --diff says' cmp -s shown all

for name in $(awk '/^```/ { code = !code } code && $1 == "trainspool" { print $2 }' "$readme" | sort -u); do
    ends "the command $name is there" 0 "$trainspool" "$name" --help
done
for name in $(grep -o 'docs/[a-z-]*\.[a-z0-9]*' "$readme" | sort -u); do
    holds "$name is there" test -f "$source/$name"
done
plan
