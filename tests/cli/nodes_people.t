#!/bin/sh
# The limits and turns of users in a folder that the watches of root on several nodes share.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/users.sh"
. "$source/tests/cli/devices.sh"
. "$source/tests/cli/nodes.sh"
cards
chmod 1777 s
chmod -R a+rX units-1m units-text.jsonl
: >starts
: >begins
chmod 666 starts begins
# A line when a trainer begins and when it ends: + or -.
sed 's/^exec /echo + >>begins_file; /; $a rc=$?; echo - >>begins_file; exit $rc' bin/trainspool-train |
    sed "s|begins_file|$T/begins|" >counted
mv counted bin/trainspool-train
chmod 755 bin/trainspool-train
most() { awk '$1 == "+" { if (++n > most) most = n } $1 == "-" { n-- } END { print most + 0 }' begins; }

node boxa --slots 4 --max-running 2
node boxb --slots 4 --max-running 2
drop_owner=$one
for i in 1 2 3 4 5 6 7 8; do short one$i; done
wait_until 60 state_of_all done one1 one2 one3 one4 one5 one6 one7 one8
ok $? "the jobs of a user run"
expect "as many at once as may on all nodes together" test "$(most)" -le 2
expect "all of them once" test "$(grep -c + begins)" -eq 8
end_node boxa
end_node boxb

node boxa --slots 1 --max-running 2
drop hold1 cpu 'threads: 1'
wait_until 20 runs hold1
node boxb --slots 4 --max-running 2
drop hold2 cpu 'threads: 1'
wait_until 20 runs hold2
drop hold3 cpu 'threads: 1'
expect "two jobs of a user run on two nodes" test "$(node_of hold1) $(node_of hold2)" = 'boxa boxb'
drop_owner=$two
drop other cpu 'threads: 1'
wait_until 20 runs other
ok $? "another user has a limit of their own"
waits_for_owner() { grep -qs '"hold3.yaml":"waits for another job of its owner: 2 may run' s/.trainspool/nodes/*.json; }
wait_until 10 waits_for_owner
ok $? "a job waits for the limit"
# the trainers of a watch that is killed count on
end_node boxa KILL
sleep 1.5
expect "also if the watch of another node was killed" waits hold3
cancel hold1
wait_until 20 runs hold3
ok $? "until a job of the user ends"
cancel hold2 hold3 other
wait_until 20 all_end hold1 hold2 hold3 other
wait_until 40 grep -q "^$one " s/.trainspool/usage.box*
ok $? "each node notes what users have used"
plan
