#!/bin/sh
# Crashes: the watch or the trainer is killed, or both are stopped, and the job is resumed.
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

# Number of steps that take about three seconds with this build, so that a run can be killed midway.
now() { date +%s%3N; }
job 60 >outside/timing.yaml
started=$(now)
"$trainspool" run -q outside/timing.yaml
steps=$((60 * 3000 / ($(now) - started)))
[ $steps -ge 400 ] || steps=400 # the first run may have been slowed down
echo "# $steps steps"

job $steps >outside/whole.yaml
"$trainspool" run -q outside/whole.yaml
expected=$(sha256sum <outside/whole.run/model.safetensors)

background "$trainspool" watch spool
job $steps | drop job.yaml
wait_until 60 has_reached spool/job.yaml 1 # files found by a scan must not change for a while
job 20 | drop next.yaml
wait_until 60 has_reached spool/job.yaml 25
kill -KILL "$daemon"
wait_until 10 has_exited "$daemon"
at=$(step spool/job.yaml)
wait_until 60 has_reached spool/job.yaml $((at + 3))
ok $? "a job continues when its watch is killed"
background "$trainspool" watch spool
wait_until 60 grep -q 'job job: already running' "$T/daemon.log"
ok $? "the next watch adopts the running job"
wait_until 120 state_is spool/job.yaml done
ok $? "the adopted job finishes"
expect "the adopted job has one attempt" grep -q '"attempt":1' spool/job.run/state.json
wait_until 60 state_is spool/next.yaml done
ok $? "the next job runs"
time_of() { sed -n "s/.*\"$2\":\"\([^\"]*\)\".*/\1/p" "spool/$1.run/state.json"; }
printf '%s\n' "$(time_of job ended)" "$(time_of next started)" >"$T/out"
expect "the next job starts after the adopted job" sort -C "$T/out"
expect "the weights are those of an uninterrupted run" \
    test "$expected" = "$(sha256sum <spool/job.run/model.safetensors)"

job $steps | drop killed.yaml
wait_until 60 has_reached spool/killed.yaml 25 # after its first checkpoint
kill -KILL "$(children "$daemon" | head -1)"
crashed() { grep -q '"crashes":1' "spool/$1.run/state.json"; }
wait_until 20 crashed killed
ok $? "a killed trainer counts as a crash"
wait_until 120 state_is spool/killed.yaml done
ok $? "the job is started again and finishes"
expect "the job resumes from its last checkpoint" grep -q 'resume: from killed.run/checkpoint-' spool/killed.run/train.log
expect "the weights are those of an uninterrupted run after a crash" \
    test "$expected" = "$(sha256sum <spool/killed.run/model.safetensors)"

{ job $steps; printf 'trainspool:\n  max_retries: 0\n'; } | drop once.yaml
wait_until 60 has_reached spool/once.yaml 5
kill -KILL "$(children "$daemon" | head -1)"
wait_until 20 state_is spool/once.yaml failed
ok $? "max_retries: 0 allows no retry"

job $steps | drop ended.yaml
wait_until 60 has_reached spool/ended.yaml 5
kill -TERM "$daemon"
wait_until 30 has_exited "$daemon"
expect "SIGTERM ends the watch with 143" exited_with "$daemon" 143
expect "the interrupted job is ready to resume" state_is spool/ended.yaml ready
expect_status "watch --once runs the interrupted job" 0 timeout 200 "$trainspool" watch --once spool
expect "the interrupted job is done" state_is spool/ended.yaml done
expect "the weights are those of an uninterrupted run after SIGTERM" \
    test "$expected" = "$(sha256sum <spool/ended.run/model.safetensors)"

background "$trainspool" watch spool
job 100000 | drop long.yaml
wait_until 60 has_reached spool/long.yaml 3
job 100001 >outside/long.yaml
mv outside/long.yaml spool/
wait_until 10 grep -q 'job long: a new text waits' "$T/daemon.log"
ok $? "a new text of a running job waits"
kill -KILL "$daemon"
wait_until 10 has_exited "$daemon"
background "$trainspool" watch spool
wait_until 20 grep -q 'job long: already running' "$T/daemon.log"
kill -TERM "$daemon"
wait_until 60 has_exited "$daemon"
expect "SIGTERM also stops an adopted job" state_is spool/long.yaml ready
expect_status "cancel of a waiting job succeeds" 0 "$trainspool" cancel spool/long.yaml
expect "cancel needs no watch" state_is spool/long.yaml stopped
mkdir calm
make_data calm
background "$trainspool" watch calm
job 1000000 >calm/1-long.yaml
job 20 >calm/2-next.yaml
wait_until 60 has_reached calm/1-long.yaml 2
wait_until 60 state_is calm/2-next.yaml ready
# clock ticks of processor time; busy polling would take some hundred
ticks() { awk '{ print $14 + $15 }' "/proc/$daemon/stat"; }
before=$(ticks)
sleep 2
expect "a watch sleeps while one job runs and another waits" test $(($(ticks) - before)) -lt 20
kill -TERM "$daemon"
wait_until 60 has_exited "$daemon"
expect "SIGTERM ends a watch with a running job" exited_with "$daemon" 143
plan
