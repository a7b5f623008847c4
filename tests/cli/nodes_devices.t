#!/bin/sh
# Nodes with different GPUs, which made-up probes describe: what a job is checked for, and who runs it.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/devices.sh"
. "$source/tests/cli/nodes.sh"

mkdir -p boxa boxb
for box in boxa boxb; do
    cp "$trainspool" $box/
    sed "s|$T/probe\$|$T/$box/probe|" bin/trainspool-train >$box/trainspool-train
    chmod +x $box/trainspool-train
done
card() { # NODE CAPABILITY MIB: the GPU of a node
    {
        echo 'trainspool-probe 1'
        row cpu 'A CPU' 8 17179869184 17179869184
        row cuda 0 "GPU of $1" "$2" $(($3 * 1048576)) $(($3 * 1048576)) 1
    } >"$1/probe"
}
box() { # NAME: start its watch
    trainspool=$T/$1/trainspool
    node "$1"
    trainspool=$T/bin/trainspool
}
capability() { jq .capability "s/$1.run/state.json"; }

card boxa 7.5 200
card boxb 8.0 4096
box boxa
box boxb
joined() { [ "$(grep -c 'node boxb shares the folder' boxa.log)" -ge "$1" ]; } # so many times
wait_until 10 joined 1
drop large cuda
wait_until 20 is_on boxb large
ok $? "a job that one node has no room for runs on another one"
expect "checked for the GPU there" test "$(capability large) $(devices large)" = '80 cuda:0'
expect "which the node did not take in" grep -q 'job large: ready' boxa.log
drop next cuda
wait_until 20 is_on boxb next
ok $? "the next one, too"
drop cpu1 cpu 'threads: 8'
drop cpu2 cpu 'threads: 8'
wait_until 20 all_run cpu1 cpu2
ok $? "jobs on CPUs run on both"
cancel large next cpu1 cpu2
wait_until 20 all_end large next cpu1 cpu2

# without a node that has such a GPU
"$trainspool" pause s >out 2>&1
drop lost cuda
wait_until 10 state_is s/lost.yaml ready
expect "a job that waits for the GPU of a node" test "$(capability lost)" = 80
end_node boxb KILL
"$trainspool" unpause s >out 2>&1
wait_until 20 state_is s/lost.yaml rejected
ok $? "is checked again if the node dies"
expect "for what is left" grep -q 'GPU of boxa' s/lost.run/train.log
card boxb 8.0 190
box boxb
wait_until 10 joined 2
drop never cuda
wait_until 20 state_is s/never.yaml rejected
ok $? "a job that fits no node is rejected"
expect "for the largest of their GPUs" grep -q 'checked for node boxa, which has the largest device' s/never.run/state.json
end_node boxb
end_node boxa

# One job waits for the GPU of boxa: the next one is for that of boxb.
rm -r s/*.yaml s/*.run
card boxa 7.5 4096
card boxb 8.0 4096
box boxa
box boxb
wait_until 10 joined 3
"$trainspool" pause s >out 2>&1
drop first cuda
wait_until 10 state_is s/first.yaml ready
drop second cuda
wait_until 10 state_is s/second.yaml ready
drop third cuda
wait_until 10 state_is s/third.yaml ready
expect "jobs are spread over GPUs of different kinds" test "$(for job in first second third; do capability $job; done | sort | tr '\n' ' ')" = '75 75 80 '
drop named cuda:0
wait_until 10 state_is s/named.yaml ready
"$trainspool" unpause s >out 2>&1
wait_until 20 all_run first second third named
ok $? "all of them run"
wrong() { # a job on the GPU of another kind than it was checked for
    for job in first second third; do
        case $(capability $job)$(node_of $job) in 75boxa | 80boxb) ;; *) return 0 ;; esac
    done
    return 1
}
wrong
expect "each where it was checked for" test $? -eq 1
cancel first second third named
wait_until 20 all_end first second third named
end_node boxb
end_node boxa
plan
