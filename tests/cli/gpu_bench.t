#!/bin/sh
# tests/gpu/bench.sh with stub programs: the peer of a model runs right after ours.  The peer for GPT-2
# is llm.c if it runs, else PyTorch.
. "${top_srcdir-.}/tests/cli/lib.sh"

mkdir -p "$T/build/logs/summary" "$T/results"
echo C=true >"$T/build/flags.built"
program() { # FILE: write a script from standard input
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}
program "$T/build/bench_train" <<END
echo "ours \$2 \$3" >>"$T/asked"
echo "| \$2, B16 T1024 | \$3 | bf16 | 65.5 | 65.0 | 250000 | 9000 | 700000 | 50 % | 1.5 |"
END
program "$T/build/bench_cuda_attention" <<'END'
for pass in forward backward; do echo "{\"head_size\": 64, \"pass\": \"$pass\", \"tflops\": 300.0}"; done
END
program "$T/python" <<END
row() { echo "| \$model, B16 T1024 | \$method | bf16 | 80.0 | \$1 | 9500 | \$2 |"; }
model=\${3-} method=\${4-}
case "\$*" in
*' attention') echo 'attention 64 flash forward 400.0 TFLOP/s' && echo 'attention 64 cudnn forward 600.0 TFLOP/s' ;;
bench/peer_torch.py*)
    echo "PyTorch \$model \$method" >>"$T/asked"
    row 100000 'by hand' && row 400000 'by hand, compiled' && row 200000 transformers && exit \${ENDS:-0}
    ;;
bench/peer_llmc.py*)
    model=GPT-2 method=full
    echo "llm.c" >>"$T/asked"
    [ "\$2 \$3" != 'sound cuda' ] || row 200000 'llm.c f1e2ace without cuDNN'
    ;;
esac
END
table() { # LLMC PART...
    table_llmc=$1
    shift
    rm -f "$T/asked" "$T/build/logs/summary/steps"
    try env LLMC="$table_llmc" BUILD="$T/build" OUT="$T/results" PYTHON="$T/python" CC=true NVCC=false GPU_ARCH=90 \
        LIBRARY="$T" LIBS='' CUDA_INCLUDES='' MISSING='' \
        sh "$source/tests/gpu/bench.sh" --within "$@"
    cp "$T/results/summary.md" "$T/out"
}
asked() { # NAME RUN...: check which programs ran, in order
    asked_name=$1
    shift
    expect "$asked_name" test "$(cat "$T/asked")" = "$(printf '%s\n' "$@")"
}
work='GPT-2 124M full, bf16, B16 T1024, tokens/s'

table sound GPT-2
expect_output 'llm.c is the peer for GPT-2' "^| $work | 250000 | - | - | 200000 llm.c f1e2ace without cuDNN | 1.25 | -, as llm.c |\$"
asked 'PyTorch is not run if llm.c was' 'ours GPT-2 full' llm.c
table '' GPT-2
expect_output 'PyTorch is the peer without llm.c' \
    "^| $work | 250000 | 200000 | 1.25 | 400000 by hand, compiled | 0.62 | -, as llm.c, which was not run |\$"
table broken GPT-2
expect_output 'PyTorch is the peer if llm.c fails' "^| $work | 250000 | 200000 | 1.25 | 400000 by hand, compiled | 0.62 | -, as llm.c, which"
asked 'llm.c is tried before PyTorch' 'ours GPT-2 full' llm.c 'PyTorch GPT-2 full'

table '' train
asked 'each row is complete before the next starts' \
    'ours Llama-1B full' 'PyTorch Llama-1B full' 'ours Llama-1B lora' 'PyTorch Llama-1B lora' \
    'ours SmolLM2-135M full' 'PyTorch SmolLM2-135M full' 'ours GPT-2 full' 'PyTorch GPT-2 full'

table '' attention
expect_output "attention is compared with PyTorch's flash" \
    "^| attention forward, head 64, B4 T4096 | 300.0 TFLOP/s | 400.0 TFLOP/s, PyTorch's flash | 0.75 |"
expect_output "attention is compared with PyTorch's cuDNN" \
    "^| attention forward, head 64, B4 T4096 | 300.0 TFLOP/s | 600.0 TFLOP/s, PyTorch's cudnn | 0.50 |"
expect_output 'a rate without a peer stays' "^| attention backward, head 64, B4 T4096 | 300.0 TFLOP/s | - | - |"
expect_output 'the gradients by cuDNN have a row' "^| attention backward by cuDNN, head 64, B4 T4096 | [^|]* | - | - | 1 (cudnn) |"

export ENDS=1
table '' GPT-2
expect_output 'a peer that fails is marked as not all tried' "^| $work | 250000 | 200000 | 1.25 | 400000 by hand, compiled, not all tried | 0.62 |"
table sound GPT-2
expect_output 'the results of llm.c need no other peers' "^| $work | 250000 | - | - | 200000 llm.c f1e2ace without cuDNN | 1.25 |"
unset ENDS

# bench/peer_torch.py with a PyTorch that fails without a message
if command -v python3 >/dev/null; then
    mkdir -p "$T/python3/torch/nn"
    cat >"$T/python3/torch/__init__.py" <<'END'
__version__ = "0"
def set_num_threads(count): pass
def manual_seed(seed): raise RuntimeError()
END
    echo 'class Module: pass' >"$T/python3/torch/nn/__init__.py"
    echo 'class LayerNorm: pass' >>"$T/python3/torch/nn/__init__.py"
    : >"$T/python3/torch/nn/functional.py"
    : >"$T/python3/transformers.py"
    expect_status 'peer_torch.py exits with 1 if variants fail' 1 env PYTHONPATH="$T/python3" PYTHONDONTWRITEBYTECODE=1 \
        python3 "$source/bench/peer_torch.py" cuda GPT-2 full bf16
    expect_output 'the output has the error of a variant' '^error: GPT-2 full by hand: RuntimeError()$'
    expect_output 'the other variants are tried' '^error: GPT-2 full transformers: RuntimeError()$'
else
    skip 'peer_torch.py exits with 1 if variants fail' 'no python3'
fi

plan
