#!/bin/sh
# The folders that the jobs of a watched folder may write to.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
make_data .
mkdir spool outside other
cp text.txt spool
ln -s ../outside spool/link
ln -s inner spool/within
mkdir spool/inner

# NAME [OPTIONS...]: run the jobs of the folder, with the findings in $T/out.
watch_once() {
    timeout 100 "$trainspool" watch --once "$@" spool >daemon.log 2>&1
    cat daemon.log spool/*.run/train.log >out
}
# NAME OUTPUT: put a job that writes there into the folder.
drop() { job 2 "output_dir: $2" >"spool/$1.yaml"; }

drop root /
drop system /usr/trainspool-test
drop climbs ../outside/a
drop link link/a
drop inner within/a
drop near a/b
drop far "$T/outside/far"
job 2 'output_dir: merge/a' "export_dir: link/b" >spool/export.yaml
watch_once
for name in root system climbs link export; do
    expect "$name.yaml is rejected" state_is spool/$name.yaml rejected
done
expect "for the folder that it names" sh -c "grep -q 'TS710' spool/root.run/state.json"
expect_output "with the line" 'root.yaml:12:13: error\[TS710\]: output_dir is in /'
expect_output "and a remedy" 'name this one with --root of the watch'
expect_output "a link is not followed" "link.yaml:12:13: error\[TS710\]: output_dir: a symbolic link leads out of its folder, to .*outside"
expect_output "nor in export_dir" 'export.yaml:13:13: error\[TS710\]: export_dir: a symbolic link'
expect_output "nor is .." 'climbs.yaml:12:13: error\[TS710\]: output_dir is outside the job.s folder'
for name in inner near far; do
    expect "$name.yaml is done" state_is spool/$name.yaml done
done
expect "a link within the folder is fine" test -f spool/inner/a/model.safetensors
expect "so is a folder that the owner may write to" test -f outside/far/model.safetensors
expect "nothing else was written" test "$(ls outside)" = far
rm -rf spool/*.yaml spool/*.run outside/far

drop first "$T/other/first"
drop second "$T/outside/second"
drop third third
watch_once --root "$T/other"
expect "a job may write below --root" state_is spool/first.yaml done
expect "and below the watched folder" state_is spool/third.yaml done
expect "but not elsewhere" state_is spool/second.yaml rejected
expect_output "the message lists the folders" "is outside the folders that jobs may write to: the watched folder and $T/other"
rm -rf spool/*.yaml spool/*.run
drop second "$T/outside/second"
watch_once --root other --root outside
expect "--root may be repeated, and relative" state_is spool/second.yaml done
expect_status "a missing folder of --root is an error" 2 "$trainspool" watch --once --root missing spool
expect_error "which is named" 'root missing: No such file'
rm -rf spool/*.yaml spool/*.run outside/second

# the folder becomes a link while the job waits
background "$trainspool" watch spool
job 3000 "trainspool: {priority: 1}" >busy.yaml
mv busy.yaml spool/
wait_until 30 state_is spool/busy.yaml running
mkdir spool/later
drop later later/a
wait_until 30 state_is spool/later.yaml ready
rmdir spool/later
ln -s ../outside spool/later
"$trainspool" cancel spool/busy.yaml >/dev/null
wait_until 30 state_is spool/later.yaml failed
ok $? "the trainer checks again"
reason spool/later.yaml >out
expect_output "the reason names the key and the folder" 'output_dir now leads to .*outside'
expect "nothing was written through the link" test -z "$(ls outside)"
kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"
plan
