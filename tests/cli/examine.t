#!/bin/sh
# The watch reads no model itself: jobs whose models cannot be read in reasonable time hold up nothing else.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99
mkdir spool outside

# PROCESS: print the ids of the children that examine its jobs.
examiners() {
    for examiner in /proc/[0-9]*/stat; do
        read -r stat 2>/dev/null <"$examiner" || continue
        case $stat in
            *"(trainspool-exam) "[A-Z]" $1 "*) echo "${stat%% *}" ;;
        esac
    done
}
has_examiner() { [ -n "$(examiners "$daemon")" ]; }
# NAME: drop a job that is rejected at once.
drop() {
    invalid_job >"outside/$1.yaml"
    mv "outside/$1.yaml" spool/
}
ends_within() { # SECONDS: after SIGTERM
    kill -TERM "$daemon"
    wait_until "$1" has_exited "$daemon"
}

background "$trainspool" watch spool
drop a
wait_until 10 state_is spool/a.yaml rejected
ok $? "a job is examined"
expect "by a child" has_examiner

# stopped, it behaves as if it waited for a hung mount
first=$(examiners "$daemon")
kill -STOP "$first"
drop b
drop c
wait_until 10 state_is spool/c.yaml rejected
ok $? "an examiner that hangs does not stop the next job"
expect "another one took it" test "$(examiners "$daemon" | wc -l)" -eq 2
kill -CONT "$first"
wait_until 10 state_is spool/b.yaml rejected
ok $? "its own job is handled when it continues"

kill -KILL "$first"
drop d
wait_until 20 state_is spool/d.yaml rejected
ok $? "a killed examiner is replaced"

kill -STOP $(examiners "$daemon")
drop e
sleep 0.2
last=$(examiners "$daemon")
ends_within 2
ok $? "a watch ends while an examiner hangs"
for examiner in $last; do
    wait_until 5 has_exited "$examiner" || echo "# examiner $examiner is left"
done
expect "its examiners end with it" sh -c "! kill -0 $(echo "$last" | head -1) 2>/dev/null"
background "$trainspool" watch spool
wait_until 10 state_is spool/e.yaml rejected
ok $? "the next watch examines the job"
ends_within 5

if has_model && command -v python3 >/dev/null; then
    # the header of safetensors is JSON, which takes more than ten times its size when parsed
    mkdir huge
    cp "$model"/* huge/
    python3 - huge/model.safetensors <<'END'
import struct, sys
entry = ',"layer.%d":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
body = "".join(entry % i for i in range(1200000))[1:]
header = ("{" + body + "}").encode()
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header + bytes(4))
END
    rm -f huge/*.bin
    make_data spool
    background "$trainspool" watch spool
    sed_model() { job 10 | sed "s|^model_name_or_path:.*|model_name_or_path: $T/huge|"; }
    sed_model >outside/huge.yaml
    mv outside/huge.yaml spool/
    sleep 0.3
    # the watch takes the next job although it needs seconds for the last one
    drop f
    wait_until 3 state_is spool/f.yaml rejected
    ok $? "a huge header does not make the watch deaf"
    if grep -q libasan "$trainspool"; then # it ends a process at its memory limit, as a fault of the machine would
        skip "its job is rejected" "AddressSanitizer"
    else
        wait_until 60 state_is spool/huge.yaml rejected
        ok $? "its job is rejected"
    fi
    peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$daemon/status")
    echo "# the watch used up to $peak kB; rejected: $(reason spool/huge.yaml)"
    expect "the watch needs no memory for it" test "$peak" -lt 100000
    ends_within 5
else
    skip "a huge header does not make the watch deaf" "no model or no python3"
    skip "its job is rejected" "the same"
    skip "the watch needs no memory for it" "the same"
fi
plan
