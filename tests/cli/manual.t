#!/bin/sh
# The manual has exactly the commands, options and exit statuses of the programs.
. "${top_srcdir-.}/tests/cli/lib.sh"
manual=$source/docs/trainspool.1

"$trainspool" --help >"$T/help"
sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$T/help" >"$T/commands"
sed -n '/^exit status:/,$s/^ *\([0-9][0-9]*\)  .*/\1/p' "$T/help" >"$T/statuses"
expect "the help lists commands" test -s "$T/commands"
expect "the help lists exit statuses" test -s "$T/statuses"

sed -n '/^\.SH COMMANDS/,/^\.SH OPTIONS/s/^\.SS \([a-z]*\).*/\1/p' "$manual" >"$T/manual"
expect "the manual has the same commands in the same order" cmp "$T/commands" "$T/manual"
sed -n '/^\.SH EXIT STATUS/,/^\.SH STATES/s/^\.B \([0-9][0-9]*\)$/\1/p' "$manual" >"$T/manual"
expect "the manual has the same exit statuses" cmp "$T/statuses" "$T/manual"

for command in $(cat "$T/commands"); do "$trainspool" "$command" --help; done >"$T/pages"
"$train" --help >>"$T/pages"
sed -n 's/^  [- ][^-]*--\([a-z0-9-]*\).*/\1/p' "$T/pages" | sort -u >"$T/options"
sed 's/\\-/-/g' "$manual" | sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/p' |
    grep -A1 '^\.TP' | grep -o -e '--[a-z0-9-]*' | sed -n 's/^--\(..*\)/\1/p' | sort -u >"$T/manual"
expect "the help lists options" test -s "$T/options"
diff "$T/options" "$T/manual" >"$T/out"
ok $? "the manual has the same options"

bad=
while IFS= read -r command; do
    "$trainspool" "$command" --help >"$T/page" 2>&1 || bad="$bad $command"
    "$trainspool" help "$command" | cmp -s - "$T/page" || bad="$bad $command"
    grep -q "^usage: trainspool $command" "$T/page" || bad="$bad $command"
done <"$T/commands"
echo "$bad" >"$T/out"
expect "--help and help print the same page for every command" test -z "$bad"
expect "no line of help exceeds 80 columns" sh -c "! grep -E '.{81}' '$T/pages'"

unknown=
while read -r word command; do
    expect_status "$word is not a command" 2 "$trainspool" "$word" job.yaml
    expect_error "the message suggests $command" "did you mean $command?"
    grep -qx "$command" "$T/commands" || unknown="$unknown $command"
done <<END
chek check
stats status
cancle cancel
END
expect "every suggested command exists" test -z "$unknown"
plan
