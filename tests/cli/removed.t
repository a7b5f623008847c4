#!/bin/sh
# The folder of a running job is removed or renamed.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
mkdir spool
make_data .
make_data spool
trainer() { children "$daemon" | head -1; }
stopped() { grep -q '^State:.T' "/proc/$1/status"; }

# `trainspool run` ends with an error, and does not make the folder again.
job 1000000 >here.yaml
background "$trainspool" run -q here.yaml
wait_until 60 has_reached here.yaml 3
trainer=$(trainer)
mv here.run away.run
expect "run ends when its folder is renamed" exited_with "$daemon" 3
expect "its message names the folder" \
    grep -q 'here.run was removed or renamed while the job ran; the job ended at step [0-9]*, which is not saved' daemon.log
expect "the log in the folder has the reason" grep -q 'here.run was removed or renamed' away.run/train.log
expect "the trainer has ended" has_exited "$trainer"
expect "the folder is not made again" test ! -e here.run

# A watch.  Its trainer is stopped, so that it cannot notice.
job 1000000 >gone.yaml
background "$trainspool" watch spool
mv gone.yaml spool/
wait_until 60 has_reached spool/gone.yaml 3
trainer=$(trainer)
kill -STOP "$trainer"
rm -r spool/gone.run
touch spool/gone.yaml
wait_until 60 grep -q 'job gone: its folder is gone; waiting for its process to end' daemon.log
ok $? "the watch waits for the process of a folder that is gone"
expect "it starts no other one" test ! -e spool/gone.run
expect "the process still lives" stopped "$trainer"
kill -CONT "$trainer"
wait_until 60 grep -q 'job gone: ended because gone.run was removed or renamed; it starts again as a new job' daemon.log
ok $? "the watch reports its end"
wait_until 60 has_reached spool/gone.yaml 3
expect "then the job starts again" test "$(trainer)" != "$trainer"
expect "as a new one" grep -q '"attempt":1,"crashes":0' spool/gone.run/state.json

# The same for a watch that found the job running.
trainer=$(trainer)
kill -KILL "$daemon"
wait "$daemon"
background "$trainspool" watch spool
wait_until 60 grep -q 'job gone: already running' daemon.log
kill -STOP "$trainer"
mv spool/gone.run away
touch spool/gone.yaml
wait_until 60 sh -c 'test "$(grep -c "its folder is gone" daemon.log)" -eq 2'
ok $? "another watch waits for it too"
expect "it does not call the job crashed" sh -c '! grep -q crashed daemon.log'
expect "it starts no other one either" test ! -e spool/gone.run
kill -CONT "$trainer"
wait_until 60 has_reached spool/gone.yaml 3
expect "the job starts again after its end" test "$(trainer)" != "$trainer"
expect "the other watch reports the end too" test \
    "$(grep -c 'ended because gone.run was removed or renamed' daemon.log)" -eq 2
kill -TERM "$daemon"
wait "$daemon"
plan
