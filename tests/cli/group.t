#!/bin/sh
# --group: another group may read the files of jobs, whatever the umask.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
invalid_job >bad.yaml
expect_status "an unknown group gives 2" 2 "$trainspool" run --group no-such-group bad.yaml
expect_error "the message names it" 'there is no group no-such-group'
expect "nothing is made" test ! -e bad.run
if [ "$(id -u)" -ne 0 ] || ! has_model; then
    skip "files get the group" "not root, or no $model"
    plan
    exit 0
fi
make_data .
mkdir spool
make_data spool
group=54321
# PATH: print the paths below that the group cannot read, except private ones.
unreadable() {
    find "$1" ! -path '*/backups*' ! -name job.yaml ! -name lock ! -name cancel ! -name patch.lock \
        \( ! -group $group -o ! -perm -040 -o -type d ! -perm -2050 \) -print
}
umask 077
job 25 "output_dir: results/deep" >a.yaml
expect_status "a run with a group succeeds" 0 "$trainspool" run -q --group $group a.yaml
unreadable a.run >"$T/out"
unreadable results >>"$T/out"
expect "the group can read all files of the job" test ! -s "$T/out"
expect "the weights are among them" test -f results/deep/model.safetensors
expect "so is a checkpoint" test -f results/deep/checkpoint-20/model.safetensors
expect "the frozen text stays private" test "$(stat -c %a a.run/job.yaml)" = 600
expect "others cannot read them" test -z "$(find a.run results -perm /007)"
expect "the job and its folder keep their groups" test -z "$(find . -maxdepth 1 -group $group ! -name a.run ! -name results)"
job 3 >spool/b.yaml
invalid_job >spool/bad.yaml
try "$trainspool" watch --once --group $group spool
{ unreadable spool/b.run && unreadable spool/bad.run; } >"$T/out" 2>&1
expect "the same holds in a spool, also for a job that is rejected" test ! -s "$T/out"
expect "the job of the spool has run" state_is spool/b.yaml done
job 3 >c.yaml
expect_status "a run without a group succeeds" 0 "$trainspool" run -q c.yaml
expect "its files are private" test -z "$(find c.run -perm /077)"
if setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null; then
    chmod 755 . # the test's folder
    try setpriv --reuid 65534 --regid 65534 --clear-groups "$trainspool" run --group $group c.yaml
    expect "a group without the user gives 2" test "$status" -eq 2
    expect_error "the message says so" "you are no member of the group $group"
fi
plan
