#!/bin/sh
# The watches of several nodes on one folder. The nodes are names: what they share is a folder of this machine.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/devices.sh"
. "$source/tests/cli/nodes.sh"
cards

# ---- Which watches share a folder ----
node boxb --slots 3 --metrics "$T/m.prom"
node boxa --slots 3 --page "$T/page.html"
expect_status "a node has one watch" 75 "$trainspool" watch --node boxa s
expect_error "which the other one names" 's is already watched'
expect_status "one that does not share the folder gets no part of it" 75 "$trainspool" watch s
expect_status "a node has a plain name" 2 "$trainspool" watch --node ../x s
expect_error "the message says which" "--node must have up to 64 letters.*'../x'"
names_alive() { grep -qs "^trainspool_node_alive{node=\"box$1\"} 1" m.boxb.prom; }
wait_until 10 names_alive a && names_alive b
ok $? "each node has metrics of its own, which show all nodes"
end_node boxb KILL
wait_until 30 grep -qs '<strong>node boxb shows no sign of life' page.html
ok $? "the page shows a node that is dead"
end_node boxa
rm s/.trainspool/nodes/boxb.*
background "$trainspool" watch s
wait_until 10 grep -q "pid $daemon" daemon.log
expect_status "nor can others join one that does not share it, such as an older one" 75 "$trainspool" watch --node boxa s
expect_error "the message says how" 'has a watch that does not share it; end that one, or start it with --node'
stop

# ---- Each job runs once ----
mkdir drops
names=
for i in $(seq 30); do
    short_text "priority: 0" >"drops/j$i.yaml"
    names="$names j$i"
done
: >starts
node boxa --slots 3
node boxb --slots 3
mv drops/*.yaml s/
# shellcheck disable=SC2086
wait_until 60 state_of_all done $names
ok $? "thirty jobs that arrive at once are done"
expect "each was started once" test "$(grep -c frozen starts)" -eq 30
expect "in one attempt" test "$(cat s/j*.run/state.json | jq -r '"\(.attempt) \(.crashes)"' | sort -u)" = "1 0"
expect "boxa ran some of them" grep -q '"node":"boxa"' s/j*.run/state.json
expect "and boxb others" grep -q '"node":"boxb"' s/j*.run/state.json
expect "each was taken in once" test "$(cat box?.log | grep -c 'ready, 0 edits made')" -eq 30
wait_until 5 rm -rf s/j* # a trainer ends after it has noted the end of its job

# ---- Order, holds, requests ----
"$trainspool" pause s >out 2>&1
for i in 1 2 3 4 5 6; do short low$i; done
for i in 1 2 3 4 5 6; do short high$i 'priority: 1'; done
wait_until 20 state_of_all ready low1 low2 low3 low4 low5 low6 high1 high2 high3 high4 high5 high6
ok $? "a paused folder takes in jobs"
sleep 1
: >starts
"$trainspool" hold s/low6.yaml >out 2>&1
"$trainspool" cancel s/low5.yaml >out 2>&1
wait_until 10 state_is s/low5.yaml stopped
ok $? "a job that waits is canceled"
"$trainspool" unpause s >out 2>&1
wait_until 30 state_of_all done low1 low2 low3 low4 high1 high2 high3 high4 high5 high6
ok $? "then its jobs run"
expect "those of the highest priority first" test "$(sed -n 's/.* //p' starts | head -n 6 | grep -c high)" -eq 6
expect "but not one that is held" state_is s/low6.yaml ready
drop first cpu 'threads: 1'
drop second cpu 'threads: 1'
drop third cpu 'threads: 1'
drop fourth cpu 'threads: 1'
wait_until 20 all_run first second third fourth
ok $? "more jobs run than one node has slots"
cancel first second third fourth
wait_until 20 all_end first second third fourth
ok $? "a job is canceled wherever it runs"
short_steps=40 short before
short after 'after: before'
wait_until 30 state_of_all done before after
ok $? "a job runs after one that another node may run"
wait_until 5 rm -rf s/*.yaml s/*.run

# ---- A watch dies, a node dies ----
short_steps=30 short_save=5 short_text 'max_retries: 5' >whole.yaml
"$trainspool" run --quiet whole.yaml >out 2>&1
drop stays cpu 'threads: 1'
wait_until 20 has_reached s/stays.yaml 1
owner=$(node_of stays)
shows() { "$trainspool" status s | grep -q "$1"; }
expect "status shows where a job runs" shows "^stays  *running .*  $owner "
expect "and how each node does" shows '^node boxa: [01] of 3 slots in use, last sign of life [0-2] s ago$'
expect "with its devices" shows '^node boxb: cpu: [01] job'
"$trainspool" status --json s >out
expect "as JSON, too" jq_accepts -e "select(.name == \"stays\").node == \"$owner\"" out
other=$([ "$owner" = boxa ] && echo boxb || echo boxa)
: >starts
end_node "$owner" KILL
wait_until 10 grep -q "node $owner shows no sign of life" "$other.log"
ok $? "the others see that a watch dies"
expect "and so does status" wait_until 5 shows "^node $owner: no sign of life for [0-9]* s$"
expect "which still shows its job" shows "^stays  *running .*  $owner "
sleep 1
expect "its job continues" is_on "$owner" stays
expect "which no other node starts again" test ! -s starts
node "$owner" --slots 3
wait_until 10 grep -q 'job stays: already running' "$owner.log"
ok $? "the next watch of its node adopts it"
cancel stays
wait_until 20 ends stays

kill_node() { # NAME JOB: its watch and its trainers
    for pid in $(grep -l "^trainspool-trai" /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3); do
        case $(readlink "/proc/$pid/cwd") in "$T"/*) tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "$2" && kill -9 "$pid" ;; esac
    done
    end_node "$1" KILL
}
sed 's/max_steps: .*/max_steps: 30/' whole.yaml >new
"$trainspool" pause s >out 2>&1
mv new s/moves.yaml
wait_until 10 state_is s/moves.yaml ready
"$trainspool" unpause s >out 2>&1
wait_until 30 test -d s/moves.run/checkpoint-5
owner=$(node_of moves)
other=$([ "$owner" = boxa ] && echo boxb || echo boxa)
eval "kill -STOP \$pid_$owner"
kill_node "$owner" moves
wait_until 60 state_is s/moves.yaml done
ok $? "another node takes the job of one that died"
expect "which runs it" test "$(node_of moves)" = "$other"
expect "from its checkpoint" grep -q 'resum' s/moves.run/train.log
model_sum() { sha256sum <"$1/model.safetensors"; }
expect "with the result of an undisturbed run" test "$(model_sum s/moves.run/checkpoint-30)" = "$(model_sum whole.run/checkpoint-30)"
end_node "$other"
plan
