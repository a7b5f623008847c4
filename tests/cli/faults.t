#!/bin/sh
# Faults of the machine while a watch admits and starts jobs: they pass, and every job runs.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
if ! has_model; then
    echo "1..0 # SKIP no $model"
    exit 0
fi
make_data .

# NAME: make a folder with a job that takes two steps.
spool() {
    mkdir "$1"
    cp text.txt "$1"
    job 2 >"$1/a.yaml"
}
# NAME PATH SYSCALL ERROR WHEN: start watch --once, whose calls about this path fail.
inject() {
    inject_name=$1 inject_path=$2
    shift 2
    spool "$inject_name"
    strace -f -qq -o /dev/null -P "$inject_path" -e "inject=$1:error=$2:when=$3" \
        "$trainspool" watch --once "$inject_name" >"$inject_name.log" 2>&1 &
    pids="$pids $!"
    eval "watch_$inject_name=$!"
}
# NAME STATUS: the watch of `inject` ended with this status.
ended() {
    eval "wait \$watch_$1"
    ended_status=$?
    cp "$1.log" out
    [ $ended_status -eq "$2" ] || echo "# status $ended_status, expected $2"
    return $((ended_status != $2))
}

if strace -f -qq -o /dev/null true 2>/dev/null; then
    traces=yes
    # a watch opens files by names relative to its folder
    while read -r name path call error when; do
        inject "$name" "$path" "$call" "$error" "$when"
    done <<END
folder $T/folder getdents64 EIO 1
job a.yaml openat EMFILE 1
frozen $T/frozen/a.run/job.yaml.new write ENOSPC 1
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
        job 2 >job.yaml
        mv job.yaml short/$count.yaml
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
    for name in folder job frozen; do
        ended $name 0
        ok $? "watch --once succeeds after a fault of $name"
        expect "the job runs after a fault of $name" state_is $name/a.yaml done
        expect "the fault of $name is reported" grep -q 'error .*; trying again every 5 s$' $name.log
    done
else
    skip "jobs run after faults of single calls" "no strace(1), or it may not trace"
fi
plan
