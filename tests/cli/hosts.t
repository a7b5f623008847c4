#!/bin/sh
# Machines on each of which a cluster starts trainspool run once: each starts its own ranks, which give the
# bits of as many ranks on one machine; when one machine is lost or drained, all end, and start again.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "training" "no $model"
    plan
    exit 0
fi
make_data .

# The programs must see only the variables of this test.
for name in $(env | sed -n 's/^\(SLURM_[A-Z_0-9]*\|PMIX*_[A-Z_0-9]*\|OMPI_[A-Z_0-9]*\|MPI_[A-Z]*\|SKYPILOT_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_WORLD_SIZE MASTER_PORT TORCHELASTIC_RUN_ID NNODES \
    NODE_RANK NPROC_PER_NODE
MASTER_ADDR=127.0.0.1
export MASTER_ADDR

# STEPS BLOCK: print a job.
several() {
    job "$1" "max_grad_norm: 1.0" | sed -e 's/^logging_steps: .*/logging_steps: 1/' -e 's/^save_steps: .*/save_steps: 50/'
    echo "trainspool: {device: cpu$2}"
}
# NAME ARGUMENTS...: start trainspool run on machines 0 and 1; $host_N is the process of each.
start_hosts() {
    for start_index in 1 0; do start_host "$start_index" "$@"; done
}
start_host() { # INDEX ARGUMENTS...
    start_host_index=$1
    shift
    NNODES=2 NODE_RANK=$start_host_index NPROC_PER_NODE=2 "$trainspool" run -q "$@" >"host$start_host_index.out" 2>&1 &
    eval "host_$start_host_index=$!"
    pids="$pids $!"
}
statuses() {
    wait "$host_0"
    statuses=$?
    wait "$host_1"
    statuses="$statuses $?"
    echo "# statuses $statuses"
    cat host?.out >"$T/out"
    : >"$T/err"
}
# NAME ARGUMENTS...: both machines succeed.
expect_hosts() {
    expect_hosts_name=$1
    shift
    start_hosts "$@"
    statuses
    expect "$expect_hosts_name" test "$statuses" = "0 0"
}
same_weights() { cmp -s "$1.run/model.safetensors" "$2.run/model.safetensors"; }
ranks_here() { pgrep -f -- "trainspool-train .*$T/$1" | wc -l; }

several 30 ", ranks: 4" >local.yaml
several 250 ", ranks: 4" >whole.yaml
for name in local whole; do
    expect_status "four ranks of one machine succeed: $name" 0 "$trainspool" run -q $name.yaml
done

several 30 "" >two.yaml
expect_hosts "two ranks on each of two machines succeed" two.yaml
expect "their bits are those of four ranks" same_weights local two
expect "the log has the ranks and the machines" grep -q 'ranks: 4 on 2 machines, started by torchrun' two.run/train.log
expect "only machine 0 prints" test ! -s host1.out

# the job has the number of ranks
several 30 ", ranks: 4" >sky.yaml
for index in 1 0; do
    SKYPILOT_NUM_NODES=2 SKYPILOT_NODE_RANK=$index SKYPILOT_NUM_GPUS_PER_NODE=0 SKYPILOT_NODE_IPS="127.0.0.1
127.0.0.2" "$trainspool" run -q sky.yaml >"host$index.out" 2>&1 &
    eval "host_$index=$!"
done
statuses
expect "two machines of SkyPilot succeed" test "$statuses" = "0 0"
expect "their bits are those of four ranks, too" same_weights local sky
expect_status "one machine of SkyPilot is no group" 0 env SKYPILOT_NUM_NODES=1 SKYPILOT_NODE_RANK=0 \
    SKYPILOT_NUM_GPUS_PER_NODE=8 "$trainspool" run -q sky.yaml
expect "it starts the ranks of the job" same_weights local sky

several 30 ", ranks: 3" >odd.yaml
expect_status "ranks that the machines cannot share are refused" 2 env NNODES=2 NODE_RANK=1 "$trainspool" run odd.yaml
expect_error "the message names both numbers" 'ranks: 3 cannot be distributed evenly among the 2 machines'
several 30 ", ranks: 6" >six.yaml
start_hosts six.yaml
statuses
expect "both machines refuse another number of ranks than the job's" test "$statuses" = "2 2"
expect_output "the message names both numbers, too" 'the job has ranks: 6, but the environment (NNODES) asks for 2 on each of 2'
expect_status "an invalid variable is refused" 2 env NNODES=2 NODE_RANK=2 "$trainspool" run two.yaml
expect_error "the message names it" 'NODE_RANK=2 in the environment is not a number from 0 to 1'

# a lost machine: a cluster starts every machine again whose process failed
several 250 "" >lost.yaml
start_hosts lost.yaml
wait_until 60 has_reached lost.yaml 60
ok $? "a run reaches step 60"
# shellcheck disable=SC2046
kill -KILL "$host_1" $(children "$host_1")
statuses
case $statuses in *" 137") test "${statuses% *}" != 0 ;; *) false ;; esac
ok $? "the loss of machine 1 fails on machine 0"
expect "the log names a rank of it" grep -q 'error job lost: failed at step [0-9]*: rank [23] ' lost.run/train.log
expect_hosts "both machines start again" --resume lost.yaml
expect "they resume" grep -q 'resume: from lost.run/checkpoint-' lost.run/train.log
expect "the bits are those of a run that lost none" same_weights whole lost

# a machine that is drained: a checkpoint is saved, whichever it is
for index in 0 1; do
    several 250 "" >drain$index.yaml
    start_hosts drain$index.yaml
    wait_until 60 has_reached drain$index.yaml 60
    ok $? "a run to drain machine $index of reaches step 60"
    eval "kill -TERM \$host_$index"
    statuses
    expect "SIGTERM to machine $index stops both" test "$statuses" = "143 143"
    expect "the run stopped early" test "$(step drain$index.yaml)" -lt 250
    expect "it saved a checkpoint at that step" test -d "drain$index.run/checkpoint-$(step drain$index.yaml)"
    expect_hosts "both continue" --resume drain$index.yaml
    expect "the bits are those of an uninterrupted run" same_weights whole drain$index
done

# rank 0 works alone at the end: until it has finished, no machine may count as done
several 30 "" | sed '/^max_steps/d' >evaluate.yaml
printf '%s\n' 'do_train: false' 'do_eval: true' 'val_size: 0.9' 'per_device_eval_batch_size: 1' >>evaluate.yaml
start_hosts evaluate.yaml
wait_until 60 state_is evaluate.yaml running
ok $? "an evaluation runs"
# shellcheck disable=SC2046
kill -KILL "$host_0" $(children "$host_0") $(pgrep -f -- "--lock-fd=3.* evaluate.yaml\$")
statuses
expect "the loss of rank 0 fails on both machines" test "$statuses" = "137 3"
expect_output "the other machine says why" 'rank 0 ended before the job did'
plan
