#!/bin/sh
# tests/cli/contain.t - a job can use its own model, data and output folders and nothing else, runs without
# the secrets of its caller's environment, and --no-sandbox turns this off.
. "${top_srcdir-.}/tests/cli/lib.sh"

# PROCESS NAME: print the value of a line of /proc/PROCESS/status.
status_of() { sed -n "s/^$2:[[:blank:]]*//p" "/proc/$1/status"; }
# PROCESS NAME VALUE
status_is() { [ "$(status_of "$1" "$2")" = "$3" ]; }
# PROCESS PATTERN: a variable of its environment matches.
has_variable() { tr '\0' '\n' <"/proc/$1/environ" | grep -q "$2"; }
# Start the job in the background, with more options, and wait until it trains.
start() { # JOB OPTION...
    start_job=$1
    shift
    background "$trainspool" run "$start_job" "$@"
    wait_until 30 has_reached "$start_job" 5
    trainer=$(children "$daemon")
}
end() {
    kill -TERM "$daemon"
    wait "$daemon"
}

if ! has_model; then
    skip "contained jobs" "no model in $shared"
    plan
    exit 0
fi
contains=true
grep -q '^Seccomp:' /proc/self/status && [ "$(uname -m)" = x86_64 ] || contains=false
cd "$T" || exit 99
make_data .

# ---- A running job ----
job 100000 "memory_limit: 3GiB" "use_cpu: true" >limited.yaml
job 100000 "trainspool: {env: {OMP_WAIT_POLICY: passive, SOME_TOKEN: abc, EMPTY: ''}}" >long.yaml
export HF_TOKEN=hf_secret AWS_SECRET_ACCESS_KEY=secret LD_BIND_NOT=1 NCCL_DEBUG=WARN
start long.yaml
ok "$([ -n "$trainer" ]; echo $?)" "a contained job trains"
expect "it cannot gain privileges" status_is "$trainer" NoNewPrivs 1
if $contains; then
    expect "system calls are filtered" status_is "$trainer" Seccomp 2
else
    skip "system calls are filtered" "not on this machine"
fi
expect "it dumps no memory" grep -q '^Max core file size  *0 ' "/proc/$trainer/limits"
expect "its environment has PATH" has_variable "$trainer" '^PATH='
expect "its environment has settings of NCCL" has_variable "$trainer" '^NCCL_DEBUG=WARN$'
try "$trainspool" status long.yaml
expect_output "status says what contains a running job" '^long is contained by .*clean environment$'
expect "its environment has the variables of the job" has_variable "$trainer" '^OMP_WAIT_POLICY=passive$'
expect "an empty one, too" has_variable "$trainer" '^EMPTY=$'
expect "its name is that of the program" grep -qx 'trainspool-trai' "/proc/$trainer/comm"
has_variable "$trainer" 'secret\|^LD_BIND_NOT'
ok $((! $?)) "its environment has no secrets and no settings of the loader"
end
grep -q 'containment: ' long.run/train.log && $contains
ok $((! $?)) "the log reports nothing that is missing"

try "$trainspool" status --json long.yaml
expect "status --json says it after the end, too" jq_accepts -e '.contained | test("clean environment")' "$T/out"
try "$trainspool" plan long.yaml
expect_output "plan says what would contain a run" '^  contained   .*clean environment$'
expect_output "plan shows the variables of the job, without secrets" \
    '^  variables   OMP_WAIT_POLICY=passive, SOME_TOKEN=\*\*\*, EMPTY=$'
try "$trainspool" plan --json long.yaml
expect "plan --json shows them, too" jq_accepts -e \
    '.variables == {OMP_WAIT_POLICY: "passive", SOME_TOKEN: "***", EMPTY: ""}' "$T/out"

# ---- Memory ----
try "$trainspool" plan --device cpu limited.yaml
expect_output "plan says that memory_limit does" '^  contained   .*clean environment, memory_limit (3\.0 GiB)$'
start limited.yaml
limit=$(sed -n 's/^Max data size *\([0-9]*\) *\([0-9]*\) .*/\1 \2/p' "/proc/$trainer/limits")
data=$(status_of "$trainer" VmData)
# SOFT HARD KIB: what the process has counts as well, which is much in a build with sanitizers
is_near_3_gib() { [ "$1" = "$2" ] && [ "$1" -ge 3221225472 ] && [ "$1" -le $((9000000000 + $3 * 1024)) ]; }
expect "memory_limit limits a run on the CPU" is_near_3_gib $limit ${data% kB}
end
mkdir limited
for status in 79 77; do
    cp text.txt limited
    job 4 "memory_limit: 3GiB" "use_cpu: true" "trainspool: {heal: false, max_retries: 0}" >limited/a.yaml
    printf '#!/bin/sh\ncase $* in *--frozen*) exit %s ;; esac\nexec %s "$@"\n' $status "$train" >limited/trainspool-train
    cp "$trainspool" limited
    chmod +x limited/trainspool-train
    timeout 60 limited/trainspool watch --once limited >>daemon.log 2>&1
    [ $status = 79 ] && more=': memory_limit allows no more' || more=
    reason limited/a.yaml >reason
    expect "a run that ends with status $status ran out of memory" grep -qx \
        "trainspool-train ran out of memory$more before it began.*" reason
    rm -rf limited/a.*
done

rm -rf long.run
start long.yaml --no-sandbox
expect "--no-sandbox leaves privileges" status_is "$trainer" NoNewPrivs 0
expect "--no-sandbox filters no system call" status_is "$trainer" Seccomp 0
try "$trainspool" status long.yaml
expect_output "status says that nothing contains it" '^long is contained by nothing (--no-sandbox)$'
expect "--no-sandbox keeps the environment" has_variable "$trainer" '^HF_TOKEN='
end

mkdir spool
cp text.txt spool
job 100000 >spool/long.yaml
background "$trainspool" watch spool
wait_until 30 has_reached spool/long.yaml 5
trainer=$(children "$daemon")
expect "a job of a spool is contained" status_is "$trainer" NoNewPrivs 1
has_variable "$trainer" '^HF_TOKEN='
ok $((! $?)) "a job of a spool gets no secrets"
# the processes that examine jobs for the watch
examiners() {
    for examiner in $(grep -lx trainspool-exam /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3); do
        [ "$(status_of "$examiner" PPid)" != "$daemon" ] || echo "$examiner"
    done
}
expect "the process that examined it is contained" status_is "$(examiners)" NoNewPrivs 1
end
rm -rf spool/long.run
background "$trainspool" watch --no-sandbox spool
wait_until 30 has_reached spool/long.yaml 5
trainer=$(children "$daemon")
expect "watch --no-sandbox does not contain jobs" status_is "$trainer" NoNewPrivs 0
expect "nor what examines them" status_is "$(examiners)" NoNewPrivs 0
end

# ---- Generation ----
# The process waits for prompts, contained.
mkfifo prompts
exec 8<>prompts
"$trainspool" generate "$model" --prompts - -o answers.jsonl --max-new-tokens 4 <prompts >>daemon.log 2>&1 8>&- &
daemon=$!
pids="$pids $daemon"
wait_until 30 status_is "$daemon" NoNewPrivs 1
ok $? "generate contains itself before it reads the prompts"
has_variable "$daemon" 'secret'
ok $((! $?)) "it gets no secrets"
echo 'Tom has' >&8
exec 8>&-
wait "$daemon"
expect "and writes its output" test -s answers.jsonl

# ---- Files ----
echo '{"a": 1}' >private.txt
mkdir linked
for name in "$model"/*; do ln -s "$name" linked/; done
job 4 | sed "s,^model_name.*,model_name_or_path: linked," >linked.yaml
expect_status "a model of links to a model trains" 0 "$trainspool" run linked.yaml
rm -rf linked.run
job 4 "export_dir: exported" "output_dir: result/deep" "tokenized_path: tokens" "val_size: 0.1" \
    "eval_strategy: steps" "eval_steps: 2" "report_to: tensorboard" \
    "trainspool: {save_torch_state: true}" >all.yaml
expect_status "a job with all kinds of output trains" 0 "$trainspool" run all.yaml
expect "it writes where it should" test -s result/deep/model.safetensors -a -s exported/model.safetensors
cp -R all.run/metrics.jsonl contained.jsonl
rm -rf all.run result exported tokens
expect_status "the same job trains without the sandbox" 0 "$trainspool" run --no-sandbox all.yaml
for file in contained.jsonl all.run/metrics.jsonl; do
    jq -c '{step, loss, grad_norm, eval_loss}' "$file" >"$file.values"
done
expect "containment does not change the results" cmp contained.jsonl.values all.run/metrics.jsonl.values

if dmesg 2>/dev/null | grep -q landlock || [ -e /sys/kernel/security/landlock ] || $contains; then
    mkdir sly
    cp "$model"/* sly/
    cp sly/tokenizer.json "$T/somewhere else"
    chmod -R u+w sly
    ln -sf "$T/somewhere else" sly/tokenizer.json
    job 4 | sed "s,^model_name.*,model_name_or_path: sly," >sly.yaml
    expect_status "a link of a model to any other file is not followed" 3 "$trainspool" run sly.yaml
    expect_error "the error names the file" 'sly/tokenizer.json: Permission denied'
    expect_status "it is followed without the sandbox" 0 "$trainspool" run --no-sandbox sly.yaml
    expect_status "nor does generate follow it" 3 "$trainspool" generate sly -p Tom --max-new-tokens 4
    expect_error "the error names the file, too" 'sly/tokenizer.json: Permission denied'
    expect_status "but without the sandbox" 0 "$trainspool" generate --no-sandbox sly -p Tom --max-new-tokens 4
    expect_status "nor does the process that counts the data" 3 "$train" --steps sly.yaml
    expect_error "whose error names the file, too" 'sly/tokenizer.json: Permission denied'
    expect_status "TRAINSPOOL_SANDBOX=0 lets it" 0 env TRAINSPOOL_SANDBOX=0 "$train" --steps sly.yaml
fi
plan
