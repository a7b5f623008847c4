# tests/cli/nodes.sh - functions for tests of a folder that several watches share. Source it after devices.sh.
node() { # NAME [OPTION]...: a watch of this node; its process id is in $pid_NAME
    node_name=$1
    shift
    "$trainspool" watch --node "$node_name" "$@" s >>"$node_name.log" 2>&1 &
    eval "pid_$node_name=$!"
    pids="$pids $!"
    wait_until 10 grep -qs "pid $!" "$node_name.log"
}
end_node() { # NAME [SIGNAL]
    eval "end_pid=\$pid_$1"
    kill "-${2-TERM}" "$end_pid"
    wait "$end_pid" 2>/dev/null
}
node_of() { jq -r '.node // ""' "s/$1.run/state.json"; }
is_on() { has_reached "s/$2.yaml" 1 && [ "$(node_of "$2")" = "$1" ]; } # NODE JOB
state_of_all() { # STATE NAME...
    all_state=$1
    shift
    for all_name; do state_is "s/$all_name.yaml" "$all_state" || return 1; done
}
# PATTERN [LINE]...: the text of a job of a few steps, with more settings of the block trainspool.
short_text() {
    cat <<END
model_name_or_path: $T/units-1m
train_from_scratch: true
stage: pt
finetuning_type: full
dataset: $T/units-text.jsonl
cutoff_len: 32
max_samples: 40
per_device_train_batch_size: 1
max_steps: ${short_steps-3}
learning_rate: 1.0e-3
save_strategy: steps
save_steps: ${short_save-1000}
trainspool:
  device: cpu
  threads: 1
END
    [ $# -eq 0 ] || printf '  %s\n' "$@"
    echo ...
}
short() { # NAME [LINE]...
    short_name=$1
    shift
    short_text "$@" >new
    chown "$drop_owner" new
    mv new "s/$short_name.yaml"
}
