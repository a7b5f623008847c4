#!/bin/sh
# Killed and picked up: the watch, the trainer, and both told to end.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
mkdir spool outside
make_data spool
make_data outside
drop() {
    cat >"outside/$1"
    mv "outside/$1" spool/
}
count() { grep -c "$1" "$2"; }

# Long enough to be killed in its midst on this machine, now, with this build: some three seconds.
now() { date +%s%3N; }
job 60 >outside/pace.yaml
began=$(now)
"$trainspool" run -q outside/pace.yaml
steps=$((60 * 3000 / ($(now) - began)))
[ $steps -ge 100 ] || steps=100
echo "# $steps steps"

job $steps >outside/whole.yaml
"$trainspool" run -q outside/whole.yaml
wanted=$(sha256sum <outside/whole.run/model.safetensors)

background "$trainspool" watch spool
job $steps | drop job.yaml
await 60 running spool/job.yaml 1 # what a scan finds has to settle first
job 20 | drop next.yaml
await 60 running spool/job.yaml 25
kill -KILL "$daemon"
await 10 gone "$daemon"
at=$(step spool/job.yaml)
await 60 running spool/job.yaml $((at + 3))
ok $? "a job goes on when its watch is killed"
background "$trainspool" watch spool
await 60 grep -q 'job job: already running' "$T/daemon.log"
ok $? "the next watch adopts it"
await 120 is spool/job.yaml done
ok $? "it comes to its end"
holds "with one attempt" grep -q '"attempt":1' spool/job.run/state.json
await 60 is spool/next.yaml done
ok $? "and the next one follows"
time_of() { sed -n "s/.*\"$2\":\"\([^\"]*\)\".*/\1/p" "spool/$1.run/state.json"; }
printf '%s\n' "$(time_of job ended)" "$(time_of next started)" >"$T/out"
holds "not before" sort -C "$T/out"
holds "its weights are those of an uninterrupted run" \
    test "$wanted" = "$(sha256sum <spool/job.run/model.safetensors)"

job $steps | drop killed.yaml
await 60 running spool/killed.yaml 25 # behind its first checkpoint
kill -KILL "$(children "$daemon" | head -1)"
crashed() { grep -q '"crashes":1' "spool/$1.run/state.json"; }
await 20 crashed killed
ok $? "a trainer that is killed is noticed"
await 120 is spool/killed.yaml done
ok $? "and started again"
holds "from its last checkpoint" grep -q 'resume: from killed.run/checkpoint-' spool/killed.run/train.log
holds "to the same weights" \
    test "$wanted" = "$(sha256sum <spool/killed.run/model.safetensors)"

{ job $steps; printf 'trainspool:\n  max_retries: 0\n'; } | drop once.yaml
await 60 running spool/once.yaml 5
kill -KILL "$(children "$daemon" | head -1)"
await 20 is spool/once.yaml failed
ok $? "max_retries: 0 forgives nothing"

job $steps | drop ended.yaml
await 60 running spool/ended.yaml 5
kill -TERM "$daemon"
await 30 gone "$daemon"
holds "SIGTERM ends the watch: 143" leaves "$daemon" 143
holds "its job is ready to go on" is spool/ended.yaml ready
ends "--once" 0 timeout 200 "$trainspool" watch --once spool
holds "does it" is spool/ended.yaml done
holds "to the same weights again" \
    test "$wanted" = "$(sha256sum <spool/ended.run/model.safetensors)"

background "$trainspool" watch spool
job 100000 | drop long.yaml
await 60 running spool/long.yaml 3
job 100001 >outside/long.yaml
mv outside/long.yaml spool/
await 10 grep -q 'job long: a new text waits' "$T/daemon.log"
ok $? "a new text of a running job waits"
kill -KILL "$daemon"
await 10 gone "$daemon"
background "$trainspool" watch spool
await 20 grep -q 'job long: already running' "$T/daemon.log"
kill -TERM "$daemon"
await 60 gone "$daemon"
holds "an adopted job is told to end too" is spool/long.yaml ready
ends "cancel of a waiting job" 0 "$trainspool" cancel spool/long.yaml
holds "needs no watch" is spool/long.yaml stopped
mkdir calm
make_data calm
background "$trainspool" watch calm
job 1000000 >calm/1-long.yaml
job 20 >calm/2-next.yaml
await 60 running calm/1-long.yaml 2
await 60 is calm/2-next.yaml ready
# clock ticks of processor time; asking without end would take some hundred
ticks() { awk '{ print $14 + $15 }' "/proc/$daemon/stat"; }
before=$(ticks)
sleep 2
holds "a watch sleeps while one job runs and another waits" test $(($(ticks) - before)) -lt 20
kill -TERM "$daemon"
await 60 gone "$daemon"
holds "and leaves when told" leaves "$daemon" 143
plan
