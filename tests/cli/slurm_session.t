#!/bin/sh
# The session in the manual, section SLURM, on a cluster on this machine: each command prints what is shown there,
# apart from numbers, names and columns.
. "${top_srcdir-.}/tests/cli/lib.sh"
. "$source/tests/cli/cluster.sh"

start_cluster "the session in the manual"
TRAINSPOOL_SLURM_SECONDS=1
PATH=$(dirname "$trainspool"):$PATH
export TRAINSPOOL_SLURM_SECONDS PATH

cd "$T" || exit 99
mkdir spool
make_data .
ln -s "$model" model
awk '/^\.\\" session/ { on = 1; next } /^\.\\" end/ { on = 0 } on' "$source/docs/trainspool-job.5" |
    sed 's/\\-/-/g' >session
sed -n '/^\$ cat story.yaml/,/^\$ /p' session | grep -v '^\$' >story.yaml
expect "the manual has a session with a job" grep -q 'backend: slurm' story.yaml

# What differs from run to run: times, numbers, the processor, the folder.
plain() {
    sed 's/[0-9]\{4\}-[0-9-]*T[0-9:]*Z/TIME/g; s/story-[0-9a-f]\{12\}/SUBMISSION/g; s|-> .*/|-> |g
        s/slurm 4 x [^ ]*\( [A-Z][^ ]*\)*/slurm DEVICE/; s/[0-9][0-9:.]*/N/g; s/  */ /g; s/ - / N /g; s/ - / N /g; s/ $//'
}
# Wait for what the next command shows.  If Slurm loses a node for a moment, it starts the job again after two minutes.
settle() { # COMMAND
    case $1 in
    *status* | *squeue*) wait_until 200 has_state ;;
    *resume:*) wait_until 200 grep -q resume: spool/story.run/train.log ;;
    *slurm:*) wait_until 60 grep -q slurm: spool/story.run/train.log ;;
    esac
}
# Print what explains a difference.
explain() {
    sed 's/^/# is: /' is
    sed 's/^/# watch: /' watch.log
    tail -n 20 spool/story.run/train.log | sed 's/^/# log: /'
    sed 's/^/# slurm.log: /' spool/story.run/slurm.log
    scontrol -o show job | sed 's/^/# job: /'
    tail -n 40 "$T/c/log/slurmctld.log" | sed 's/^/# slurmctld: /'
}
# The job is in the state that the session shows next, or after a step.
wanted=running
has_state() {
    state_is spool/story.yaml "$wanted" && { [ "$wanted" != running ] || has_reached spool/story.yaml 10; }
}
run_command() { # COMMAND: as a user types it
    case $1 in
    *'watch'*'&')
        background sh -c "exec ${1%&}"
        wait_until 10 test -e spool/.trainspool
        : >out
        ;;
    *)
        settle "$1"
        sh -c "$1" >out 2>&1
        ;;
    esac
    case $1 in
    *' cancel '*) wanted=stopped ;;
    *' retry '*) wanted=running ;;
    esac
}
check() { # COMMAND: compare what it prints with the lines in `shown`
    [ -n "$1" ] || return 0
    run_command "$1"
    plain <out >is
    plain <shown >want
    missing=$(while IFS= read -r check_line; do grep -qxF -e "$check_line" is || echo "$check_line"; done <want)
    [ -z "$missing" ] || {
        echo "$missing" | sed 's/^/# missing: /'
        explain 2>"$T/null"
    }
    expect "$1" test -z "$missing"
}
command=
: >shown
while IFS= read -r line <&3; do
    case $line in
    '$ '*)
        check "$command"
        command=${line#??}
        : >shown
        ;;
    *) printf '%s\n' "$line" >>shown ;;
    esac
done 3<session
check "$command"
expect "the session has all commands" test "$n" -ge 12
kill "$daemon"
plan
