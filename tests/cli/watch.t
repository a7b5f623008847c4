#!/bin/sh
# watch: what is dropped, by every way and of every kind; one watch a folder.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool outside

ends "a folder that is not there: 2" 2 "$trainspool" watch nowhere
ends "a file is no folder: 2" 2 "$trainspool" watch "$trainspool"
ln -s spool alias
ends "nor is a link: 2" 2 "$trainspool" watch alias
ends "with a slash neither: 2" 2 "$trainspool" watch alias/
mkdir open
chmod 777 open
ends "nor a folder everybody writes to: 2" 2 "$trainspool" watch open
mkdir none
ends "--once leaves an empty folder at once" 0 timeout 20 "$trainspool" watch --once none

hopeless >spool/early.yaml
mkdir early
hopeless >early/a.yaml
ends "a job that no watch has seen is cancelled" 0 "$trainspool" cancel early/a.yaml
ends "and a watch leaves it so" 0 timeout 20 "$trainspool" watch --once early
holds "it is stopped" is early/a.yaml stopped
if command -v flock >/dev/null; then
    flock early/a.run/lock sleep 2 &
    pids="$pids $!"
    await 5 sh -c '! flock -n early/a.run/lock true'
    ends "its trainer may still be leaving" 0 "$trainspool" retry early/a.yaml
    says "that is waited for" 'queued again'
    ends "and no harm is done" 0 "$trainspool" cancel early/a.yaml
else
    skip "its trainer may still be leaving" "no flock(1)"
    skip "that is waited for" "the same"
    skip "and no harm is done" "the same"
fi
ends "until it is queued again" 0 "$trainspool" retry early/a.yaml
says "which a watch is needed for" 'queued again; no watch is running on early yet: trainspool watch early$'
ends "then it is taken" 1 timeout 20 "$trainspool" watch --once early
holds "and rejected, this one" is early/a.yaml rejected

mkdir twins
hopeless >twins/a.yaml
{ hopeless && echo 'fp16: yes'; } >twins/a.yml
ends "one folder is not shared by two jobs" 1 timeout 20 "$trainspool" watch --once twins
holds "said once" test "$(grep -c 'a.yml would share a.run with a.yaml' "$T/out")" -eq 1
ends "status tells of both" 0 "$trainspool" status twins
says "and why" 'rejected .*a.yml would share'
ends "run will not either" 2 "$trainspool" run twins/a.yml
ends "nor patch" 2 "$trainspool" patch twins/a.yml
holds "and its text stays" grep -q '^fp16: yes$' twins/a.yml

background "$trainspool" watch spool
await 20 is spool/early.yaml rejected
ok $? "a job that was there before is found"
ends "a second watch gives 75" 75 timeout 10 "$trainspool" watch spool
complains "and tells what the first does" 'spool is already watched; that watch takes .*status spool'

hopeless >outside/renamed.yaml
mv outside/renamed.yaml spool/
await 5 is spool/renamed.yaml rejected
ok $? "renamed into the folder"
hopeless >spool/written.yaml
await 5 is spool/written.yaml rejected
ok $? "written in the folder"
hopeless >outside/linked
ln outside/linked spool/linked.yaml
rm outside/linked
await 5 is spool/linked.yaml rejected
ok $? "linked into the folder"
hopeless >outside/yml.yml
mv outside/yml.yml spool/
await 5 is spool/yml.yml rejected
ok $? "a .yml file"
hopeless >outside/one.yaml
ends "submit" 0 "$trainspool" submit spool outside/one.yaml
await 5 is spool/one.yaml rejected
ok $? "submitted"
ends "submit does not replace" 2 "$trainspool" submit spool outside/one.yaml
ends "unless told to" 0 "$trainspool" submit --force spool outside/one.yaml

{
    hopeless
    sleep 1
    echo "cutoff_len: 64"
} >spool/slow.yaml &
sleep 0.5
holds "a file somebody writes is not taken" test ! -e spool/slow.run
wait $!
await 10 is spool/slow.yaml rejected
ok $? "but when it is complete"

first=$(reason spool/written.yaml)
printf 'a: [\n' >spool/written.yaml
changed() { [ "$(reason spool/written.yaml)" != "$first" ]; }
await 10 changed
ok $? "a rejected job with a new text is looked at again"

ln -s early.yaml spool/link.yaml
mkdir spool/folder.yaml
mkfifo spool/fifo.yaml
truncate -s 100M spool/huge.yaml
: >spool/empty.yaml
printf '\377\376\0a' >spool/latin.yaml
hopeless >spool/public.yaml
chmod 666 spool/public.yaml
head -c 900000 /dev/zero | tr '\0' '[' >outside/deep.yaml
mv outside/deep.yaml spool/
for name in link folder fifo huge empty latin public deep; do
    await 10 is spool/$name.yaml rejected
    ok $? "$name is rejected"
done
touch spool/.hidden.yaml spool/a.txt spool/b.yaml~ "spool/#c.yaml#" spool/d.tmp.yaml spool/4913
hopeless >"spool/$(printf 'e\033[2Jvil').yaml"
hopeless >outside/mark.yaml
mv outside/mark.yaml spool/
await 5 is spool/mark.yaml rejected
for name in .hidden a b d.tmp 4913 "$(printf 'e\033[2Jvil')"; do
    [ ! -e "spool/$name.run" ] || echo "# $name was taken"
done >"$T/out"
holds "names of unfinished files and hostile ones are left alone" test ! -s "$T/out"
holds "the log sends no escape" sh -c "! grep -q '$(printf '\033')' '$T/daemon.log'"
ends "nor does status" 0 "$trainspool" status spool
holds "of anything" sh -c "! grep -q '$(printf '\033')' '$T/out'"
says "it shows the rejected ones" '^fifo  *rejected'
holds "and that a watch is at work" sh -c "! grep -q 'no watch' '$T/out'"
ends "status --json" 0 "$trainspool" status --json spool
holds "is JSON" is_json <"$T/out"
mkdir queue
while read -r name priority arrived; do
    hopeless >queue/$name.yaml
    mkdir queue/$name.run
    echo '{"state":"ready","priority":'$priority',"arrived":'$arrived'}' >queue/$name.run/state.json
done <<END
a 0 20
b 0 10
c 5 30
END
ends "status of jobs that wait" 0 "$trainspool" status queue
says "tells which is next: that of the highest priority" '^c  *ready .*waiting, next$'
says "then what came first" '^b  *ready .*waiting, 1 ahead of it$'
says "and what came later" '^a  *ready .*waiting, 2 ahead of it$'
ends "status of one of them" 0 "$trainspool" status queue/a.yaml
says "does not look at the others" '^a  *ready .*waiting$'
ends "retry" 0 "$trainspool" retry spool/renamed.yaml
says "queues again" 'queued again$'
again() { [ "$(grep -c 'job renamed: rejected' "$T/daemon.log")" -eq 2 ]; }
await 10 again
ok $? "and wakes the watch"

kill -TERM "$daemon"
await 10 gone "$daemon"
holds "SIGTERM gives 143" leaves "$daemon" 143
ends "status tells that nobody watches" 0 "$trainspool" status spool
says "the folder" 'no watch is running'
ends "--once looks at what is left and tells of it" 0 timeout 60 "$trainspool" watch --once spool
ends "a new job that is rejected gives 1" 1 sh -c \
    "cp outside/one.yaml spool/two.yaml && timeout 60 '$trainspool' watch --once spool"
plan
