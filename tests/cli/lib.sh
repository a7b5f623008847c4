# tests/cli/lib.sh - functions for tests that run the programs and print TAP.  Each test has a temporary
# folder, $T.  At exit, the folder, all processes started by `background`, and the programs that run in the
# folder are removed.

top=$(cd "${top_builddir-.}" && pwd)
source=$(cd "${top_srcdir-.}" && pwd)
trainspool=${TRAINSPOOL_BUILD-$top}/trainspool
train=${TRAINSPOOL_BUILD-$top}/trainspool-train
shared=${TRAINSPOOL_SHARED-$source/../shared}
NO_COLOR=
export NO_COLOR
T=$(mktemp -d "${TMPDIR-/tmp}/trainspool-cli-XXXXXX") || exit 99
n=0
pids=

finish() {
    for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
    # trainers that outlive their watch
    for finish_cwd in $(find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$T*" 2>/dev/null); do
        finish_pid=${finish_cwd#/proc/}
        finish_pid=${finish_pid%/cwd}
        { read -r finish_name <"/proc/$finish_pid/comm"; } 2>/dev/null || continue
        case $finish_name in trainspool*) kill -9 "$finish_pid" 2>/dev/null ;; esac
    done
    chmod -R u+rwX "$T" 2>/dev/null
    rm -rf "$T"
}
trap finish EXIT
trap 'exit 99' INT TERM HUP

ok() { # STATUS NAME
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        [ -s "$T/out" ] && sed 's/^/# out: /' "$T/out" | head -20
        [ -s "$T/err" ] && sed 's/^/# err: /' "$T/err" | head -20
    fi
}
skip() { # NAME WHY
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}
plan() { echo "1..$n"; }

# COMMAND...: run it with its output in $T/out and $T/err and its exit status in $status.
try() {
    "$@" >"$T/out" 2>"$T/err"
    status=$?
}
# NAME STATUS COMMAND...: check that the command exits with this status.
expect_status() {
    expect_name=$1 expect_code=$2
    shift 2
    try "$@"
    [ "$status" -eq "$expect_code" ] || echo "# status $status, expected $expect_code"
    ok $((status != expect_code)) "$expect_name"
}
# NAME PATTERN: check that a line of the last command's output matches.
expect_output() {
    grep -q -e "$2" "$T/out"
    ok $? "$1"
}
# NAME PATTERN: check that a line of its standard error matches.
expect_error() {
    grep -q -e "$2" "$T/err"
    ok $? "$1"
}
# NAME COMMAND...: check that the command succeeds.
expect() {
    expect_name=$1
    shift
    "$@"
    ok $? "$expect_name"
}

# SECONDS COMMAND...: repeat the command until it succeeds.
wait_until() {
    wait_left=$(($1 * 20))
    shift
    until "$@"; do
        wait_left=$((wait_left - 1))
        [ "$wait_left" -gt 0 ] || return 1
        sleep 0.05
    done
}
# JOB: print its state.
state() { sed -n 's/.*"state":"\([a-z]*\)".*/\1/p' "${1%.y*ml}.run/state.json" 2>/dev/null; }
state_is() { [ "$(state "$1")" = "$2" ]; }
# JOB STEP: the job is running and has reached this step.
has_reached() { state_is "$1" running && [ "$(step "$1")" -ge "$2" ]; }
reason() { sed -n 's/.*"reason":"\([^"]*\)".*/\1/p' "${1%.y*ml}.run/state.json"; }
step() { sed -n 's/.*"step":\([0-9]*\).*/\1/p' "${1%.y*ml}.run/state.json"; }

# COMMAND...: run it in the background with its output in $T/daemon.log; set $daemon to its process id.
background() {
    "$@" >>"$T/daemon.log" 2>&1 &
    daemon=$!
    pids="$pids $daemon"
}
# PROCESS: print the ids of its children, from /proc, without those that examine jobs for the watch.
children() {
    for children_stat in /proc/[0-9]*/stat; do
        { read -r children_line <"$children_stat"; } 2>/dev/null || continue
        case $children_line in *"(trainspool-exam)"*) continue ;; esac
        children_pid=${children_line%% *}
        children_line=${children_line##*) ?} # the name is followed by state and parent
        children_line=${children_line# }
        [ "${children_line%% *}" != "$1" ] || echo "$children_pid"
    done
}
has_exited() { ! kill -0 "$1" 2>/dev/null; }
# PROCESS STATUS: a process of `background` exited with this status.
exited_with() {
    wait "$1"
    [ $? -eq "$2" ]
}

# Standard input is JSON according to jq.
is_json() { jq -e . >/dev/null; }
# A small real model, required by the tests that train.
model=$shared/data/stories260K/hf
has_model() { [ -f "$model/config.json" ]; }
# DIR: write a text to train on, some thousand generated words.
make_data() {
    awk 'BEGIN { for (i = 1; i <= 2000; i++)
        printf "Tom has %d apples and gives %d away, so he has %d left.\n", i, i % 7, i - i % 7 }' \
        >"$1/text.txt"
}
# STEPS [LINES...]: print a job that trains on this text.
job() {
    cat <<END
model_name_or_path: $model
stage: pt
finetuning_type: full
dataset: text.txt
cutoff_len: 64
per_device_train_batch_size: 2
learning_rate: 1.0e-4
logging_steps: 10
save_steps: 20
save_total_limit: 2
max_steps: $1
END
    shift
    [ $# -eq 0 ] || printf '%s\n' "$@"
}
# Print a job that every command rejects.
invalid_job() {
    echo "stage: sft"
    echo "model_name_or_path: nowhere"
    echo "learning_rate: -1"
}

# ARGUMENTS...: run jq without output.
jq_accepts() { jq "$@" >/dev/null; }
# Print the fields that the manual lists under a title, as a sorted JSON array.
fields() { # TITLE
    sed 's/\\-/-/g' "$source/docs/trainspool.1" |
        sed -n "/^\.\\\\\" fields of $1\$/,/^\.\\\\\" end\$/s|^\.BR* \([a-z0-9_/]*\)\( [,.;]\)*\$|\1|p" |
        LC_ALL=C sort | jq -R . | jq -sc .
}
