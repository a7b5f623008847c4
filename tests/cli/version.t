#!/bin/sh
# Both programs print their version and reject unknown options with status 2.
echo 1..5
n=0
check() { # NAME COMMAND...: check that the command succeeds
    name=$1
    shift
    n=$((n + 1))
    if "$@"; then echo "ok $n - $name"; else echo "not ok $n - $name"; fi
}
refuses() {
    "$@" >/dev/null 2>&1
    test $? -eq 2
}

for program in trainspool trainspool-train; do
    check "$program prints its version" \
        sh -c "\"$top_builddir/$program\" --version | grep -q '^$program [0-9]'"
    check "$program --nonsense is a usage error" refuses "$top_builddir/$program" --nonsense
done

# A failure of a driver must not stop the daemon, so trainspool contains no backend.
no_backend() {
    ! nm "$top_builddir/trainspool" | grep -qE ' T (backend_open|train_run)$' &&
        nm "$top_builddir/trainspool-train" | grep -qE ' T backend_open$'
}
check "only trainspool-train contains a backend" no_backend
