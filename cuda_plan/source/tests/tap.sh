#!/bin/sh
# Run a test, and no longer than 15 minutes: it hangs, however busy the machine is.
# cmocka 1.1.5 calls a test that was skipped "not ok 3 # SKIP name", which automake counts as failed.
exec 3>&1
status=$({
    { timeout -k 5 900 "$@"; echo $? >&4; } | sed 's/^not ok \([0-9]*\) # SKIP/ok \1 # SKIP/' >&3
} 4>&1)
exit "$status"
