#!/bin/sh
# watch --on-end, --mail: the end of a job is reported once, without a shell, and without delaying the watch.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool

cat >hook <<'END'
#!/bin/sh
{
    printf '%s|' "$#" "$@"
    pwd
    env | sed -n 's/^\([A-Z_]*\)=.*/\1/p' | sort | tr '\n' ' '
    echo
    ls /proc/self/fd | tr '\n' ' '
    echo
} >>TESTDIR/calls
END
sed -i "s|TESTDIR|$T|" hook
cat >sendmail <<'END'
#!/bin/sh
{ printf '%s|' "$@"; echo; cat; } >>TESTDIR/mails
END
sed -i "s|TESTDIR|$T|" sendmail
chmod +x hook sendmail

name='a$(touch pwned)`id`;b'
invalid_job >"spool/$name.yaml"
SECRET=1 TRAINSPOOL_SENDMAIL=$T/sendmail expect_status "watch --on-end --mail gives 1" 1 \
    timeout 20 "$trainspool" watch --once --on-end ./hook --mail ops@example.org spool
expect "the program ran once" test "$(grep -c '^4|' calls)" -eq 1
printf '4|%s|rejected|%s|%s|/\n' "$name" "$(reason "spool/$name.yaml")" "$T/spool/$name.yaml" >expected
expect "its arguments are job, state, reason and path, and its folder is /" grep -qxFf expected calls
expect "its environment is fixed" grep -qE '^HOME LANG LOGNAME PATH PWD (SHLVL )?USER (_ )?$' calls
expect "it has no descriptor of the watch" grep -qE '^0 1 2 [34]( 5)? ?$' calls
expect "no shell read the name" test ! -e pwned -a ! -e spool/pwned
expect "sendmail gets only the address" grep -qx -e '-i|--|ops@example.org|' mails
expect "the mail has the name of the job" grep -qF "Subject: trainspool: $name rejected" mails

# A failure changes nothing.
printf '#!/bin/sh\nexit 7\n' >hook
invalid_job >spool/b.yaml
expect_status "a failing program does not change the exit status" 1 \
    timeout 20 "$trainspool" watch --once --on-end ./hook spool
expect_output "its failure is logged" 'job b: .*/hook exited with status 7$'
expect "the job has its state" state_is spool/b.yaml rejected

printf '#!/bin/sh\nsleep 300 & wait\n' >hook
invalid_job >spool/c.yaml
invalid_job >spool/d.yaml
expect_status "a program that hangs is killed" 1 \
    timeout 20 "$trainspool" watch --once --on-end ./hook --notify-timeout 1 spool
expect_output "that is logged" 'job c: .*/hook was killed because it took too long$'

background "$trainspool" watch --on-end ./hook spool
invalid_job >spool/e.yaml
wait_until 10 state_is spool/e.yaml rejected
ok $? "a job ends while the watch runs"
invalid_job >spool/f.yaml
wait_until 5 state_is spool/f.yaml rejected
ok $? "a program that hangs delays no other job"
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"
ok $? "nor the end of the watch for more than 5 seconds"

# What would not work is refused at the start.
expect_status "a missing program gives 2" 2 "$trainspool" watch --once --on-end nowhere spool
expect_error "the message names it" 'cannot run .*/nowhere of --on-end: No such file'
chmod 777 hook
expect_status "a program that others may change gives 2" 2 "$trainspool" watch --once --on-end ./hook spool
expect_error "the message says why" 'another user may change it'
expect_status "a bad address gives 2" 2 "$trainspool" watch --once --mail '-oQ/tmp@x' spool
expect_status "a line break in an address gives 2" 2 "$trainspool" watch --once --mail "$(printf 'a@b\nBcc: c@d')" spool
{ invalid_job && echo "on_end: $T/hook"; } >spool/g.yaml
"$trainspool" check --json spool/g.yaml >out
expect "a job file cannot set the program" jq_accepts -e '.findings[] | select(.key == "on_end")' out

if has_model; then
    mkdir runs
    make_data runs
    job 2 >runs/a.yaml
    printf '#!/bin/sh\necho "$2" >%s/state\n' "$T" >hook
    chmod 755 hook
    expect_status "a job that trains ends with 0" 0 timeout 60 "$trainspool" watch --once --on-end ./hook runs
    expect "the program receives its state" grep -qx done state
else
    skip "a job that trains ends with 0" "no model"
    skip "the program receives its state" "no model"
fi
plan
