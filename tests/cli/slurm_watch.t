#!/bin/sh
# What a watch does with jobs that it has submitted to Slurm: new texts, commands, lost submissions. The
# programs of Slurm are scripts here.
. "${top_srcdir-.}/tests/cli/lib.sh"
has_model || { skip "jobs that were submitted" "no $model" && plan && exit 0; }
. "$source/tests/cli/slurm_fake.sh"

cd "$T" || exit 99
mkdir spool
make_data spool
: >daemon.log
in_slurm='trainspool: {backend: slurm, device: cpu}'
drop() { # NAME STEPS [BLOCK]
    { job "$2" && echo "${3-$in_slurm}"; } >spool/.new && mv spool/.new "spool/$1.yaml"
}
submitted() { grep -c 'slurm: submitted as' "spool/$1.run/train.log"; }
watch_again() {
    background "$trainspool" watch spool
    wait_until 10 grep -q "watch: spool, pid $daemon" daemon.log
}
# NAME: the job waits in Slurm, which shows in its state.
waits() { state_is "spool/$1.yaml" ready && reason "spool/$1.yaml" | grep -q 'in the queue of Slurm as job'; }
# NAME: wait for that, and set $id to its number.
submit() {
    wait_until 20 waits "$1"
    ok $? "$1 waits in Slurm"
    id=$(submissions)
}
is_held() { state_is "spool/$1.yaml" ready && [ -e "spool/$1.run/hold" ] && [ ! -e "spool/$1.run/slurm.json" ]; }
total() { sed -n 's/.*"total":\([0-9]*\).*/\1/p' "spool/$1.run/state.json"; }
watch_again

# ---- A new text ----
drop text 5
submit text
drop text 7
wait_until 20 slurm_is "$id" CANCELLED
ok $? "a new text takes the earlier one out of the queue"
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
new=$((id + 1))
wait_until 20 waits text
ok $? "the new text waits in Slurm"
begin-job "$id"
wait_until 10 slurm_is "$id" COMPLETED
ok $? "the earlier one, if Slurm starts it all the same, ends"
expect "it does not train" test ! -e spool/text.run/metrics.jsonl
begin-job "$new"
wait_until 30 state_is spool/text.yaml "done"
ok $? "the new text trains"
expect "it is the new one" test "$(total text)" -eq 7
expect "the log of the watch says so" grep -q 'job text: a new text takes the place of the one in Slurm' daemon.log

# ---- Commands for a job that waits ----
drop hold 5
submit hold
expect_status "hold of a job that waits in Slurm succeeds" 0 "$trainspool" hold spool/hold.yaml
expect_output "it says what happens" "will leave Slurm's queue, held"
wait_until 20 slurm_is "$id" CANCELLED
ok $? "it leaves the queue"
wait_until 20 is_held hold
ok $? "it is held"
expect_status "release of that job succeeds" 0 "$trainspool" release spool/hold.yaml
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "it is submitted again"
submit hold
expect_status "retry of a job that waits in Slurm changes nothing" 0 "$trainspool" retry spool/hold.yaml
expect_output "it says why" "already waits in Slurm's queue"
expect_status "requeue of a job that waits in Slurm succeeds" 0 "$trainspool" requeue spool/hold.yaml
expect_output "it says what happens" "will leave Slurm's queue and be submitted again"
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "it is submitted again"
expect "its earlier submission was canceled" slurm_is "$id" CANCELLED
submit hold
expect_status "cancel of a job that waits in Slurm succeeds" 0 "$trainspool" cancel spool/hold.yaml
expect_output "it says what happens" "will leave Slurm's queue"
wait_until 20 state_is spool/hold.yaml stopped
ok $? "it is stopped"
expect "it left the queue" slurm_is "$id" CANCELLED

drop late 150
submit late
begin-job "$id"
set_slurm "$id" PENDING
wait_until 30 has_reached spool/late.yaml 20
ok $? "a job runs that Slurm still shows as waiting"
expect_status "requeue of that job succeeds" 0 "$trainspool" requeue spool/late.yaml
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "it is submitted again"
submit late
begin-job "$id"
wait_until 60 state_is spool/late.yaml "done"
ok $? "it is done"
expect "it was submitted twice" test "$(submitted late)" -eq 2

plan
