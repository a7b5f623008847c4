#!/bin/sh
# The turns and limits of several users in a folder that root's watch serves. The GPUs are a made-up probe's;
# the trainer uses the CPU instead.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/users.sh"
. "$source/tests/cli/devices.sh"
chmod 1777 s
chmod -R a+rX units-1m units-text.jsonl
cards 4096
drop_as() { # USER NAME [DEVICE]
    drop_owner=$1
    drop "$2" "${3-cpu}"
}
end_job() {
    cancel "$1"
    wait_until 30 ends "$1"
}
is_running() { has_reached "s/$1.yaml" 1; }
# NAME PATTERN: the reason of a job matches.
shows() { "$trainspool" status "s/$1.yaml" | grep -q "$2"; }

# A user who ends jobs as a hung driver would is no reason to take a GPU from the others.
: >broken
: >starts
chmod 666 starts
background "$trainspool" watch s
drop_owner=$one
drop lost1 cuda:0 'max_retries: 2'
wait_until 60 state_is s/lost1.yaml failed
expect "a GPU that jobs of one user lose" [ "$(grep -c 'cuda:0' starts)" -eq 3 ]
grep -q 'cuda:0 gets no job' daemon.log
expect "gets jobs all the same" [ $? -eq 1 ]
drop_owner=$two
drop lost2 cuda:0 'max_retries: 0'
wait_until 30 state_is s/lost2.yaml failed
wait_until 20 grep -q 'cuda:0 gets no job: 2 jobs in a row lost it' daemon.log
ok $? "until one of another user loses it, too"
wait_until 20 grep -q '"ill":"2 jobs in a row lost it"' s/.trainspool/fleet.json
ok $? "what all can read does not say why their jobs ended"
stop
rm -r broken starts s/lost*

background "$trainspool" watch --slots 1 s
drop_as $one a1
wait_until 30 is_running a1
drop_as $one a2
wait_until 30 state_is s/a2.yaml ready
drop_as $two b1
wait_until 30 state_is s/b1.yaml ready
turn() { "$trainspool" status s | grep -q "^$1 .*$2\$"; }
wait_until 20 turn b1 'waits for a slot, next'
ok $? "status shows the turns that use gives"
wait_until 20 turn a2 'waits for a slot, 1 ahead of it'
ok $? "of all that wait"
end_job a1
wait_until 30 is_running b1
ok $? "a user who has used nothing goes before one who has"
expect "whose job waits" state_is s/a2.yaml ready
stop
expect "the watch keeps what they have used" grep -q "^$one " s/.trainspool/usage
expect "for itself" [ "$(stat -c %a s/.trainspool/usage)" = 600 ]
end_job b1

limits='--slots 8 --max-running 1 --max-queued 1 --gpu-hours 1/1d'
echo "$one $(($(date +%s) / 3600)) 7200 7200" >>s/.trainspool/usage
# shellcheck disable=SC2086
background "$trainspool" watch $limits s
wait_until 30 is_running a2
drop_as $one a3
wait_until 30 state_is s/a3.yaml ready
wait_until 20 shows a3 'waits for another job of its owner: 1 may run (max_running)'
ok $? "as many jobs of a user run as may"
drop_as $one a4
wait_until 30 state_is s/a4.yaml rejected
expect "as many wait as may" shows a4 'its owner has 1 job in the queue, as many as may wait (max_queued)'
# A user forges the state of a job that waits or is rejected, and the watch reads it.
forge() { # NAME FROM TO
    as $one sed -i "s/\"state\":\"$2\"/\"state\":\"$3\"/" "s/$1.run/state.json"
    touch s/.trainspool/wake
}
refuses() { grep -q " $1.yaml: its owner has 1 job in the queue" daemon.log; }
has_left() { ! grep -q "\"$1.yaml\"" s/.trainspool/fleet.json; }
forge a4 rejected ready
wait_until 20 refuses a4
ok $? "a state that its owner wrote queues no job"
forge a4 ready rejected
forge a3 ready stopped
wait_until 20 has_left a3
ok $? "a job that seems to have stopped leaves the queue"
drop_as $one a6
wait_until 30 state_is s/a6.yaml ready
forge a3 stopped ready
wait_until 20 refuses a3
ok $? "and counts like a new one when it is back"
cancel a6
wait_until 20 shows a3 'waits for another job of its owner: 1 may run (max_running)'
ok $? "so that it waits again when there is room"
as $one mv s/a3.yaml s/a3.moved
as $one touch s/a3.yaml # so that the watch looks for it, and finds that it is gone
as $one rm s/a3.yaml
sleep 2.5
drop_as $one a7
wait_until 30 state_is s/a7.yaml rejected
ok $? "a job in the queue counts while its file is gone"
as $one mv s/a3.moved s/a3.yaml
drop_as $two b2
wait_until 30 is_running b2
ok $? "a job of another user runs meanwhile"
drop_as 0 root1
drop_as 0 root2
wait_until 30 is_running root1 && wait_until 30 is_running root2
ok $? "root has no limits"
kill -9 "$daemon"
wait_until 20 has_exited "$daemon"
drop_as $one a5
# shellcheck disable=SC2086
background "$trainspool" watch $limits s
wait_until 30 state_is s/a5.yaml rejected
ok $? "another watch counts the jobs that wait"
wait_until 20 shows a3 'max_running'
ok $? "and those that run"
expect "it started none" state_is s/a3.yaml ready
for name in root1 root2 a2 b2; do end_job $name; done
wait_until 30 is_running a3
ok $? "the next one starts in its turn"
end_job a3
drop_as $one g1 cuda
drop_as $two g2 cuda
wait_until 30 is_running g2
ok $? "a user who has used no GPU gets it"
wait_until 20 shows g1 'waits: its owner has used 2\.0 of 1 GPU hours in 1 day (gpu_hours)'
ok $? "one who has used it for as long as allowed does not"
expect "status shows why, if others may read the state" grep -q '"g1.yaml":"waits: its owner' s/.trainspool/fleet.json
as $one chmod 700 s/g1.run
touch s/.trainspool/wake
wait_until 20 grep -q '"g1.yaml":"waits for devices or its turn"' s/.trainspool/fleet.json
ok $? "else it does not"
end_job g2
stop
expect "what a GPU was used for is counted" \
    awk -v user=$two '$1 == user { gpu += $3 } END { exit !(gpu > 0) }' s/.trainspool/usage
expect_status "hours must be a number" 2 "$trainspool" watch --gpu-hours 40/week s
expect_error "or the message shows how" 'hours such as 40, 40/7d or 8/24h'
plan
