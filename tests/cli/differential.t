#!/bin/sh
# Some seconds of texts, tokenizers and templates by chance: ours and the real libraries make the
# same of them.  `make differential SECONDS=600 SEED=2` tries others, for longer.
. "${top_srcdir-.}/tests/cli/lib.sh"
python=${PYTHON-python3}

if "$python" -c 'import jinja2, tokenizers' 2>/dev/null; then
    for part in texts files templates; do
        ends "$part" 0 "$python" -B "$source/tests/differential/differential.py" --only $part \
            --seconds 3 --shared "$shared/data" "$top/tests/differential/ours"
        if grep -q 'nothing to compare' "$T/out"; then
            skip "are the same" "no $shared/data"
        else
            says "are the same" '[1-9][0-9]* t.*: no differences$'
        fi
    done
else
    skip "as the real libraries" \
        "there is no $python with tokenizers and jinja2; PYTHON names another"
fi
plan
