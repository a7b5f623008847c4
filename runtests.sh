#!/bin/sh
# Build twice, normally and with sanitizers, and run all tests in both builds.  The output names the
# slowest tests; its last lines list the failed tests and the totals.  The exit status is 1 if a test
# failed.
#
#   ./runtests.sh [--no-install]      keeps build/, build-san/ and build-peers/ for the next run
#
# PYTHON names the Python whose libraries the tests compare with; the default is that of build-peers/.
# CUDA_ARCHS lists the GPU capabilities to compile for.  The default, 7.5 and 9.0, compiles every branch
# of the sources that CUDA 13 supports (hardware.cuh), in two thirds of the time of "all".
set -eu
cd "$(dirname "$0")"

if [ -f config.status ]; then
    echo 'runtests: cannot build: this tree was configured in place; run "make distclean" first' >&2
    exit 2
fi
peers= # process that installs Python libraries during the first build
if [ "${1-}" != --no-install ]; then
    ./install-deps.sh --tests
    if [ -z "${PYTHON-}" ]; then
        tests/peers.sh build-peers &
        peers=$!
    fi
fi
if [ ! -x configure ] || [ -n "$(find configure.ac m4 -newer configure)" ]; then
    ./autogen.sh
fi

began=$(date +%s)
passed=0 failed=0 skipped=0
wrong= # one line for each failed test, repeated at the end

count() { # BUILD RESULT: print the number of tests with that result
    sed -n "s/^# $2: *//p" "$1/test-suite.log" | head -n 1
}

broken() { # BUILD STEP: count a failed step as a failed test
    echo "FAIL: $1: $2"
    failed=$((failed + 1))
    wrong="${wrong}FAIL: $1: $2
"
}

failures() { # BUILD: print the scripts and programs that have a failed test
    find "$1" -name '*.trs' -exec \
        grep -lE '^:global-test-result: (FAIL|ERROR|XPASS)' {} + | sed 's/\.trs$//' | sort
}

slowest() { # BUILD: print the ten tests that took the most CPU time, in seconds
    find "$1/tests" -name '*.log' -exec grep -H '^# CPU time' {} + |
        sed -E 's/^(.*)\.log:# CPU time ([0-9]*)m([0-9.]*)s ([0-9]*)m([0-9.]*)s$/\1 \2 \3 \4 \5/' |
        awk '{ printf "%6.0f %s\n", 60 * ($2 + $4) + $3 + $5, $1 }' | sort -rn | head -n 10
}

# -g1 gives line numbers in the reports of sanitizers, but no variables for a debugger.  It saves a
# seventh of the compile time, and a fifth with sanitizers.
: "${CFLAGS=-g1}" "${CXXFLAGS=-g1}"
export CFLAGS CXXFLAGS
# gold links the programs, of which there are hundreds, in two thirds of the time of ld.bfd
if command -v ld.gold >/dev/null; then
    : "${LDFLAGS=-fuse-ld=gold}"
    export LDFLAGS
fi

find_peers() { # wait for the libraries and set PYTHON
    [ -z "$peers" ] || wait "$peers" ||
        echo 'runtests: cannot install from the package index: tests against tokenizers, Jinja and TensorBoard are skipped'
    peers=
    if [ -z "${PYTHON-}" ] && [ -x build-peers/bin/python ]; then
        PYTHON=$PWD/build-peers/bin/python
        export PYTHON
    fi
}

# Build and test.  A failure that stops a build counts as one failed test.
run() { # BUILD ARGUMENTS...: the arguments are for configure
    build=$1
    shift
    echo "== $build: configure $*"
    mkdir -p "$build"
    rm -f "$build/test-suite.log"
    (cd "$build" && ../configure -q "$@") || { broken "$build" configure; return; }
    for target in all check-programs; do
        make -s -C "$build" -j "$(nproc)" $target || { broken "$build" "make $target"; return; }
    done
    find_peers
    echo "== $build: make check, after $(($(date +%s) - began)) s"
    # more jobs than cores, because many tests wait
    make -s -C "$build" -j "$((2 * $(nproc) + 1))" check >"$build/check.log" 2>&1 || true
    if [ ! -f "$build/test-suite.log" ]; then
        tail -n 50 "$build/check.log"
        broken "$build" 'make check'
        return
    fi
    echo "== $build: slowest tests, in seconds of CPU time"
    slowest "$build"
    # tests that did not pass, and the complete log of each failed test
    grep -E '^(FAIL|ERROR|XPASS|SKIP):' "$build/check.log" || true
    not_ok=$(($(count "$build" FAIL) + $(count "$build" ERROR) + $(count "$build" XPASS)))
    if [ $not_ok -ne 0 ]; then
        for name in $(failures "$build"); do
            echo "== $name"
            cat "$name.log"
        done
        wrong="$wrong$(grep -E '^(FAIL|ERROR|XPASS):' "$build/check.log" | sed "s|: |: $build/|")
"
    fi
    failed=$((failed + not_ok))
    passed=$((passed + $(count "$build" PASS) + $(count "$build" XFAIL)))
    skipped=$((skipped + $(count "$build" SKIP)))
}

run build "--with-cuda-archs=${CUDA_ARCHS-75 90}"
run build-san --enable-sanitizers --without-cuda
find_peers # before the summary, so that its messages do not follow the last line

printf '%s' "$wrong"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
