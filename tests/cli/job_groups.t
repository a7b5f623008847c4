#!/bin/sh
# A watch to which systemd delegates a control group of version 2 runs each job in a group of its own.
. "${top_srcdir-.}/tests/cli/lib.sh"
tree=/sys/fs/cgroup
manager=
[ "$(id -u)" -eq 0 ] || manager=--user
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}
grep -qw memory $tree/cgroup.controllers 2>/dev/null || skip_all "no control groups of version 2 with memory"
has_model || skip_all "no $model"
# COMMAND...: run it in a group that is delegated.
delegated() { systemd-run $manager --scope --quiet --property="Delegate=memory pids" "$@"; }
delegated true >/dev/null 2>&1 || skip_all "systemd delegates no group here"
cd "$T" || exit 99

mkdir s
make_data s
# PROCESS: print the folder of its group.
group_of() { sed -n "s|^0::|$tree|p" "/proc/$1/cgroup"; }
processes() { cat "$unit/$1/cgroup.procs" 2>/dev/null; }
is_empty() { [ -z "$(processes "$1")" ]; }
has_no() { [ ! -e "$unit/$1" ]; }
log_has() { grep -q "$1" daemon.log; }

background delegated "$trainspool" watch s
wait_until 60 log_has 'each job has a control group in'
unit=$(sed -n 's/.*each job has a control group in //p' daemon.log)
cp daemon.log out
expect "the watch leaves the group that is delegated" is_empty .
expect "for one below it" sh -c '! test -z "$1"' sh "$(processes watch)"
job 100000 'memory_limit: 2GiB' 'trainspool: {device: cpu, max_heals: 2}' | sed 's/^per_device_train_batch_size: 2/per_device_train_batch_size: 4/' >long
mv long s/long.yaml
wait_until 60 has_reached s/long.yaml 1
trainer=$(processes job-1 | head -1)
cp daemon.log out
expect "a job runs in a group of its own" test "$(group_of "$trainer")" = "$unit/job-1"
limit=$(cat "$unit/job-1/memory.max")
expect "it may use its memory_limit and a margin" test "$limit" -gt $((2 << 30)) -a "$limit" -lt $((6 << 30))
expect "its processes end together" grep -qx 1 "$unit/job-1/memory.oom.group"
expect_status "status shows" 0 "$trainspool" status s
expect_output "that the group contains it" 'long is contained by .*, control group ('

# What happens when it reaches the limit.
echo 4M >"$unit/job-1/memory.max"
expect "a job that the kernel ends at its limit is healed" \
    wait_until 60 log_has 'job long: to be healed: trainspool-train ran out of memory: memory_limit allows no more'
expect "it continues in another group" wait_until 60 has_reached s/long.yaml 1
cp daemon.log out
expect "the first one is removed" wait_until 60 has_no job-1

# The watch is replaced while the job runs.
trainer=$(processes job-2 | head -1)
kill -9 $(processes watch)
wait_until 60 is_empty watch
mkdir "$unit/job-9"
: >daemon.log
background sh -c "echo \$\$ >'$unit/watch/cgroup.procs' && exec '$trainspool' watch s"
wait_until 60 log_has 'job long: already running'
cp daemon.log out
expect "the group of a job outlives its watch" test "$(group_of "$trainer")" = "$unit/job-2"
expect "an old one is removed" has_no job-9
echo 4M >"$unit/job-2/memory.max"
expect "the next watch heals it by what the kernel counted" \
    wait_until 60 log_has 'job long: to be healed: trainspool-train ran out of memory: memory_limit allows no more'
wait_until 60 has_reached s/long.yaml 1
kill -TERM $(processes watch)
wait_until 60 log_has 'watch: ended'
cp daemon.log out
expect "no group of a job is left" sh -c '! ls -d "$1"/job-* 2>null' sh "$unit"
plan
