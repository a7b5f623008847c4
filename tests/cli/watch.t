#!/bin/sh
# watch: all ways to drop a job and all kinds of files; only one watch per folder.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool outside

expect_status "watch of a missing folder gives 2" 2 "$trainspool" watch nowhere
expect_status "watch of a file gives 2" 2 "$trainspool" watch "$trainspool"
ln -s spool alias
expect_status "watch of a symbolic link gives 2" 2 "$trainspool" watch alias
expect_status "watch of a symbolic link with a slash gives 2" 2 "$trainspool" watch alias/
mkdir open
chmod 777 open
expect_status "watch of a world-writable folder gives 2" 2 "$trainspool" watch open
mkdir none
expect_status "watch --once of an empty folder exits at once" 0 timeout 20 "$trainspool" watch --once none

invalid_job >spool/early.yaml
mkdir early
invalid_job >early/a.yaml
expect_status "cancel of a job that no watch has seen succeeds" 0 "$trainspool" cancel early/a.yaml
expect_status "a watch does not run the canceled job" 0 timeout 20 "$trainspool" watch --once early
expect "the canceled job is stopped" state_is early/a.yaml stopped
if command -v flock >/dev/null; then
    flock early/a.run/lock sleep 2 &
    pids="$pids $!"
    wait_until 5 sh -c '! flock -n early/a.run/lock true'
    expect_status "retry of a job whose trainer is still exiting succeeds" 0 "$trainspool" retry early/a.yaml
    expect_output "the job is queued again" 'queued again'
    expect_status "cancel of the queued job succeeds" 0 "$trainspool" cancel early/a.yaml
else
    skip "retry of a job whose trainer is still exiting succeeds" "no flock(1)"
    skip "the job is queued again" "the same"
    skip "cancel of the queued job succeeds" "the same"
fi
expect_status "retry of the canceled job succeeds" 0 "$trainspool" retry early/a.yaml
expect_output "retry reports that no watch is running" 'queued again; no watch is running on early yet: trainspool watch early$'
expect_status "watch --once of the queued job gives 1" 1 timeout 20 "$trainspool" watch --once early
expect "the queued job is rejected" state_is early/a.yaml rejected

mkdir twins
invalid_job >twins/a.yaml
{ invalid_job && echo 'fp16: yes'; } >twins/a.yml
expect_status "watch --once of two jobs with one run folder gives 1" 1 timeout 20 "$trainspool" watch --once twins
expect "the conflict is reported once" test "$(grep -c 'a.yml would share a.run with a.yaml' "$T/out")" -eq 1
expect_status "status of the two jobs succeeds" 0 "$trainspool" status twins
expect_output "status shows the conflict" 'rejected .*a.yml would share'
expect_status "run of the second job gives 2" 2 "$trainspool" run twins/a.yml
expect_status "patch of the second job gives 2" 2 "$trainspool" patch twins/a.yml
expect "the text of the second job does not change" grep -q '^fp16: yes$' twins/a.yml

background "$trainspool" watch spool
wait_until 20 state_is spool/early.yaml rejected
ok $? "an existing job is found"
expect_status "a second watch gives 75" 75 timeout 10 "$trainspool" watch spool
expect_error "the message describes the first watch" 'spool is already watched; that watch takes .*status spool'

invalid_job >outside/renamed.yaml
mv outside/renamed.yaml spool/
wait_until 5 state_is spool/renamed.yaml rejected
ok $? "a job renamed into the folder is found"
invalid_job >spool/written.yaml
wait_until 5 state_is spool/written.yaml rejected
ok $? "a job written in the folder is found"
invalid_job >outside/linked
ln outside/linked spool/linked.yaml
rm outside/linked
wait_until 5 state_is spool/linked.yaml rejected
ok $? "a job linked into the folder is found"
invalid_job >outside/yml.yml
mv outside/yml.yml spool/
wait_until 5 state_is spool/yml.yml rejected
ok $? "a .yml job is found"
invalid_job >outside/one.yaml
expect_status "submit succeeds" 0 "$trainspool" submit --as-is spool outside/one.yaml
wait_until 5 state_is spool/one.yaml rejected
ok $? "a submitted job is found"
expect_status "submit does not replace a job" 2 "$trainspool" submit --as-is spool outside/one.yaml
expect_status "submit --force replaces a job" 0 "$trainspool" submit --as-is --force spool outside/one.yaml

{
    invalid_job
    sleep 1
    echo "cutoff_len: 64"
} >spool/slow.yaml &
sleep 0.5
expect "a file that is still being written is not accepted" test ! -e spool/slow.run
wait $!
wait_until 10 state_is spool/slow.yaml rejected
ok $? "the file is accepted when it is complete"

# a text that is a valid job after the first of its two writes
now() { date +%s%3N; }
began=$(now)
printf 'stage: sft\n' >spool/twice.yaml
sleep 0.5
invalid_job | tail -n +2 >>spool/twice.yaml
took=$(($(now) - began))
wait_until 10 state_is spool/twice.yaml rejected
ok $? "a file that is written in two steps is found"
wait_until 10 grep -q 'job twice: ' "$T/daemon.log"
if [ $took -lt 900 ]; then
    expect "the first step alone is no job" test "$(grep -c 'job twice: ' "$T/daemon.log")" -eq 1
else
    skip "the first step alone is no job" "this machine took $took ms for two writes"
fi

first=$(reason spool/written.yaml)
printf 'a: [\n' >spool/written.yaml
changed() { [ "$(reason spool/written.yaml)" != "$first" ]; }
wait_until 10 changed
ok $? "a rejected job with a new text is checked again"

ln -s early.yaml spool/link.yaml
mkdir spool/folder.yaml
mkfifo spool/fifo.yaml
truncate -s 100M spool/huge.yaml
: >spool/empty.yaml
printf '\377\376\0a' >spool/latin.yaml
invalid_job >spool/public.yaml
chmod 666 spool/public.yaml
head -c 900000 /dev/zero | tr '\0' '[' >outside/deep.yaml
mv outside/deep.yaml spool/
for name in link folder fifo huge empty latin public deep; do
    wait_until 10 state_is spool/$name.yaml rejected
    ok $? "$name is rejected"
done
touch spool/.hidden.yaml spool/a.txt spool/b.yaml~ "spool/#c.yaml#" spool/d.tmp.yaml spool/4913
invalid_job >"spool/$(printf 'e\033[2Jvil').yaml"
invalid_job >outside/mark.yaml
mv outside/mark.yaml spool/
wait_until 5 state_is spool/mark.yaml rejected
for name in .hidden a b d.tmp 4913 "$(printf 'e\033[2Jvil')"; do
    [ ! -e "spool/$name.run" ] || echo "# $name was accepted"
done >"$T/out"
expect "temporary files and hostile names are ignored" test ! -s "$T/out"
expect "the log has no escape sequences" sh -c "! grep -q '$(printf '\033')' '$T/daemon.log'"
expect_status "status of a folder with a hostile name succeeds" 0 "$trainspool" status spool
expect "status prints no escape sequences" sh -c "! grep -q '$(printf '\033')' '$T/out'"
expect_output "status shows rejected jobs" '^fifo  *rejected'
expect "status finds the running watch" sh -c "! grep -q 'no watch' '$T/out'"
expect_status "status --json succeeds" 0 "$trainspool" status --json spool
expect "status --json prints JSON" is_json <"$T/out"
mkdir queue
while read -r name priority arrived; do
    invalid_job >queue/$name.yaml
    mkdir queue/$name.run
    echo '{"state":"ready","priority":'$priority',"arrived":'$arrived'}' >queue/$name.run/state.json
done <<END
a 0 20
b 0 10
c 5 30
END
expect_status "status of waiting jobs succeeds" 0 "$trainspool" status queue
expect_output "the job with the highest priority is next" '^c  *ready .*waiting, next$'
expect_output "the job that arrived first is second" '^b  *ready .*waiting, 1 ahead of it$'
expect_output "the job that arrived last is third" '^a  *ready .*waiting, 2 ahead of it$'
expect_status "status of one waiting job succeeds" 0 "$trainspool" status queue/a.yaml
expect_output "status of one job does not count the others" '^a  *ready .*waiting$'
expect_status "retry succeeds" 0 "$trainspool" retry spool/renamed.yaml
expect_output "retry queues the job" 'queued again$'
again() { [ "$(grep -c 'job renamed: rejected' "$T/daemon.log")" -eq 2 ]; }
wait_until 10 again
ok $? "retry wakes the watch"

kill -TERM "$daemon"
wait_until 10 has_exited "$daemon"
expect "SIGTERM gives 143" exited_with "$daemon" 143
expect_status "status without a watch succeeds" 0 "$trainspool" status spool
expect_output "status reports that no watch is running" 'no watch is running'
expect_status "watch --once of a folder with rejected jobs succeeds" 0 timeout 60 "$trainspool" watch --once spool
expect_status "watch --once with a newly rejected job gives 1" 1 sh -c \
    "cp outside/one.yaml spool/two.yaml && timeout 60 '$trainspool' watch --once spool"
plan
