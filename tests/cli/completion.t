#!/bin/sh
# completion: the shells offer exactly what the commands accept.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir jobs work
: >work/a.yaml
: >'work/b c.yml'
: >work/notes.txt
: >work/train.py
: >work/beep.wav
: >work/cat.png
: >work/dog.jpeg

for shell in bash zsh; do
    expect_status "completion prints a script for $shell" 0 "$trainspool" completion $shell
    cp out "script.$shell"
done
expect_status "completion for fish gives 2" 2 "$trainspool" completion fish
expect_error "the message lists the supported shells" 'bash or zsh, not fish'

if command -v zsh >/dev/null; then
    expect "zsh parses its script" zsh -n script.zsh
else
    skip "zsh parses its script" "no zsh"
fi
if ! command -v bash >/dev/null; then
    skip "bash completes" "no bash"
    plan
    exit
fi

cat >ask.bash <<'END'
source ../script.bash
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMPREPLY=()
_trainspool
printf '%s\n' "${COMPREPLY[@]}"
END
offers() { # NAME EXPECTED WORD...: check what bash offers for the last word, sorted, with commas
    offers_name=$1 offers_expected=$2
    shift 2
    (cd work && bash ../ask.bash trainspool "$@") 2>err | sort | paste -sd , >out
    [ "$(cat out)" = "$offers_expected" ]
    ok $? "$offers_name"
}
offers "commands" plan pl
offers "commands after help" explain help exp
offers "options" --device check --dev
offers "no options of other commands" "" undo --dev
offers "devices, quoted" 'TITAN\ RTX,TITAN\ V,TITAN\ Xp' check --device TIT
offers "devices after an equals sign" 'TITAN\ RTX' plan --device = 'TITAN\ R'
offers "devices that generate can run on" auto,cpu,cuda generate --device ''
offers "sounds" beep.wav generate --audio ''
offers "images" cat.png,dog.jpeg generate --image ''
offers "templates" llama2,llama2_zh,llama3,llama4 generate --template llama
offers "values of an option" error check --fail-on e
offers "rules" TS101 explain TS101
offers "keys to set" lora_rank= run --set lora_ra
offers "jobs and scripts" 'a.yaml,b c.yml,train.py' check ''
offers "only jobs" 'a.yaml,b c.yml' run ''
offers "shells" bash,zsh completion ''

"$trainspool" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort >commands
(cd work && bash ../ask.bash trainspool '') | grep -vx help | sort >offered
expect "completion offers every command" cmp commands offered
missing=
while IFS= read -r command; do
    "$trainspool" "$command" --help |
        sed -n 's/^  [- ][^-]*--\([a-z0-9-]*\).*/--\1/p' | sort >options
    (cd work && bash ../ask.bash trainspool "$command" --) | sort >offered
    cmp -s options offered || missing="$missing $command"
done <commands
echo "$missing" >out
expect "completion offers exactly the options of every command" test -z "$missing"
plan
