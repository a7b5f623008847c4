#!/bin/sh
# Checkpoints that several ranks write together: any number of ranks reads them, and no failure of a rank
# publishes one that is not whole.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
. "$source/tests/cli/ranks.sh"
make_data .
# LeakSanitizer cannot work in a traced process
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS

tensors() { python3 "$source/tests/cli/tensors.py" "$@"; } # FOLDER: print a line for each
# RANKS STEPS BLOCK LINES...: print a job that saves at each third step, with several files of weights.
saving() {
    saving_ranks=$1 saving_steps=$2 saving_block=$3
    shift 3
    job "$saving_steps" "$@" | sed 's/^save_steps.*/save_steps: 3/; s/^logging_steps.*/logging_steps: 1/' |
        case "$*" in *lora_rank*) sed 's/^finetuning_type.*/finetuning_type: lora/' ;; *) cat ;; esac
    echo "trainspool: {device: cpu, max_shard_mb: 1, ranks: $saving_ranks$saving_block}"
}
# NAME RANKS FROM BLOCK LINES...: load a checkpoint with so many ranks, make no step, and save it again.
save_again() {
    again_name=$1 again_ranks=$2 again_from=$3 again_block=$4
    shift 4
    saving "$again_ranks" 3 "$again_block" "resume_from_checkpoint: $again_from.run/checkpoint-3" "$@" \
        >"$again_name.yaml"
    expect_status "$again_from is read by $again_ranks ranks" 0 "$trainspool" run -q "$again_name.yaml"
    tensors "$again_name.run/checkpoint-3" >again.tensors
    expect "nothing in it has changed" cmp again.tensors "$again_from.tensors"
}
# NAME BLOCK LINES...: what four ranks save, others read, and what one saves, three read.
kind() {
    kind_name=$1 kind_block=$2
    shift 2
    saving 4 3 "$kind_block" "$@" >"$kind_name.yaml"
    expect_status "$kind_name: four ranks save" 0 "$trainspool" run -q "$kind_name.yaml"
    tensors "$kind_name.run/checkpoint-3" >"$kind_name.tensors"
    expect "it has tensors" test -s "$kind_name.tensors"
    expect "each rank wrote its part" test -f \
        "$kind_name.run/checkpoint-3/trainspool_optimizer-00004-of-00004.safetensors"
    save_again "$kind_name-1" 1 "$kind_name" "" "$@"
    mv again.tensors "$kind_name-1.tensors"
    expect "one process has one file" test -f "$kind_name-1.run/checkpoint-3/trainspool_optimizer.safetensors"
    save_again "$kind_name-3" 3 "$kind_name-1" "$kind_block" "$@"
    save_again "$kind_name-2" 2 "$kind_name" "$kind_block" "$@"
}
kind weights ", zero_stage: 3" "bf16: true"
expect "the weights are in two files" test -f weights.run/checkpoint-3/model-00002-of-00002.safetensors
expect "so is the result" test -f weights.run/model.safetensors.index.json -a ! -f weights.run/model.safetensors
tensors weights.run model >result.tensors
grep '^model ' weights.tensors >saved.tensors
expect "the result has the weights of the last checkpoint" cmp result.tensors saved.tensors
kind codes ", zero_stage: 2" "optim: adamw_8bit"
kind adapter ", zero_stage: 1" "lora_rank: 4" "additional_target: lm_head" "bf16: true"
# the first form of a result does not stay next to the second
saving 4 4 ", zero_stage: 3" "bf16: true" | sed 's/max_shard_mb: 1,//' >weights.yaml
expect_status "the job runs again with one file of weights" 0 "$trainspool" run -q weights.yaml
expect "an index of the earlier result does not stay" test ! -e weights.run/model.safetensors.index.json

# a damaged checkpoint, which one of the ranks finds
saving 3 6 "" >damage.yaml
expect_status "a run to damage succeeds" 0 "$trainspool" run -q damage.yaml
tensors damage.run/checkpoint-6 >damage.tensors
for file in trainspool_optimizer-00001-of-00003 trainspool_optimizer-00003-of-00003 model-00001-of-00002; do
    printf damage | dd of="damage.run/checkpoint-6/$file.safetensors" bs=1 seek=100000 conv=notrunc status=none
    expect_status "a run resumes although $file is damaged" 0 "$trainspool" run -q --resume damage.yaml
    expect "the log says so" grep -q "resume: .*damage.run/checkpoint-6/$file.safetensors is damaged" damage.run/train.log
    expect "it resumes from the checkpoint before" grep -q 'resume: from damage.run/checkpoint-3, step 3' damage.run/train.log
    tensors damage.run/checkpoint-6 >again.tensors
    expect "its bits are those before the damage" cmp damage.tensors again.tensors
    sed -i '/resume:/d' damage.run/train.log
done
printf damage | dd of="damage.run/checkpoint-3/trainspool_optimizer-00003-of-00003.safetensors" bs=1 seek=100000 \
    conv=notrunc status=none
saving 3 6 "" "resume_from_checkpoint: damage.run/checkpoint-3" >named.yaml
expect_status "a run from a damaged checkpoint that the job names fails" 1 "$trainspool" run -q named.yaml
expect_error "the message names the file" 'trainspool_optimizer-00003-of-00003.safetensors is damaged'

if ! strace -f -qq -o /dev/null true 2>/dev/null; then
    skip "failures of a rank" "no strace"
    plan
    exit
fi
saving 4 9 "" "bf16: true" >whole.yaml
expect_launched "an uninterrupted run succeeds" 4 whole.yaml
tensors whole.run/checkpoint-9 >whole.tensors

# a rank whose file system fails once
before_2="strace -f -qq -o /dev/null -e inject=fsync:error=EIO:when=1"
saving 4 9 "" "bf16: true" >broken.yaml
expect_launched "a run with a rank that cannot write a file succeeds" 4 broken.yaml
expect "the log names the rank and the file" grep -q \
    'cannot save step 3: rank 2: broken.run/.checkpoint-3.tmp/.*safetensors.*Input/output error; keeping' \
    broken.run/train.log
expect "there is no such checkpoint" test ! -e broken.run/checkpoint-3 -a ! -e broken.run/.checkpoint-3.tmp
tensors broken.run/checkpoint-9 >broken.tensors
expect "the last one is whole" cmp whole.tensors broken.tensors
unset before_2

# a rank that is killed while it saves, and rank 0
saving 4 90 "" "bf16: true" | sed 's/logging_steps: 1/logging_steps: 30/' >long.yaml
cp long.yaml killed.yaml
expect_launched "an uninterrupted long run succeeds" 4 long.yaml
tensors long.run/checkpoint-90 >long.tensors
# RANK CALL WHEN: kill a rank at a call while it saves, and resume.
kill_at() {
    rm -rf killed.run
    launch 4 killed.yaml
    wait_until 60 has_reached killed.yaml 4
    eval "kill_at_pid=\$rank_$1"
    strace -f -qq -o /dev/null -e "inject=$2:signal=KILL:when=$3" -p "$kill_at_pid" 2>"$T/err" &
    pids="$pids $!"
    wait_until 60 have_ended 0 1 2 3
    ok $? "all ranks end when rank $1 is killed at call $3 of $2"
    statuses 4
    expect "the run had not ended" test "$(step killed.yaml)" -lt 90
    for folder in killed.run/checkpoint-*; do
        tensors "$folder" || echo "$folder is not whole"
    done 2>&1 >"$T/null" | cat >bad.txt
    expect "no checkpoint is not whole" test ! -s bad.txt
    expect_launched "the run resumes" 4 --resume killed.yaml
    expect "it resumes from a checkpoint" grep -q 'resume: from killed.run/checkpoint-' killed.run/train.log
    tensors killed.run/checkpoint-90 >again.tensors
    expect "its bits are those of an uninterrupted run" cmp long.tensors again.tensors
}
kill_at 2 fsync 1
kill_at 2 renameat 1
kill_at 0 fsync 3
kill_at 0 renameat 2

# rank 0 cannot make the file that the others look for
cp long.yaml unmarked.yaml
launch 4 unmarked.yaml
wait_until 60 has_reached unmarked.yaml 1
# shellcheck disable=SC2154
strace -f -qq -o /dev/null -e inject=getrandom:error=EIO -p "$rank_0" 2>"$T/err" &
tracer=$!
pids="$pids $tracer"
wait_until 60 grep -qs 'cannot save step' unmarked.run/train.log
kill "$tracer"
statuses 4
expect "a run whose rank 0 cannot begin to save succeeds" test "$statuses" = "0 0 0 0"
expect "the log says why" grep -q 'cannot save step.*cannot make a random name' unmarked.run/train.log
expect "it does not say that ranks do not see the folder" test -z "$(grep 'do not see' unmarked.run/train.log)"

# machines that share no file system
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
    mkdir results
    printf '%s\n' 'mount -t tmpfs none results && exec "$@"' >apart.sh
    before_1="unshare -m sh apart.sh"
    saving 4 9 "" "bf16: true" "output_dir: results" >apart.yaml
    expect_launched "a run with a rank that sees another folder succeeds" 4 apart.yaml
    expect "the log says so" grep -q 'warn checkpoint: 1 of 4 ranks do not see results, and the others' apart.run/train.log
    tensors results/checkpoint-9 >again.tensors
    expect "its checkpoint is whole" cmp whole.tensors again.tensors
    unset before_1
else
    skip "ranks that see another folder" "not permitted"
fi
plan
