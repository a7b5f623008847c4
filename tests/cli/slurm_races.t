#!/bin/sh
# Requests, ends and restarts that meet while Slurm has a job: each test makes one order of events certain.
. "${top_srcdir-.}/tests/cli/lib.sh"
has_model || { skip "jobs that were submitted" "no $model" && plan && exit 0; }
. "$source/tests/cli/slurm_fake.sh"

stop_watch() { kill "$daemon" && wait_until 20 has_exited "$daemon"; }
# NAME: print the process that follows the job.
follower() {
    for follower_pid in $(children "$daemon"); do
        ! tr '\0' ' ' <"/proc/$follower_pid/cmdline" | grep -q " $1\.yaml \$" || echo "$follower_pid"
    done
}
trains() { # NAME: begin it, and wait until it trains
    begin-job "$id"
    wait_until 30 has_reached "spool/$1.yaml" "${2-5}"
    ok $? "$1 trains"
    group=$(cat "$SLURM/$id.group")
}
end_job() { "$trainspool" cancel "spool/$1.yaml" >/dev/null; wait_until 20 state_is "spool/$1.yaml" stopped; }
again() { wait_until 20 test -e "$SLURM/$((id + 1)).sh"; }
start_spool

for how in requeue "pause --stop"; do # before the first step
    name=early${how%% *}
    drop $name 100000
    submit $name
    begin-job "$id"
    wait_until 30 grep -qs '"state":"running"' spool/$name.run/cluster.json
    group=$(cat "$SLURM/$id.group") && kill -STOP "-$group"
    wait_until 10 state_is spool/$name.yaml running
    case $how in requeue) where=spool/$name.yaml ;; *) where=spool ;; esac
    "$trainspool" $how $where >out 2>&1
    kill -CONT "-$group"
    wait_until 20 state_is spool/$name.yaml ready
    "$trainspool" unpause spool >out
    again
    ok $? "$how before the first step: submitted again"
    submit $name
    end_job $name
done

drop slow 100000 "gradient_accumulation_steps: 1500
$in_slurm"
submit slow
trains slow 1
stop_watch
kill -TERM "$(cat "$SLURM/$id.step")" # as at the time limit
wait_until 20 test -e spool/slow.run/slurm.exit
watch_again
again
ok $? "a job that made steps before the watch was restarted continues"
submit slow
end_job slow

drop over 100000
submit over
trains over
kill -STOP "-$group"
"$trainspool" cancel spool/over.yaml >out
"$trainspool" pause --stop spool >out
kill -CONT "-$group"
wait_until 20 state_is spool/over.yaml stopped
ok $? "pause --stop does not replace a cancel"
"$trainspool" unpause spool >out

drop adopted 100000
submit adopted
kill -9 "$daemon"
wait_until 5 has_exited "$daemon"
: >daemon.log
watch_again
stop_watch
expect "a watch that stops leaves an adopted job in Slurm" slurm_is "$id" PENDING
watch_again
submit adopted
end_job adopted

drop held 100000
submit held
stop_watch
"$trainspool" hold spool/held.yaml >out
watch_again
wait_until 20 slurm_is "$id" CANCELLED
ok $? "a job that is held while no watch runs leaves the queue"

drop paused 100000
submit paused
trains paused
"$trainspool" pause spool >out
stop_watch
watch_again
wait_until 10 state_is spool/paused.yaml running
ok $? "a watch follows what Slurm runs though the folder is paused"
"$trainspool" pause --stop spool >out
wait_until 20 grep -qs 'stopped by SIGTERM' spool/paused.run/train.log
ok $? "pause --stop stops it"
"$trainspool" unpause spool >out
submit paused
end_job paused

drop killed 100000 "${in_slurm%\}}, max_retries: 0}"
submit killed
trains killed
f=$(follower killed)
expect "a process follows it" test -n "$f"
kill -9 "$f"
reached=$(step spool/killed.yaml)
wait_until 20 has_reached spool/killed.yaml $((reached + 50))
ok $? "the end of a follower is no end of its job"
stop_watch
drop killed 90000 "trainspool: {device: cpu}"
watch_again
wait_until 20 has_reached spool/killed.yaml $((reached + 100))
wait_until 20 sh -c "! kill -0 -$group 2>/dev/null"
ok $? "a text for this machine ends the submission of the earlier one"
end_job killed

drop twice 100000
submit twice
trains twice
f=$(follower twice)
kill -STOP "$f"
"$trainspool" cancel spool/twice.yaml >out
wait_until 20 test -e spool/twice.run/slurm.exit
"$trainspool" requeue spool/twice.yaml >out
kill -CONT "$f"
again
ok $? "a requeue after a cancel counts"
submit twice
trains twice
printf 'case $(cat $S/%s.state) in FAILED) echo PENDING >$S/%s.state ;; esac\n' "$id" "$id" >"$SLURM/how.squeue"
"$trainspool" cancel spool/twice.yaml >out
wait_until 20 test ! -e spool/twice.run/lease
ok $? "a canceled job may not train when Slurm starts it again"
rm "$SLURM/how.squeue"
plan
