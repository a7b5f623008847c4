#!/bin/sh
# Go from a bare machine to trained models: install missing packages, build, start the daemon on a
# new folder, submit the sample jobs one by one, and show the results.
#
#   ./quickstart.sh [--no-install] [FOLDER]
set -eu
cd "$(dirname "$0")"

if [ "${1-}" = --no-install ]; then shift; else ./install-deps.sh; fi

say() {
    printf '\n== %s\n' "$*"
}

say 'building trainspool in build/'
if [ -f config.status ]; then
    build=. # configured in place
else
    build=build
    [ -x configure ] || ./autogen.sh
    mkdir -p build
    [ -f build/Makefile ] || (cd build && ../configure -q)
fi
make -s -C $build -j "$(nproc)"
PATH=$PWD/$build:$PATH

folder=${1:-$(mktemp -d "${TMPDIR:-/tmp}/trainspool.XXXXXX")}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
say "writing the data and the initial models of the samples to $folder"
jobs/samples/generate "$folder"

say "trainspool watch $folder"
trainspool watch "$folder" >"$folder/watch.log" 2>&1 &
daemon=$!
stop() { # the daemon saves a checkpoint first
    kill $daemon 2>/dev/null || return 0
    wait $daemon || true
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Show the status of a job until it ends.  Succeeds if the job is done.
follow() { # JOB
    before=
    while :; do
        if ! kill -0 $daemon 2>/dev/null; then
            cat "$folder/watch.log"
            return 1
        fi
        now=$(trainspool status "$1" | sed -n 2p)
        [ "$now" = "$before" ] || echo "$now"
        before=$now
        case $(trainspool status --json "$1") in
        *'"state":"done"'*) return 0 ;;
        *'"state":"failed"'* | *'"state":"rejected"'* | *'"state":"stopped"'*) return 1 ;;
        esac
        sleep 3
    done
}

# Each job starts from the output of an earlier one.
for sample in jobs/samples/*.yaml; do
    job=$folder/${sample##*/}
    say "trainspool submit $folder $sample"
    trainspool submit -q "$folder" "$sample"
    trainspool status "$folder" | head -n 1
    follow "$job" || { say "$job did not finish:"; trainspool logs "$job"; exit 1; }
    say "trainspool review $job"
    trainspool review "$job" || true
done

say 'all done'
trainspool status "$folder"
cat <<END

Each job has a folder next to it with its changes and its results:

    $folder/2-lora.run/
        changes.jsonl  backups/     the edits of the patch, and the original job
        train.log  metrics.jsonl    the training log, for people and for programs
END
[ ! -f "$folder/2-lora.run/report.html" ] ||
    echo '        report.html                 curves, changes and plan on one page'
cat <<END

The models are in $folder/units-base, units-lora, units-full,
units-small, units-prefer, units-reinforced and tones-heard.
To run your own job: trainspool watch FOLDER, and trainspool submit FOLDER JOB.yaml.
END
