#!/bin/sh
# submit --k8s: manifests that Kubernetes accepts, whose pods train the job.  kubernetes-validate checks them, too,
# if $PYTHON has it; its schemas are too large to install for each test.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

python=${PYTHON-python3}
k8s() { "$python" "$source/tests/cli/k8s.py" "$@"; }
if ! has_model; then
    skip "submit --k8s" "no $model"
    plan
    exit 0
fi
if ! "$python" -c 'import yaml' 2>"$T/null"; then
    skip "submit --k8s" "$python has no yaml"
    plan
    exit 0
fi

# The pods see only what the manifest gives them; the checks must not see variables of a cluster.
unset RANK WORLD_SIZE NNODES NODE_RANK NPROC_PER_NODE SKYPILOT_NODE_RANK SKYPILOT_NUM_NODES TRAINSPOOL_DEVICE
PATH=$top:$PATH
export PATH
mkdir share share/models
cp -R "$model" share/models/tiny
make_data share
several() { # STEPS BLOCK: print a job of the shared folder
    job "$1" "max_grad_norm: 1.0" | sed -e 's/^model_name_or_path: .*/model_name_or_path: models\/tiny/' \
        -e 's/^logging_steps: .*/logging_steps: 1/' -e 's/^save_steps: .*/save_steps: 50/'
    [ -z "$2" ] || echo "trainspool: {$2}"
}
value() { k8s get manifest "$1" 2>&1; }
# NAME PATH VALUE: the manifest says so.
says() {
    says_value=$(value "$2")
    [ "$says_value" = "$3" ] || echo "# $2 is $says_value"
    expect "$1" test "$says_value" = "$3"
}
# NAME ARGUMENTS...: submit --k8s succeeds, with a valid manifest.
manifest() {
    manifest_name=$1
    shift
    expect_status "$manifest_name: there is a manifest" 0 "$trainspool" submit --k8s "$@"
    cp out manifest
    expect_status "$manifest_name: Kubernetes accepts it" 0 k8s check manifest
    try k8s schema manifest
    if [ "$status" -eq 77 ]; then
        skip "$manifest_name: it has the schema" "no kubernetes-validate"
    else
        ok "$status" "$manifest_name: it has the schema"
    fi
}
pod=Job/spec/template/spec
container=$pod/containers/0

# what the job asks for
several 30 'backend: slurm, nodes: 2, ranks: 8, gres: "gpu:a100:4", mem: 64G, cpus_per_task: 3' >share/gpu.yaml
manifest "GPUs" share/gpu.yaml
says "a pod for each machine" Job/spec/completions 2
gpu=nvidia.com~1gpu
says "with the GPUs of gres" "$container/resources/limits/$gpu" 4
says "with the memory of mem" $container/resources/limits/memory 65536Mi
says "and the CPUs of its ranks" $container/resources/requests/cpu 12
says "nodes have the GPU that it was checked for" \
    $pod/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0/values '["8"]'
says "GPUs of a pod share memory" $pod/volumes/2/emptyDir/medium Memory

several 30 'backend: slurm, device: cpu, nodes: 2, ranks: 4' >share/auto.yaml
manifest "the device here" --device auto share/auto.yaml
says "the pods do not hand the job over to Slurm" $container/command/4 trainspool.backend=local

several 30 'device: cuda' >share/named.yaml
manifest "named GPU" --device V100 --set nodes=3 --set ranks=3 --image registry.example/team/trainspool:2 --claim team-data \
    --mount "$T" share/named.yaml
says "--set gives the number of machines" Job/spec/completions 3
says "and passes settings on to the pods" $container/command/4 nodes=3
says "a rank has a GPU" "$container/resources/limits/$gpu" 1
says "--image names the image" $container/image registry.example/team/trainspool:2
says "--claim names the claim" $pod/volumes/0/persistentVolumeClaim/claimName team-data
says "--mount names the folder" $container/volumeMounts/0/mountPath "$T"
says "the job is found in it" Job/metadata/annotations/trainspool~1job "$T/share/named.yaml"

several 30 '' >share/alone.yaml
manifest "one pod" --device cpu share/alone.yaml
says "it has one rank" $container/resources/requests/cpu 1
expect "its memory is that of the plan" grep -q '^ *memory: [1-9][0-9]*Mi$' manifest
expect "no limit is estimated" sh -c '! grep -q limits manifest'
expect "it needs no names of other pods" sh -c '! grep -q "kind: Service\|subdomain\|NNODES" manifest'

# names
set -- "a b.yaml" "It's \"quoted\".yaml" '$(HOME) $$(HOME) $x $.yaml' "tab	and
newline.yaml" "ä€😀.yaml" "- dash: #1.yaml" '*&!%@`{}[].yml' '\\n \u0041.yaml' "$(printf 'c1-\302\205-\342\200\250.yaml')" "0.yaml" \
    "$(printf '%0200d' 0 | tr 0 x).yaml"
for name; do
    several 30 "device: cpu" >"share/$name"
    expect_status "a hostile name has a manifest" 0 "$trainspool" submit -q --k8s --mount "$T/share" "share/$name"
    cp out manifest
    expect_status "Kubernetes accepts it" 0 k8s check manifest
    expect_status "its pods run that job" 0 k8s expect manifest "$T/share/$name" "$T/share"
done
mkdir 'share/$(HOME) "x"'
several 30 "device: cpu" >'share/$(HOME) "x"/job.yaml'
sed -i -e 's,models/tiny,../models/tiny,' -e 's,^dataset: .*,dataset: ../text.txt,' 'share/$(HOME) "x"/job.yaml'
expect_status "a hostile folder has a manifest" 0 "$trainspool" submit -q --k8s --mount share 'share/$(HOME) "x"/job.yaml'
cp out manifest
expect_status "its pods run the job of the folder" 0 k8s expect manifest "$T/share/\$(HOME) \"x\"/job.yaml" "$T/share"

# refusals
refuse() { # NAME STATUS MESSAGE ARGUMENTS...
    refuse_message=$3 refuse_name=$1 refuse_status=$2
    shift 3
    expect_status "$refuse_name is refused" "$refuse_status" "$trainspool" submit --k8s "$@"
    expect_error "$refuse_name: the message says why" "$refuse_message"
    expect "$refuse_name: nothing is printed" test ! -s out
}
job 30 >share/far.yaml
refuse "a model outside of the folder" 1 "is not in $T/share, the folder that the pods share" --device cpu share/far.yaml
ln -s "$model" share/models/link
several 30 "" | sed 's,models/tiny,models/link,' >share/link.yaml
refuse "a link to a model outside of the folder" 1 "is not in $T/share" --device cpu share/link.yaml
several 30 "device: cpu, nodes: 2, ranks: 3" >share/odd.yaml
refuse "an uneven number of ranks" 1 'ranks: 3 cannot be distributed evenly' share/odd.yaml
several 30 'device: cuda, gres: "gpu:2"' >share/unknown.yaml
refuse "an unknown GPU" 1 'TS211.*not known' share/unknown.yaml
expect_error "the message says how to name it" 'check_device: A100'
invalid_job >share/invalid.yaml
refuse "an invalid job" 1 'learning_rate' --device cpu share/invalid.yaml
refuse "no job" 2 'absent' share/absent.yaml
refuse "the name of a claim" 2 '--claim must be' --claim 'Team Data' share/alone.yaml
refuse "the root folder" 2 'the folder of --mount must not be /' --mount / share/alone.yaml
refuse "--force" 2 '--force, --as-is and --dry-run' --force share/alone.yaml
expect_status "options for Kubernetes need --k8s" 2 "$trainspool" submit --claim a share share/alone.yaml
expect_error "the message says so" 'require --k8s'
expect_status "a folder alone is no job" 2 "$trainspool" submit share
expect "no job was changed" test "$(find share -name '*.run' | wc -l)" -eq 0

# the files
expect_status "a folder gets the files" 0 "$trainspool" submit --k8s -o made share/alone.yaml share/gpu.yaml
expect "they are two manifests and a Containerfile" sh -c 'test "$(ls made | wc -l)" -eq 3 -a -s made/Containerfile'
expect "the image has code for GPUs" grep -q 'with-cuda-archs=all' made/Containerfile
"$trainspool" submit --k8s --device cpu -o made share/alone.yaml >"$T/null"
expect "one for CPUs needs no CUDA" sh -c 'grep -q without-cuda made/Containerfile && ! grep -q nvidia made/Containerfile'
expect_status "manifests of two jobs are one stream" 0 "$trainspool" submit --k8s --device cpu share/alone.yaml share/named.yaml
expect "with both jobs" test "$(grep -c '^kind: Job$' out)" -eq 2

# pods that run
for steps in 30 250; do
    several $steps "device: cpu, ranks: 4" >share/local$steps.yaml
    expect_status "a job of four ranks and $steps steps succeeds" 0 "$trainspool" run -q share/local$steps.yaml
done
same_weights() { cmp -s "share/$1.run/model.safetensors" "share/local$2.run/model.safetensors"; }
pods() { # NAME STEPS EVENT...
    pods_name=$1 pods_steps=$2
    shift 2
    several "$pods_steps" 'backend: slurm, device: cpu, nodes: 2, ranks: 4, partition: gpu' >"share/$pods_name.yaml"
    "$trainspool" submit -q --k8s "share/$pods_name.yaml" >manifest
    expect_status "$pods_name: the Job completes" 0 k8s run manifest "$@"
    grep '^pod\|^Complete\|^Failed' out | sed 's/^/# /'
    expect "$pods_name: its bits are those of four ranks on one machine" same_weights "$pods_name" "$pods_steps"
    expect "$pods_name: the job is done" state_is "share/$pods_name.yaml" "done"
}
pods quiet 30
expect_output "no pod failed" 'Complete, 0 failures, 2 pods started'
pods kill 250 60 KILL 1
expect_output "of a lost pod, all were started again" 'Complete, 2 failures, 4 pods started'
expect "the log names a rank of it" grep -q 'error job kill: failed at step [0-9]*: rank [23] ' share/kill.run/train.log
expect "the run continued from a checkpoint" grep -q 'resume: from ' share/kill.run/train.log
pods root 250 60 KILL 0
expect_output "the pod of rank 0 was started again" ' pods started'
pods drain 250 60 TERM 1
expect_output "a drained pod is no failure" 'Complete, 0 failures, 4 pods started'
expect "it saved a checkpoint" grep -q 'stopped by SIGTERM at step' share/drain.run/train.log

# a job that fails is not tried again
several 30 'backend: slurm, device: cpu, nodes: 2, ranks: 4' >share/bad.yaml
"$trainspool" submit -q --k8s share/bad.yaml >manifest
mv share/text.txt share/gone.txt
expect_status "a job whose data are gone fails" 1 k8s run manifest
expect_output "without another attempt" 'Failed: PodFailurePolicy'
plan
