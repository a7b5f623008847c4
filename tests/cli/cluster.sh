# tests/cli/cluster.sh - functions for tests that need Slurm: a cluster of two nodes on this machine, in $T/c.
# Source it after lib.sh.
cluster() { bash "$source/tests/cli/slurm.sh" "$@"; }
stop_cluster() {
    cluster stop "$T/c" >"$T/null" 2>&1
    finish
}
# NAME [VARIABLE=VALUE]...: start it with these options of slurm.sh.  Where it cannot run, the test ends, and skips NAME.
start_cluster() {
    cluster_name=$1
    shift
    cluster_why="no $model"
    has_model && cluster_why=$(cluster check 2>&1) &&
        cluster_why=$(env "$@" bash "$source/tests/cli/slurm.sh" start "$T/c" 2 2>&1) || {
        skip "$cluster_name" "$cluster_why"
        plan
        exit 0
    }
    trap stop_cluster EXIT
    . "$T/c/env"
}
# NUMBER: start a job that Slurm put back into its queue, without the delay of two minutes.  slurmd refuses a
# start in the second in which it ended the earlier one.
start_now() {
    sleep 1.1
    scontrol update JobId="$1" StartTime=now
}
starts_now() { # NUMBER: do so, and return whether it waits no more: Slurm may set its delay again while it cleans up.
    start_now "$1" 2>"$T/null"
    sleep 0.5
    ! squeue -h -j "$1" -o %T | grep -q PENDING
}
