#!/bin/sh
# How fast trainspool is on this machine's GPU, and PyTorch beside it on the same card: builds
# and runs bench/'s programs for a GPU and bench/peer_torch.py, and prints a table.
#
#     tests/gpu/bench.sh [--within] [PART...]
#
# Parts: train attention ops; all without arguments.  --within: run.sh has built it all and
# sums up.  Variables as in gpu.sh; bench.md and the logs are in $OUT.
# shellcheck disable=SC2086,SC1091
set -u
. "$(dirname "$0")/gpu.sh"

within=
if [ "${1-}" = --within ]; then
    within=yes
    shift
fi
wanted=${*:-train attention ops}
does() { # PART
    case " $wanted " in *" $1 "*) return 0 ;; esac
    return 1
}
table=$OUT/bench.md
line() { # WORK OURS PEER RATIO GOAL
    printf '| %s | %s | %s | %s | %s |\n' "$1" "${2:--}" "${3:--}" "${4:--}" "$5" >>"$table"
}
ratio() { # OURS PEER
    awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b }'
}
unit() { # NUMBER UNIT: both, or nothing
    [ -z "$1" ] || echo "$1 $2"
}
has_torch() {
    "$PYTHON" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null
}
# build_bench NAME: 1 where the program is not in the tree or wants a library that is missing
build_bench() {
    if [ ! -f "bench/$1.c" ]; then
        skip "$1" 'not in this tree'
        return 1
    fi
    step "build $1" 300 bench-build.log build_program "$BUILD/$1" "bench/$1.c" $2
}

# Fields of our table: 5 ms, 7 tokens/s, 8 MiB, 9 GFLOP/s of a product, 10 share, 11 first step
ours() { # MODEL METHOD FIELD
    awk -F '|' -v model="$1" -v method="$2" -v field="$3" \
        'index($2, " " model ",") && index(tolower($3), method) { gsub(/[ %]/, "", $field); print $field; exit }' \
        "$OUT/bench-ours.log"
}
# Of the fastest of theirs: 6 tokens/s, 7 MiB, 8 how
theirs() { # MODEL METHOD FIELD
    awk -F '|' -v model="$1" -v method="$2" -v field="$3" \
        'index($2, " " model ",") && index($3, method) && $6 + 0 > most {
             most = $6 + 0; found = $field; gsub(/^ +| +$/, "", found) }
         END { print found }' "$OUT/bench-peer.log"
}
train_pair() { # MODEL METHOD WORK GOAL
    step "ours: $1 $2" 200 bench-ours.log "$BUILD/bench_train" cuda "$1" "$2" bf16
    if [ -n "$torch" ]; then
        step "peer: $1 $2" 540 bench-peer.log "$PYTHON" bench/peer_torch.py cuda "$1" "$2" bf16
    fi
    line "$3, tokens/s" "$(ours "$1" "$2" 7)" "$(theirs "$1" "$2" 6) $(theirs "$1" "$2" 8)" \
        "$(ratio "$(ours "$1" "$2" 7)" "$(theirs "$1" "$2" 6)")" "$4"
    line "$3, share of the product rate" "$(unit "$(ours "$1" "$2" 10)" %)" '' '' '60 % (Llama 1B, full)'
    line "$3, MiB" "$(ours "$1" "$2" 8)" "$(theirs "$1" "$2" 7)" \
        "$(ratio "$(ours "$1" "$2" 8)" "$(theirs "$1" "$2" 7)")" '0.6 (LoRA)'
    line "$3, first step" "$(unit "$(ours "$1" "$2" 11)" s)" '' '' '2 s (Llama 1B)'
}
train() {
    : >"$OUT/bench-ours.log"
    : >"$OUT/bench-peer.log"
    case " $MISSING " in *' libjansson-dev '*)
        skip 'training steps' 'without libjansson-dev'
        return
        ;;
    esac
    objects=$BUILD/objects/bench
    build_bench bench_train "$objects/model_steps.o $objects/rate.o $objects/stopwatch.o $objects/target.o" || return
    train_pair SmolLM2-135M full 'SmolLM2-135M full, bf16, B8 T2048' 2
    train_pair GPT-2 full 'GPT-2 124M full, bf16, B16 T1024' 'as llm.c, which is not run here'
    train_pair Llama-1B full 'Llama 1B full, bf16, B4 T2048' 1.5
    train_pair Llama-1B lora 'Llama 1B LoRA r=16, bf16, B4 T2048' 1.8
}

attention() {
    build_bench bench_cuda_attention "$BUILD/objects/bench/target.o" || return
    step 'ours: attention' 120 bench-attention.log "$BUILD/bench_cuda_attention" 0 4096 4
    [ -z "$torch" ] || step 'peer: attention' 120 bench-attention.log "$PYTHON" bench/peer_torch.py cuda attention
    for size in 64 128; do
        for pass in forward backward; do
            here=$(sed -n "s/^{.*\"head_size\": $size,.*\"pass\": \"$pass\".*\"tflops\": \([0-9.]*\)}.*/\1/p" \
                "$OUT/bench-attention.log")
            there=$(sed -n "s/^attention $size $pass \([0-9.]*\) .*/\1/p" "$OUT/bench-attention.log")
            line "attention $pass, head $size, B4 T4096" "$(unit "$here" TFLOP/s)" \
                "$(unit "$there" 'TFLOP/s SDPA')" "$(ratio "$here" "$there")" 0.8
        done
    done
}

# Kernels bound by memory, beside what a copy reaches.
ops() {
    objects=$BUILD/objects/bench
    build_bench bench_cuda_ops "$objects/gpu_ops.o $objects/target.o" && step 'ours: operations' 200 bench-ops.log "$BUILD/bench_cuda_ops"
    [ -n "$torch" ] || return
    for what in copy products; do
        step "peer: $what" 120 bench-card.log "$PYTHON" bench/peer_torch.py cuda "$what"
    done
    line 'copy of 4 GiB, read and written' '' \
        "$(sed -n 's/^copy //p' "$OUT/bench-card.log")" '' '85 % of it: AdamW, norms, cross-entropy'
    line 'product 8192^3, bf16' "$(unit "$(ours SmolLM2-135M full 9)" GFLOP/s)" \
        "$(sed -n 's/^products bf16 //p' "$OUT/bench-card.log")" '' ''
}

if [ -z "$within" ]; then
    prepare || exit 2
    step build 900 build.log build || { summary 'Speed on a GPU'; exit 1; }
fi
torch=
if has_torch; then
    torch=yes
else
    skip 'peers' 'no PyTorch that sees the GPU'
fi
{
    echo '| work | ours | peer | ratio | goal |'
    echo '|---|---|---|---|---|'
} >"$table"
for part in train attention ops; do
    ! does $part || $part
done
if [ -s "$OUT/bench-ops.log" ]; then
    { echo; grep -v '^==' "$OUT/bench-ops.log"; } >>"$table"
fi
[ -n "$within" ] || summary 'Speed on a GPU'
