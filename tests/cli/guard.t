#!/bin/sh
# What a watch does with jobs whose process does not end, or shows no sign of life.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi

# in one folder, because trainspool searches for trainspool-train there; a job `deaf` ignores requests
mkdir bin spool
cp "$trainspool" bin
cat >bin/trainspool-train <<END
#!/bin/bash
case "\$*" in *deaf*.yaml)
    trap '' TERM INT
    while :; do sleep 0.1; done ;;
esac
exec $train "\$@"
END
chmod +x bin/trainspool-train
trainspool=$T/bin/trainspool
make_data spool
trainer() { children "$daemon" | head -1; }
# JOB: its last step has a checkpoint.
is_saved() { test -f "${1%.yaml}.run/checkpoint-$(step "$1")/trainspool_manifest.json"; }
logged() { grep -q -e "$1" daemon.log; }
# [OPTIONS]...: start a watch with its own log.
start() {
    rm -f daemon.log
    background "$trainspool" watch "$@" spool
}
drop() { # NAME [LINE]...
    drop_name=$1
    shift
    job 1000000 "$@" >"$drop_name.yaml"
    mv "$drop_name.yaml" spool/
}
end() { # the watch, after its jobs are canceled
    "$trainspool" cancel spool --state running >"$T/out" 2>&1
    kill -TERM "$daemon"
    wait "$daemon"
}

# A process that SIGSTOP has stopped: it is killed, and the job continues from its last checkpoint.
start --hang 4
drop stuck
wait_until 60 has_reached spool/stuck.yaml 25
trainer=$(trainer)
kill -STOP "$trainer"
wait_until 60 logged 'job stuck: ready: trainspool-train was killed: no sign of life for [0-9]* s: a signal has stopped it'
ok $? "a stopped process is killed, and its job is ready again"
expect "the log warns before" logged 'warn job stuck: no sign of life for [0-9]* s: a signal has stopped it'
expect "the process is gone" has_exited "$trainer"
wait_until 60 grep -q '"state":"running".*"attempt":2,"crashes":1' spool/stuck.run/state.json
ok $? "the kill counts as a crash, and the job runs again"
wait_until 60 grep -q 'resume: from' spool/stuck.run/train.log
ok $? "it continues from a checkpoint"
expect "a job that works is left alone" sh -c 'sleep 5; test "$(grep -c killing daemon.log)" -eq 1'

# The same under a watch that found the job running.
wait_until 60 has_reached spool/stuck.yaml 25
trainer=$(trainer)
kill -KILL "$daemon"
wait "$daemon"
start --hang 4
wait_until 60 logged 'job stuck: already running'
kill -STOP "$trainer"
wait_until 60 logged 'job stuck: ready: trainspool-train was killed: no sign of life'
ok $? "a stopped process of an earlier watch is killed too"
wait_until 60 has_reached spool/stuck.yaml 25
ok $? "and its job runs again"
end

# A stopped process continues when it should end, and saves.
start --hang 0
drop paused
wait_until 60 has_reached spool/paused.yaml 3
kill -STOP "$(trainer)"
touch -d '100 seconds ago' spool/paused.run/lock
try "$trainspool" status spool
expect_output "status says so" 'paused .* running .*no sign of life for 1[0-9]* s'
expect_status "cancel of a stopped process succeeds" 0 "$trainspool" cancel spool/paused.yaml
wait_until 60 state_is spool/paused.yaml stopped
expect "it ends" test "$(reason spool/paused.yaml)" = "canceled at step $(step spool/paused.yaml)"
expect "with a checkpoint" is_saved spool/paused.yaml
drop late "trainspool: {timeout: 4}"
wait_until 60 has_reached spool/late.yaml 3
kill -STOP "$(trainer)"
wait_until 60 state_is spool/late.yaml failed
expect "a stopped process ends at its timeout" \
    sh -c 'case $1 in "timeout reached at step "*) ;; *) exit 1; esac' - "$(reason spool/late.yaml)"
expect "with a checkpoint too" is_saved spool/late.yaml
drop paused2
wait_until 60 has_reached spool/paused2.yaml 3
kill -STOP "$(trainer)"
kill -TERM "$daemon"
expect "a watch that ends wakes its jobs" exited_with "$daemon" 143
expect "they are ready to resume" state_is spool/paused2.yaml ready
expect "from their last step" is_saved spool/paused2.yaml
rm spool/paused2.yaml

# A process that ignores every request.
start --grace 2
drop deaf
wait_until 60 logged 'job deaf: started'
expect_status "cancel of a process that ignores requests succeeds" 0 "$trainspool" cancel spool/deaf.yaml
wait_until 60 state_is spool/deaf.yaml stopped
expect "it is killed" test "$(reason spool/deaf.yaml)" = \
    "canceled; trainspool-train was killed: it did not end within 2 s"
drop deaf2 "trainspool: {timeout: 3}"
wait_until 60 state_is spool/deaf2.yaml failed
expect "so it is at the timeout" test "$(reason spool/deaf2.yaml)" = \
    "timeout reached; trainspool-train was killed: it did not end within 2 s"
drop deaf3
wait_until 60 logged 'job deaf3: started'
trainer=$(trainer)
kill -KILL "$daemon"
wait "$daemon"
start --grace 2
wait_until 60 logged 'job deaf3: already running'
expect_status "cancel of one that an earlier watch started succeeds" 0 "$trainspool" cancel spool/deaf3.yaml
wait_until 60 state_is spool/deaf3.yaml stopped
ok $? "it is killed too"
drop deaf4
wait_until 60 logged 'job deaf4: started'
trainer=$(trainer)
kill -TERM "$daemon"
expect "a watch that ends kills it" exited_with "$daemon" 143
expect "the process is gone too" has_exited "$trainer"
expect "the job stays ready, without a crash" grep -q '"state":"ready".*"crashes":0' spool/deaf4.run/state.json
plan
