#!/bin/sh
# Compare our tokenizers and templates with the real libraries on random input for some seconds.
# `make differential SECONDS=600 SEED=2` tries other input for longer.
. "${top_srcdir-.}/tests/cli/lib.sh"
python=${PYTHON-python3}

if "$python" -c 'import jinja2, tokenizers' 2>/dev/null; then
    for part in texts files templates; do
        expect_status "$part: the comparison runs" 0 "$python" -B "$source/tests/differential/differential.py" --only $part \
            --seconds 3 --shared "$shared/data" "$top/tests/differential/ours"
        if grep -q 'nothing to compare' "$T/out"; then
            skip "$part: there are no differences" "no $shared/data"
        else
            expect_output "$part: there are no differences" '[1-9][0-9]* t.*: no differences$'
        fi
    done
else
    skip "tokenizers and templates match the real libraries" \
        "$python has no tokenizers and jinja2; set PYTHON to another"
fi
plan
