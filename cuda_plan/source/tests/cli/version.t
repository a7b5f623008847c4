#!/bin/sh
# Both programs tell their version and refuse what they do not know with status 2.
echo 1..5
n=0
check() { # NAME, then a command
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
    check "$program --version" \
        sh -c "\"$top_builddir/$program\" --version | grep -q '^$program [0-9]'"
    check "$program --nonsense is a usage error" refuses "$top_builddir/$program" --nonsense
done

# The daemon must not fall with a driver: no backend is in it.
no_backend() {
    ! nm "$top_builddir/trainspool" | grep -qE ' T (backend_open|train_run)$' &&
        nm "$top_builddir/trainspool-train" | grep -qE ' T backend_open$'
}
check "trainspool holds no backend, trainspool-train does" no_backend
