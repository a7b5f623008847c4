#!/bin/sh
# The goals of the spool, each at a small size: kills, stops, crowds, faults of the machine.  Times and rates are only
# printed.  `make soak` runs the full size.
. "${top_srcdir-.}/tests/cli/lib.sh"
python=${PYTHON-python3}
if ! command -v "$python" >/dev/null; then
    echo "1..0 # SKIP no $python"
    exit 0
fi
# LeakSanitizer cannot work in a traced process
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
TMPDIR=$T # is removed at exit
export ASAN_OPTIONS TMPDIR

while read -r row size; do
    try "$python" -B "$source/tests/soak/soak.py" "$row" --size "$size" --build "${TRAINSPOOL_BUILD-$top}" --source "$source"
    sed -n '3,$s/^/# /p' "$T/out"
    if [ "$status" -eq 77 ]; then
        skip "$row: the goal holds" "$(sed -n 's/.*skipped: \([^|]*\) |.*/\1/p' "$T/out")"
    else
        ok "$status" "$row: the goal holds"
    fi
done <<END
kills 6
calls 5
cuts 2
crowd 60
stopped 60
start 5
rate 60
status 60
once 8
lasting 4
dead small
upgrade small
term 2
clock small
hostile 12
week 300
nodes 12
END
plan
