#!/bin/sh
# The jobs of a sweep that Slurm runs are tasks of one array: each is done once, with the bits of a run on this
# machine, and is canceled, requeued and followed alone.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/cluster.sh"

start_cluster "sweeps in Slurm" MIN_JOB_AGE=20 SLURM_EXTRA=MaxArraySize=4
TRAINSPOOL_SLURM_SECONDS=1
export TRAINSPOOL_SLURM_SECONDS
scontrol update NodeName=n0,n1 State=RESUME 2>/dev/null || true

cd "$T" || exit 99
mkdir spool local
for dir in spool local; do make_data "$dir"; done
sweep() { # STEPS SEEDS
    job "$1" "max_grad_norm: 1.0"
    echo "trainspool: {backend: slurm, device: cpu, ranks: 2, nodes: 2, sweep: {seed: [$2]}}"
}
drop() { # NAME STEPS SEEDS
    sweep "$2" "$3" >spool/.new && mv spool/.new "spool/$1.yaml"
}
member() { echo "spool/$1-$2-seed-$2"; }
all() { # STATE NAME NUMBERS: whether all of these jobs are in it
    all_state=$1 all_name=$2
    shift 2
    for all_i; do state_is "$(member "$all_name" "$all_i").yaml" "$all_state" || return 1; done
}
# The numbers ARRAY_TASK of all submissions of a job.
tasks() { sed -n 's/.*slurm: submitted as job \([0-9_]*\),.*/\1/p' "$(member "$1" "$2").run/train.log"; }
arrays() { # NAME NUMBERS: the arrays of their submissions
    arrays_name=$1
    shift
    for arrays_i; do tasks "$arrays_name" "$arrays_i"; done | sed 's/_.*//' | sort -u | wc -l
}
has_task() { [ -n "$(tasks "$@" 2>/dev/null)" ]; }
have_tasks() { # NAME NUMBERS
    have_name=$1
    shift
    for have_i; do has_task "$have_name" "$have_i" || return 1; done
}
queued() { squeue -h -r -t "$1" -o %i | sort | tr '\n' ' '; }
follower() { # NAME NUMBER: the process that follows a job, not its ranks
    for follower_pid in $(pgrep -f -- "trainspool-train --frozen --lock-fd=3.* $1-$2-seed-$2.yaml\$"); do
        case $(readlink "/proc/$follower_pid/cwd") in "$T"/*) echo "$follower_pid" && return ;; esac
    done
}
watch_again() {
    background "$trainspool" watch spool
    wait_until 10 grep -q "watch: spool, pid $daemon" daemon.log
}
same_weights() { # NAME NUMBER
    cmp -s "$(member "$1" "$2").run/model.safetensors" "local/$2.run/model.safetensors"
}
for i in 1 2 3; do
    { job 30 "max_grad_norm: 1.0" "seed: $i" && echo "trainspool: {device: cpu, ranks: 2}"; } >local/$i.yaml
    expect_status "a run with seed $i on this machine succeeds" 0 "$trainspool" run local/$i.yaml
done

watch_again
drop plain 30 "1, 2, 3"
wait_until 120 all "done" plain 1 2 3
ok $? "the jobs of a sweep are done"
for i in 1 2 3; do expect "job $i has the bits of a run on one machine" same_weights plain $i; done
expect "one array has all of them" test "$(arrays plain 1 2 3)" -eq 1
expect "each is one task of it" test "$(tasks plain 1 | sed 's/.*_//') $(tasks plain 2 | sed 's/.*_//') $(tasks plain 3 | sed 's/.*_//')" = "0 1 2"
wait_until 30 state_is spool/plain.yaml "done"
ok $? "so is the sweep"
left() { ls spool/plain.run/arrays/*.json spool/plain.run/arrays/*.id spool/plain-*.run/slurm.json spool/plain-*.run/lease 2>/dev/null; }
wait_until 20 sh -c "! ls spool/plain-*.run/slurm.json >/dev/null 2>&1" # a process follows the job for a moment after it is done
expect "nothing is left of the submission but its script" test -z "$(left)"
expect "the script is there" sh -c 'grep -qx "#SBATCH --array=0-2" spool/plain.run/arrays/*.sh'

# more jobs than Slurm takes in an array, and cancellations of single tasks that wait
scontrol update PartitionName=main State=DOWN
drop many 30 "1, 2, 3, 4, 5, 6"
wait_until 60 have_tasks many 1 2 3 4 5 6
ok $? "a sweep that is too large for one array is submitted"
expect "in two arrays" test "$(arrays many 1 2 3 4 5 6)" -eq 2
expect "each job once" test "$(squeue -h -r -o %i | wc -l)" -eq 6
wait_until 20 sh -c ". '$source/tests/cli/lib.sh' >/dev/null; reason $(member many 2).yaml | grep -q 'in the queue of Slurm as job $(tasks many 2)'"
ok $? "the state of a job names its task"
expect_status "cancel of one job succeeds" 0 "$trainspool" cancel "$(member many 2).yaml"
wait_until 30 all stopped many 2
ok $? "it is stopped"
expect "only its task left the queue" test "$(squeue -h -r -o %i | wc -l) $(squeue -h -r -o %i | grep -cx "$(tasks many 2)")" = "5 0"
scancel "$(tasks many 3)"
expect_status "retry of a job succeeds" 0 "$trainspool" retry "$(member many 2).yaml"
wait_until 30 sh -c "[ \$(squeue -h -r -o %i | wc -l) -eq 5 ]"
ok $? "it is submitted again, alone"
expect "the others wait" all ready many 1 4 5 6
scontrol update PartitionName=main State=UP
wait_until 120 all "done" many 1 2 4 5 6
ok $? "the other jobs are done"
expect "each was submitted once" test "$(for i in 1 3 4 5 6; do tasks many $i; done | wc -l)" -eq 5
expect "job 1 has the bits of a run on one machine" same_weights many 1
expect "so has the one that was retried" same_weights many 2

# tasks that run
drop run 500 "1, 2, 3"
for i in 1 2 3; do wait_until 60 has_reached "$(member run $i).yaml" 40; done
ok $? "three tasks run at once"
scontrol requeue "$(tasks run 1)"
wait_until 20 sh -c "squeue -h -r -t pending -o %i | grep -qx $(tasks run 1)"
kill -9 "$(follower run 2)"
ok $? "a process that follows a job is killed"
expect_status "cancel of a job that runs succeeds" 0 "$trainspool" cancel "$(member run 3).yaml"
wait_until 30 all stopped run 3
ok $? "it is stopped"
start_now "$(tasks run 1)"
expect "it has a checkpoint" sh -c "ls -d $(member run 3).run/checkpoint-* >/dev/null"
wait_until 120 all "done" run 1 2
ok $? "the others are done"
expect "they were submitted once" test "$(for i in 1 2 3; do tasks run $i; done | wc -l)" -eq 3
expect "the one that was requeued continued" grep -q 'resume: from' "$(member run 1).run/train.log"

wait_until 40 all stopped many 3 # 20 s after it left the queue
ok $? "a job whose task scancel took out of the queue is stopped"
expect "it was submitted once" test "$(tasks many 3 | wc -l)" -eq 1

# the process that submits is killed before sbatch answers: Slurm has the array, but its number is not known
mkdir bin
cat >bin/sbatch <<END
#!/bin/sh
$(command -v sbatch) "\$@"
while [ -e "$T/hang" ]; do sleep 0.2; done
END
chmod +x bin/sbatch
kill "$daemon"
wait_until 20 has_exited "$daemon"
touch hang
PATH=$T/bin:$PATH
scontrol update PartitionName=main State=DOWN
watch_again
drop early 30 "1, 2, 3"
wait_until 60 sh -c '[ $(squeue -h -r -o %i | wc -l) -eq 3 ]'
ok $? "an array is in the queue"
for i in 1 2 3; do kill -9 "$(follower early $i)"; done
rm hang
scontrol update PartitionName=main State=UP
wait_until 120 all "done" early 1 2 3
ok $? "its jobs are done, though the processes that followed them were killed"
expect "Slurm got one array" test "$(squeue -h -r -t all -n "$(basename spool/early.run/arrays/*.sh .sh)" -o %i | wc -l)" -eq 3
expect "each job found its task" test "$(arrays early 1 2 3)" -eq 1
expect "each started once" test "$(grep -c attempt spool/early-*.run/train.log | grep -c ':1$')" -eq 3

plan
