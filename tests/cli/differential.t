#!/bin/sh
# Compare our tokenizers and templates with the real libraries on random input for some seconds, and the
# formats of weights that a plan reports with those of transformers, PEFT and TRL.
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
if "$python" -c 'import torch, transformers' 2>/dev/null; then
    expect_status "weights: the comparison runs" 0 "$python" -B "$source/tests/differential/weights.py" "$trainspool"
    expect_output "weights: there are no differences" '[1-9][0-9]* trials of weights: no differences$'
else
    skip "the formats of weights match transformers and PEFT" "$python has no torch and transformers; set PYTHON to another"
fi
plan
