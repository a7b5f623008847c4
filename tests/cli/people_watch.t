#!/bin/sh
# What users see of root's watch of a shared folder, and how they wake it: they cannot disturb it.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/users.sh"
mkdir s
chmod 1777 s
drop() { # USER NAME
    invalid_job | as "$1" tee "s/$2.new" >/dev/null
    as "$1" mv "s/$2.new" "s/$2.yaml"
}
: >daemon.log
start_watch() { # DIR [OPTIONS...]
    background "$trainspool" watch "$@"
    wait_until 30 grep -q "pid $daemon\$" daemon.log
}
rejections() { grep -c 'job a: rejected' daemon.log; }

start_watch s
drop $one a
wait_until 60 state_is s/a.yaml rejected
expect_status "another user sees the jobs" 0 as $two "$trainspool" status s
expect_output "also those of others" '^a  *rejected'
grep -q 'no watch' out
expect "and that a watch runs" [ $? -eq 1 ]
grep -q OWNER out
expect "with jobs of one user, the owner is not shown" [ $? -eq 1 ]
drop $two b
wait_until 60 state_is s/b.yaml rejected
as $two "$trainspool" status s >out 2>&1
expect_output "with jobs of several, it is" '^NAME  *OWNER  *STATE'
expect_output "by number if the user has no name" "^a  *$one  *rejected"
"$trainspool" status --json s >out
expect "JSON has it" jq_accepts -es "map(.owner) == [\"$one\", \"$two\"]" out
"$trainspool" status --user $two s >out
expect_output "--user shows the jobs of one user" '^b  *rejected'
grep -q -e '^a ' -e OWNER out
expect "and no others" [ $? -eq 1 ]
expect "also as JSON" [ "$("$trainspool" status --user root --json s | wc -l)" = 0 ]
expect_status "a user must exist" 2 "$trainspool" status --user nemo s
expect_error "or the message says so" 'there is no user nemo$'
: >s/.trainspool/wake # the next scan is half a minute away
as $one "$trainspool" retry s/a.yaml >out 2>&1
expect_output "a command of a user succeeds" 'a.yaml: queued again$'
wait_until 20 sh -c "[ \$(grep -c 'job a: rejected' daemon.log) -ge 2 ]"
ok $? "and wakes the watch"
before=$(rejections)
expect_status "no one else retries the job" 3 as $two "$trainspool" retry s/a.yaml
expect_error "the message says whose it is" "s/a.yaml belongs to user $one, who can change it\$"
as $one touch s/c.yaml
expect_status "nor holds one that is new" 3 as $two "$trainspool" hold s/c.yaml
expect "and leaves nothing in its way" [ "$(stat -c %u s/c.run 2>/dev/null)" != $two ]
rm -rf s/c.yaml s/c.run
mkdir idle
chmod 1777 idle
as $one touch idle/d.yaml
expect_status "root holds a job of a user" 0 "$trainspool" hold idle/d.yaml
expect "with the rights of that user" [ -z "$(find idle/d.run ! -uid $one)" ]
expect "no other user can hold the lock" [ "$(as $two flock -n s/.trainspool/lock echo held 2>/dev/null)" != held ]
expect "or remove what shows the watch" sh -c '! "$@" 2>/dev/null' sh setpriv --reuid $two --regid $two --clear-groups rm -f s/.trainspool/alive
expect "or write there" sh -c '! "$@" 2>/dev/null' sh setpriv --reuid $two --regid $two --clear-groups touch s/.trainspool/new
expect "or fill the file that wakes it" sh -c '! "$@" 2>/dev/null' sh setpriv --reuid $two --regid $two --clear-groups sh -c 'echo full >>s/.trainspool/wake'

kill -TERM "$daemon"
wait_until 20 has_exited "$daemon"
setpriv --reuid $two --regid $two --clear-groups flock -F -x s/.trainspool/alive sleep 1000 >/dev/null 2>&1 &
pids="$pids $!"
wait_until 20 sh -c '! flock -n s/.trainspool/alive true'
as $one "$trainspool" status s >out 2>&1
expect_output "a user cannot pretend that a watch runs" '^no watch is running on this folder$'
start_watch s --page "$T/page.html"
wait_until 20 grep -q ">owner</th>" page.html
ok $? "the page shows the owners"
expect "of each job" grep -q "<td class=\"user\">$two</td>" page.html
as $one "$trainspool" retry s/a.yaml >out 2>&1
expect_output "nor prevent the next one" 'a.yaml: queued again$'
wait_until 20 sh -c "[ \$(grep -c 'job a: rejected' daemon.log) -gt $before ]"
ok $? "it works as the one before"

mkdir own
chmod 755 own
start_watch own
expect "what a watch has in a folder of one user stays private" [ "$(stat -c %a own/.trainspool)" = 700 ]
mkdir hidden
chmod 1777 hidden
umask 077
start_watch hidden
umask 022
as $one "$trainspool" status hidden >out 2>&1
grep -q 'no watch' out
expect "the umask does not hide the watch of a shared folder" [ $? -eq 1 ]
expect "nor the file that wakes it" as $one test -r hidden/.trainspool/wake
plan
