#!/bin/sh
# trainspool watch with several jobs at once: on GPUs that a made-up probe describes, where the trainer
# uses the CPU instead of a GPU, and on the cores of the CPU.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/devices.sh"

cards 4096 4096
start
drop one auto
drop two cuda
expect "two jobs run at once" wait_until 20 all_run one two
expect "each has its own GPU" test "$(devices one) $(devices two)" = "cuda:0 cuda:1"
expect_status "status --json succeeds" 0 "$trainspool" status --json s
expect_output "it shows the devices" '"name":"two".*"devices":"cuda:1"'
shows() { # PATTERN: a line of the status matches
    "$trainspool" status s >"$T/out" 2>&1 && grep -q -e "$1" "$T/out"
}
expect "status shows how many jobs run" wait_until 5 shows '^2 jobs run$'
expect "and what each device does" shows '^cuda:1: 1 job, .* of 4.0 GiB planned, 4.0 GiB free$'
drop three cuda:0
expect "a third job shares a GPU if its plan fits" wait_until 20 runs three
expect "it is the named GPU" test "$(devices three)" = cuda:0

kill -9 "$daemon"
wait "$daemon" 2>/dev/null
start
expect "a new watch adopts all three jobs" wait_until 20 adopted 3
drop four auto
expect "it starts another one next to them" wait_until 20 runs four
cancel one two three four
expect "all of them end" wait_until 20 all_end one two three four
expect "each ran once" test "$(grep -c frozen starts)" -eq 4
stop

total=1024
cards 300
start
drop late cuda
wait_until 20 waits late
sleep 1
expect "a job waits for memory that another program uses" waits late
expect "status shows for what" wait_until 5 shows '^late  *ready .* waits for .* MiB on cuda:0, next$'
expect_status "status --json succeeds" 0 "$trainspool" status --json s
expect_output "and shows it too" '"name":"late",.*"state":"ready","reason":"waits for .* on cuda:0"'
cards 1024
expect "it starts once the memory is free" wait_until 20 runs late
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
cards 600
start
drop next cuda
expect "after a restart the watch checks a job for all of the memory" wait_until 20 waits next
sleep 1
expect "the adopted job keeps its memory" waits next
cancel late
wait_until 20 ends late
cards 1024
expect "which a job that waits gets at its end" wait_until 20 runs next
cancel next
wait_until 20 ends next
stop
cards 200
start
drop huge cuda
expect "a job is checked for the devices as the watch found them" wait_until 20 waits huge
stop
total=200
cards 200
start
expect "a job that can never fit is rejected" wait_until 20 state_is s/huge.yaml rejected
expect "with the reason" grep -q 'may use' s/huge.run/state.json
stop
rm -r s/huge.run s/huge.yaml
total=4096
cards 4096 4096

echo second.yaml >taken
start --slots 4
drop second cpu 'threads: 1'
expect "a job that finds its memory taken stays ready" wait_until 20 test ! -e taken
drop third cpu 'threads: 1'
expect "and does not keep others from starting" wait_until 4 runs third
expect "it starts later" wait_until 20 runs second
expect "without a crash" jq_accepts -e '.crashes == 0' s/second.run/state.json
cancel second third
wait_until 20 all_end second third
stop

start --slots 1
drop five auto
expect "with one slot a job runs" wait_until 20 runs five
drop six auto
sleep 0.5
expect "and another one waits" waits six
expect "status shows the slots" wait_until 5 shows '^1 of 1 slots in use$'
expect "and that it waits for one" wait_until 5 shows '^six .* waits for a slot, next$'
cancel five
expect "until the slot is free" wait_until 20 runs six
cancel six
wait_until 20 ends six
stop

start
drop alone cuda:0
wait_until 20 runs alone
drop ranks auto 'ranks: 2'
expect "a job with two ranks starts on two GPUs" wait_until 20 runs ranks
expect "and shares one with another job" test "$(devices ranks)" = cuda:0,1
cancel alone ranks
wait_until 20 all_end alone ranks
stop

start --devices cuda:1
drop seven auto
expect "a watch uses only the GPUs of --devices" wait_until 20 runs seven
expect "for a job that could use others too" test "$(devices seven)" = cuda:1
cancel seven
wait_until 20 ends seven
stop
expect_status "--devices refuses a GPU that is not there" 2 "$trainspool" watch --devices cuda:7 s
expect_error "and names the option" '--devices cuda:7'
expect_status "--slots refuses 0" 2 "$trainspool" watch --slots 0 s

shows_ill() { shows "^cuda:0 gets no job: $1"; }
cards 4096
background "$trainspool" watch --metrics "$T/metrics" --page "$T/page.html" s
wait_until 10 test -e metrics
sleep 1
rm probe
drop lone cuda
wait_until 20 waits lone
expect "a GPU that the probe does not find gets no job" wait_until 20 shows_ill 'trainspool-train'
expect "which the job waits for" wait_until 5 shows '^lone .* waits for a device that does not work now, next$'
ill='8 uncorrectable memory errors'
cards 4096
expect "nor does one whose driver reports a fault" wait_until 20 shows_ill '8 uncorrectable'
expect "which the metrics show" wait_until 60 grep -q 'device_usable{device="cuda:0"} 0' metrics
expect "and the page" wait_until 60 grep -q '<strong>cuda:0 gets no job: 8 unc' page.html
cards 4096
expect "it gets jobs again once a probe finds it well" wait_until 20 runs lone
cancel lone
wait_until 20 ends lone
stop

cards 4096 4096
: >broken
start --log daemon2.log
drop moves auto 'max_retries: 5'
expect "two jobs in a row lose a GPU" wait_until 20 shows_ill '2 jobs in a row lost it: .*status 78'
expect "the next attempt uses another one" wait_until 20 runs moves
expect "which works" test "$(devices moves)" = cuda:1
rm broken
drop pinned cuda:0
wait_until 20 waits pinned
sleep 1
expect "the GPU that was lost gets no job" waits pinned
kill -HUP "$daemon"
expect "until SIGHUP" wait_until 20 runs pinned
cancel moves pinned
wait_until 20 all_end moves pinned
stop

# GPUs are measured without a context once it is known what one takes: here 300 MiB.
cards 100
sed 's/^cuda.*/&\t\t314572800\t0000:3b:00.0/' probe >probe.new
mv probe.new probe
free() { printf 'free\t0\t%s%s\n' $(($1 * 1048576)) "${2:+	$2}" >free.new; mv free.new free; } # MIB [ILL]
free 500
: >probes
start
wait_until 20 test -s probes
drop raw cuda
expect "a job waits for what a context leaves" wait_until 20 shows '^raw .* waits for .* on cuda:0'
expect "which is measured by the bus of the GPU" wait_until 20 grep -qxs '0/0000:3b:00.0' measured
sleep 1
expect "and waits if that is too little" waits raw
free 4396
expect "it starts once that is enough" wait_until 20 runs raw
expect "no GPU was probed again" test "$(grep -c '' probes)" -eq 1
cancel raw
wait_until 20 all_end raw
free 4396 '3 uncorrectable memory errors'
mv probe probe.well
sed 's/	1		/	1	2 uncorrectable memory errors	/' probe.well >probe
try "$trainspool" devices
expect_output "devices shows a GPU that is ill" '^cuda:0 .* free):.*; does not work: 2 uncorrectable memory errors$'
"$trainspool" devices --json >out
expect "as JSON, too" jq_accepts -e '.devices[1].ill == "2 uncorrectable memory errors"' out
rm probe
drop ill cuda
expect "a measurement finds a GPU that is ill" wait_until 20 shows_ill '3 uncorrectable'
mv probe.well probe
free 4396
expect "a probe finds that it is well again" wait_until 20 runs ill
cancel ill
wait_until 20 all_end ill
stop

cards
start
drop c1 cpu 'threads: 3'
drop c2 cpu 'threads: 4'
expect "jobs whose threads fit share the CPU" wait_until 20 all_run c1 c2
drop c3 cpu 'threads: 2'
drop c4 cpu
sleep 0.5
expect "another one waits for cores" waits c3
expect "status shows how many" wait_until 5 shows '^c3 .* waits for 2 cores, next$'
expect "and one that uses all of them" waits c4
cancel c1
expect "the first that fits starts" wait_until 20 runs c3
cancel c2 c3
expect "then the one that uses all of them" wait_until 20 runs c4
cancel c4
wait_until 20 ends c4
stop

start --slots 2
drop c5 cpu
drop c6 cpu
expect "slots share the cores" wait_until 20 all_run c5 c6
expect "each gets half of them" grep -q 'threads=4.*c6' starts
cancel c5 c6
wait_until 20 all_end c5 c6
stop
plan
