#!/bin/sh
# backend: slurm: the device that a job is checked for, what plan shows, and how a watch takes it.  sinfo is a
# script here.
. "${top_srcdir-.}/tests/cli/lib.sh"

cd "$T" || exit 99
cp -r "$source/tests/patch/model-fp32" model
printf '{"text": "one"}\n' >data.jsonl
mkdir bin none
ln -s "$(command -v sleep)" "$(command -v cat)" none
cat >bin/sinfo <<'END'
#!/bin/sh
echo "$@" >>"$SINFO_LOG"
. "$SINFO_HOW"
END
cat >bin/sbatch <<'END'
#!/bin/sh
echo 'sbatch: fatal: Could not establish a configuration source' >&2
exit 1
END
chmod +x bin/sinfo bin/sbatch
SINFO_LOG=$T/sinfo.log SINFO_HOW=$T/how
PATH=$T/bin:$PATH
export SINFO_LOG SINFO_HOW PATH
unset TRAINSPOOL_DEVICE SLURM_CONF

slurm_job() { # LINES...: of the block
    printf 'model_name_or_path: model\nstage: pt\ndataset: data.jsonl\nbf16: true\ntrainspool:\n  backend: slurm\n'
    [ $# -eq 0 ] || printf '  %s\n' "$@"
}
nodes() { # GRES|FEATURES...: what sinfo prints
    : >"$SINFO_LOG"
    printf 'cat <<END\n' >"$SINFO_HOW"
    printf '%s\n' "$@" END >>"$SINFO_HOW"
}
device_is() { # MODEL NAMED-BY LINES...: check the device of a job with these lines
    device_model=$1 device_by=$2
    shift 2
    slurm_job "$@" >j.yaml
    try "$trainspool" plan j.yaml
    expect "$device_model by $device_by" grep -qF "checked for $device_model ($device_by)" "$T/out"
}
unknown() { # NAME PATTERN LINES...: the device is not known
    unknown_name=$1 unknown_why=$2
    shift 2
    slurm_job "$@" >j.yaml
    expect_status "$unknown_name is an error" 1 "$trainspool" check j.yaml
    expect_output "the finding gives the reason" "TS211.*$unknown_why"
    expect_output "the finding gives the remedy" 'set check_device: A100'
}

# without sinfo
nodes 'gpu:h200:8|none'
device_is 'A100 40GB' 'gres: gpu:a100:4, the smallest A100' 'gres: gpu:a100:4' 'ranks: 4'
device_is 'A100 80GB' 'gres: gpu:nvidia_a100_80gb_pcie:1' 'gres: gpu:nvidia_a100_80gb_pcie:1'
device_is 'T4' 'gres: gpu:T4,shard:2' 'gres: gpu:T4,shard:2'
device_is 'V100 16GB' 'gres: gpu:a100:1,gpu:v100:1, the smallest V100' 'gres: gpu:a100:1,gpu:v100:1'
expect_output "of several models the weakest counts" TS209
device_is 'L4' 'trainspool.check_device' 'gres: gpu:a100:4' 'check_device: L4'
device_is 'cpu' 'no GPU in gres'
device_is 'cpu' 'device: cpu' 'gres: gpu:2' 'device: cpu'
device_is 'cpu' 'no GPU in gres' 'gres: shard:2' 'device: auto'
expect "none of them asks sinfo" test ! -s "$SINFO_LOG"
slurm_job 'gres: gpu:a100:4' >j.yaml
try "$trainspool" plan --device V100 j.yaml
expect_output "--device takes precedence" 'checked for V100 16GB (--device)'
try env TRAINSPOOL_DEVICE=T4 "$trainspool" plan j.yaml
expect_output "so does TRAINSPOOL_DEVICE" 'checked for T4 (TRAINSPOOL_DEVICE)'
slurm_job 'gres: gpu:t4:1' >j.yaml
try "$trainspool" check -v j.yaml
expect_output "findings say where the device comes from" 'because: T4, compute capability 7.5, named by gres: gpu:t4:1'
cp j.yaml edited.yaml
try "$trainspool" patch edited.yaml
expect "patch replaces bf16 for a T4" grep -qx 'fp16: true' edited.yaml
unknown "device: cuda without a GPU in gres" 'gres has no GPU' 'device: cuda'

# with sinfo
device_is 'H200' 'sinfo of partition gpu' 'gres: gpu:2' 'partition: gpu'
expect "sinfo is asked about the partition" grep -qx -- '-h -o %G|%f -p gpu' "$SINFO_LOG"
device_is 'H200' 'sinfo' 'gres: gpu:2'
expect "or about all" grep -qx -- '-h -o %G|%f' "$SINFO_LOG"
nodes 'gpu:a100:4(S:0-1),shard:8|cpu,big' 'gpu:v100:2(S:0)|nvlink,old' '(null)|cpu'
device_is 'V100 16GB' 'sinfo, the smallest V100' 'gres: gpu:2'
device_is 'A100 40GB' 'sinfo, the smallest A100' 'gres: gpu:2' 'constraint: big'
device_is 'V100 16GB' 'sinfo, the smallest V100' 'gres: gpu:2' 'constraint: "nvlink&old|none"'
nodes 'gpu:4|ib,a100_80gb' 'gpu:2|GPU_SKU:H100_SXM5'
device_is 'A100 80GB' 'sinfo' 'gres: gpu:2'
nodes 'gpu:2|cpu,GPU_SKU=H100_SXM5'
device_is 'H100 80GB' 'sinfo of partition p, the smallest H100' 'gres: gpu:2' 'check_device: auto' 'partition: p'
nodes 'gpu:big:4|a100' 'gpu:small:4|t4'
device_is 'A100 40GB' 'sinfo, the smallest A100' 'gres: gpu:big:2'
unknown "a constraint that no node has" 'sinfo shows no node with gpu:2 and constraint none' 'gres: gpu:2' 'constraint: none'
unknown "a type that no node has" 'sinfo shows no node with gpu:fake:1' 'gres: gpu:fake:1'
nodes 'gpu:a100:4|x' 'gpu:a100_1g.5gb:7|mig'
unknown "a node with parts of GPUs" 'names no known model for nodes with gpu:a100_1g.5gb:7' 'gres: gpu:1'
nodes 'gpu:a100:4|x' 'gpu:2|cpu,m2'
unknown "a node whose features name no GPU" 'names no known model for nodes with gpu:2' 'gres: gpu:1'
echo 'echo "sinfo: error: no controller" >&2; exit 1' >"$SINFO_HOW"
unknown "a failure of sinfo" 'gpu:1 names no model, and sinfo failed with status 1: sinfo: error: no controller' 'gres: gpu:1'
echo 'exec sleep 60' >"$SINFO_HOW"
slurm_job 'gres: gpu:1' >j.yaml
expect_status "sinfo that hangs is an error within seconds" 1 timeout 20 "$trainspool" check j.yaml
expect_output "the finding says so" 'TS211.*sinfo did not answer within 5 s'
try env PATH="$T/none" "$trainspool" check j.yaml
expect_output "so does one about a missing sinfo" 'TS211.*sinfo'

# options, ranks and nodes
slurm_job 'gres: gpu:a100:4' 'nodes: 2' 'ranks: 8' 'partition: gpu' 'account: lab' 'time: 12:00:00' 'mem: 64G' 'cpus_per_task: 8' >j.yaml
try "$trainspool" plan j.yaml
expect_output "plan shows what is asked of Slurm" \
    'slurm       2 nodes with 4 tasks each of 8 CPUs, partition gpu, account lab, gres gpu:a100:4, time 12:00:00 (12 h), mem 64G'
try "$trainspool" plan --json j.yaml
if command -v jq >/dev/null; then
    expect "plan --json has an object" jq -e '(.slurm | del(.script)) == {nodes: 2, tasks_per_node: 4, partition: "gpu",
        account: "lab", qos: null, reservation: null, constraint: null, gres: "gpu:a100:4", time: "12:00:00",
        mem: "64G", time_seconds: 43200, cpus_per_task: 8,
        device_source: "gres: gpu:a100:4, the smallest A100"}' "$T/out"
    jq -rj .slurm.script "$T/out" >script
    expect "its script has the options" grep -qx '#SBATCH --account=lab' script
    try "$trainspool" plan j.yaml
    expect "plan shows the same script" sh -c "sed -n '/^  script /,/^    exit \"/p' '$T/out' | sed '1d; s/^    //' | cmp - script"
else
    skip "plan --json has an object" "no jq"
fi
try "$trainspool" plan j.yaml
expect "plan does not say what contains it here" sh -c "! grep -q '^  contained' '$T/out'"
expect "nor how long it would take here" sh -c "! grep -q '^  time' '$T/out'"
try "$trainspool" check j.yaml
expect "12:00:00 needs no quotes" sh -c "! grep -v TS713 '$T/out' | grep -F 'error['"
sed 's/^  ranks: .*/  ranks: 16/' j.yaml >k.yaml
try "$trainspool" check k.yaml
expect_output "more ranks than GPUs are an error" 'TS207.*ranks: 16 requires 8 GPUs of each node, but gres: gpu:a100:4 has 4'
sed 's/^  ranks: .*/  ranks: 7/' j.yaml >k.yaml
try "$trainspool" check k.yaml
expect_output "so are ranks that cannot be distributed" 'TS728.*ranks: 7 cannot be distributed evenly among nodes: 2'
sed 's/^  backend: .*/  backend: local/' j.yaml >k.yaml
try "$trainspool" check k.yaml
expect_output "on one machine nodes need a launcher" 'TS728.*nodes: 2 needs something that starts ranks on 2 machines'
expect_output "with a remedy" 'srun -N2 -n8 trainspool run'
expect_output "and options of Slurm have no effect" 'TS727.*gres has no effect'
sed 's/^  backend: .*/  backend: mpi/' j.yaml >k.yaml
try "$trainspool" check k.yaml
expect_output "backend: mpi is refused" 'TS707.*backend must be local or slurm, not mpi'
expect_output "with what replaces it" 'ranks: N starts N processes on this machine'
sed 's/^  backend: .*/  backend: local/; /nodes/d' j.yaml >k.yaml
try "$trainspool" plan --json k.yaml
expect_output "a local job has no such object" '"slurm":null'

# what plan shows is what sbatch gets
if has_model && command -v jq >/dev/null; then
    cat >bin/sbatch <<END
#!/bin/sh
for word; do script=\$word; done
[ "\$1" != --test-only ] || exec cp "\$script" "$T/asked"
cp "\$script" "$T/got"
echo 'sbatch: error: refused here' >&2
exit 1
END
    chmod +x bin/sbatch
    mkdir one
    make_data one
    job 3 "bf16: true" >one/j.yaml # a finding with an edit: the script has the digest of the new text
    printf 'trainspool: {backend: slurm, gres: "gpu:t4:4", ranks: 4, nodes: 2, time: 90}\n' >>one/j.yaml
    without_name() { sed "s/j-[0-9a-fX]\{12\}/NAME/g" "$1"; }
    same_script() { without_name "$1" >a && without_name "$2" >b && cmp a b; }
    for set in seed=42 trainspool.nodes=1 partition=other; do
        cp one/j.yaml one/before.yaml
        try "$trainspool" plan --json --set "$set" one/j.yaml
        jq -rj .slurm.script "$T/out" >planned
        expect "plan changes nothing" cmp one/j.yaml one/before.yaml
        expect "it asks sbatch about the script" cmp planned asked
        try "$trainspool" run --dry-run --set "$set" one/j.yaml
        expect "run --dry-run prints only that" cmp planned "$T/out"
        expect "and writes nothing" sh -c '[ "$(cd one && echo j.*)" = j.yaml ] && cmp one/j.yaml one/before.yaml'
        try "$trainspool" run --set "$set" one/j.yaml
        expect "with $set, sbatch gets what plan shows" same_script planned got
        cp one/before.yaml one/j.yaml
        rm -r one/j.run
    done
    expect "--set of a key of Slurm is in the script" grep -qx '#SBATCH --partition=other' got
    expect_error "the refusal of sbatch is shown" 'sbatch: error: refused here'
    rm got
    expect_status "--set of nodes that do not fit is refused" 1 "$trainspool" run --set trainspool.nodes=3 one/j.yaml
    expect_output "the message says why" 'TS728.*ranks: 4 cannot be distributed evenly among nodes: 3'
    expect_status "so is a time that Slurm does not know" 1 "$trainspool" run --set trainspool.time=soon one/j.yaml
    expect_output "the message says what it must be" "TS726.*time must be .*, not 'soon'"
    try "$trainspool" run --set trainspool.backend=local one/j.yaml
    expect_output "without Slurm the nodes need something that starts ranks" 'TS728.*nodes: 2 needs something'
    try "$trainspool" run --dry-run --set trainspool.nodes=3 one/j.yaml
    expect_output "run --dry-run shows why a job would be refused" 'TS728.*ranks: 4 cannot'
    expect "none of these is submitted" test ! -e got

    mkdir -p far/jobs
    "$trainspool" submit --dry-run far/jobs one/j.yaml >shown
    expect "submit --dry-run shows the path of the copy" test "$(head -1 shown)" = far/jobs/j.yaml
    expect "and copies nothing" test -z "$(ls far/jobs)"
    sed -n 's/^    //p; s/^$//p' shown | sed '1,/^#!/{/^#!/!d}' >planned
    try "$trainspool" submit far/jobs one/j.yaml
    try timeout 60 "$trainspool" watch --once far/jobs
    expect "it shows what a watch submits" same_script planned got

    cat >bin/sbatch <<'END'
#!/bin/sh
echo 'sbatch: error: invalid partition specified: nowhere' >&2
echo 'allocation failure: Invalid partition name specified' >&2
exit 1
END
    sed 's/^bf16/fp16/; s/^\(trainspool.*\)}/\1, partition: nowhere}/' one/before.yaml >one/k.yaml
    expect_status "a job that Slurm would refuse is an error of check" 1 "$trainspool" check one/k.yaml
    expect_output "with the words of sbatch" 'k.yaml:[0-9]*:[0-9]*: error.TS729.: Slurm would refuse the job: Invalid partition name specified$'
    try "$trainspool" plan one/k.yaml
    expect_output "plan shows it, too" TS729
    expect_status "run --dry-run, too" 1 "$trainspool" run --dry-run one/k.yaml
    expect_status "and submit --dry-run" 1 "$trainspool" submit --dry-run far/jobs one/k.yaml
    expect_error "also with the words of sbatch" 'k.yaml:[0-9]*:[0-9]*: TS729: Slurm would refuse the job: Invalid partition'
    printf '#!/bin/sh\n[ -e "%s" ] || exec sleep 60\n' "$T/asked" >bin/sbatch
    rm asked
    expect_status "without an answer a check takes seconds" 0 timeout 20 "$trainspool" check one/k.yaml one/k.yaml one/k.yaml one/k.yaml
    expect "and reports nothing" sh -c "! grep -q TS729 '$T/out'"
else
    skip "what sbatch gets" "no jq, or no model"
fi

# a watch
if has_model; then
    mkdir spool
    make_data spool
    nodes 'gpu:t4:4|x'
    waiting() { # NAME: a job that the watch examines, and does not start yet
        job 3 'fp16: true' >"spool/.$1"
        printf 'trainspool: {backend: slurm, gres: "gpu:2", ranks: 2, nodes: 1, partition: %s, begin: +1d}\n' "$2" >>"spool/.$1"
        mv "spool/.$1" "spool/$1"
        wait_until 20 sh -c "[ -s spool/${1%.yaml}.run/job.yaml ]"
    }
    background "$trainspool" watch --devices cpu spool
    waiting a.yaml gpu
    expect "a watch accepts a job for GPUs that it does not have" state_is spool/a.yaml ready
    expect "its record names Slurm" grep -q '"wanted": *"slurm"' spool/a.run/state.json
    expect_status "status of the spool succeeds" 0 "$trainspool" status spool
    expect_output "status shows that Slurm runs it, and on what" 'slurm T4'
    try "$trainspool" status --json spool
    expect_output "so does status --json" '"devices":"slurm"'
    waiting b.yaml gpu
    waiting c.yaml other
    expect "a watch asks sinfo once a minute about a partition" sh -c "[ \$(wc -l <'$SINFO_LOG') -eq 2 ]"
    kill "$daemon"
else
    skip "a watch" "the model is not here"
fi
plan
