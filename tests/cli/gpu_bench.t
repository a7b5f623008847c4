#!/bin/sh
# tests/gpu/bench.sh over programs that are made up: where llm.c was run it is GPT-2's peer, also
# where PyTorch is faster, and else PyTorch is.
. "${top_srcdir-.}/tests/cli/lib.sh"

mkdir -p "$T/build/logs" "$T/results"
echo C=true >"$T/build/flags.built"
program() { # FILE, its text from stdin
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}
program "$T/build/bench_train" <<'END'
echo '| GPT-2, B16 T1024 | full | bf16 | 65.5 | 65.0 | 250000 | 9000 | 700000 | 50 % | 1.5 |'
END
program "$T/python" <<'END'
row() { echo "| GPT-2, B16 T1024 | full | bf16 | 80.0 | $1 | 9500 | $2 |"; }
case $1 in
bench/peer_torch.py) row 100000 'by hand' && row 400000 'by hand, compiled' ;;
bench/peer_llmc.py) [ "$2 $3" != 'sound cuda' ] || row 200000 'llm.c f1e2ace' ;;
esac
END
table() { # LLMC
    try env LLMC="$1" BUILD="$T/build" OUT="$T/results" PYTHON="$T/python" CC=true NVCC=false GPU_ARCH=90 \
        LIBRARY="$T" LIBS='' CMOCKA_LIBS='' CUDA_INCLUDES='' MISSING='' \
        sh "$source/tests/gpu/bench.sh" --within GPT-2
    cp "$T/results/summary.md" "$T/out"
}
work='GPT-2 124M full, bf16, B16 T1024, tokens/s'

table sound
says 'llm.c is the peer' "^| $work | 250000 | 200000 llm.c f1e2ace | 1.25 | as llm.c |\$"
table ''
says 'without it PyTorch is' \
    "^| $work | 250000 | 400000 by hand, compiled | 0.62 | as llm.c, which is not run here |\$"
table broken
says 'and where it did not run' "^| $work | 250000 | 400000 by hand, compiled | 0.62 | as llm.c, which"

plan
