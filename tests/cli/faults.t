#!/bin/sh
# Faults of the machine while a watch admits jobs: they pass, and every job runs.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
make_data .
# LeakSanitizer cannot work in a traced process
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS
# the processes of functions in the background
trap 'kill -9 $(cat ./*.pid 2>/dev/null) 2>/dev/null; finish' EXIT

# NAME: make a folder with a job that takes two steps.
spool() {
    mkdir "$1"
    cp text.txt "$1"
    job 2 >"$1/a.yaml"
}
# NAME PATH SYSCALL ERROR: a watch and all its children have this fault until they are detached, when the job
# must run.  Print what went wrong.
lasting() {
    spool "$1"
    mv "$1/a.yaml" "$1.yaml"
    "$trainspool" watch "$1" >"$1.log" 2>&1 &
    lasting_watch=$!
    echo $lasting_watch >"$1.pid"
    wait_until 20 grep -q 'info watch' "$1.log" 2>/dev/null
    strace -f -qq -o /dev/null -P "$2" -e "inject=$3:error=$4" -p $lasting_watch &
    lasting_strace=$!
    echo $lasting_strace >>"$1.pid"
    wait_until 20 grep -q "^TracerPid:.*[1-9]" /proc/$lasting_watch/status
    mv "$1.yaml" "$1/a.yaml"
    wait_until 20 grep -q 'error .*; trying again every 5 s$' "$1.log" || echo "no fault is reported"
    sleep 0.5
    case $(state "$1/a.yaml") in
    '' | new | blocked | ready) ;;
    *) echo "the job is $(state "$1/a.yaml") during the fault" ;;
    esac
    kill -TERM $lasting_strace
    # while the watch starts a process with vfork(2), both wait for each other
    wait_until 5 has_exited $lasting_strace || kill -KILL $lasting_strace
    wait $lasting_strace
    wait_until 10 state_is "$1/a.yaml" done || echo "the job does not run after the fault"
    grep -q '"attempt":1,"crashes":0' "$1/a.run/state.json" || echo "the fault counts as an attempt"
    kill -TERM $lasting_watch
    wait $lasting_watch
}
# NAME PATH SYSCALL ERROR: start watch --once, whose first call about this path fails.
once() {
    spool "$1"
    strace -qq -o /dev/null -P "$2" -e "inject=$3:error=$4:when=1" \
        "$trainspool" watch --once "$1" >"$1.log" 2>&1 || echo "watch --once ended with $?"
    state_is "$1/a.yaml" done || echo "the job does not run"
    grep -q 'error .*; trying again every 5 s$' "$1.log" || echo "no fault is reported"
}

# NAME PATH SYSCALL ERROR COUNT: run the trainer with each of its first calls about this path failing.
trainer() {
    spool "$1"
    cd "$1" || return
    at=0
    while [ $at -lt "$5" ]; do
        at=$((at + 1))
        rm -rf a.run
        strace -f -qq -o trace -P "$2" -e "inject=$3:error=$4:when=$at" \
            "$train" --spooled a.yaml >>../"$1.log" 2>&1
        trainer_status=$?
        grep -q INJECTED trace || break
        case $trainer_status in
        0) [ -f a.run/model.safetensors ] || echo "done without a model after a fault of call $at" ;;
        75) ;;
        *) echo "the trainer ends with $trainer_status after a fault of call $at: $(tail -n 1 a.run/train.log)" ;;
        esac
    done
    [ $at -gt 1 ] || echo "no fault was met"
    cd ..
}

# A watch --once that never can read its folder ends, but not at once.
unreadable() {
    spool unreadable
    strace -qq -o /dev/null -P "$T/unreadable" -e inject=getdents64:error=EIO \
        "$trainspool" watch --once unreadable >unreadable.log 2>&1
    unreadable_status=$?
    [ $unreadable_status -eq 3 ] || echo "watch --once ended with $unreadable_status, not 3"
    grep -q 'error watch: cannot read the directory .*: Input/output error; trying again every 5 s' unreadable.log ||
        echo "no fault is reported"
}

if strace -f -qq -o /dev/null true 2>/dev/null; then
    traces=yes
    unreadable >unreadable.out &
    pids="$pids $!"
    test_unreadable=$!
    once folder "$T/folder" getdents64 EIO >folder.out &
    pids="$pids $!"
    test_folder=$!
    while read -r name path call error count; do
        trainer "$name" "$path" "$call" "$error" "$count" >"$name.out" 2>/dev/null &
        pids="$pids $!"
        eval "test_$name=$!"
    done <<END
data text.txt newfstatat EIO 12
publish $T/publish/a.run/.checkpoint-final.tmp getdents64 EIO 3
END
    # a watch opens files by names relative to their folders
    while read -r name path call error; do
        lasting "$name" "$path" "$call" "$error" >"$name.out" 2>/dev/null &
        pids="$pids $!"
        eval "test_$name=$!"
    done <<END
job a.yaml openat EMFILE
frozen $T/frozen/a.run/job.yaml.new write ENOSPC
model $model/config.json openat EINTR
weights $model/model.safetensors openat EIO
tokenizer $model/tokenizer.json newfstatat ENOMEM
run a.run mkdirat EROFS
lock lock openat ENFILE
state state.json.new openat EDQUOT
log train.log openat ENOSPC
END
fi

if command -v prlimit >/dev/null; then
    mkdir short
    cp text.txt short
    background "$trainspool" watch short
    wait_until 10 grep -q 'info watch: short' daemon.log
    names=
    for count in 4 6 7 8 9 10 11; do
        prlimit --pid "$daemon" --nofile=$count:
        job 2 >short-job
        mv short-job short/$count.yaml
        names="$names $count"
        sleep 0.3
    done
    prlimit --pid "$daemon" --nofile=1024:
    for name in $names; do
        wait_until 15 state_is short/$name.yaml done
        ok $? "a job that was dropped with $name descriptors runs"
    done
    kill -TERM "$daemon"
    wait_until 10 has_exited "$daemon"
    expect "no job is rejected for a missing descriptor" sh -c "! grep -q rejected daemon.log"
    expect "the reason is logged" grep -q 'Too many open files; trying again every 5 s' daemon.log
else
    skip "jobs that were dropped without descriptors run" "no prlimit(1)"
fi

if [ "${traces-}" ]; then
    for name in folder job frozen model weights tokenizer run lock state log; do
        eval "wait \${test_$name-}"
        cp $name.out out
        cp $name.log err
        expect "a job runs after a fault of $name" test ! -s out
    done
    for name in data publish; do
        eval "wait \${test_$name-}"
        cp $name.out out
        cp $name.log err
        expect "the trainer takes no fault of $name for an answer" test ! -s out
    done
    wait $test_unreadable
    cp unreadable.out out
    cp unreadable.log err
    expect "watch --once ends with 3 if it can never read the folder" test ! -s out
else
    skip "jobs run after faults of single calls" "no strace(1), or it may not trace"
fi
plan
