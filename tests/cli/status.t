#!/bin/sh
# status: one job that cannot be read hides no other, and thousands of jobs cost few system calls.
. "${top_srcdir-.}/tests/cli/lib.sh"
cd "$T" || exit 99

# DIR NAME STATE: make a job with this state.
make_job() {
    mkdir -p "$1/$2.run"
    echo 'stage: sft' >"$1/$2.yaml"
    echo '{"state":"'"$3"'","step":7,"total":7,"loss":2.5}' >"$1/$2.run/state.json"
}

make_job spool a done
make_job spool broken done
rm spool/broken.run/state.json
mkdir spool/broken.run/state.json
make_job spool c failed
expect_status "a folder in the way of a state gives 0" 0 "$trainspool" status spool
expect_output "its job is blocked, with the reason" '^broken  *blocked .*state.json is a directory'
expect_output "the job before it is shown" '^a  *done  *7/7  *2.5'
expect_output "the job after it is shown" '^c  *failed'
expect_status "the same with --json gives 0" 0 "$trainspool" status --json spool
expect "all three jobs are objects" jq_accepts -es 'map(.state) == ["done", "blocked", "failed"]' "$T/out"
expect_status "status of jobs gives 0 for a blocked one" 0 "$trainspool" status spool/a.yaml spool/broken.yaml spool/c.yaml
expect "all three are shown" test "$(wc -l <"$T/out")" -eq 4
expect_status "a missing job gives 2" 2 "$trainspool" status spool/a.yaml nowhere.yaml spool/c.yaml
expect_error "it is reported" 'there is no nowhere.yaml'
expect_output "the job before the missing one is shown" '^a  *done'
expect_output "the job after the missing one is shown" '^c  *failed'
rm -r spool/broken.run spool/broken.yaml
expect_status "without it the status is 0" 0 "$trainspool" status spool

# Another user's folder.
make_job spool foreign done
chmod 755 "$T" spool
chmod 700 spool/foreign.run
if [ "$(id -u)" -ne 0 ]; then
    chmod 0 spool/foreign.run
    as_user=
elif command -v setpriv >/dev/null && setpriv --reuid=65534 --clear-groups "$trainspool" --version >/dev/null 2>&1; then
    as_user='setpriv --reuid=65534 --clear-groups'
else
    as_user=none
fi
if [ "$as_user" != none ]; then
    # shellcheck disable=SC2086
    expect_status "a private folder of another user gives 3" 3 $as_user "$trainspool" status spool
    expect_output "its line has the reason of the system" '^foreign  *unknown .*Permission denied'
    expect_output "the other jobs are shown" '^c  *failed'
    rm spool/foreign.yaml
    # shellcheck disable=SC2086
    expect_status "a private folder without a job gives 3" 3 $as_user "$trainspool" status spool
    expect_output "it may belong to a running job" '^foreign  *unknown'
else
    skip "a private folder of another user gives 3" "another user cannot run $trainspool"
    skip "its line has the reason of the system" "the same"
    skip "the other jobs are shown" "the same"
    skip "a private folder without a job gives 3" "the same"
    skip "it may belong to a running job" "the same"
fi

if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    mkdir many
    i=0
    while [ $i -lt 300 ]; do
        make_job many "job-$i" done
        i=$((i + 1))
    done
    # A sanitizer maps memory and switches threads as often as it needs to.
    calls_of() { # FOLDER
        ASAN_OPTIONS=detect_leaks=0 strace -f -c -e 'trace=!memory,sched_yield,futex' -o calls \
            "$trainspool" status --json "$1" >/dev/null
        awk '$NF == "total" { print $4 }' calls
    }
    mkdir few
    calls=$(($(calls_of many) - $(calls_of few)))
    echo "# $calls system calls for 300 jobs"
    expect "a finished job costs three system calls" test $calls -lt 1000
else
    skip "a finished job costs three system calls" "no strace"
fi
plan
