#!/bin/sh
# completion: what the shells offer is what the commands take.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir jobs work
: >work/a.yaml
: >'work/b c.yml'
: >work/notes.txt

for shell in bash zsh; do
    ends "there is a script for $shell" 0 "$trainspool" completion $shell
    cp out "script.$shell"
done
ends "there is none for fish, and that is said" 2 "$trainspool" completion fish
complains "with those there are" 'bash or zsh, not fish'

if command -v zsh >/dev/null; then
    holds "zsh reads its script" zsh -n script.zsh
else
    skip "zsh reads its script" "there is no zsh"
fi
if ! command -v bash >/dev/null; then
    skip "bash completes" "there is no bash"
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
offers() { # NAME WANTED WORD...: what bash offers for the last word, sorted, with commas
    offers_name=$1 offers_wanted=$2
    shift 2
    (cd work && bash ../ask.bash trainspool "$@") 2>err | sort | paste -sd , >out
    [ "$(cat out)" = "$offers_wanted" ]
    ok $? "$offers_name"
}
offers "commands" plan pl
offers "commands after help" explain help exp
offers "options" --device check --dev
offers "no options of other commands" "" undo --dev
offers "devices, quoted" 'TITAN\ RTX,TITAN\ V,TITAN\ Xp' check --device TIT
offers "devices behind an equals sign" 'TITAN\ RTX' plan --device = 'TITAN\ R'
offers "those that a command runs on, where it runs" auto,cpu,cuda generate --device ''
offers "templates" llama2,llama2_zh,llama3 generate --template llama
offers "words of an option" error check --fail-on e
offers "rules" TS101 explain TS101
offers "keys to set" lora_rank= run --set lora_ra
offers "jobs and folders, no other files" 'a.yaml,b c.yml' check ''
offers "shells" bash,zsh completion ''

"$trainspool" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort >commands
(cd work && bash ../ask.bash trainspool '') | grep -vx help | sort >offered
holds "every command is offered" cmp commands offered
missing=
while IFS= read -r command; do
    "$trainspool" "$command" --help |
        sed -n 's/^  [- ][^-]*--\([a-z-]*\).*/--\1/p' | sort >options
    (cd work && bash ../ask.bash trainspool "$command" --) | sort >offered
    cmp -s options offered || missing="$missing $command"
done <commands
echo "$missing" >out
holds "every option of every command is offered, and no other" test -z "$missing"
plan
