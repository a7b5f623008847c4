#!/bin/sh
# Jobs that Slurm runs, on two nodes of a cluster on this machine: they are done once, with the bits of a
# run on one machine, whatever is killed or forgotten meanwhile.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/cluster.sh"

start_cluster "jobs in Slurm" MIN_JOB_AGE=20
TRAINSPOOL_SLURM_SECONDS=1
export TRAINSPOOL_SLURM_SECONDS

cd "$T" || exit 99
mkdir spool local
for dir in spool local; do make_data "$dir"; done
# STEPS: a job of four ranks, without its line that says where they run.
four() { job "$1" "max_grad_norm: 1.0" | sed 's/^save_steps: .*/save_steps: 50/'; }
in_slurm='trainspool: {backend: slurm, device: cpu, nodes: 2, ranks: 4}'
here='trainspool: {device: cpu, ranks: 4}'
for steps in 30 400; do
    { four $steps && echo "$here"; } >local/$steps.yaml
    expect_status "a run of $steps steps on this machine succeeds" 0 "$trainspool" run local/$steps.yaml
done
drop() { # NAME STEPS [BLOCK]
    { four "$2" && echo "${3-$in_slurm}"; } >spool/.new && mv spool/.new "spool/$1.yaml"
}
same_weights() { # NAME STEPS
    cmp -s "spool/$1.run/model.safetensors" "local/$2.run/model.safetensors"
}
submitted() { grep -c 'slurm: submitted as' "spool/$1.run/train.log"; }
number() { sed -n 's/.*"job": \([0-9]*\).*/\1/p' "spool/$1.run/slurm.json" 2>/dev/null; }
has_number() { [ "$(number "$1")" -gt 0 ] 2>/dev/null; }
# A process that follows a job, not its ranks.
follower() {
    for follower_pid in $(pgrep -f -- "trainspool-train --frozen --lock-fd=3.* $1.yaml\$"); do
        case $(readlink "/proc/$follower_pid/cwd") in "$T"/*) echo "$follower_pid" && return ;; esac
    done
}
watch_again() {
    background "$trainspool" watch spool
    wait_until 10 grep -q "watch: spool, pid $daemon" daemon.log
}
done_once() { # NAME STEPS WHAT
    wait_until 120 state_is "spool/$1.yaml" "done"
    ok $? "$3: the job is done"
    expect "$3: its bits are those of a run on one machine" same_weights "$1" "$2"
}

watch_again
drop plain 30
done_once plain 30 "two nodes"
expect "the log names both machines" grep -q 'ranks: 4 on 2 machines, started by srun' spool/plain.run/train.log
expect "it was submitted once" test "$(submitted plain)" -eq 1
expect "its batch script stays" grep -q '^#SBATCH --nodes=2$' spool/plain.run/slurm.sh
left() { ls spool/plain.run/lease spool/plain.run/slurm.json spool/plain.run/slurm.exit spool/plain.run/cluster.json \
    spool/plain.run/ranks.json 2>/dev/null; }
wait_until 10 sh -c '! ls spool/plain.run/slurm.json spool/plain.run/cluster.json >/dev/null 2>&1'
expect "nothing is left of the submission" test -z "$(left)"

drop again 400
wait_until 60 has_reached spool/again.yaml 60
ok $? "a job runs"
expect "Slurm puts it back into its queue" scontrol requeue "$(number again)"
wait_until 20 sh -c "squeue -h -j $(number again) -o %T | grep -q PENDING"
expect "it starts again at once" start_now "$(number again)"
done_once again 400 "requeued"
expect "a requeued job was submitted once" test "$(submitted again)" -eq 1
expect "it continued from a checkpoint" grep -q 'resume: from again.run/checkpoint-' spool/again.run/train.log

# as at the end of its time
drop limit 400
wait_until 60 has_reached spool/limit.yaml 60
scancel --batch --signal=TERM "$(number limit)"
done_once limit 400 "time limit"
expect "at the end of its time it saved a checkpoint" grep -q 'stopped by SIGTERM at step' spool/limit.run/train.log
expect "it continued from that in another submission" test "$(submitted limit)" -eq 2
expect "it did not begin again" grep -q 'resume: from limit.run/checkpoint-' spool/limit.run/train.log

drop node 400
wait_until 60 has_reached spool/node.yaml 60
scontrol update NodeName=n1 State=DOWN Reason=test
wait_until 20 sh -c "squeue -h -j $(number node) -o %T | grep -q PENDING"
ok $? "a job whose node is down waits"
scontrol update NodeName=n1 State=RESUME 2>/dev/null || true # it may have resumed itself
wait_until 10 start_now "$(number node)"
done_once node 400 "lost node"
expect "a job that lost a node was submitted once" test "$(submitted node)" -eq 1

drop follow 400
wait_until 60 has_reached spool/follow.yaml 60
kill -9 "$(follower follow)"
ok $? "the process that follows a job is killed"
done_once follow 400 "killed follower"
expect "a job whose follower was killed was submitted once" test "$(submitted follow)" -eq 1

drop watch 400
wait_until 60 has_reached spool/watch.yaml 60
kill -9 "$daemon"
watch_again
done_once watch 400 "killed watch"
expect "a job whose watch was killed was submitted once" test "$(submitted watch)" -eq 1

drop stop 400
wait_until 60 has_reached spool/stop.yaml 60
kill "$daemon"
wait_until 20 has_exited "$daemon"
ok $? "the watch ends"
expect "the job continues in Slurm" test "$(squeue -h -j "$(number stop)" -o %T)" = RUNNING
watch_again
done_once stop 400 "ended watch"
expect "a job whose watch ended was submitted once" test "$(submitted stop)" -eq 1

# a controller that is killed forgets what it acknowledged in the last seconds
scontrol update PartitionName=main State=DOWN
drop forget 30
wait_until 30 has_number forget
cluster ctld-kill "$T/c"
cluster ctld-start "$T/c"
scontrol update PartitionName=main State=UP
done_once forget 30 "forgotten"

scontrol update PartitionName=main State=DOWN
drop wait 30
wait_until 30 has_number wait
wait_until 20 sh -c ". '$source/tests/cli/lib.sh' >/dev/null; reason spool/wait.yaml | grep -q 'in the queue of Slurm as job'"
ok $? "the state of a job that waits names its number"
expect_status "cancel of a job that waits succeeds" 0 "$trainspool" cancel spool/wait.yaml
wait_until 30 state_is spool/wait.yaml stopped
ok $? "a job that waited is stopped"
expect "it left the queue" test -z "$(squeue -h -t pending -o %i)"
scontrol update PartitionName=main State=UP

drop cancel 400
wait_until 60 has_reached spool/cancel.yaml 60
expect_status "cancel of a job that runs succeeds" 0 "$trainspool" cancel spool/cancel.yaml
wait_until 30 state_is spool/cancel.yaml stopped
ok $? "a job that ran is stopped"
expect "it has a checkpoint" sh -c 'ls -d spool/cancel.run/checkpoint-* >/dev/null'

drop scancel 400
wait_until 60 has_reached spool/scancel.yaml 60
scancel "$(number scancel)"
wait_until 40 state_is spool/scancel.yaml stopped
ok $? "a job that scancel ends is stopped"
expect "a job that scancel ended was submitted once" test "$(submitted scancel)" -eq 1

# before sbatch answers
mkdir bin
cat >bin/sbatch <<END
#!/bin/sh
[ -e "$T/hang" ] || exec "$(command -v sbatch)" "\$@"
while [ -e "$T/hang" ]; do sleep 0.2; done
exit 1
END
chmod +x bin/sbatch
kill "$daemon"
wait_until 20 has_exited "$daemon"
touch hang
PATH=$T/bin:$PATH
watch_again
drop early 30
wait_until 30 test -s spool/early.run/slurm.json
kill -9 "$(follower early)"
rm hang
done_once early 30 "killed before it was submitted"

{ four 400 && echo "$in_slurm"; } >local/slurm.yaml
"$trainspool" run local/slurm.yaml >"$T/null" 2>&1 &
runner=$!
wait_until 60 has_reached local/slurm.yaml 60
kill "$runner"
wait "$runner"
expect "a run that is ended is stopped" state_is local/slurm.yaml stopped
expect "it does not continue in Slurm" test ! -e local/slurm.run/slurm.json

drop refused 30 "$(echo "$in_slurm" | sed 's/}$/, partition: nowhere}/')"
wait_until 30 state_is spool/refused.yaml failed
ok $? "a job that Slurm refuses has failed"
reason spool/refused.yaml >out
expect_output "the reason is that of sbatch" 'sbatch: error: Batch job submission failed: Invalid partition'

plan
