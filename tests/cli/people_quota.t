#!/bin/sh
# The turns and limits of several users in a folder that root's watch serves. The GPUs are a made-up probe's;
# the trainer uses the CPU instead.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
chmod 755 .
umask 022
one=4711 two=4712
as() { # USER COMMAND...
    as_user=$1
    shift
    setpriv --reuid "$as_user" --regid "$as_user" --clear-groups "$@"
}
if [ "$(id -u)" -ne 0 ] || ! as $one test -x "$train" 2>/dev/null; then
    echo "1..0 # SKIP requires root, setpriv, and programs that others can run"
    exit 0
fi
mkdir bin s
chmod 1777 s
cp "$trainspool" bin
cat >bin/trainspool-train <<EOF
#!/bin/bash
if [ "\$1" = --probe ]; then
    cat $T/probe
    exit
fi
exec $train "\${@/#--device=cuda*/--device=cpu}"
EOF
chmod +x bin/trainspool-train
trainspool=$T/bin/trainspool
{
    echo 'trainspool-probe 1'
    printf 'cpu\tA CPU\t8\t17179869184\t17179869184\n'
    printf 'cuda\t0\tA GPU\t8.0\t4294967296\t4294967296\t1\n'
} >probe
sh "$source/jobs/samples/generate" . >"$T/out" 2>&1 || exit 99
[ -d units-1m ] || cp -r "$source/jobs/samples/models/units-1m" .
chmod -R a+rX units-1m units-text.jsonl
drop() { # USER NAME [DEVICE]: a job that runs until it is canceled
    cat >new.yaml <<EOF
model_name_or_path: $T/units-1m
train_from_scratch: true
stage: pt
finetuning_type: full
dataset: $T/units-text.jsonl
cutoff_len: 32
max_samples: 40
per_device_train_batch_size: 1
max_steps: 1000000
learning_rate: 1.0e-3
logging_steps: 1000
save_strategy: "no"
trainspool:
  device: ${3-cpu}
EOF
    chown "$1" new.yaml
    mv new.yaml "s/$2.yaml"
}
is_running() { has_reached "s/$1.yaml" 1; }
cancel() {
    "$trainspool" cancel -q "s/$1.yaml"
    wait_until 30 state_is "s/$1.yaml" stopped
}
stop_watch() {
    kill -TERM "$daemon"
    wait_until 30 has_exited "$daemon"
}
# NAME PATTERN: the reason of a job matches.
shows() { "$trainspool" status "s/$1.yaml" | grep -q "$2"; }

background "$trainspool" watch --slots 1 s
drop $one a1
wait_until 30 is_running a1
drop $one a2
wait_until 30 state_is s/a2.yaml ready
drop $two b1
wait_until 30 state_is s/b1.yaml ready
turn() { "$trainspool" status s | grep -q "^$1 .*$2\$"; }
wait_until 20 turn b1 'waits for a slot, next'
ok $? "status shows the turns that use gives"
wait_until 20 turn a2 'waits for a slot, 1 ahead of it'
ok $? "of all that wait"
cancel a1
wait_until 30 is_running b1
ok $? "a user who has used nothing goes before one who has"
expect "whose job waits" state_is s/a2.yaml ready
stop_watch
expect "the watch keeps what they have used" grep -q "^$one " s/.trainspool/usage
expect "for itself" [ "$(stat -c %a s/.trainspool/usage)" = 600 ]
cancel b1

limits='--slots 8 --max-running 1 --max-queued 1 --gpu-hours 1/1d'
echo "$one $(($(date +%s) / 3600)) 7200 7200" >>s/.trainspool/usage
# shellcheck disable=SC2086
background "$trainspool" watch $limits s
wait_until 30 is_running a2
drop $one a3
wait_until 30 state_is s/a3.yaml ready
wait_until 20 shows a3 'waits for another job of its owner: 1 may run (max_running)'
ok $? "as many jobs of a user run as may"
drop $one a4
wait_until 30 state_is s/a4.yaml rejected
expect "as many wait as may" shows a4 'its owner has 1 jobs in the queue, as many as may wait (max_queued)'
drop $two b2
wait_until 30 is_running b2
ok $? "a job of another user runs meanwhile"
drop 0 root1
drop 0 root2
wait_until 30 is_running root1 && wait_until 30 is_running root2
ok $? "root has no limits"
kill -9 "$daemon"
wait_until 20 has_exited "$daemon"
drop $one a5
# shellcheck disable=SC2086
background "$trainspool" watch $limits s
wait_until 30 state_is s/a5.yaml rejected
ok $? "another watch counts the jobs that wait"
wait_until 20 shows a3 'max_running'
ok $? "and those that run"
expect "it started none" state_is s/a3.yaml ready
for name in root1 root2 a2 b2; do cancel $name; done
wait_until 30 is_running a3
ok $? "the next one starts in its turn"
cancel a3
drop $one g1 cuda
drop $two g2 cuda
wait_until 30 is_running g2
ok $? "a user who has used no GPU gets it"
wait_until 20 shows g1 'waits: its owner has used 2\.0 of 1 GPU hours in 1 days (gpu_hours)'
ok $? "one who has used it for as long as allowed does not"
cancel g2
stop_watch
expect "what a GPU was used for is counted" \
    awk -v user=$two '$1 == user { gpu += $3 } END { exit !(gpu > 0) }' s/.trainspool/usage
expect_status "hours must be a number" 2 "$trainspool" watch --gpu-hours 40/week s
expect_error "or the message shows how" 'hours such as 40, 40/7d or 8/24h'
plan
