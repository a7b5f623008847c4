# tests/cli/ranks.sh - functions for tests that start ranks as torchrun does, of machines with two ranks each.

# The programs must see only the variables of this test.
for name in $(env | sed -n 's/^\(SLURM_[A-Z_0-9]*\|PMIX*_[A-Z_0-9]*\|OMPI_[A-Z_0-9]*\|MPI_[A-Z]*\)=.*/\1/p'); do
    unset "$name"
done
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_WORLD_SIZE MASTER_PORT TORCHELASTIC_RUN_ID
MASTER_ADDR=127.0.0.1
export MASTER_ADDR

# RANK COUNT COMMAND...: be this rank, of machines with two ranks each.
as_rank() {
    as_rank_number=$1 as_rank_count=$2
    shift 2
    RANK=$as_rank_number WORLD_SIZE=$as_rank_count LOCAL_RANK=$((as_rank_number % 2)) LOCAL_WORLD_SIZE=2 \
        GROUP_WORLD_SIZE=$(((as_rank_count + 1) / 2)) exec "$@"
}
# COUNT ARGUMENTS...: start ranks of trainspool-train, the last one first; $rank_N is the process of each, and
# $before_N are words that precede its program.
launch() {
    launch_count=$1 launch_rank=$1
    shift
    while [ "$launch_rank" -gt 0 ]; do
        launch_rank=$((launch_rank - 1))
        eval "launch_before=\${before_$launch_rank-}"
        # shellcheck disable=SC2086
        (as_rank "$launch_rank" "$launch_count" $launch_before "$train" "$@") >"rank$launch_rank.out" 2>&1 &
        eval "rank_$launch_rank=$!"
        pids="$pids $!"
    done
}
# COUNT: wait for the ranks of `launch`; print their exit statuses.
statuses() {
    statuses_all= statuses_rank=0
    while [ "$statuses_rank" -lt "$1" ]; do
        eval "wait \$rank_$statuses_rank"
        statuses_all="$statuses_all $?"
        statuses_rank=$((statuses_rank + 1))
    done
    statuses=${statuses_all# }
}
# NAME COUNT ARGUMENTS...: check that launched ranks all succeed.
expect_launched() {
    expect_launched_name=$1 expect_launched_count=$2
    shift 2
    launch "$expect_launched_count" "$@"
    statuses "$expect_launched_count"
    cat rank?.out >"$T/out"
    : >"$T/err"
    case " $statuses" in *" "[1-9]*) echo "# statuses $statuses" && false ;; *) true ;; esac
    ok $? "$expect_launched_name"
}
# SECONDS RANKS...: these ranks of `launch` end within this time. Ended children of this shell are zombies,
# which signals still reach.
have_ended() {
    for have_ended_rank in "$@"; do
        eval "have_ended_pid=\$rank_$have_ended_rank"
        if read -r have_ended_stat <"/proc/$have_ended_pid/stat"; then
            case $have_ended_stat in *") Z "*) ;; *) return 1 ;; esac
        fi 2>/dev/null
    done
}
