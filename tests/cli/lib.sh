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
    ends_name=$1 wanted=$2
    shift 2
    try "$@"
    [ "$status" -eq "$wanted" ] || echo "# status $status, wanted $wanted"
    ok $((status != wanted)) "$ends_name"
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
reason() { sed -n 's/.*"reason":"\([^"]*\)".*/\1/p' "${1%.y*ml}.run/state.json"; }
step() { sed -n 's/.*"step":\([0-9]*\).*/\1/p' "${1%.y*ml}.run/state.json"; }

# COMMAND...: in the background, into $T/daemon.log; $daemon is its process.
background() {
    "$@" >>"$T/daemon.log" 2>&1 &
    daemon=$!
    pids="$pids $daemon"
}
gone() { ! kill -0 "$1" 2>/dev/null; }
# The status of a process of `background`.
status_of() {
    wait "$1"
    echo $?
}

# A reader of JSON: python3 where it is, else jq.
is_json() {
    if command -v python3 >/dev/null; then
        while IFS= read -r line; do
            printf '%s' "$line" | python3 -c 'import json,sys; json.load(sys.stdin)' || return 1
        done
    elif command -v jq >/dev/null; then
        jq -e . >/dev/null
    else
        cat >/dev/null
    fi
}
# FILE NAME: a job to train, a real small model of the shared data; 1 where there is none.
model=$shared/data/stories260K/hf
has_model() { [ -f "$model/config.json" ]; }
