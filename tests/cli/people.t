#!/bin/sh
# A folder that root's watch serves for several users: each job runs with the rights of its owner, no more.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/users.sh"
require_model
make_data .
spool() { # NAME: a folder for everyone, with data
    mkdir "$1"
    cp text.txt "$1"
    chmod 1777 "$1"
}
# USER FILE [LINES...]: drop a job of 2 steps of that user; STEPS in the environment: of so many.
drop() {
    drop_user=$1 drop_file=$2
    shift 2
    job "${STEPS-2}" "$@" | sed "s|text.txt|${DATASET-&}|" | as "$drop_user" tee "$drop_file.new" >/dev/null
    as "$drop_user" mv "$drop_file.new" "$drop_file"
}
stop_watch() {
    kill -TERM "$daemon"
    wait_until 20 has_exited "$daemon"
}
# USER FOLDER: everything in it belongs to the user.
belongs() { [ -d "$2" ] && [ -z "$(find "$2" ! -uid "$1")" ]; }
# GROUP: all files of the run have it; one that is being replaced may still have another.
has_group() { [ -z "$(find lab/a.run ! -gid "$1")" ]; }
# FIELD: of the status of the trainer.
field() { sed -n "s/^$1:[[:space:]]*\(.*[^ ]\) *$/\1/p" "/proc/$(children "$daemon")/status" | tr '\t' ' '; }

spool s
background env HF_TOKEN=hf_secret XDG_RUNTIME_DIR=/run/user/0 "$trainspool" watch --no-sandbox s
STEPS=2000 drop $one s/a.yaml "fp16: true" "output_dir: out"
wait_until 30 has_reached s/a.yaml 2
ok $? "a job of another user runs"
[ "$(field Uid)" = "$one $one $one $one" ]
ok $? "as that user"
[ "$(field Groups)" = $one ] && [ "$(field Gid)" = "$one $one $one $one" ]
ok $? "a user without an entry has one group"
[ "$(field CapPrm)" = 0000000000000000 ]
ok $? "it has no capability"
tr '\0' '\n' <"/proc/$(children "$daemon")/environ" >out
expect_output "its home is not that of root" '^HOME=/$'
grep -q -e secret -e XDG_ -e '^USER=' out
expect "nor does it get root's variables, contained or not" [ $? -eq 1 ]
expect "its folder belongs to the user" belongs $one s/a.run
expect "the text was patched as that user" grep -q '^fp16: true' s/a.run/backups/*
expect "the job still belongs to the user" [ "$(stat -c %u s/a.yaml)" = $one ]
expect_status "another user cannot cancel it" 3 as $two "$trainspool" cancel s/a.yaml
kill -9 "$(children "$daemon")"
wait_until 20 grep -q 'was killed by signal 9' daemon.log
ok $? "a killed trainer is a crash"
wait_until 20 has_reached s/a.yaml 1
ok $? "it starts again"
[ "$(field Uid)" = "$one $one $one $one" ]
ok $? "as that user"
kill -9 "$daemon"
wait_until 10 has_exited "$daemon"
background "$trainspool" watch s
wait_until 20 grep -q 'job a: already running' daemon.log
ok $? "another watch finds it running"
stop_watch
wait_until 20 state_is s/a.yaml ready
ok $? "and pauses it when it ends"
background "$trainspool" watch --metrics m.prom s
wait_until 20 has_reached s/a.yaml 1
expect_status "the owner can cancel it" 0 as $one "$trainspool" cancel s/a.yaml
wait_until 20 state_is s/a.yaml stopped
ok $? "it stops"
expect "all files belong to the user" belongs $one s/a.run
expect "also its output" belongs $one s/out

echo private >secret.txt
chmod 600 secret.txt
DATASET=$T/secret.txt drop $one s/secret.yaml
wait_until 20 state_is s/secret.yaml rejected
reason s/secret.yaml >out
expect_output "a job cannot read what its owner cannot" 'secret.txt'
mkdir closed
drop $one s/closed.yaml "output_dir: $T/closed/x"
wait_until 20 state_is s/closed.yaml rejected
reason s/closed.yaml >out
expect_output "nor write there" 'closed'
expect "it did not" test -z "$(ls closed)"
drop 0 s/root.yaml
wait_until 20 state_is s/root.yaml done
ok $? "a job of root runs, too"
expect "as root" belongs 0 s/root.run
as $one mkdir s/links.run
as $one ln -s "$T/closed/lock" s/links.run/lock
drop $one s/links.yaml
as $one mkdir s/taken.run
drop $two s/taken.yaml
drop $two s/two.yaml
wait_until 20 state_is s/two.yaml done
ok $? "another user's job runs meanwhile"
expect "a folder of a third user is not used" grep -q 'taken.run belongs to another user' daemon.log
expect "a link is not followed" test -z "$(ls closed)"
# the folder of a job that waits is replaced by a link to one of root
STEPS=2000 drop $one s/b.yaml
wait_until 20 has_reached s/b.yaml 1
drop $two s/c.yaml
wait_until 20 state_is s/c.yaml ready
wait_until 20 grep -qx "trainspool_user_jobs_waiting{user=\"$two\"} 1" m.prom
ok $? "metrics count the jobs of each user that wait"
expect "and those that run" grep -qx "trainspool_user_jobs_running{user=\"$one\"} 1" m.prom
# while other jobs run, one waits for a model that does not exist yet, but not for one that is private
mkdir -m 700 vault
cp -r "$model" vault/model
cp -r "$model" partly
chmod 600 partly/model.safetensors
private_job() { # NAME MODEL
    job 2 | sed "s|$model|$T/$2|" | as $two tee "s/$1.new" >/dev/null
    as $two mv "s/$1.new" "s/$1.yaml"
}
private_job vault vault/model
private_job partly partly
wait_until 20 state_is s/vault.yaml rejected
reason s/vault.yaml >out
expect_output "a model in a closed folder is an error" 'cannot access .*vault/model/config.json: Permission denied'
wait_until 20 state_is s/partly.yaml rejected
reason s/partly.yaml >out
expect_output "as are weights that its owner cannot read" 'cannot read the weights: .*partly/model.safetensors: Permission'
mkdir rootdir
cp -r s/c.run/. rootdir
chown -R 0 rootdir
as $two mv s/c.run s/c.old
as $two ln -s "$T/rootdir" s/c.run
cp -r rootdir rootdir.before
as $one "$trainspool" cancel -q s/b.yaml
wait_until 20 grep -q 'c.run is in the way: it is a symbolic link' daemon.log
ok $? "nor a link in the place of the folder of a job that waits"
expect "nothing was written through it" diff -r rootdir rootdir.before
stop_watch

mkdir plain
cp text.txt plain
drop $one s/moved.yaml
mv s/moved.yaml plain
timeout 20 "$trainspool" watch --once plain >out 2>&1
expect_output "a folder of root alone takes no jobs of others" 'it belongs to another user'
spool own
chown $one own
drop $two own/a.yaml
drop 0 own/root.yaml "fp16: true"
as $one timeout 60 "$trainspool" watch --once own >out 2>&1
expect_output "nor does a watch of another user" 'it belongs to another user'
expect_output "which says how it could patch a job of root" "warn job root: .*another user, .*; chown $one root.yaml"
expect "and runs it as it is" state_is own/root.yaml done

spool weak
drop $one weak/a.yaml
drop 0 weak/root.yaml
background setpriv --bounding-set=-setuid,-setgid "$trainspool" watch weak
wait_until 20 state_is weak/root.yaml done
ok $? "a watch that cannot change its user runs root's jobs"
wait_until 20 grep -q "cannot act as user $one: Operation not permitted; trying again" daemon.log
ok $? "and says that it cannot run the others"
expect "it did nothing about them as root" test ! -e weak/a.run
stop_watch

printf 'root:x:0:0::/root:/bin/sh\nada:x:%d:4800::/srv/ada:/bin/sh\n' $one >passwd
printf 'root:x:0:\nada:x:4800:\nlab:x:4801:ada\n' >group
if unshare -m mount --bind passwd /etc/passwd 2>/dev/null; then
    mkdir lab
    cp text.txt lab
    chgrp 4801 lab
    chmod 1770 lab
    # shellcheck disable=SC2016
    background unshare -m sh -c 'mount --bind passwd /etc/passwd && mount --bind group /etc/group &&
        exec "$1" watch lab' sh "$trainspool"
    job 2000 | setpriv --reuid $one --regid 4800 --groups 4801 tee lab/a.yaml >/dev/null
    wait_until 20 has_reached lab/a.yaml 1
    ok $? "a job in a folder of a group runs"
    [ "$(field Gid)" = "4800 4800 4800 4800" ] && [ "$(field Groups)" = "4800 4801" ]
    ok $? "it has the groups of its owner"
    tr '\0' '\n' <"/proc/$(children "$daemon")/environ" | sort >out
    expect_output "the home of the owner" '^HOME=/srv/ada$'
    expect_output "and the name" '^USER=ada$'
    "$trainspool" cancel -q lab/a.yaml
    wait_until 20 state_is lab/a.yaml stopped
    wait_until 20 has_group 4800
    ok $? "its files have the owner's group"
    stop_watch
else
    skip "groups and home of the owner" "cannot mount"
fi
plan
