#!/bin/sh
# What a watch does with jobs that it has submitted to Slurm: new texts, commands, lost submissions. The
# programs of Slurm are scripts here.
. "${top_srcdir-.}/tests/cli/lib.sh"
has_model || { skip "jobs that were submitted" "no $model" && plan && exit 0; }
. "$source/tests/cli/slurm_fake.sh"

submitted() { grep -c 'slurm: submitted as' "spool/$1.run/train.log"; }
is_held() { state_is "spool/$1.yaml" ready && [ -e "spool/$1.run/hold" ] && [ ! -e "spool/$1.run/slurm.json" ]; }
total() { sed -n 's/.*"total":\([0-9]*\).*/\1/p' "spool/$1.run/state.json"; }
is_done() { # NAME
    wait_until 60 state_is "spool/$1.yaml" "done" && return
    { cat "spool/$1.run/state.json" "$SLURM"/[0-9]*.state && tail -n 5 "spool/$1.run/train.log"; } >out
    return 1
}
has_ended() { ! kill -0 "-$1" 2>/dev/null; }
start_spool
{ job 5 && echo "$in_slurm"; } >local.yaml

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
is_done text
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

drop late 100000
submit late
begin-job "$id"
set_slurm "$id" PENDING
wait_until 30 has_reached spool/late.yaml 20
ok $? "a job runs that Slurm still shows as waiting"
expect_status "requeue of that job succeeds" 0 "$trainspool" requeue spool/late.yaml
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "it is submitted again"
submit late
reached=$(step spool/late.yaml)
begin-job "$id"
wait_until 30 has_reached spool/late.yaml $((reached + 10))
ok $? "it continues"
expect "it was submitted twice" test "$(submitted late)" -eq 2

# ---- A job that Slurm takes longer to end than its ranks ----
printf 'echo "%s|RUNNING|None|"\nexit 0\n' "$id" >"$SLURM/how.squeue"
expect_status "cancel of a job that trains succeeds" 0 "$trainspool" cancel spool/late.yaml
wait_until 30 state_is spool/late.yaml stopped
ok $? "it is stopped"
kill "$daemon"
wait_until 20 has_exited "$daemon"
ok $? "the watch ends before Slurm says that the job did"
expect "the submission is known" test -s spool/late.run/slurm.json
expect_status "retry of that job succeeds" 0 "$trainspool" retry spool/late.yaml
expect "nothing that its ranks noted is left" test ! -e spool/late.run/cluster.json -a ! -e spool/late.run/slurm.exit
rm "$SLURM/how.squeue"
watch_again
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "it is submitted again"
submit late
begin-job "$id"
wait_until 30 has_reached spool/late.yaml $((reached + 10))
ok $? "it continues"
expect_status "cancel of a job that trains succeeds" 0 "$trainspool" cancel spool/late.yaml
wait_until 30 state_is spool/late.yaml stopped
ok $? "it is stopped"
wait_until 5 test ! -e spool/late.run/slurm.json
ok $? "its submission has ended"

# ---- Lost submissions ----
drop lost 5 "${in_slurm%\}}, max_retries: 1}"
submit lost
set_slurm "$id" GONE
wait_until 30 test -e "$SLURM/$((id + 1)).sh"
ok $? "a job that Slurm has lost is submitted again"
submit lost
set_slurm "$id" GONE
wait_until 30 state_is spool/lost.yaml failed
ok $? "a job that Slurm loses each time has failed"
reason spool/lost.yaml >out
expect_output "the reason says so" "Slurm: job $id is unknown to the controller; gave up after 2 lost submissions"
expect "it was submitted no more" test "$(submissions)" -eq "$id"
expect_status "retry of that job succeeds" 0 "$trainspool" retry spool/lost.yaml
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "it is submitted again"
submit lost
set_slurm "$id" PREEMPTED
wait_until 30 test -e "$SLURM/$((id + 1)).sh"
ok $? "a preempted job is submitted again"
submit lost
set_slurm "$id" NODE_FAIL
wait_until 30 test -e "$SLURM/$((id + 1)).sh"
ok $? "so is one whose node failed: neither counts"
submit lost
begin-job "$id"
is_done lost
ok $? "it is done"

# ---- A pause ----
drop pause 5
submit pause
expect_status "pause of the folder succeeds" 0 "$trainspool" pause spool
expect_output "it says what becomes of a submitted job" '1 submitted job will start when Slurm does so'
drop later 5
wait_until 20 state_is spool/later.yaml ready
expect "the job that waits in Slurm stays there" slurm_is "$id" PENDING
expect_status "pause --stop succeeds" 0 "$trainspool" pause --stop spool
expect_output "it says so" "1 submitted job will leave Slurm's queue"
wait_until 20 slurm_is "$id" CANCELLED
ok $? "it leaves the queue"
wait_until 20 test ! -e spool/pause.run/slurm.json
expect "nothing is submitted meanwhile" test "$(submissions)" -eq "$id"
expect_status "unpause succeeds" 0 "$trainspool" unpause spool
wait_until 20 waits pause
ok $? "the job is submitted again"
wait_until 20 waits later
ok $? "so is the one that came meanwhile"
begin-job "$((id + 1))"
begin-job "$((id + 2))"
is_done pause
ok $? "the first is done"
is_done later
ok $? "the second is done"

# ---- The file of a submitted job disappears ----
drop gone 5
submit gone
rm spool/gone.yaml
expect_status "submit of another job succeeds" 0 "$trainspool" submit --as-is spool local.yaml
wait_until 20 waits local
expect "the submission stays" slurm_is "$id" PENDING
begin-job "$id"
is_done gone
ok $? "a job without its file is done"
id=$((id + 1))
expect_status "submit does not replace a submitted job" 2 "$trainspool" submit --as-is spool local.yaml
expect_error "it says how" '\-\-force replaces it'
expect_status "clean leaves the files of a submitted job" 0 "$trainspool" clean --keep-days 0 spool/local.yaml
expect "they are there" test -s spool/local.run/slurm.json
{ job 7 && echo "$in_slurm"; } >local.yaml
expect_status "submit --force succeeds" 0 "$trainspool" submit --force --as-is spool local.yaml
wait_until 20 slurm_is "$id" CANCELLED
ok $? "the submission leaves the queue"
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
submit local
begin-job "$id"
is_done local
ok $? "the new text is done"
expect "it is the new one" test "$(total local)" -eq 7

# ---- Names ----
name="-x y'z \"ü\" \$(touch oops)"
drop "$name" 5
submit "$name"
expect "the name in Slurm has no special characters" grep -qxE -- '-[-A-Za-z0-9._]+' "$SLURM/$id.name"
begin-job "$id"
is_done "$name"
ok $? "a job with an odd name is done"
expect "no shell read the name" test ! -e spool/oops -a ! -e oops

# ---- Two starts of one submission ----
drop fence 800
submit fence
begin-job "$id"
wait_until 30 has_reached spool/fence.yaml 40
ok $? "a job trains"
old=$(cat "$SLURM/$id.group")
kill -STOP "-$old"
begin-job "$id"
is_done fence
ok $? "the start that follows is done"
wait_until 20 test ! -e spool/fence.run/cluster.json
# A start that stood still in the middle of a step still appends to its logs: train.log, metrics.jsonl, events.
files() {
    find spool/fence.run ! -name lock ! -name '*.log' ! -name metrics.jsonl ! -name 'events.out.*' -type f \
        -printf '%p %i %s %T@\n' | sort
}
is_quiet() { files >before && sleep 0.5 && files >after && cmp -s before after; }
wait_until 10 is_quiet # the watch, too, has finished with the job
ok $? "nothing writes any more"
kill -CONT "-$old"
wait_until 20 has_ended "$old"
ok $? "the earlier start ends when its node is back"
files >after
diff before after >out
ok $? "it writes nothing"
expect "it says why" grep -q 'another submission or start has taken its place' spool/fence.run/train.log

drop both 800
submit both
begin-job "$id"
wait_until 30 has_reached spool/both.yaml 40
old=$(cat "$SLURM/$id.group")
begin-job "$id"
wait_until 20 has_ended "$old"
ok $? "a start ends when another takes its place"
expect "the other continues" state_is spool/both.yaml running
is_done both
ok $? "and is done"
expect "both have the same bits" cmp -s spool/both.run/model.safetensors spool/fence.run/model.safetensors
expect "they were one submission" test "$(submitted both)" -eq 1

drop stop 100000
submit stop
begin-job "$id"
wait_until 30 has_reached spool/stop.yaml 20
expect_status "cancel of another job that trains succeeds" 0 "$trainspool" cancel spool/stop.yaml
wait_until 20 state_is spool/stop.yaml stopped
ok $? "it is stopped"
wait_until 5 test ! -e spool/stop.run/slurm.json
ok $? "its exit is known at once"
expect "it saved a checkpoint" sh -c 'ls -d spool/stop.run/checkpoint-* >/dev/null'

# ---- Commands that Slurm does not take at once ----
drop deaf 5
submit deaf
echo '[ -e "$S/deaf" ] || { : >"$S/deaf"; echo "scancel: error: Unable to contact slurm controller" >&2; exit 1; }' \
    >"$SLURM/how.scancel"
expect_status "requeue, while scancel fails, succeeds" 0 "$trainspool" requeue spool/deaf.yaml
wait_until 20 slurm_is "$id" CANCELLED
ok $? "scancel is tried again"
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "the job is submitted again"
rm "$SLURM/how.scancel"
submit deaf
echo '[ $# -ne 2 ] || begin-job '"$id" >"$SLURM/how.scancel"
expect_status "requeue of a job that starts meanwhile succeeds" 0 "$trainspool" requeue spool/deaf.yaml
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "it is submitted again"
rm "$SLURM/how.scancel"
expect "the earlier submission did not train" test ! -e spool/deaf.run/metrics.jsonl
submit deaf
begin-job "$id"
is_done deaf
ok $? "the later one is done"

# Rank 0 removes a request that it has met, as here in the moment in which the job leaves the queue.
drop met 5
submit met
echo "rm -f '$T/spool/met.run/cancel'" >"$SLURM/how.scancel"
expect_status "requeue that rank 0 meets, too, succeeds" 0 "$trainspool" requeue spool/met.yaml
wait_until 20 test -e "$SLURM/$((id + 1)).sh"
ok $? "it is submitted again"
rm "$SLURM/how.scancel"
submit met
begin-job "$id"
is_done met
ok $? "it is done"

# ---- Slurm does not answer, or says something else ----
drop mute 5
submit mute
no_answer() { reason spool/mute.yaml | grep -q "no answer from Slurm about job $id: $1"; }
# WHAT PATTERN: squeue does what standard input says, for longer than it takes to take a job for lost.
squeue_does() {
    cat >"$SLURM/.how" && mv "$SLURM/.how" "$SLURM/how.squeue"
    : >"$SLURM/squeue.calls"
    wait_until 20 no_answer "$2"
    ok $? "$1: the state says so"
    wait_until 40 sh -c "[ \$(wc -l <$SLURM/squeue.calls) -ge 5 ]"
    expect "$1: nothing is submitted" test "$(submissions)" -eq "$id"
    expect "$1: the job waits" state_is spool/mute.yaml ready
}
squeue_does "the controller is down" 'slurm_load_jobs error: Unable to contact slurm controller' <<'END'
echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2
exit 1
END
squeue_does "squeue fails" 'squeue: failed without a message' <<'END'
exit 3
END
squeue_does "squeue prints something else" 'squeue: unexpected output: <html>' <<'END'
echo '<html>502 Bad Gateway</html>'
exit 0
END
squeue_does "squeue prints half a line" 'squeue: unexpected output: 12|' <<'END'
printf '12|'
exit 0
END
rm "$SLURM/how.squeue"
wait_until 20 waits mute
ok $? "when Slurm answers again, the job waits in it"
begin-job "$id"
is_done mute
ok $? "and is done"

plan
