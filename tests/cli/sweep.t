#!/bin/sh
# trainspool.sweep: a watched folder makes a job of every combination of values, each exactly once.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
mkdir spool
make_data spool
# DIR: the names of the jobs in it.
jobs_in() { (cd "$1" && echo *.yaml); }
starts() { grep -c 'attempt' "$1.run/train.log"; }

job 20 'output_dir: results' 'trainspool:' '  sweep:  # two by two' '    learning_rate: [1.0e-4, 3.0e-4]' \
    '    seed: [1, 2]' '  priority: 3' >spool/s.yaml
cp spool/s.yaml before.yaml
expect_status "watch --once of a sweep succeeds" 0 timeout 120 "$trainspool" watch --once spool
expect "every combination is a job" test "$(jobs_in spool)" = "s-1-learning_rate-1.0e-4-seed-1.yaml \
s-2-learning_rate-1.0e-4-seed-2.yaml s-3-learning_rate-3.0e-4-seed-1.yaml s-4-learning_rate-3.0e-4-seed-2.yaml s.yaml"
expect "the sweep's file does not change" cmp before.yaml spool/s.yaml
expect "a job has its values" grep -q '^learning_rate: 3.0e-4$' spool/s-3-learning_rate-3.0e-4-seed-1.yaml
expect "and keeps the others" grep -q 'priority: 3' spool/s-3-learning_rate-3.0e-4-seed-1.yaml
expect "and says where it comes from" grep -q '^# job 3 of 4 of the sweep s.yaml: learning_rate 3.0e-4, seed 1$' \
    spool/s-3-learning_rate-3.0e-4-seed-1.yaml
expect "each has a folder in output_dir" test -f spool/results/s-2-learning_rate-1.0e-4-seed-2/model.safetensors \
    -a -f spool/results/s-3-learning_rate-3.0e-4-seed-1/model.safetensors
expect "the sweep is done" state_is spool/s.yaml done
expect "its reason names the best job" sh -c "grep -q 'best is s-[34]-learning_rate-3.0e-4-seed-[12] with loss' spool/s.run/state.json"
expect "a table has a row for each" test "$(grep -c '^| s-' spool/s.run/sweep.md)" -eq 4
expect "programs read the same" jq_accepts -e '(.jobs | length) == 4 and all(.jobs[]; .state == "done" and .loss > 0)
    and .jobs[2].values.learning_rate == "3.0e-4" and (.best | startswith("s-"))' spool/s.run/sweep.json
expect "no job ran twice" test "$(starts spool/s-1-learning_rate-1.0e-4-seed-1)" -eq 1
expect_status "a second watch has nothing to do" 0 timeout 60 "$trainspool" watch --once spool
expect "nothing ran again" test "$(starts spool/s-1-learning_rate-1.0e-4-seed-1)" -eq 1
expect_status "run refuses a sweep" 1 "$trainspool" run -q spool/s.yaml
expect_output "it says what makes the jobs" 'TS722.*only a watched folder makes the jobs'

# Commands about the sweep are about its jobs.
mkdir many
make_data many
job 100000 'trainspool: {sweep: {seed: [1, 2, 3]}}' >many/m.yaml
background "$trainspool" watch many
wait_until 60 sh -c 'ls many/m-[123]-seed-[123].run/state.json >/dev/null 2>&1'
wait_until 60 grep -q ready many/m.run/state.json
expect_status "status of a sweep succeeds" 0 "$trainspool" status many/m.yaml
expect_output "it shows how many jobs have ended" '^m  *ready .*0 of 3 jobs have ended'
expect_status "cancel of a sweep succeeds" 0 "$trainspool" cancel many/m.yaml
for i in 1 2 3; do wait_until 60 state_is many/m-$i-seed-$i.yaml stopped; done
expect "it cancels its jobs" test "$(state many/m.yaml)$(state many/m-1-seed-1.yaml)$(state many/m-3-seed-3.yaml)" = stoppedstoppedstopped
kill -TERM "$daemon"
wait "$daemon"
sed -i 's/max_steps: .*/max_steps: 2/' many/m-1-seed-1.yaml many/m-2-seed-2.yaml many/m-3-seed-3.yaml
expect_status "retry of a sweep succeeds" 0 "$trainspool" retry many/m.yaml
expect_output "it queues its jobs" '^many/m-3-seed-3.yaml: queued again'
expect_status "they are edited: the sweep is rejected" 1 timeout 120 "$trainspool" watch --once many
expect "it says which file is in the way" sh -c "grep -q 'would replace many/\{0,1\}m-1-seed-1.yaml\|would replace m-1-seed-1.yaml' many/m.run/state.json"
expect "the jobs ran" test "$(state many/m-1-seed-1.yaml)$(state many/m-3-seed-3.yaml)" = donedone
expect "as edited" grep -q 'max_steps: 2' many/m-1-seed-1.yaml

# A failed job: the sweep fails, and is done when the job is.
mkdir bad
make_data bad
job 2 'trainspool: {sweep: {dataset: [text.txt, later.txt]}}' >bad/b.yaml
timeout 120 "$trainspool" watch --once -q bad >/dev/null
expect "a sweep with a failed job fails" state_is bad/b.yaml failed
expect "it says so" grep -q '1 of 2 jobs is not done; best is b-1-dataset-text.txt' bad/b.run/state.json
cp bad/text.txt bad/later.txt
"$trainspool" retry -q bad/b.yaml
expect_status "after retry the other job runs" 0 timeout 120 "$trainspool" watch --once -q bad
expect "the sweep is done" state_is bad/b.yaml done
expect "the job that was done did not run again" test "$(starts bad/b-1-dataset-text.txt)" -eq 1

# A file in the way.
mkdir taken
make_data taken
job 2 'trainspool: {sweep: {seed: [1, 2]}}' >taken/t.yaml
echo 'stage: mine' >taken/t-2-seed-2.yaml
timeout 60 "$trainspool" watch --once -q taken >/dev/null
expect "a sweep replaces no other file" grep -q 'stage: mine' taken/t-2-seed-2.yaml
expect "it is rejected" state_is taken/t.yaml rejected
expect "it makes no job" test ! -e taken/t-1-seed-1.yaml

# The watch and its examiner are killed while jobs are made.
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    for at in 2 4 6; do
        mkdir killed-$at
        make_data killed-$at
        job 1 'trainspool: {sweep: {seed: [1, 2]}}' >killed-$at/k.yaml
        : >daemon.log
        "$trainspool" pause -q killed-$at # no job starts, which would be killed, too
        background strace -D -f -qq -o /dev/null -e trace=renameat -e "inject=renameat:signal=KILL:when=$at" \
            "$trainspool" watch killed-$at
        wait_until 30 grep -q 'trying again' daemon.log
        kill -9 "$daemon"
        wait "$daemon" 2>/dev/null
        "$trainspool" unpause -q killed-$at
        # its jobs may end before a watch looks at the sweep
        [ $at -ne 4 ] || for job in killed-4/k-?-*.yaml; do "$trainspool" run -q "$job"; done
        made=$(ls -d killed-$at/k-*.yaml 2>/dev/null | wc -l)
        expect_status "killed at rename $at with $made jobs made, the next watch succeeds" 0 \
            timeout 120 "$trainspool" watch --once killed-$at
        expect "there are exactly the jobs" test "$(jobs_in killed-$at)" = 'k-1-seed-1.yaml k-2-seed-2.yaml k.yaml'
        expect "each has run once" test "$(state killed-$at/k.yaml) $(starts killed-$at/k-1-seed-1)$(starts killed-$at/k-2-seed-2)" = 'done 11'
    done
fi
plan
