#!/bin/sh
# Build twice, normally and with sanitizers, and run all tests in both.  The last lines name the
# tests that failed and count all; the exit status is 1 if any failed.
#
#   ./runtests.sh [--no-install]      build/, build-san/ and build-peers/ are kept for the next time
#
# PYTHON names the one whose libraries ours are compared with; build-peers/ otherwise.
set -eu
cd "$(dirname "$0")"

if [ -f config.status ]; then
    echo 'runtests: this tree was configured in place; run "make distclean" first' >&2
    exit 2
fi
peers= # the process that fetches libraries while the first build is made
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

passed=0 failed=0 skipped=0
wrong= # a line for each test that failed, told again at the end

count() { # BUILD RESULT: how many the test suite of that build says
    sed -n "s/^# $2: *//p" "$1/test-suite.log" | head -n 1
}

broken() { # BUILD STEP
    echo "FAIL: $1: $2"
    failed=$((failed + 1))
    wrong="${wrong}FAIL: $1: $2
"
}

failures() { # BUILD: the scripts and programs with a test that failed
    find "$1" -name '*.trs' -exec \
        grep -lE '^:global-test-result: (FAIL|ERROR|XPASS)' {} + | sed 's/\.trs$//' | sort
}

# Lines in what sanitizers say, but no variables for a debugger: a seventh of a compilation
# less, a fifth with sanitizers.
: "${CFLAGS=-g1}" "${CXXFLAGS=-g1}"
export CFLAGS CXXFLAGS

find_peers() {
    [ -z "$peers" ] || wait "$peers" ||
        echo 'runtests: no package index here: tests beside tokenizers, Jinja and TensorBoard are skipped'
    peers=
    if [ -z "${PYTHON-}" ] && [ -x build-peers/bin/python ]; then
        PYTHON=$PWD/build-peers/bin/python
        export PYTHON
    fi
}

# One failure that stops a build counts as one failed test.
run() { # BUILD, then the arguments of configure
    build=$1
    shift
    echo "== $build: configure $*"
    mkdir -p "$build"
    rm -f "$build/test-suite.log"
    (cd "$build" && ../configure -q "$@") || { broken "$build" configure; return; }
    make -s -C "$build" -j "$(nproc)" all || { broken "$build" make; return; }
    find_peers
    echo "== $build: make check"
    # one more than there are cores: some tests wait
    make -s -C "$build" -j "$(($(nproc) + 1))" check >"$build/check.log" 2>&1 || true
    if [ ! -f "$build/test-suite.log" ]; then
        tail -n 50 "$build/check.log"
        broken "$build" 'make check'
        return
    fi
    # what did not pass, and of a test with a failure all it said
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

run build
run build-san --enable-sanitizers --without-cuda
find_peers # nothing of it comes behind the last line

printf '%s' "$wrong"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
