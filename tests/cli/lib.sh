# tests/cli/lib.sh - TAP for the tests of the programs from outside.  Each test has a folder of its
# own, $T, which is gone when it ends, together with every process it started by `background`.

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

# A command; its output is in $T/out and $T/err, its status in $status.
try() {
    "$@" >"$T/out" 2>"$T/err"
    status=$?
}
# NAME STATUS COMMAND...: it ends with this status.
ends() {
    ends_name=$1 ends_status=$2
    shift 2
    try "$@"
    [ "$status" -eq "$ends_status" ] || echo "# status $status, wanted $ends_status"
    ok $((status != ends_status)) "$ends_name"
}
# NAME PATTERN: the output of the last command has a line like it.
says() {
    grep -q -e "$2" "$T/out"
    ok $? "$1"
}
complains() {
    grep -q -e "$2" "$T/err"
    ok $? "$1"
}
# NAME COMMAND...: it succeeds.
holds() {
    holds_name=$1
    shift
    "$@"
    ok $? "$holds_name"
}

# SECONDS COMMAND...: wait until it succeeds.
await() {
    await_left=$(($1 * 20))
    shift
    until "$@"; do
        await_left=$((await_left - 1))
        [ "$await_left" -gt 0 ] || return 1
        sleep 0.05
    done
}
# The state of a job.
state() { sed -n 's/.*"state":"\([a-z]*\)".*/\1/p' "${1%.y*ml}.run/state.json" 2>/dev/null; }
is() { [ "$(state "$1")" = "$2" ]; }
# JOB STEP: it runs, and is as far.
running() { is "$1" running && [ "$(step "$1")" -ge "$2" ]; }
reason() { sed -n 's/.*"reason":"\([^"]*\)".*/\1/p' "${1%.y*ml}.run/state.json"; }
step() { sed -n 's/.*"step":\([0-9]*\).*/\1/p' "${1%.y*ml}.run/state.json"; }

# COMMAND...: in the background, into $T/daemon.log; $daemon is its process.
background() {
    "$@" >>"$T/daemon.log" 2>&1 &
    daemon=$!
    pids="$pids $daemon"
}
# PROCESS: its children, as /proc tells.
children() {
    for children_stat in /proc/[0-9]*/stat; do
        children_line=$(cat "$children_stat" 2>/dev/null) || continue
        children_pid=${children_line%% *}
        children_line=${children_line##*) ?} # state and parent stand behind the name
        children_line=${children_line# }
        [ "${children_line%% *}" != "$1" ] || echo "$children_pid"
    done
}
gone() { ! kill -0 "$1" 2>/dev/null; }
# PROCESS STATUS: a process of `background` ended with it.
leaves() {
    wait "$1"
    [ $? -eq "$2" ]
}

# It is JSON, by another's reader.
is_json() { jq -e . >/dev/null; }
# A small real model; the tests that train need it.
model=$shared/data/stories260K/hf
has_model() { [ -f "$model/config.json" ]; }
# DIR: text to train on, a few thousand words of our own.
make_data() {
    awk 'BEGIN { for (i = 1; i <= 2000; i++)
        printf "Tom has %d apples and gives %d away, so he has %d left.\n", i, i % 7, i - i % 7 }' \
        >"$1/text.txt"
}
# STEPS [MORE LINES...]: a job on it, on standard output.
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
# A job that is refused wherever it is looked at.
hopeless() {
    echo "stage: sft"
    echo "model_name_or_path: nowhere"
    echo "learning_rate: -1"
}

# ARGUMENTS...: jq says true, without a word.
json() { jq "$@" >/dev/null; }
# The fields that the manual lists under a title, as an array of JSON, sorted.
fields() { # TITLE
    sed 's/\\-/-/g' "$source/docs/trainspool.1" |
        sed -n "/^\.\\\\\" fields of $1\$/,/^\.\\\\\" end\$/s|^\.BR* \([a-z0-9_/]*\)\( [,.;]\)*\$|\1|p" |
        LC_ALL=C sort | jq -R . | jq -sc .
}
