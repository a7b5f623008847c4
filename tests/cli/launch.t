#!/bin/sh
# Ranks that a launcher started, as torchrun does: they give the bits of a job with as many ranks, and end
# when one of them ends.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    skip "training" "no $model"
    plan
    exit 0
fi
make_data .

. "$source/tests/cli/ranks.sh"

# NAME NAME STEP: both runs saved the same bits, in the same files.
same_bits() {
    for same_bits_file in "$1.run/checkpoint-$3"/*.safetensors; do
        cmp "$same_bits_file" "$2.run/checkpoint-$3/${same_bits_file##*/}" || return 1
    done
    [ "$(cd "$1.run/checkpoint-$3" && ls)" = "$(cd "$2.run/checkpoint-$3" && ls)" ] &&
        [ "$same_bits_file" = "$1.run/checkpoint-$3/trainspool_optimizer-00004-of-00004.safetensors" ]
}
# RANKS BLOCK LINES...: print a job; RANKS 0: as many as are launched.
several() {
    several_ranks=$1 several_block=$2
    shift 2
    job 12 "$@" | grep -v '^logging_steps: 10'
    echo "logging_steps: 1"
    if [ "$several_ranks" -gt 0 ]; then
        echo "trainspool: {device: cpu, ranks: $several_ranks$several_block}"
    else
        echo "trainspool: {device: cpu$several_block}"
    fi
}
# TITLE BLOCK LINES...: the same job with four ranks and with four launched ones.
compare() {
    compare_title=$1 compare_block=$2
    shift 2
    compare_number=$((compare_number + 1))
    several 4 "$compare_block" "$@" >"local$compare_number.yaml"
    several 0 "$compare_block" "$@" >"net$compare_number.yaml"
    expect_status "$compare_title: four ranks of one job succeed" 0 "$trainspool" run -q "local$compare_number.yaml"
    expect_launched "$compare_title: four launched ranks succeed" 4 "net$compare_number.yaml"
    expect "$compare_title: both save the same bits" same_bits "local$compare_number" "net$compare_number" 12
    expect "$compare_title: ranks.json is gone" test ! -e "net$compare_number.run/ranks.json"
}

compare_number=0
compare "whole gradients" ", zero_stage: 1"
expect "the log has the ranks and the machines" \
    grep -q 'ranks: 4 on 2 machines, started by torchrun' net1.run/train.log
expect "rank 0 alone prints the log" test ! -s rank1.out -a ! -s rank2.out -a ! -s rank3.out
expect "the state of the job is done" state_is net1.yaml done
compare "sharded gradients" ", zero_stage: 2"
compare "sharded weights" ", zero_stage: 3"
compare "short windows" "" "gradient_accumulation_steps: 3" "packing: false"
compare "rounded sums" ", reduce_dtype: bf16"
compare "LoRA" "" "lora_rank: 4"

# an interrupted run, resumed
several 0 "" >cut.yaml
long() { sed 's/^max_steps: .*/max_steps: 400/' "$1"; }
long cut.yaml >whole.yaml
expect_launched "an uninterrupted run succeeds" 4 whole.yaml
long cut.yaml >term.yaml
launch 4 term.yaml
wait_until 60 has_reached term.yaml 30
ok $? "a run to stop reaches step 30"
# the launcher signals all
for pid in "$rank_3" "$rank_2" "$rank_1" "$rank_0"; do kill -TERM "$pid"; done
wait_until 15 have_ended 0 1 2 3
ok $? "SIGTERM ends all ranks"
statuses 4
expect "each exits as stopped" test "$statuses" = "143 143 143 143"
expect "rank 0 reports that it was stopped" grep -q 'stopped by SIGTERM' term.run/train.log
expect "it had not finished" test "$(step term.yaml)" -lt 400
expect_launched "the stopped run resumes" 4 --resume term.yaml
expect "the resumed run starts from its checkpoint" grep -q 'resume: from term.run/checkpoint-' term.run/train.log
expect "its bits are those of an uninterrupted run" same_bits whole term 400

# RANK NAME: kill one rank of a run; the others end.
lose() {
    long cut.yaml >"$2.yaml"
    launch 4 "$2.yaml"
    wait_until 60 has_reached "$2.yaml" 30
    ok $? "a run to lose rank $1 of reaches step 30"
    eval "kill -KILL \$rank_$1"
    others=$(echo 0 1 2 3 | sed "s/$1//")
    # shellcheck disable=SC2086
    wait_until 5 have_ended $others
    ok $? "the others end within 5 s of the end of rank $1"
    statuses 4
    echo "# statuses $statuses"
    case " $statuses " in *" 0 "*) false ;; *) true ;; esac
    ok $? "no rank of them succeeds"
}
lose 2 lost
expect "the log has a reason" grep -q ' error job lost: failed at step [0-9]*: rank 2 ended' lost.run/train.log
expect "there is one reason" test "$(grep -c ' error job ' lost.run/train.log)" -eq 1
grep ' error ' lost.run/train.log | sed 's/^/# /'
expect "the job has failed" state_is lost.yaml failed
expect "ranks.json is gone" test ! -e lost.run/ranks.json
expect_launched "the run without a rank resumes" 4 --resume lost.yaml
expect "its bits are those of an uninterrupted run, too" same_bits whole lost 400
lose 0 root
expect_launched "the run without rank 0 resumes" 4 --resume root.yaml
expect "its bits are those of an uninterrupted run as well" same_bits whole root 400

# what rank 0 refuses ends all
# NAME PATTERN: launched ranks of a job all fail soon, with this message of rank 0.
expect_all_refuse() {
    launch 4 "$1.yaml"
    wait_until 15 have_ended 0 1 2 3
    ok $? "$1: all ranks end"
    kill -KILL "$rank_0" "$rank_1" "$rank_2" "$rank_3" 2>"$T/null"
    statuses 4
    echo "# statuses $statuses"
    case " $statuses " in *" 0 "*) false ;; *) true ;; esac
    ok $? "$1: no rank succeeds"
    cp rank0.out "$T/out"
    expect_output "$1: rank 0 has the reason" "$2"
    expect "$1: the others refer to it" test \
        "$(cat rank1.out rank2.out rank3.out | grep -c 'rank 0 ended before the run began')" -eq 3
    expect "$1: ranks.json is gone" test ! -e "$1.run/ranks.json"
}
several 3 "" >three.yaml
expect_all_refuse three 'the job has ranks: 3, but torchrun started 4: start as many, or remove ranks'
several 0 "" | sed 's/^dataset: .*/dataset: missing.txt/' >nodata.yaml
expect_all_refuse nodata 'missing.txt'
invalid_job >invalid.yaml
expect_all_refuse invalid 'learning_rate\|nowhere'
expect_all_refuse absent 'absent.yaml'
several 0 "" >port.yaml
MASTER_PORT=abc
export MASTER_PORT
expect_all_refuse port 'MASTER_PORT=abc in the environment is not a number from 1 to 65535'
unset MASTER_PORT

# what rank 0 does alone
several 0 "" | sed '/^max_steps/d' >evaluate.yaml
printf '%s\n' 'do_train: false' 'do_eval: true' 'val_size: 0.1' >>evaluate.yaml
expect_launched "launched ranks of an evaluation succeed" 4 evaluate.yaml
expect "it is done" state_is evaluate.yaml done

# the folder of an earlier run
expect_launched "a second run of one folder succeeds" 4 net1.yaml

# a script of sbatch
several 0 "" >batch.yaml
expect_status "a job in a script of sbatch succeeds" 0 env SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_NPROCS=8 \
    SLURM_JOB_ID=9 SLURM_LOCALID=0 SLURM_NODEID=0 "SLURM_TASKS_PER_NODE=4(x2)" "$trainspool" run -q batch.yaml
expect "it has one rank" sh -c '! grep -q "ranks: " batch.run/train.log'

# a launcher itself
if command -v mpirun >/dev/null; then
    several 0 ", zero_stage: 1" >mpi.yaml
    expect_status "trainspool run in four ranks of mpirun succeeds" 0 env OMPI_ALLOW_RUN_AS_ROOT=1 \
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 mpirun --oversubscribe -n 4 "$trainspool" run -q mpi.yaml
    expect "the log names mpirun" grep -q 'ranks: 4 on 1 machine, started by mpirun' mpi.run/train.log
    expect "mpirun: both save the same bits" same_bits local1 mpi 12
    several 3 "" >conflict.yaml
    expect_status "mpirun with another number of ranks than the job fails" 2 env OMPI_ALLOW_RUN_AS_ROOT=1 \
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 mpirun --oversubscribe -n 4 "$trainspool" run -q conflict.yaml
    expect_error "the message says what to do" 'the job has ranks: 3, but mpirun started 4: start as many'
else
    skip "trainspool run in ranks of mpirun" "no mpirun"
fi
plan
