# tests/cli/devices.sh - functions for tests of jobs on several devices, which a made-up probe describes.  The
# trainer uses the CPU instead of a GPU.  Source it after lib.sh.
cd "$T" || exit 99

# in one folder, because trainspool searches for trainspool-train there
mkdir bin s
cp "$trainspool" bin
cat >bin/trainspool-train <<EOF
#!/bin/bash
if [ "\$1" = --probe ]; then
    echo >>$T/probes
    cat $T/probe
    exit
fi
if [ "\$1" = --measure ]; then
    echo "\$2" >>$T/measured
    cat $T/free
    exit
fi
echo "\$*" >>$T/starts
case \$* in *--device=cuda:0*) [ ! -e $T/broken ] || exit 78 ;; esac
if [ -e $T/taken ] && grep -qx "\${!#}" $T/taken; then
    rm $T/taken
    exit 76 # the memory was free when the watch chose the device
fi
exec $train "\${@/#--device=cuda*/--device=cpu}"
EOF
chmod +x bin/trainspool-train
trainspool=$T/bin/trainspool

row() { printf '%s\t' "$@" | sed 's/\t$//'; echo; }

total=4096
ill= # of the first GPU
cards() { # FREE-MIB...: GPUs of $total MiB
    {
        echo 'trainspool-probe 1'
        row cpu 'A CPU' 8 17179869184 17179869184
        cards_n=0
        for cards_free; do
            row cuda $cards_n 'A GPU' 8.0 $((total * 1048576)) $((cards_free * 1048576)) 1 ${ill:+"$ill"}
            ill=
            cards_n=$((cards_n + 1))
        done
    } >probe.new
    mv probe.new probe
}

sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
[ -d units-1m ] || cp -r "$source/jobs/samples/models/units-1m" .
drop_owner=$(id -u)
drop() { # NAME DEVICE [LINE]...: a job of $drop_owner that runs until it is canceled
    {
        cat <<EOF
model_name_or_path: $T/units-1m
train_from_scratch: true
stage: pt
finetuning_type: full
dataset: $T/units-text.jsonl
cutoff_len: 32
max_samples: 40
per_device_train_batch_size: 1
max_steps: 1000000
learning_rate: 1.0e-3
logging_steps: 1000
save_strategy: "no"
trainspool:
  device: $2
EOF
        drop_name=$1
        shift 2
        [ $# -eq 0 ] || printf '  %s\n' "$@"
        echo ...
    } >new
    chown "$drop_owner" new
    mv new "s/$drop_name.yaml"
}
devices() { jq -r '.devices // "-"' "s/$1.run/state.json"; }
runs() { state_is "s/$1.yaml" running; }
waits() { state_is "s/$1.yaml" ready; }
ends() { state_is "s/$1.yaml" stopped; }
all_run() { for all_job; do runs "$all_job" || return 1; done; }
all_end() { for all_job; do ends "$all_job" || return 1; done; }
cancel() { for cancel_job; do "$trainspool" cancel "s/$cancel_job.yaml" >"$T/out" 2>&1; done; }
adopted() { test "$(grep -c 'already running' daemon.log)" -eq "$1"; }
start() { background "$trainspool" watch "$@" s; }
stop() {
    kill "$daemon"
    wait "$daemon"
}
