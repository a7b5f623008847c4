#!/bin/sh
# Files in the way of a job's own: the job is blocked with the reason until they are gone.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool
names='run link state lock log backups'
for name in $names; do
    invalid_job >spool/$name.yaml
    [ $name = run ] || mkdir spool/$name.run
done
echo mine >spool/run.run
rmdir spool/link.run
ln -s nowhere spool/link.run
mkdir spool/state.run/state.json spool/lock.run/lock
ln -s /dev/null spool/log.run/train.log
echo mine >spool/backups.run/backups
invalid_job >spool/free.yaml

expect_status "watch --once with blocked jobs ends with 3" 3 timeout 60 "$trainspool" watch --once spool
expect_output "it says where to look" 'error watch: ended with jobs that could not run; `trainspool status spool` shows them'
cp out once.log
expect "another job is handled" state_is spool/free.yaml rejected
expect_status "status of blocked jobs succeeds" 0 "$trainspool" status spool
expect_output "a file in the way of NAME.run blocks" '^run  *blocked .* run.run is in the way: it is a file, not a folder; move it away$'
expect_output "a dangling link does" '^link  *blocked .* link.run is in the way: it is a symbolic link, not a folder; move it away$'
expect_output "a folder in the way of state.json does" '^state  *blocked .* state.run/state.json is a directory'
expect_output "a folder in the way of the lock does" '^lock  *blocked .* lock.run/lock is in the way: it is a folder, not a file; move it away$'
expect_output "a link in the way of the log does" '^log  *blocked .* log.run/train.log is in the way: it is a symbolic link'
expect_output "a file in the way of the backups does" '^backups  *blocked .* backups.run/backups is in the way: it is a file, not a folder; move it away$'
expect_status "status --json succeeds" 0 "$trainspool" status --json spool
expect "its objects have the state" jq_accepts -es 'map(select(.state == "blocked")) | length == 6' out
for name in $names; do
    expect "the reason for $name is logged" grep -q "error $name.yaml: .*; trying again every 5 s\$" once.log
done
expect "nothing is written through a link" test ! -e spool/nowhere
expect_status "report of a blocked job succeeds" 0 "$trainspool" report spool/backups.yaml
expect "its page has the reason" grep -q 'backups.run/backups is in the way' spool/backups.run/report.html
expect "its page has the state" grep -q 'class="state blocked"' spool/backups.run/report.html

expect_status "a blocked job can be canceled" 0 "$trainspool" cancel spool/backups.yaml
expect "it is stopped" state_is spool/backups.yaml stopped
expect_status "it can be queued again" 0 "$trainspool" retry spool/backups.yaml

background "$trainspool" watch spool
wait_until 10 state_is spool/backups.yaml blocked
ok $? "the watch blocks it again"
sleep 6
for name in $names; do
    expect "the reason for $name is logged once" test "$(grep -c "error $name.yaml" daemon.log)" -eq 1
done
rm -r spool/run.run spool/link.run spool/state.run/state.json spool/lock.run/lock spool/log.run/train.log \
    spool/backups.run/backups
for name in $names; do
    wait_until 10 state_is spool/$name.yaml rejected
    ok $? "$name is handled when the way is free"
done
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"

if [ "$(id -u)" -ne 0 ]; then
    mkdir private
    invalid_job >private/a.yaml
    mkdir private/a.run
    chmod 555 private/a.run
    expect_status "a folder that cannot be written gives 3" 3 timeout 60 "$trainspool" watch --once private
    expect_output "the reason is logged" 'cannot .*a.run.*: Permission denied'
elif command -v setpriv >/dev/null && setpriv --reuid=65534 --clear-groups "$trainspool" --version >/dev/null 2>&1; then
    mkdir private
    invalid_job >private/a.yaml
    mkdir private/a.run
    chown 65534 private private/a.yaml private/a.run
    chmod 755 "$T"
    chmod 555 private/a.run
    expect_status "a folder that cannot be written gives 3" 3 timeout 60 setpriv --reuid=65534 --clear-groups "$trainspool" watch --once private
    expect_output "the reason is logged" 'cannot .*a.run.*: Permission denied'
else
    skip "a folder that cannot be written gives 3" "another user cannot run $trainspool"
    skip "the reason is logged" "the same"
fi
plan
