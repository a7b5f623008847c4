#!/bin/sh
# The code that nvcc generates for kernels/cuda: no warnings, no register spills, enough registers for
# the launched blocks, and tensor core instructions and wide memory accesses where expected.  The
# assembler's reports and the PTX are next to the objects of the build.
. "$top_srcdir/tests/cli/lib.sh"

if ! grep -q '^#define HAVE_CUDA 1' "$top/config.h"; then
    echo '1..0 # SKIP the build has no CUDA'
    exit 0
fi
archs=$(sed -n 's/^#define CUDA_ARCHS "\(.*\)"/\1/p' "$top/config.h")
kernels=$(cd "$source/kernels/cuda" && echo *.cu)
echo "# architectures: $archs; --with-cuda-archs selects them"

# Kernels that may spill: bytes, and a pattern for "sm_NN name" with the mangled name.  Attention on
# tensor cores uses all 255 registers of a thread with some tiles, and spills a few words; smaller
# tiles would read keys and values more often.  The tiles were chosen with the assembler of CUDA 13;
# that of CUDA 12 spills a few words more.  For 9.0, only warps that copy spill: they leave the registers
# to those that multiply.  The others use all registers that their blocks leave them, and spill a few
# words; blocks with fewer threads would hide less of the latency of memory.  The backward pass of a
# scan keeps its part of the state in registers, and plain attention two sums of 64 elements for each
# key of 256 columns.
release=$(sed -n 's/.* release \([0-9]*\)\..*/\1/p' "$top"/kernels/cuda/*.ptx | sort -u)
spills='128 ^sm_90a .*flash_hopper_(forward|keys|queries)
112 ^sm_75 .*flash_(forward|backward)
16 ^sm_.* .*flash_(forward|backward)
64 ^sm_.* .*flash_forward.*flash_kind[34]ELi128
64 ^sm_.* .*flash_backward_keys.*flash_kind4ELi128
64 ^sm_.* .*scan_backward
128 ^sm_.* .*attention_plain_keysILi4ELi256E
32 ^sm_.* .*grouped_kernel
16 ^sm_.* .*(grouped_plain|delta_chunks|headlayer_forward|preference_pair|elementwise_kernel.*(dora_scale|swiglu_backward|nf4|integer)_cells)'
[ "$release" = 12 ] && spills="$spills
64 ^sm_.* .*(attention_plain|flash_backward_keys)
32 ^sm_.* .*elementwise_kernel.*(swiglu|activation)_
16 ^sm_(60|61|70) .*norm_forward"

none() { # NAME: check that $T/out is empty
    ok "$([ ! -s "$T/out" ]; echo $?)" "$1"
}

# One line per kernel: capability kernel stack stores loads registers file
: >"$T/report"
: >"$T/out"
for file in $kernels; do
    report=$top/kernels/cuda/${file%.cu}.resources
    if [ ! -f "$report" ]; then
        echo "$file has no report" >>"$T/out"
        continue
    fi
    for arch in $archs; do
        case $file:$arch in
        flash_hopper_*:90) arch=90a ;;
        flash_hopper_*) continue ;;
        esac
        grep -q "for 'sm_$arch'" "$report" || ! grep -q __global__ "$source/kernels/cuda/$file" ||
            echo "$file has no code for $arch" >>"$T/out"
    done
    awk -v file="$file" -v quote="'" '
        /Compiling entry function/ { gsub(quote, ""); kernel = $7; arch = $9 }
        /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
        / Used [0-9]+ registers/ {
            for (i = 1; i < NF; i++) if ($i == "Used") registers = $(i + 1)
            print arch, kernel, stack, stores, loads, registers, file
        }' "$report" >>"$T/report"
done
none 'every kernel is compiled for every architecture'

(cd "$top/kernels/cuda" && grep -niE 'warning|error' -- *.resources) >"$T/out"
none 'nvcc prints no warnings'

(cd "$top/kernels/cuda" && grep -E 'C75[0-9][0-9]' -- *.resources) >"$T/out"
none 'matmuls of a warpgroup run without waiting for each other'

awk -v list="$spills" '
    BEGIN { count = split(list, may, "\n") }
    $4 + $5 > 0 {
        for (i = 1; i <= count; i++) {
            limit = pattern = may[i]
            sub(/ .*/, "", limit)
            sub(/[^ ]* /, "", pattern)
            if ($1 " " $2 ~ pattern && $4 <= limit + 0 && $5 <= limit + 0) next
        }
        print $1, $2, $7 ": " $4 " bytes of spill stores, " $5 " of spill loads"
    }' "$T/report" >"$T/out"
none 'only listed kernels spill registers'

# The kernel of preference pairs has 16 bytes for 12.0, in work that one thread does once per pair.
awk '$3 > 0 && $4 + $5 == 0 && !($1 == "sm_120" && $2 ~ /preference_pair/ && $3 <= 16) { print $1, $2, $7 ": " $3 " bytes of stack" }' "$T/report" >"$T/out"
none 'no kernel has an array in local memory'

# PTX of each file; nvcc adds the kind to the name if there are several.
(cd "$top/kernels/cuda" && ls -- *.ptx) | sed 's/\..*/.cu/' | sort -u >"$T/made"
echo "$kernels" | tr ' ' '\n' | sort | comm -23 - "$T/made" >"$T/out"
none 'every file has PTX'

# Without __launch_bounds__, a block may have 1024 threads with 64 registers each.
awk '/\.entry/ { kernel = $0; sub(/.*\.entry */, "", kernel); sub(/\(.*/, "", kernel) }
     /^\.maxntid/ { print kernel }' "$top"/kernels/cuda/*.ptx | sort -u >"$T/bound"
awk 'FILENAME != "-" { bound[$1] = 1; next }
     $6 > 64 && !($2 in bound) { print $1, $2, $7 ": " $6 " registers and no __launch_bounds__" }' \
    "$T/bound" - <"$T/report" >"$T/out"
none 'every kernel has enough registers for the threads of a block'

# has KIND FILE PATTERN...: check that the PTX matches each pattern
has() {
    has_name="$2 for $1"
    has_file=$(cd "$top/kernels/cuda" && grep -lE "^\.target sm_$1[a-f]?\$" "$2".*ptx)
    case $1:" $archs " in
    75:*' 75 '* | 80:*' '[89]?' '* | 80:*' '1??' '* | 90:*' 90 '*) ;;
    *) skip "$has_name" 'not built'; return ;;
    esac
    shift 2
    for pattern; do
        grep -qE "$pattern" "$top/kernels/cuda/${has_file:-PTX}" || echo "no $pattern"
    done >"$T/out" 2>&1
    none "$has_name has the required instructions"
}
for file in flash_forward flash_backward; do
    has 80 $file 'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16' \
        'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16' 'ldmatrix\.sync.*x4\.shared' \
        'ldmatrix\.sync.*x4\.trans\.shared' 'cp\.async\.cg\.shared\.global.*16'
    has 75 $file 'mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.f16' \
        'ldmatrix\.sync.*x4\.shared' 'ldmatrix\.sync.*x4\.trans\.shared'
done
for file in flash_hopper_forward flash_hopper_backward; do
    has 90 $file 'wgmma\.mma_async\.sync\.aligned\.m64n64k16\.f32\.f16' \
        'wgmma\.mma_async\.sync\.aligned\.m64n128k16\.f32\.bf16' 'cp\.async\.cg\.shared\.global.*16' \
        'mbarrier\.try_wait\.parity' 'fence\.proxy\.async' 'setmaxnreg\.inc'
done
has 80 thin 'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16' 'ldmatrix\.sync.*x4\.trans\.shared' \
    'cp\.async\.cg\.shared\.global.*16'
wide='global(\.nc)?(\.L[^.]*)?\.(v4\.(b|f|u)32|v2\.(b|f|u)64|b128)'
for file in activation adamw elementwise embedding fp8 headnorm layernorm loss norm rotary sum_rows swiglu; do
    has 80 $file "ld\.$wide"
done
for file in activation adamw elementwise headnorm layernorm norm rotary swiglu; do
    has 80 $file "st\.$wide"
done
plan
