#!/bin/sh
# Two ranks in network namespaces, as on two machines: one stands still for a while, and the link between them
# is cut.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

why=
if ! has_model; then
    why="no $model"
elif [ "$(id -u)" -ne 0 ]; then
    why="only root can make network namespaces"
elif ! command -v ip nsenter >/dev/null; then
    why="ip or nsenter is missing"
fi
spaces="tsa$$ tsb$$"
leave() {
    for space in $spaces; do ip netns del "$space" 2>/dev/null; done
    finish
}
trap leave EXIT
if [ -z "$why" ]; then
    for space in $spaces; do ip netns add "$space"; done >"$T/out" 2>&1 &&
        ip link add va netns "tsa$$" type veth peer name vb netns "tsb$$" >>"$T/out" 2>&1 ||
        why="no network namespaces: $(tail -n 1 "$T/out")"
fi
if [ -n "$why" ]; then
    skip "ranks that lose each other" "$why"
    plan
    exit 0
fi
ip -n "tsa$$" addr add 10.77.0.1/24 dev va
ip -n "tsb$$" addr add 10.77.0.2/24 dev vb
for side in a b; do
    ip -n "ts$side$$" link set lo up
    ip -n "ts$side$$" link set "v$side" up
done
make_data .

# RANK ARGUMENTS...: start a rank on its machine; its process is $rank_RANK.
rank() {
    rank_number=$1
    rank_space=$([ "$1" -eq 0 ] && echo "tsa$$" || echo "tsb$$")
    shift
    nsenter --net="/run/netns/$rank_space" env RANK="$rank_number" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
        GROUP_WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 "$train" "$@" >"rank$rank_number.out" 2>&1 &
    eval "rank_$rank_number=$!"
    pids="$pids $!"
}
sum() { sha256sum <"$1/model.safetensors"; }

job 400 'lr_scheduler_type: constant' 'trainspool: {device: cpu, threads: 1, ranks: 2}' >whole.yaml
"$train" whole.yaml >out 2>&1 || exit 99

job 400 'lr_scheduler_type: constant' 'trainspool: {device: cpu, threads: 1}' >slow.yaml
rank 1 slow.yaml
rank 0 slow.yaml
wait_until 20 has_reached slow.yaml 3
kill -STOP "$rank_1"
sleep 1
held=$(step slow.yaml)
sleep 3
expect "all wait for a rank that stands still" test "$(step slow.yaml)" = "$held"
kill -CONT "$rank_1"
wait "$rank_0"
ok $? "and continue when it does"
expect "with the same bits" test "$(sum slow.run)" = "$(sum whole.run)"

job 1000000 'lr_scheduler_type: constant' 'trainspool: {device: cpu, threads: 1}' >cut.yaml
rank 1 cut.yaml
rank 0 cut.yaml
saved() { ls -d cut.run/checkpoint-* >out 2>&1; }
wait_until 20 saved
ip -n "tsb$$" link set vb down
began=$(date +%s)
for number in 0 1; do
    eval "wait \$rank_$number"
    ok $(($? == 0)) "rank $number ends when the link is cut"
done
took=$(($(date +%s) - began))
[ "$took" -lt 30 ] || echo "# $took s"
expect "in seconds" test "$took" -lt 30
expect "the log names the rank" grep -q 'rank 1.*does not answer' cut.run/train.log
ip -n "tsb$$" link set vb up
sed 's/^max_steps: .*/max_steps: 400/' cut.yaml >new && mv new cut.yaml
rank 1 --resume cut.yaml
rank 0 --resume cut.yaml
wait "$rank_0"
ok $? "the job continues when the link is back"
expect "with the bits of an undisturbed run" test "$(sum cut.run)" = "$(sum whole.run)"
plan
