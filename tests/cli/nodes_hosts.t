#!/bin/sh
# A folder that the watches of two machines share, each of which sees only its own locks and events. The clock of
# one is five hours ahead.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/machines.sh"

why=$(why_no_hosts)
if [ -n "$why" ]; then
    skip "nodes on several machines" "$why"
    plan
    exit 0
fi
sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
[ -d units-1m ] || cp -r "$source/jobs/samples/models/units-1m" .
TRAINSPOOL_LEASE=3
export TRAINSPOOL_LEASE
start_host boxa && start_host boxb || exit 99

# clock_gettime(2) and time(2), five hours ahead
cat >ahead.c <<'END'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && clock == CLOCK_REALTIME)
        out->tv_sec += 5 * 3600;
    return result;
}
time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
END
ahead=
if cc -shared -fPIC -O1 -o ahead.so ahead.c 2>"$T/err"; then ahead=LD_PRELOAD=$T/ahead.so; fi

watch_on() { # HOST [OPTION]...
    watch_host=$1
    shift
    on "$watch_host" env $([ "$watch_host" = boxa ] || echo "$ahead") "$trainspool" watch --slots 2 "$@" s >>"$watch_host.log" 2>&1 &
    eval "watch_$watch_host=$!"
    pids="$pids $!"
}
node_of() { jq -r '.node // ""' "disk/$1.run/state.json"; }
other_of() { [ "$1" = boxa ] && echo boxb || echo boxa; }
all_done() { for all_job; do state_is "disk/$all_job.yaml" done || return 1; done; }

job 120 20 >whole.yaml
TRAINSPOOL_LEASE=0 "$trainspool" run --quiet whole.yaml >out 2>&1 || exit 99
whole=$(sum whole.run/checkpoint-120)

watch_on boxa
watch_on boxb
wait_until 20 grep -qs 'node boxb shares the folder' boxa.log && wait_until 20 grep -qs 'node boxa shares the folder' boxb.log
ok $? "watches on a network file system share the folder by the names of their hosts"
expect_status "a host has one of them" 75 on boxa "$trainspool" watch s
mkdir drops
names=
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    job 3 1000 >drops/j$i.yaml
    names="$names j$i"
done
mv drops/*.yaml disk/
# shellcheck disable=SC2086
wait_until 60 all_done $names
ok $? "twelve jobs that arrive at once are done"
expect "in one attempt" test "$(cat disk/j*.run/state.json | jq -r '"\(.attempt) \(.crashes)"' | sort -u)" = "1 0"
expect "each was started by one watch" test "$(grep -h 'job j[0-9]*: started' boxa.log boxb.log | sed 's/.*job //' | sort -u | wc -l)" -eq "$(grep -h 'job j[0-9]*: started' boxa.log boxb.log | wc -l)"
expect "and by both of them" test "$(for i in $names; do node_of "$i"; done | sort -u | wc -l)" -eq 2

# ---- A machine stands still, and continues ----
job 120 20 >new
mv new disk/frozen.yaml
wait_until 30 test -d disk/frozen.run/checkpoint-20
owner=$(node_of frozen)
other=$(other_of "$owner")
signal_host "$owner" STOP
on "$other" "$trainspool" status s >out 2>&1
expect_output "a machine that stands still keeps its job for a lease" "^frozen  *running "
moved() { [ "$(node_of frozen)" = "$other" ]; }
wait_until 40 moved
ok $? "another one takes it after the lease"
on "$other" "$trainspool" status s >out 2>&1
expect_output "status shows which is silent" "^node $owner: no sign of life for [0-9]* s$"
expect_output "and which is not" "^node $other: [0-9] of 2 slots in use, last sign of life [0-2] s ago$"
signal_host "$owner" CONT
wait_until 120 state_is disk/frozen.yaml done
ok $? "the job is done"
expect "with the result of an undisturbed run" test "$(sum disk/frozen.run/checkpoint-120)" = "$whole"

# ---- A machine dies ----
wait_until 20 test "$(grep -c "node $owner shares the folder" "$other.log")" -ge 1
job 120 20 >new
mv new disk/dies.yaml
wait_until 30 test -d disk/dies.run/checkpoint-20
owner=$(node_of dies)
other=$(other_of "$owner")
signal_host "$owner" KILL
eval "kill -9 \$host_$owner"
wait_until 120 state_is disk/dies.yaml done
ok $? "the job of a machine that died is done"
expect "by the other one" test "$(node_of dies)" = "$other"
expect "with the result of an undisturbed run" test "$(sum disk/dies.run/checkpoint-120)" = "$whole"
signal_host "$other" TERM
wait_until 20 is_idle "$other"
plan
