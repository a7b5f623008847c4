# shellcheck shell=sh
# tests/cli/slurm_fake.sh - sbatch, squeue, scancel and srun as scripts, for tests of what a watch does with
# their answers. A job waits until the test begins it. The folder $T/slurm has the jobs:
#   ID.name, ID.state, ID.sh   name, state as squeue shows it, batch script
#   auto                       if it exists, jobs begin when they are submitted
#   how.COMMAND                if it exists, the command runs it first; it may exit

SLURM=$T/slurm
mkdir "$SLURM" "$T/bin"
echo 0 >"$SLURM/last"
fake() { # COMMAND: standard input is its text
    { printf '#!/bin/sh\nS=%s\necho "$*" >>"$S/%s.calls"\n[ ! -e "$S/how.%s" ] || . "$S/how.%s"\n' \
        "$SLURM" "$1" "$1" "$1" && cat; } >"$T/bin/$1"
    chmod +x "$T/bin/$1"
}
fake sbatch <<'END'
case "$*" in *--test-only*) exit 0 ;; esac
for script; do :; done
exec 9>"$S/lock" && flock 9 # jobs may be submitted at the same time
id=$(($(cat "$S/last") + 1))
echo "$id" >"$S/last.new" && mv "$S/last.new" "$S/last"
exec 9>&-
echo PENDING >"$S/$id.state"
cp "$script" "$S/$id.sh"
sed -n 's/^#SBATCH --job-name=//p' "$script" >"$S/$id.name"
[ ! -e "$S/auto" ] || begin-job "$id"
echo "$id"
END
fake squeue <<'END'
for word; do case $word in --name=*) name=${word#--name=} ;; esac; done
for file in "$S"/*.name; do
    [ "$(cat "$file" 2>/dev/null)" = "$name" ] || continue
    id=${file%.name} id=${id##*/}
    [ "$(cat "$S/$id.state")" = GONE ] || echo "$id|$(cat "$S/$id.state")|None|"
done
END
fake scancel <<'END'
case $1 in --signal=TERM) kill -TERM "$(cat "$S/$2.step")"; exit ;; esac
for word; do case $word in --name=*) name=${word#--name=} ;; esac; done
for file in "$S"/*.name; do
    [ "$(cat "$file" 2>/dev/null)" = "$name" ] || continue
    id=${file%.name}
    case $(cat "$id.state") in PENDING) ;; RUNNING) kill -KILL "-$(cat "$id.group")" ;; *) continue ;; esac
    echo CANCELLED >"$id.state"
done
exit 0
END
fake sacct <<'END'
echo 'Slurm accounting storage is disabled' >&2
exit 1
END
fake srun <<'END'
while case $1 in --*) true ;; *) false ;; esac; do shift; done
echo $$ >"$S/$SLURM_JOB_ID.step"
exec "$@"
END
# ID: Slurm starts the job.
fake begin-job <<'END'
echo RUNNING >"$S/$1.state"
setsid sh -c 'echo $$ >"$1/$2.group"
SLURM_JOB_ID=$2 sh "$1/$2.sh" >>"$1/$2.log" 2>&1
status=$?
[ "$(cat "$1/$2.group")" = $$ ] || exit # Slurm has started it again
case $(cat "$1/$2.state") in RUNNING | PENDING) ;; *) exit ;; esac
[ $status -eq 0 ] && echo COMPLETED >"$1/$2.state" || echo FAILED >"$1/$2.state"' job "$S" "$1" \
    >/dev/null 2>&1 </dev/null &
END
PATH=$T/bin:$PATH
TRAINSPOOL_SLURM_SECONDS=0.2
export TRAINSPOOL_SLURM_SECONDS PATH

# ID STATE
slurm_is() { [ "$(cat "$SLURM/$1.state" 2>/dev/null)" = "$2" ]; }
set_slurm() { echo "$2" >"$SLURM/.state" && mv "$SLURM/.state" "$SLURM/$1.state"; }
# Print the number of jobs that were submitted.
submissions() { cat "$SLURM/last"; }
end_slurm() {
    for end_group in "$SLURM"/*.group; do
        [ ! -s "$end_group" ] || kill -KILL "-$(cat "$end_group")" 2>/dev/null
    done
    finish
}
trap end_slurm EXIT

# ---- Jobs of a folder, $T/spool, whose watch submits them ----
in_slurm='trainspool: {backend: slurm, device: cpu}'
start_spool() {
    cd "$T" || exit 99
    mkdir spool
    make_data spool
    : >daemon.log
    watch_again
}
watch_again() {
    background "$trainspool" watch spool
    wait_until 10 grep -q "watch: spool, pid $daemon" daemon.log
}
drop() { # NAME STEPS [LINES]
    { job "$2" && echo "${3-$in_slurm}"; } >spool/.new && mv spool/.new "spool/$1.yaml"
}
# NAME: the job waits in Slurm, which shows in its state.
waits() { state_is "spool/$1.yaml" ready && reason "spool/$1.yaml" | grep -q 'in the queue of Slurm as job'; }
# NAME: wait for that, and set $id to its number.
submit() {
    wait_until 30 waits "$1"
    ok $? "$1 waits in Slurm"
    id=$(submissions)
}
