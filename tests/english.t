#!/bin/sh
# english: comments, messages and documentation use none of the retired words.
cd "${top_srcdir-.}" || exit 99

if ! command -v python3 >/dev/null; then
    echo '1..0 # SKIP python3 is not installed'
    exit 0
fi
if found=$(PYTHONDONTWRITEBYTECODE=1 python3 tests/english.py . 2>&1); then
    echo 'ok 1 - no retired word is in use'
else
    echo 'not ok 1 - no retired word is in use'
    echo "$found" | sed 's/^/# /'
fi
echo 1..1
