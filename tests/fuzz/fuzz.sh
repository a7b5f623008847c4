#!/bin/sh
# Run fuzz targets one after another, in the folder where they were built, and report findings.
#
#   fuzz.sh FOLDER SECONDS NAME...      FOLDER has corpus/, found/ and dict/
#
# New inputs go to corpus/NAME, failing inputs to found/, and the output of a target to log/NAME.  The
# file record gets one line per run: date, commit, name, seconds of processor time, inputs, edges,
# features, findings.
# An input that takes 5 seconds or 1 GiB is a finding.  The status is 1 if there is a finding.
from=$1
seconds=$2
shift 2
commit=$(git -C "$from" rev-parse --short HEAD 2>/dev/null || echo -)
limits="-timeout=${FUZZ_TIMEOUT-5} -rss_limit_mb=1024 -malloc_limit_mb=512"

[ "$seconds" -gt 0 ] || exit 0
mkdir -p found log
where=/tmp
[ -w /dev/shm ] && where=/dev/shm
TMPDIR=$(mktemp -d "$where/trainspool-fuzz.XXXXXX") || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 1' INT TERM HUP
# intercept_tls_get_addr=0: see AM_TESTS_ENVIRONMENT in tests/local.mk
ASAN_OPTIONS="intercept_tls_get_addr=0:${ASAN_OPTIONS-}"
export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:$ASAN_OPTIONS"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS-}"

stat() { # NAME KEY: print a value from the final statistics of the fuzzer
    sed -n "s/^stat::$2: *//p" "log/$1" | tail -n 1
}

cpu() { # print the processor time of all children in whole seconds, from $TMPDIR/times
    sed -n '2{ y/ms/  /; p; }' "$TMPDIR/times" | awk '{ print int($1 * 60 + $2 + $3 * 60 + $4) }'
}

failed=0
for name in "$@"; do
    mkdir -p "corpus/$name"
    set --
    for dir in "$from/corpus/$name" "$from/found/$name"; do
        [ ! -d "$dir" ] || set -- "$@" "$dir"
    done
    [ ! -f "$from/dict/$name.dict" ] || set -- "$@" -dict="$from/dict/$name.dict"
    times >"$TMPDIR/times"
    begin=$(cpu)
    ./fuzz_"$name" $limits -max_total_time="$seconds" -print_final_stats=1 \
        -artifact_prefix="found/$name-" ${FUZZ_OPTIONS-} "corpus/$name" "$@" \
        >"log/$name" 2>&1
    status=$?
    times >"$TMPDIR/times"
    took=$(($(cpu) - begin))
    input=$(sed -n 's/.*Test unit written to //p' "log/$name" | tail -n 1)
    edges=$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 \2/p' "log/$name" | tail -n 1)
    found=0
    if [ $status -ne 0 ]; then
        found=1
        failed=1
        grep -E 'does not hold|ERROR: |SUMMARY|runtime error' "log/$name" | head -n 4
        echo "fuzz: $name: FOUND in ${input:-(see the log)}, log $(pwd)/log/$name"
        [ -z "$input" ] || echo "fuzz: reproduce: cd $(pwd) && ./fuzz_$name $input"
        [ -z "$input" ] || echo "fuzz: minimize: ./fuzz_$name -minimize_crash=1 -max_total_time=60 $input"
    fi
    echo "fuzz: $name: $took s of CPU, $(stat "$name" number_of_executed_units) inputs, edges and features ${edges:-0 0}, $found found"
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%FT%TZ)" "$commit" "$name" "$took" \
        "$(stat "$name" number_of_executed_units)" "${edges:-0 0}" "$found" >>record
done
exit $failed
