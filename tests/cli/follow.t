#!/bin/sh
# status --follow: the whole screen on a terminal, changed lines elsewhere.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
unset TERM
make_job() { # NAME STATE LOSS
    mkdir -p "spool/$1.run"
    echo 'stage: sft' >"spool/$1.yaml"
    echo '{"state":"'"$2"'","step":7,"total":7,"loss":'"$3"',"reason":"why '"$1"'"}' >"spool/$1.run/new"
    mv "spool/$1.run/new" "spool/$1.run/state.json"
}
make_job apple done 2.5
make_job berry failed 1.5
make_job cherry ready 9
make_job date stopped 0.5

# Without a terminal.
background sh -c "'$trainspool' status --follow spool >lines 2>errors"
wait_until 10 grep -q '^date  *stopped' lines
make_job cherry rejected 9
wait_until 10 grep -q '^cherry  *rejected' lines
ok $? "a change is printed"
sleep 1.2
expect "only the line that changed is printed again" test "$(grep -c '^apple' lines)$(grep -c '^cherry' lines)$(grep -c '^NAME' lines)" = 121
expect "there are no control characters" sh -c '! grep -q "$(printf "\033")" lines'
background sh -c "'$trainspool' status --follow --json spool >objects"
wait_until 10 grep -q date objects
make_job cherry ready 9
wait_until 10 sh -c 'test "$(grep -c cherry objects)" -eq 2'
ok $? "so is a changed object"
expect "and no other" test "$(grep -c apple objects)" -eq 1
expect_status "a missing folder gives 2" 2 timeout 20 "$trainspool" status --follow nowhere

if ! command -v python3 >/dev/null || ! python3 -c 'import pty, termios' 2>/dev/null; then
    plan
    exit 0
fi
follow() { # COLUMNS ROWS SCRIPT
    printf '%b' "$3" | TERM=xterm python3 "$source/tests/cli/follow.py" "$1" "$2" "$trainspool" status --follow spool >"$T/out" 2>"$T/err"
}
line() { sed -n "$1p" "$T/out"; }

follow 100 12 'wait date\nshow\ntype q\n'
ok $? "a terminal shows the jobs"
expect_output "the first line counts them" '^ spool  ..:..:.. UTC  1 ready  1 failed  1 stopped  1 done'
expect_output "the second line has the heads" '^NAME  *STATE  *STEP'
expect_output "they are in the order of their names" '^apple'
expect "each on its line" test "$(line 3 | cut -c-5) $(line 6 | cut -c-4)" = 'apple date'
expect_output "the last line shows the keys" '^ q quit  / filter  s sort: name .* 4 of 4'
expect_output "q ends it with status 0" '^status 0$'
expect_output "the terminal is as before" '^restored$'

follow 100 12 'wait date\ntype s\nwait sort: state\nshow\ntype s\nwait sort: loss\nshow\ntype r\nwait reversed\nshow\ntype q\n'
expect "jobs are sorted by state" test "$(line 3 | cut -c-6)$(line 4 | cut -c-5)" = cherryberry
expect "and by loss" test "$(line 15 | cut -c-4)$(line 18 | cut -c-6)" = datecherry
expect "and in reverse" test "$(line 27 | cut -c-6)" = cherry
follow 100 12 'wait date\ntype /FAIL\nwait FAIL_\nshow\ntype \\x7f\\x7f\\x7f\\x7fq\ngone berry\ntype \\x1b\nwait apple\ntype a\nwait 1 of 4\nshow\ntype q\n'
expect "a filter finds a state" test "$(line 3 | cut -c-5)$(line 4)" = berry
expect_output "it is shown while it is typed" 'filter: FAIL_'
expect_output "jobs that have ended can be hidden" '1 of 4'
expect_output "q ends it" '^status 0$'
follow 60 5 'wait sort\nshow\ntype \\x1b[B\nwait berry\nwait cherry\ngone apple\ntype G\nwait date\ntype \\x1b[5~\\x1b[A\nwait apple\nsize 120 20\nwait why date\nshow\ntype q\n'
expect "a small terminal shows what fits" test "$(line 3 | cut -c-5)$(line 4 | cut -c-5)$(line 5 | cut -c-7)" = 'appleberry q quit'
expect "no line is longer" sh -c "! head -5 '$T/out' | grep -q '.\{61\}'"
expect_output "a larger one shows more at once" 'why cherry'
follow 100 12 'wait date\nshell printf "%%s" x >spool/fig.yaml\nwait fig\nclears\nshell rm spool/fig.yaml\ngone fig\nkill 15\n'
expect_output "changes are shown without clearing the screen" 'was cleared 0 times'
expect_output "SIGTERM ends it with 143" '^status 143$'
expect_output "and restores the terminal" '^restored$'
follow 100 12 'wait date\ntype \\x03\n'
expect_output "Ctrl-C ends it with 130" '^status 130$'
expect_output "and restores the terminal, too" '^restored$'
printf 'wait date\n' >script
printf 'shell sleep 2\nkill 9\n' >>script
TERM=dumb python3 "$source/tests/cli/follow.py" 100 12 "$trainspool" status --follow spool <script >"$T/out" 2>"$T/err"
expect_output "a dumb terminal gets lines" '^restored$'
plan
