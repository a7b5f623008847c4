#!/bin/sh
# Measure the speed of trainspool on this machine's GPU, and of PyTorch on the same card: build and
# run the GPU programs of bench/ and bench/peer_torch.py, and print a table.  If LLMC names a checkout
# of llm.c, its trainer is built into $BUILD/llmc and is the peer for GPT-2.
#
#     tests/gpu/bench.sh [--within] [PART...]
#
# Parts: attention, ops, train and profile, or one model of train: SmolLM2-135M, GPT-2 or Llama-1B; the
# default is all parts.  --within: run.sh has built everything and prints the summary.  gpu.sh describes the
# variables.  The table is bench.md in $OUT, and that of run.sh --within; it is updated after every step.
# shellcheck disable=SC2086,SC1091
set -u
within=
if [ "${1-}" = --within ]; then
    within=yes
    shift
else
    # shellcheck disable=SC2034 # gpu.sh reads them; run.sh's report is kept
    TITLE='Speed on a GPU' REPORT=bench
fi
. "$(dirname "$0")/gpu.sh"

parts=${*:-attention ops train profile}
is_selected() { # PART
    case " $parts " in *" $1 "*) return 0 ;; esac
    return 1
}
table=$LOGS/bench.md
table_row() { # CELL...: an empty one becomes a dash, unless it is the last, the goal
    table_cells='|'
    while [ $# -gt 1 ]; do
        table_cells="$table_cells ${1:--} |"
        shift
    done
    printf '%s %s |\n' "$table_cells" "$1" >>"$table"
}
ratio() { # OURS PEER
    awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b }'
}
with_unit() { # NUMBER UNIT: print both, or nothing if there is no number
    [ -z "$1" ] || echo "$1 $2"
}
has_torch() {
    python_can 'import torch, sys; sys.exit(not torch.cuda.is_available())'
}
# Succeed if the benchmark can run; otherwise record why not.
can_run() { # PROGRAM
    if [ ! -f "bench/$1.c" ]; then
        skip "$1" 'not in this tree'
        return 1
    fi
    is_built "$1" "$1"
}

# Fields of our table: 5 ms, 7 tokens/s, 8 MiB, 9 GFLOP/s of a matmul, 10 share, 11 first step, 16 its parts,
# 17 ms overlapped
ours() { # MODEL METHOD FIELD
    awk -F '|' -v model="$1" -v method="$2" -v field="$3" \
        'index($2, " " model ",") && index(tolower($3), method) { gsub(/[ %]/, "", $field); print $field; exit }' \
        "$LOGS/bench-ours.log"
}
# Fields of a peer: 6 tokens/s, 7 MiB, 8 variant.  LIBRARY is transformers or PEFT, as users run them; SPEED is
# the fastest hand-written program: llm.c if it was run, else PyTorch's variants.
theirs() { # MODEL METHOD library|speed FIELD
    awk -F '|' -v model="$1" -v method="$2" -v kind="$3" -v field="$4" \
        'index($2, " " model ",") && index($3, method) && ($8 ~ /transformers|PEFT/) == (kind == "library") {
             rate = $8 ~ /llm\.c/ ? 1e12 : $6 + 0
             if (rate > most) { most = rate; found = $field; gsub(/^ +| +$/, "", found) } }
         END { print found }' "$LOGS/bench-peer.log"
}
# Print a remark if some variants of the peer failed, because the fastest may be missing.
peer_remark() { # MODEL METHOD
    case $(theirs "$1" "$2" speed 8) in
    '' | llm.c*) ;;
    *) awk -F '\t' -v name="peer: $1 $2" '$1 == name { ended = $2 }
           END { if (ended != "ok") print ", not all tried" }' "$LOGS/steps" ;;
    esac
}
# Call a function with MODEL METHOD WORK GOAL for each row of the table; the most important come first.
for_each_model() {
    while IFS='|' read -r model method goal work; do
        case " $parts " in
        *' train '* | *" $model "*) "$@" "$model" "$method" "$work" "$goal" ;;
        esac
    done <<END
Llama-1B|full|1.5, 1.15|Llama 1B full, bf16, B4 T2048
Llama-1B|lora|1.6, -|Llama 1B LoRA r=16, bf16, B4 T2048
SmolLM2-135M|full|2, -|SmolLM2-135M full, bf16, B8 T2048
GPT-2|full|-, as llm.c$unless_llmc|GPT-2 124M full, bf16, B16 T1024
END
}
run_ours() { # MODEL METHOD
    step "ours: $1 $2" 200 bench-ours.log "$BUILD/bench_train" cuda "$1" "$2" bf16
    tables
}
run_theirs() { # MODEL METHOD
    step "peer: $1 $2" 300 bench-peer.log "$PYTHON" bench/peer_torch.py cuda "$1" "$2" bf16
    tables
}
run_llmc() { # MODEL
    step "peer: llm.c's $1" 300 bench-peer.log "$PYTHON" bench/peer_llmc.py "$LLMC" cuda "$BUILD/llmc"
    tables
}
# Complete a row before the next begins.
run_both() { # MODEL METHOD
    run_ours "$1" "$2"
    case $1:${LLMC-} in
    GPT-2:?*) run_llmc "$1" ;;
    esac
    case $(theirs "$1" "$2" speed 8) in
    llm.c*) ;;
    *) [ -z "$torch" ] || run_theirs "$1" "$2" ;;
    esac
}
train_line() { # MODEL METHOD WORK GOAL OURS FIELD: one number of ours and of both peers
    line_library=$(theirs "$1" "$2" library "$6") line_speed=$(theirs "$1" "$2" speed "$6")
    table_row "$3" "$5" "$line_library" "$(ratio "$5" "$line_library")" \
        "${line_speed:+$line_speed $(theirs "$1" "$2" speed 8)$(peer_remark "$1" "$2")}" \
        "$(ratio "$5" "$line_speed")" "$4"
}
train_lines() { # MODEL METHOD WORK GOAL
    train_line "$1" "$2" "$3, tokens/s" "$4" "$(ours "$1" "$2" 7)" 6
    table_row "$3, share of the matmul rate" "$(with_unit "$(ours "$1" "$2" 10)" %)" '' '' '' '' '60 % (Llama 1B, full)'
    table_row "$3, ms per step: loss read after each, overlapped" "$(ours "$1" "$2" 5), $(ours "$1" "$2" 17)" '' '' '' '' ''
    train_line "$1" "$2" "$3, MiB" '0.6, - (LoRA)' "$(ours "$1" "$2" 8)" 7
    line_parts=$(ours "$1" "$2" 16)
    table_row "$3, first step${line_parts:+ (driver, libraries, memory, step: $(echo "$line_parts" | sed 's/,/, /g'))}" \
        "$(with_unit "$(ours "$1" "$2" 11)" s)" '' '' '' '' '2 s (Llama 1B)'
}
train() {
    case " $MISSING " in *' libjansson-dev '*)
        skip 'training steps' 'libjansson-dev is missing'
        return
        ;;
    esac
    can_run bench_train || return
    for_each_model run_both
}

attention() {
    can_run bench_cuda_attention || return
    step 'ours: attention' 120 bench-attention.log env TRAINSPOOL_CUDNN=0 "$BUILD/bench_cuda_attention" 0 4096 4
    ! has_cudnn || step 'ours: attention by cuDNN' 120 bench-cudnn.log \
        env TRAINSPOOL_CUDNN=1 GRADIENTS_MIB=1024 "$BUILD/bench_cuda_attention" 0 4096 4
    [ -z "$torch" ] || step 'peer: attention' 120 bench-attention.log "$PYTHON" bench/peer_torch.py cuda attention
}
# Print our rate for one pass from a log.
attention_rate() { # LOG SIZE PASS
    sed -n "s/^{.*\"head_size\": $2,.*\"pass\": \"$3\".*\"tflops\": \([0-9.]*\)}.*/\1/p" "$LOGS/$1"
}
# A rate of ours against those of PyTorch's two fastest backends.
attention_line() { # NAME SIZE PASS OURS GOAL
    for backend in flash cudnn; do
        there=$(sed -n "s/^attention $2 $backend $3 \([0-9.]*\) .*/\1/p" "$LOGS/bench-attention.log")
        table_row "attention $3$1, head $2, B4 T4096" "$(with_unit "$4" TFLOP/s)" \
            "$(with_unit "$there" "TFLOP/s, PyTorch's $backend")" "$(ratio "$4" "$there")" "$5"
    done
}
attention_lines() {
    for size in 64 128; do
        attention_line '' "$size" forward "$(attention_rate bench-attention.log "$size" forward)" '0.8 (cudnn)'
        attention_line '' "$size" backward "$(attention_rate bench-attention.log "$size" backward)" '0.7 (cudnn)'
        for pass in forward backward; do
            here=$(attention_rate bench-cudnn.log "$size" "$pass")
            ! grep -q 'without cuDNN' "$LOGS/bench-cudnn.log" || here='' # cuDNN has no kernel for this shape
            attention_line ' by cuDNN' "$size" "$pass" "$here" '1 (cudnn)'
        done
    done
}

# Where a step goes, and whether the library's first choice of algorithm is its best.
profile() {
    for row in 'Llama-1B full' 'Llama-1B lora' 'SmolLM2-135M full' 'GPT-2 full'; do
        step "profile: $row" 60 bench-profile.log "$BUILD/bench_train" cuda profile $row bf16
    done
    ! can_run bench_cuda_matmul || step 'matmuls by algorithm' 120 bench-matmul.log "$BUILD/bench_cuda_matmul"
}

# Kernels bound by memory bandwidth, and the bandwidth of a copy.
ops() {
    ! can_run bench_cuda_ops || step 'ours: operations' 200 bench-ops.log "$BUILD/bench_cuda_ops"
    [ -n "$torch" ] || return
    for what in copy products; do
        step "peer: $what" 120 bench-card.log "$PYTHON" bench/peer_torch.py cuda "$what"
    done
}
ops_lines() {
    rate=$(awk -F '|' '$9 + 0 > 0 { print $9 + 0; exit }' "$LOGS/bench-ours.log")
    there=$(sed -n 's/^products bf16 \([0-9.]*\).*/\1/p' "$LOGS/bench-card.log")
    [ -z "$rate" ] || rate=$(awk -v gigaflops="$rate" 'BEGIN { printf "%.1f", gigaflops / 1000 }')
    table_row 'copy of 4 GiB, read and written' '' \
        "$(sed -n 's/^copy //p' "$LOGS/bench-card.log")" '' '85 % of it: AdamW, norms, cross-entropy'
    table_row 'matmul 8192^3, bf16' "$(with_unit "$rate" TFLOP/s)" "$(with_unit "$there" TFLOP/s)" \
        "$(ratio "$rate" "$there")" ''
}

# Write the table from the current logs.  The list of kernels comes first, because readers see the end.
tables() {
    case $(theirs GPT-2 full speed 8) in
    llm.c*) unless_llmc='' ;;
    *) unless_llmc=', which was not run' ;;
    esac
    {
        grep -v -e '^==' -e '^{' "$LOGS/bench-ops.log"
        echo
        echo '| work | ours | transformers, PEFT | ratio | by hand | ratio | goal |'
        echo '|---|---|---|---|---|---|---|'
    } >"$table"
    for_each_model train_lines
    {
        echo
        echo '| kernels | ours | peer | ratio | goal |'
        echo '|---|---|---|---|---|'
    } >>"$table"
    attention_lines
    ops_lines
    write_summary
}

if [ -z "$within" ]; then
    prepare || exit 2
    bench_programs >"$BUILD/programs"
    build_all "$BUILD/programs" || { summary; exit 1; }
fi
torch=
if has_torch; then
    torch=yes
else
    skip 'peers' 'no PyTorch with access to the GPU'
fi
for log in ours peer attention cudnn ops card; do
    : >"$LOGS/bench-$log.log"
done
tables
for part in attention ops; do
    ! is_selected $part || $part
    tables
done
[ -z "$(for_each_model echo)" ] || train
! is_selected profile || ! can_run bench_train || profile
[ -n "$within" ] || summary
