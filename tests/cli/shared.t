#!/bin/sh
# A folder that several users may write to: what one of them prepares there does not lead root's watch elsewhere.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
make_data .
chmod 755 .

# FILE: print its mode.
mode() { stat -c %a "$1"; }
# NAME MODE FILE...: check that all have this mode.
expect_mode() {
    expect_name=$1 expect_mode=$2 expect_failed=0
    shift 2
    for expect_file in "$@"; do
        [ "$(mode "$expect_file")" = "$expect_mode" ] && continue
        expect_failed=1
        echo "# $expect_file has mode $(mode "$expect_file")"
    done
    ok $expect_failed "$expect_name"
}
watch_once() { # [OPTIONS...] FOLDER
    timeout 60 "$trainspool" watch --once "$@" >out 2>&1
    status=$?
}
spool() { # NAME: a folder with data
    mkdir "$1"
    cp text.txt "$1"
}
# JOB: put something else in the place of its frozen text as soon as it is ready.
replace_frozen() {
    wait_until 20 state_is "$1" ready
    job 2 "run_name: other" >"${1%.yaml}.run/job.yaml"
}

umask 022
spool plain
job 2 >plain/a.yaml
watch_once plain
expect "a job with the umask 022 is done" state_is plain/a.yaml done
expect_mode "its folders are for everyone to read" 755 plain/a.run plain/a.run/checkpoint-2
expect_mode "and its files" 644 plain/a.run/model.safetensors plain/a.run/metrics.jsonl plain/a.run/train.log \
    plain/a.run/report.html plain/a.run/checkpoint-2/model.safetensors
expect_mode "but not its backups" 600 plain/a.run/job.yaml plain/a.run/lock
(
    umask 077
    spool private
    job 2 >private/a.yaml
    watch_once private
)
expect_mode "the umask 077 keeps them private" 700 private/a.run private/a.run/checkpoint-2
expect_mode "with all files" 600 private/a.run/model.safetensors private/a.run/metrics.jsonl private/a.run/train.log

spool links
mkdir links/a.run
: >target
ln -s ../../target links/a.run/train.log
job 2 >links/a.yaml
background "$trainspool" watch links
wait_until 20 grep -q 'train.log' daemon.log
cp daemon.log out
expect_output "a log that is a link is reported as such" 'a.run/train.log is in the way: it is a symbolic link, not a file'
expect "nothing is written through it" test ! -s target
rm links/a.run/train.log
! state_is links/a.yaml failed || "$trainspool" retry links/a.yaml >/dev/null
wait_until 30 state_is links/a.yaml done
ok $? "the job runs when it is gone"
# the first job runs while the second one waits
job 2000 >links/b.yaml
job 2 >links/c.yaml
replace_frozen links/c.yaml
"$trainspool" cancel links/b.yaml >/dev/null
wait_until 30 state_is links/c.yaml failed
ok $? "a frozen text that was replaced is not trained"
reason links/c.yaml >out
expect_output "the reason says so" 'c.run/job.yaml is not the text that was admitted'
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"

if [ "$(id -u)" -ne 0 ] || ! setpriv --reuid 65534 --clear-groups true 2>/dev/null; then
    skip "another user's files" "requires root and setpriv"
    plan
    exit 0
fi
other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

spool shared
chmod 1777 shared
mkdir secret
chmod 700 secret
other mkdir shared/owned.run shared/linked.run
other ln -s "$T/secret/metrics" shared/linked.run/metrics.jsonl
other ln -s "$T/secret/state" shared/owned.run/state.json
other ln -s "$T/secret" shared/away.run
other mkdir -m 777 shared/held.run
other touch shared/held.run/lock
setpriv --reuid 65534 --regid 65534 --clear-groups flock -F shared/held.run/lock sleep 60 &
pids="$pids $!"
mkdir -m 777 shared/open.run
chmod 777 shared/open.run
for name in owned linked away held open; do job 2 >shared/$name.yaml; done
job 2 >shared/fine.yaml
background "$trainspool" watch shared
wait_until 30 state_is shared/fine.yaml done
ok $? "other jobs of a shared folder run"
for name in owned linked held; do
    expect "$name.run of another user is not used" grep -q "$name.run belongs to another user; remove it" daemon.log
done
expect "nor is a link" grep -q 'away.run is in the way: it is a symbolic link, not a folder' daemon.log
expect "nor a folder that others may write to" grep -q 'other users may write to open.run; run chmod go-w' daemon.log
expect "nothing was written elsewhere" test -z "$(ls secret)"
rm -rf shared/owned.run shared/linked.run shared/held.run shared/away.run
chmod go-w shared/open.run
for name in owned linked away held open; do
    wait_until 30 state_is shared/$name.yaml done
    ok $? "$name.yaml runs afterwards"
done
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"

mkdir -m 1777 taken
chmod 1777 taken
other mkdir taken/.trainspool
expect_status "another user cannot hold the lock of a folder" 2 "$trainspool" watch --once taken
expect_error "the message names the folder" 'taken/.trainspool belongs to another user; remove it'
mkdir group
chgrp 65534 group
chmod 775 group
expect_status "a group cannot replace what a watch made" 2 "$trainspool" watch --once group
expect_error "the message gives the remedy" 'run chmod go-w .*/group, or chmod +t .*/group'
chmod +t group
expect_status "a sticky folder of a group is fine" 0 "$trainspool" watch --once group
plan
