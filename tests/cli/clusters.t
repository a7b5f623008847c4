#!/bin/sh
# The recipes of docs/clusters.md, as far as their programs are here: each gives the bits of as many ranks on
# one machine.  The paths of the page are replaced by those of the test, and nothing else.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/cluster.sh"
page=$source/docs/clusters.md
cd "$T" || exit 99

if ! has_model; then
    skip "recipes" "no $model"
    plan
    exit 0
fi
PATH=$top:$PATH
export PATH
unset RANK WORLD_SIZE NNODES NODE_RANK NPROC_PER_NODE SKYPILOT_NODE_RANK SKYPILOT_NUM_NODES MASTER_PORT
mkdir shared
make_data shared
cp -R "$model" shared/tiny
several() { # STEPS BLOCK: print a job
    job "$1" "max_grad_norm: 1.0" | sed -e 's/^model_name_or_path: .*/model_name_or_path: tiny/' \
        -e 's/^save_steps: .*/save_steps: 50/'
    echo "trainspool: {device: cpu$2}"
}
for steps in 30 250; do
    several $steps ", ranks: 4" >shared/local$steps.yaml
    expect_status "a job of four ranks and $steps steps succeeds" 0 "$trainspool" run -q shared/local$steps.yaml
done

# HEADING FIRST: print the block of this section whose first line matches, with the paths of the test.
block() {
    awk -v heading="## $1" -v first="$2" '
        /^## / { here = $0 == heading; next }
        !here { next }
        /^```/ { if (inside && shown) exit; inside = !inside; fresh = inside; shown = 0; next }
        inside && fresh { shown = $0 ~ first; fresh = 0 }
        inside && shown' "$page" | sed "s|/shared|$T/shared|g"
}
fresh() { # STEPS: start the job of the page from scratch
    rm -rf shared/gsm8k.run
    several "$1" "" >shared/gsm8k.yaml
    fresh_steps=$1
}
same_bits() {
    state_is shared/gsm8k.yaml "done" &&
        cmp -s shared/gsm8k.run/model.safetensors "shared/local$fresh_steps.run/model.safetensors"
}

# mpirun
block "mpirun" "^mpirun" >command
expect "the page has a command for mpirun" test -s command
if command -v mpirun >"$T/null"; then
    fresh 30
    echo "localhost slots=4" >hosts
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    expect_status "mpirun: the job succeeds" 0 timeout 120 sh command
    expect "mpirun: its bits are those of four ranks" same_bits
else
    skip "mpirun: the job succeeds" "no mpirun"
fi

# torchrun
block "torchrun" "^torchrun" | sed 's/node1:29400/127.0.0.1:29437/' >command
expect "the page has a command for torchrun" test -s command
if command -v torchrun >"$T/null"; then
    fresh 30
    timeout 120 sh command >agent.out 2>&1 &
    agent=$!
    expect_status "torchrun: the job succeeds" 0 timeout 120 sh command
    wait "$agent"
    ok $? "torchrun: the other agent succeeds"
    expect "torchrun: its bits are those of four ranks" same_bits

    # torchrun starts all ranks again when one is lost
    fresh 250
    timeout 120 sh command >agent.out 2>&1 &
    agent=$!
    timeout 120 sh command >agent2.out 2>&1 &
    agent2=$!
    wait_until 60 has_reached shared/gsm8k.yaml 60
    kill -9 "$(pgrep -f -- "trainspool-train -- $T/shared/gsm8k.yaml\$" | head -n 1)"
    wait "$agent" && wait "$agent2"
    ok $? "torchrun: the job survives the loss of a rank"
    expect "torchrun: its bits are the same again" same_bits
    expect "torchrun: it resumed" grep -q 'resume: from ' shared/gsm8k.run/train.log
else
    skip "torchrun: the job succeeds" "no torchrun"
fi
block "torchrun" "^NNODES" >command
fresh 30
sed 's/NODE_RANK=0/NODE_RANK=1/' command >command1
timeout 120 sh command1 >host1.out 2>&1 &
host1=$!
expect_status "variables of LLaMA-Factory: the job succeeds" 0 timeout 120 sh command
wait "$host1"
ok $? "variables of LLaMA-Factory: the other machine succeeds"
expect "variables of LLaMA-Factory: its bits are those of four ranks" same_bits

# SkyPilot
block "SkyPilot" "^name:" >sky.yaml
sed -n 's/^  exec trainspool/exec trainspool/p' sky.yaml >command
expect "the page has a file for SkyPilot" grep -q '^num_nodes: 2$' sky.yaml
fresh 30
SKYPILOT_NODE_IPS="127.0.0.1
127.0.0.1" SKYPILOT_NUM_NODES=2 SKYPILOT_NUM_GPUS_PER_NODE=2
export SKYPILOT_NODE_IPS SKYPILOT_NUM_NODES SKYPILOT_NUM_GPUS_PER_NODE
SKYPILOT_NODE_RANK=1 timeout 120 sh command >host1.out 2>&1 &
host1=$!
expect_status "SkyPilot: the job succeeds" 0 env SKYPILOT_NODE_RANK=0 timeout 120 sh command
wait "$host1"
ok $? "SkyPilot: the other machine succeeds"
expect "SkyPilot: its bits are those of four ranks" same_bits
unset SKYPILOT_NODE_IPS SKYPILOT_NUM_NODES SKYPILOT_NUM_GPUS_PER_NODE
sky=${SKY_PYTHON-python3}
if "$sky" -c 'import sky' 2>"$T/null"; then
    expect_status "SkyPilot accepts the file" 0 env HOME="$T" SKYPILOT_DISABLE_USAGE_COLLECTION=1 "$sky" -c '
import sky, sys
task = sky.Task.from_yaml("sky.yaml")
sys.exit(not (task.num_nodes == 2 and "A100" in str(task.resources) and "trainspool run --resume" in task.run))'
else
    skip "SkyPilot accepts the file" "$sky has no sky (pip install skypilot; SKY_PYTHON names another Python)"
fi

# Kubernetes
block "Kubernetes" "^trainspool submit" | grep '^trainspool' | sed "s|--device A100|--device cpu|; s| -o k8s| -o $T/k8s|" >command
fresh 30
expect_status "Kubernetes: the command of the page writes a manifest" 0 sh command
expect "Kubernetes: it has the options of the page" grep -q "claimName: \"team-data\"" k8s/gsm8k-*.yaml

expect "Kubernetes: the page has the name of the manifest" \
    grep -q "gsm8k-$(printf %s /shared/gsm8k.yaml | sha256sum | cut -c 1-5)\.yaml" "$page"

# Slurm
block "Slurm, with a script of your own" "^#!/bin/sh" >job.sh
expect "the page has a script for Slurm" grep -q '^srun .* trainspool run --resume' job.sh
start_cluster "a script for Slurm"
has_left() { test -z "$(squeue -h -j "$1" -t pending,running,completing -o %T)"; }
fresh 250
number=$(sbatch --parsable job.sh)
wait_until 60 has_reached shared/gsm8k.yaml 60
scancel --batch --signal=TERM "$number" # as before the time limit
wait_until 30 sh -c "squeue -h -j $number -o %T | grep -q PENDING"
ok $? "before the time limit, the job goes back into the queue"
expect "it saved a checkpoint" grep -q 'stopped by SIGTERM at step' shared/gsm8k.run/train.log
wait_until 1 starts_now "$number"
ok $? "it starts again"
wait_until 120 state_is shared/gsm8k.yaml "done"
expect "Slurm: its bits are those of four ranks" same_bits
expect "Slurm: it had two nodes" grep -q 'ranks: 4 on 2 machines, started by srun' shared/gsm8k.run/train.log
wait_until 20 has_left "$number"
ok $? "it leaves the queue"
fresh 250
number=$(sbatch --parsable job.sh)
wait_until 60 has_reached shared/gsm8k.yaml 60
scancel "$number"
wait_until 30 has_left "$number"
ok $? "a job that is canceled does not go back into the queue"
plan
