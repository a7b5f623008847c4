#!/bin/sh
# The order in which jobs of a queue start, and the end of --once.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/devices.sh"

cards
start
drop p1 cpu 'threads: 6'
wait_until 20 runs p1
drop p2 cpu 'threads: 8'
wait_until 20 waits p2
drop p3 cpu 'threads: 2'
expect "a small job passes one that waits for cores" wait_until 20 runs p3
drop p4 cpu 'threads: 8' 'priority: 1'
wait_until 20 waits p4
expect "which waits" waits p2
cancel p1 p3
expect "of those that wait, the highest priority starts first" wait_until 20 runs p4
expect "the other one waits for it" waits p2
cancel p4
expect "and starts when it ends" wait_until 20 runs p2
cancel p2
wait_until 20 all_end p1 p2 p3 p4
stop

for name in o1 o2 o3; do drop $name cpu 'threads: 1'; done
start --once --slots 2
expect "--once runs several jobs at once" wait_until 20 all_run o1 o2
expect "as many as there are slots" waits o3
cancel o1
expect "then the others" wait_until 20 runs o3
cancel o2 o3
expect "and ends with the last one" exited_with "$daemon" 0

total=1024
cards 200
drop misfit cuda
expect_status "--once gives up on a job that does not fit for 30 seconds" 3 timeout 120 "$trainspool" watch --once s
expect "which stays in the queue" waits misfit
plan
