#!/bin/sh
# A job that runs out of memory or diverges is patched and resumed, once, wherever this is interrupted.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
make_data .

# trainspool-train, whose attempts at a job end as the lines of the file `faults` say, until there are none:
# memory: before it begins; limit: the same, within memory_limit; memory-N: once checkpoint-N exists; stop: with the watch
mkdir bin
ln "$trainspool" bin/trainspool 2>/dev/null || cp "$trainspool" bin
cat >bin/trainspool-train <<END
#!/bin/sh
case \$* in
*--frozen*)
    how=\$(sed -n 1p "$T/faults")
    sed -i 1d "$T/faults"
    case \$how in
    memory) exit 77 ;;
    limit) exit 79 ;;
    stop) kill -KILL \$PPID ;;
    memory-*)
        for last; do :; done
        "$train" "\$@" &
        until [ -d "\${last%.yaml}.run/checkpoint-\${how#memory-}" ]; do sleep 0.02; done
        kill -KILL \$!
        wait
        exit 77
        ;;
    esac
    ;;
esac
exec "$train" "\$@"
END
chmod +x bin/trainspool-train
: >faults
# FIELD JOB: print a field of its state.
field() { jq -r ".$1" "${2%.yaml}.run/state.json"; }
# DIR [ARGUMENTS...]: watch until no job is left.
watch() {
    watch_dir=$1
    shift
    timeout 120 bin/trainspool watch --once "$@" "$watch_dir"
}
# STEPS [LINES...]: print a job with a batch of 4, which ends in a mark so that it is complete at once.
job4() { { job "$@"; echo ...; } | sed 's/^per_device_train_batch_size: 2/per_device_train_batch_size: 4/; s/^save_steps: 20/save_steps: 4/
    s/^logging_steps: 10/logging_steps: 1/; s/^save_total_limit.*/dataloader_num_workers: 0/'; }
# JOB: it is the original with half of the batch.
is_halved() { grep -qx 'per_device_train_batch_size: 2' "$1" && grep -qx 'gradient_accumulation_steps: 2' "$1"; }
# FILE FILE: the steps, tokens and, but for rounding, the losses of two runs are the same.
same_curve() {
    jq -s '[.[] | select(.loss) | [.step, .tokens]]' "$1" >curve.1
    jq -s '[.[] | select(.loss) | [.step, .tokens]]' "$2" >curve.2
    cmp curve.1 curve.2 && jq -n -e --slurpfile a "$1" --slurpfile b "$2" \
        '[$a, $b | map(select(.loss) | .loss)] | transpose | all((.[0] - .[1] | fabs) < 1e-4 * .[0])' >null
}

# Memory runs out after a checkpoint
mkdir s whole
cp text.txt s
cp text.txt whole
job4 12 >whole/a.yaml
bin/trainspool run -q whole/a.yaml >out 2>err
cp whole/a.yaml s/a.yaml
echo memory-4 >faults
expect_status "a job that runs out of memory is healed" 0 watch s --metrics s.prom
expect "it is done" state_is s/a.yaml done
expect "the micro batch is half, and the accumulation twice" is_halved s/a.yaml
expect "the run resumed from its checkpoint" grep -q 'resume: from .*checkpoint-[48], step [48]' s/a.run/train.log
expect "each step took the same samples, with the same loss" same_curve whole/a.run/metrics.jsonl s/a.run/metrics.jsonl
expect "the frozen text is the patched one" cmp -s s/a.yaml s/a.run/job.yaml
expect "it was healed once" test "$(field heals s/a.yaml)" -eq 1
expect "the watch reported it" grep -q 'job a: to be healed: trainspool-train ran out of memory' out
try "$trainspool" status s
expect_output "status shows it" 'a  *done .*healed 1 time$'
"$trainspool" status --json s >out
expect "as JSON, too" jq_accepts -e '.heals == 1' out
expect "the metrics count it" grep -qx 'trainspool_job_heals_total 1' s.prom
try "$trainspool" review s/a.yaml
expect_output "review shows the rule and the reason" 'TS315.*the last attempt ran out of memory: trainspool-train ran out of memory (estimated'
expect "the report shows it" grep -q TS315 s/a.run/report.html
expect_status "undo restores the job" 0 "$trainspool" undo s/a.yaml
expect "the text is the original" cmp -s s/a.yaml whole/a.yaml
rm -rf s/a.*

# The limits of healing
job4 2 >s/a.yaml
printf '%s\n' memory limit >faults
try watch s
expect "it is healed twice if necessary" grep -qx 'gradient_accumulation_steps: 4' s/a.yaml
expect_output "memory_limit is a reason" 'job a: to be healed: trainspool-train ran out of memory: memory_limit allows no more'
expect "both are counted" test "$(field heals s/a.yaml)" -eq 2
expect "a crash is not" test "$(field crashes s/a.yaml)" -eq 0
rm -rf s/a.*
job4 2 'trainspool: {max_heals: 1, max_retries: 0}' >s/a.yaml
printf '%s\n' memory memory >faults
expect_status "max_heals limits it" 1 watch s
expect "the next problem fails the job" state_is s/a.yaml failed
expect "it was healed once" test "$(field heals s/a.yaml)" -eq 1
rm -rf s/a.*
job4 2 'trainspool: {heal: false, max_retries: 0}' >s/a.yaml
cp s/a.yaml job.yaml
echo memory >faults
expect_status "heal: false turns it off" 1 watch s
expect "the job has failed" state_is s/a.yaml failed
expect "its file is unchanged" cmp -s s/a.yaml job.yaml
rm -rf s/a.*
job4 2 'trainspool: {keep: [per_device_train_batch_size]}' >s/a.yaml
cp s/a.yaml job.yaml
echo memory >faults
expect_status "a job whose keys are kept is not healed" 1 watch s
expect "the job has failed with the reason" sh -c 'grep -q "\"state\":\"failed\".*ran out of memory; not healed: no rule" s/a.run/state.json'
expect "its file is unchanged" cmp -s s/a.yaml job.yaml
expect "nothing was backed up" test ! -e s/a.run/backups
rm -rf s/a.*
job4 2 >s/a.yaml
chmod 444 s/a.yaml
echo memory >faults
expect_status "nor is one whose file cannot be replaced" 1 watch s
expect "the reason says so" grep -q 'not healed: the file was not changed: it is read-only' s/a.run/state.json
rm -rf s/a.*

# In the foreground
job4 2 >a.yaml
cp a.yaml job.yaml
echo memory >faults
expect_status "run does not heal unless asked" 1 bin/trainspool run a.yaml
expect "the file is unchanged" cmp -s a.yaml job.yaml
rm -rf a.run
job4 2 'trainspool: {heal: true}' >a.yaml
echo memory >faults
expect_status "run heals with heal: true" 0 bin/trainspool run a.yaml
expect_output "it shows the patch" 'TS315'
expect "the job is done" state_is a.yaml done
expect "and is patched" is_halved a.yaml
rm -rf a.run
job4 2 'trainspool: {heal: true}' >a.yaml
cp a.yaml job.yaml
echo memory >faults
expect_status "run with settings does not heal" 1 bin/trainspool run --set max_steps=1 a.yaml
expect "the file is unchanged" cmp -s a.yaml job.yaml
: >faults

# A rising learning rate takes activations out of the range of fp16, and not of bf16, after some saves
mkdir nan
cp text.txt nan
{ job4 180 'fp16: true  # trainspool: ignore[TS114]' 'lr_scheduler_type: constant_with_warmup' \
    'warmup_steps: 100' 'max_grad_norm: 0'; } | sed 's/^learning_rate.*/learning_rate: 1.0/; s/^cutoff_len.*/cutoff_len: 32/' \
    >nan/a.yaml
expect_status "a job that diverges in fp16 is healed" 0 watch nan
expect "it computes in bf16 now" grep -qx 'bf16: true' nan/a.yaml
expect "and not in fp16" grep -q '^fp16: false' nan/a.yaml
bad=$(sed -n 's/.*warn step \([0-9]*\): skipped.*loss scale 1$/\1/p' nan/a.run/train.log | head -1)
from=$(sed -n 's/.*resume: from .*, step \([0-9]*\)$/\1/p' nan/a.run/train.log)
expect "it resumed before the first bad step" test "${from:-999}" -lt "$bad"
expect "later checkpoints are out of the way" test -d "nan/a.run/checkpoint-$((bad / 4 * 4 + 8)).old-1"
expect "every step is logged once" sh -c \
    'jq -s -e "[.[] | select(.loss) | .step] == [range(1; 181)]" nan/a.run/metrics.jsonl >null'
expect "no loss is NaN after that" jq_accepts -s -e --argjson from "$from" \
    '[.[] | select(.loss and .step > $from) | .loss] | length > 80 and all(type == "number")' nan/a.run/metrics.jsonl
try "$trainspool" review nan/a.yaml
expect_output "review shows the rule and the reason" 'TS132.*the last attempt diverged: 50 steps in a row'

# Weights that overflow in each format: what is left to change is changed, one after the other
cp -rL "$model" broken
chmod -R u+w broken
len=$(od -An -t u8 -N8 broken/model.safetensors | tr -d ' ')
at=$(tail -c +9 broken/model.safetensors | head -c "$len" | jq '.["model.norm.weight"].data_offsets[0]')
printf '\346\261\141\177' | dd of=broken/model.safetensors bs=1 seek=$((8 + len + at)) conv=notrunc 2>null # 3e38
broken_job() { # [LINES...]
    job4 60 "$@" | sed "s|^model_name_or_path.*|model_name_or_path: $T/broken|; s/^learning_rate.*/learning_rate: 2.0e-3/" \
        >nan/b.yaml
}
broken_job 'pure_bf16: true'
expect_status "a job that diverges in every format fails" 1 watch nan
expect "it was healed twice" test "$(field heals nan/b.yaml)" -eq 2
expect "its weights are no longer in bf16" grep -qx 'pure_bf16: false' nan/b.yaml
expect "it computed in float32 last" grep -qx 'bf16: false' nan/b.yaml
expect "its learning rate is untouched" grep -qx 'learning_rate: 2.0e-3' nan/b.yaml
expect "the reason says that no remedy is left" grep -q 'gradients that are inf or NaN.*not healed: no rule' nan/b.run/state.json
rm -rf nan/b.*
broken_job 'bf16: true' 'trainspool: {heal: bold, max_heals: 2}'
expect_status "one with heal: bold fails, too" 1 watch nan
expect "but after a lower learning rate" grep -qx 'learning_rate: 0.0002' nan/b.yaml
expect "and max_heals attempts" test "$(field heals nan/b.yaml)" -eq 2

# Interrupted anywhere: a job that waits to be healed, from the files of one that was
job4 2 >s/a.yaml
cp s/a.yaml job.yaml
echo memory >faults
try watch s
cp s/a.yaml healed.yaml
was=$(sha256sum <job.yaml | cut -d' ' -f1)
to_be_healed() {
    rm -rf w
    mkdir -p w/a.run
    cp text.txt w
    cp job.yaml w/a.yaml
    cp job.yaml w/a.run
    jq -c '.state = "new" | .ailment = "memory" | .reason = "no memory" | .heals = 1 | .digest = $was |
        .frozen = $was | .origin = $was | .step = 0 | .attempt = 1 | .resume = true | .source = null' \
        --arg was "$was" s/a.run/state.json >w/a.run/state.json
}
# The job is done and healed once, by a whole patch with a whole backup.
is_healed() {
    state_is w/a.yaml done && cmp w/a.yaml healed.yaml && cmp w/a.run/job.yaml healed.yaml &&
        [ "$(field heals w/a.yaml)" -eq 1 ] && [ "$(field ailment w/a.yaml)" = null ] &&
        cmp w/a.run/backups/*.yaml job.yaml
}
to_be_healed
try watch w
expect "a job that waits to be healed is healed by the next watch" is_healed
if strace -f -qq -o /dev/null true 2>/dev/null; then
    bad=0 killed=0
    for call in renameat fsync; do
        for i in 1 2 3 4 5 6; do
            to_be_healed
            echo stop >faults
            strace -f -qq -o /dev/null -e "inject=$call:signal=KILL:when=$i" bin/trainspool watch --once w >w.log 2>&1 &
            tracer=$!
            # a killed examiner is replaced, and killed again: end the watch
            until has_exited $tracer || grep -q 'trying again' w.log; do sleep 0.02; done
            for pid in $(children $tracer); do kill -KILL "$pid" 2>null; done
            wait $tracer 2>null
            [ -s faults ] && killed=$((killed + 1))
            : >faults
            try watch w
            is_healed >>log 2>&1 && continue
            bad=$((bad + 1))
            echo "# killed at $call $i:"
            sed 's/^/# /' w/a.run/state.json
        done
    done
    expect "a kill at a call of the patch leads to the healed job" test $bad -eq 0
    expect "$killed of these came before the trainer began" test $killed -ge 4
else
    skip "a kill at a call of the patch leads to the healed job" "no strace"
fi
# The patch is made, but neither frozen nor recorded.
to_be_healed
mkdir w/a.run/backups
cp job.yaml w/a.run/backups/20261127T000000.000000Z.$(echo "$was" | cut -c1-8).yaml
cp healed.yaml w/a.yaml
jq -c --arg is "$(sha256sum <healed.yaml | cut -d' ' -f1)" '.healed = $is' w/a.run/state.json >new
mv new w/a.run/state.json
try watch w
expect "a patch that was made is not made again" is_healed
to_be_healed
job4 3 >w/a.yaml
cp w/a.yaml changed.yaml
try watch w
expect "a job that someone changed meanwhile is another job" cmp -s w/a.yaml changed.yaml
expect "which is done" state_is w/a.yaml done
expect "and was never healed" test "$(field heals w/a.yaml)" -eq 0
plan
