# tests/gpu/gpu.sh - functions of run.sh and bench.sh: build trainspool for this machine's GPU
# without autotools, into $BUILD, and record steps.  Variables, with their defaults:
#
#   NVCC, CC, CXX     compilers (searched)               JOBS     parallel jobs (all processors)
#   GPU_ARCH          compute capability without its dot (queried from the card)
#   CPPFLAGS LDFLAGS  paths of libraries outside the system's
#   DEPS              a folder with unpacked Debian packages (dpkg -x), for the same purpose
#   BUILD             build folder (build-gpu)           OUT      results folder (gpu-results)
#   PREBUILT          yes: everything is in $BUILD already, built on another machine (no)
#   LIMIT             total seconds; steps that do not fit are skipped (no limit)
#   COMMIT            commit for the table if git cannot name it
#   LLMC              a checkout of llm.c, the peer for GPT-2 in bench.sh (none)
#   SANITIZED TOOLS   operations and tools of run.sh's sanitizer step (all)
# shellcheck shell=sh disable=SC2086,SC1091

top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top" || exit 99
BUILD=${BUILD:-$top/build-gpu}
OUT=${OUT:-$top/gpu-results}
JOBS=${JOBS:-$(nproc)}
CC=${CC:-gcc}
CXX=${CXX:-g++}
PYTHON=${PYTHON:-python3}
LIMIT=${LIMIT:-1000000}
UNTIL=${UNTIL:-$(($(date +%s) + LIMIT))}
TITLE=${TITLE:-trainspool on a GPU}
export LIMIT UNTIL TITLE
if [ -z "${TRAINSPOOL_SHARED-}" ]; then
    TRAINSPOOL_SHARED=$top/../shared
    [ ! -d "$top/shared" ] || TRAINSPOOL_SHARED=$top/shared
fi
if [ -n "${DEPS-}" ]; then
    CPPFLAGS="-I$DEPS/usr/include -I$DEPS/usr/include/x86_64-linux-gnu ${CPPFLAGS-}"
    deps_lib=$DEPS/usr/lib/x86_64-linux-gnu
    LDFLAGS="-L$deps_lib -L$DEPS/lib/x86_64-linux-gnu ${LDFLAGS-}"
    LD_LIBRARY_PATH=$deps_lib:$DEPS/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
fi
CPPFLAGS=${CPPFLAGS-}
LDFLAGS=${LDFLAGS-}
unset DEPS # the flags above contain it; scripts called from here must not add it again
mkdir -p "$BUILD" "$OUT"
BUILD=$(cd "$BUILD" && pwd)
OUT=$(cd "$OUT" && pwd)
REPORT=${REPORT:-summary} # name of the results: $OUT/summary.md and summary.tar.gz
LOGS=$BUILD/logs/$REPORT
export TRAINSPOOL_SHARED OUT BUILD REPORT

# --- steps: $LOGS/steps has one line per step: name, ok|FAIL|skip, seconds, remark

seconds_left() { # print the remaining seconds of LIMIT
    echo $((UNTIL - $(date +%s)))
}
at_most() { # SECONDS: print it or the remaining time, at least 1: timeout treats 0 as no limit
    at_most=$(seconds_left)
    [ "$at_most" -lt "$1" ] || at_most=$1
    [ "$at_most" -ge 1 ] || at_most=1
    echo "$at_most"
}
record() { # NAME STATUS SECONDS REMARK
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$LOGS/steps"
    printf '%-40s %-5s %5s s  %s\n' "$1" "$2" "$3" "$4"
    write_summary
}
skip() { # NAME WHY
    record "$1" skip 0 "$2"
}
# step NAME SECONDS LOG COMMAND...: run a command with its output in $LOGS/LOG; show the last line of a
# failure.  A command that exceeds SECONDS has failed, unless step_slow is set; a command that LIMIT
# cuts off counts as skipped.
step_slow=
step() {
    step_name=$1 step_limit=$2 step_log=$LOGS/$3
    shift 3
    step_from=$(date +%s)
    step_left=$(seconds_left)
    if [ "$step_left" -lt 5 ]; then
        skip "$step_name" "no time left of $LIMIT s"
        return 124
    fi
    step_may_skip=$step_slow
    [ "$step_left" -ge "$step_limit" ] || step_limit=$step_left step_may_skip=yes
    step_output=$BUILD/step.$$ # several steps may run at once
    step_words="== $step_name: $*"
    step_status=0
    case $(command -v "$1") in
    */*) ;;
    "$1") set -- sh tests/gpu/call.sh "$@" ;; # a function
    esac
    timeout -k 10 "$step_limit" "$@" >"$step_output" 2>&1 </dev/null || step_status=$?
    step_took=$(($(date +%s) - step_from))
    { echo "$step_words"; cat "$step_output"; } >"$step_output.log"
    cat "$step_output.log" >>"$step_log"
    case $step_status in
    124 | 137) [ "$step_took" -ge "$step_limit" ] || step_status=1 ;; # killed by another process
    esac
    case $step_status in
    0)
        if grep -q '^1\.\.0 # SKIP' "$step_output"; then
            record "$step_name" skip "$step_took" "$(sed -n 's/^1\.\.0 # SKIP //p' "$step_output" | cut -c 1-100)"
        else
            record "$step_name" ok "$step_took" "$(tap_summary)"
        fi
        ;;
    124 | 137)
        step_result=FAIL
        [ -z "$step_may_skip" ] || step_result=skip
        record "$step_name" $step_result "$step_took" "did not finish in $step_limit s"
        ;;
    *) record "$step_name" FAIL "$step_took" "$(first_error)" ;;
    esac
    rm -f "$step_output" "$step_output.log"
    return "$step_status"
}
tap_summary() { # summarize the TAP output
    awk '/^ok .*# SKIP/ { skipped++; next } /^ok / { passed++ }
         END { if (passed + skipped) printf "%d passed%s", passed, skipped ? ", " skipped " skipped" : "" }' \
        "$step_output"
}
first_error() { # print the first error, or the last line
    { grep -m 1 -E '^not ok|^bench: |error|Error|ERROR' "$step_output" || tail -n 1 "$step_output"; } | cut -c 1-100
}
# Write the table, and all logs in one file, because some machines return few files.  Called after every
# step, so that an interrupted run leaves its results.
write_summary() {
    {
        echo "## $TITLE"
        echo
        [ ! -f "$BUILD/machine" ] || cat "$BUILD/machine"
        echo
        echo '| step | result | seconds | |'
        echo '|---|---|---|---|'
        awk -F '\t' '{ printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 }' "$LOGS/steps"
        [ ! -f "$LOGS/bench.md" ] || { echo; cat "$LOGS/bench.md"; }
    } >"$OUT/summary.$$" && mv "$OUT/summary.$$" "$OUT/$REPORT.md"
    tar -C "$BUILD/logs" -czf "$OUT/archive.$$" "$REPORT" && mv "$OUT/archive.$$" "$OUT/$REPORT.tar.gz"
}
summary() {
    write_summary
    echo
    cat "$OUT/$REPORT.md"
    ! grep -q "$(printf '\tFAIL\t')" "$LOGS/steps"
}
# python_can CODE: run Python code.  The limit is high because packages may be on a slow disk.
python_can() {
    timeout -k 5 "$(at_most 90)" "$PYTHON" -c "$1" >/dev/null 2>&1 </dev/null
}
nvcc_release() { # print the release of nvcc
    "$NVCC" --version 2>/dev/null | sed -n 's/.*release \([^,]*\),.*/\1/p'
}
# A query of the driver takes seconds on some machines, so make each query once.
describe_machine() {
    echo "- card: $(timeout 30 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null |
        head -n 1 || true)"
    echo "- nvcc: $(nvcc_release), code for sm_$GPU_ARCH"
    echo "- date: $(date -u +%Y-%m-%d)"
    echo "- commit: $(git -C "$top" rev-parse --short HEAD 2>/dev/null || echo "${COMMIT:-unknown}")"
}

# --- detection

find_nvcc() {
    for NVCC in "${NVCC-}" "${CUDA_HOME-}/bin/nvcc" "${CUDA_PATH-}/bin/nvcc" "$(command -v nvcc)" \
        /usr/local/cuda/bin/nvcc /usr/lib/cuda/bin/nvcc /usr/bin/nvcc; do
        [ ! -x "$NVCC" ] || return 0
    done
    NVCC=
    return 1
}
# Find the folders of the toolkit from the path of nvcc.
find_toolkit() {
    root=$(dirname "$(dirname "$(readlink -f "$NVCC")")")
    INCLUDE='' LIBRARY=''
    for dir in "$root/include" "$root/targets/x86_64-linux/include" "$root/targets/sbsa-linux/include" \
        /usr/local/cuda/include /usr/include; do
        [ -n "$INCLUDE" ] || [ ! -f "$dir/cuda_runtime.h" ] || INCLUDE=$dir
    done
    for dir in "$root/lib64" "$root/targets/x86_64-linux/lib" "$root/targets/sbsa-linux/lib" "$root/lib" \
        /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu; do
        [ -n "$LIBRARY" ] || [ ! -f "$dir/libcudart_static.a" ] || LIBRARY=$dir
    done
    CUDA_INCLUDES="-isystem $INCLUDE"
    # cuBLAS, cuDNN and NCCL may come from Python packages
    [ -f "$INCLUDE/cublasLt.h" ] || python_folder cublasLt.h
    [ -f "$INCLUDE/nccl.h" ] || [ -f /usr/include/nccl.h ] || python_folder nccl.h
    for name in libcublasLt libcudnn libnccl; do
        for found in "$LIBRARY/$name".so*; do
            [ -e "$found" ] || python_library "$name"
            break
        done
    done
    [ -n "$INCLUDE" ] && [ -n "$LIBRARY" ]
}
python_packages() {
    "$PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"] + "/nvidia")' 2>/dev/null
}
python_folder() { # HEADER
    found=$(find "$(python_packages)" -name "$1" 2>/dev/null | head -n 1)
    [ -z "$found" ] || CUDA_INCLUDES="$CUDA_INCLUDES -isystem $(dirname "$found")"
}
python_library() { # NAME
    found=$(find "$(python_packages)" -name "$1.so*" 2>/dev/null | head -n 1)
    [ -z "$found" ] || LD_LIBRARY_PATH=$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
}
has_cudnn() { # search the folders that the program searches
    for dir in $(echo "${LD_LIBRARY_PATH-}" | tr : ' ') "$LIBRARY"; do
        [ ! -e "$dir/libcudnn.so.9" ] || return 0
    done
    ldconfig -p 2>/dev/null | grep -q 'libcudnn\.so\.9'
}
find_arch() {
    GPU_ARCH=${GPU_ARCH:-$(timeout 30 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
        head -n 1 | tr -cd 0-9)}
    [ -n "$GPU_ARCH" ]
}
has_header() { # HEADER
    echo "#include <$1>" | $CC $CPPFLAGS ${CUDA_INCLUDES-} -E -x c - >/dev/null 2>&1
}

# --- build

# Optional libraries: header, library, package.
libraries='jansson.h jansson libjansson-dev
pcre2.h pcre2-8 libpcre2-dev
utf8proc.h utf8proc libutf8proc-dev
nettle/sha2.h nettle nettle-dev
zlib.h z zlib1g-dev
yaml.h yaml libyaml-dev'
# Some machines have a header without its library, which would break every program.
can_link() { # HEADER LIBRARY
    echo '#define PCRE2_CODE_UNIT_WIDTH 8
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <'"$1"'>
int main(void) { return 0; }' | $CC $CPPFLAGS -o "$BUILD/nothing" -x c - $LDFLAGS "-l$2" >/dev/null 2>&1
}
find_libraries() {
    LIBS='' MISSING=''
    while read -r header library package; do
        if can_link "$header" "$library"; then
            LIBS="$LIBS -l$library"
        else
            MISSING="$MISSING $package"
        fi
    done <<END
$libraries
END
    MISSING=${MISSING# }
}

write_config() {
    {
        version=$(sed -n 's/^AC_INIT(\[trainspool\], \[\(.*\)\])/\1/p' configure.ac)
        echo '#define _GNU_SOURCE 1'
        echo '#define PACKAGE "trainspool"'
        echo '#define PACKAGE_NAME "trainspool"'
        echo "#define PACKAGE_VERSION \"$version\""
        echo "#define VERSION \"$version\""
        echo '#define HAVE_CUDA 1'
        echo "#define CUDA_ARCHS \"$GPU_ARCH\""
        echo "#define CUDA_LIBRARY_DIR \"$LIBRARY\""
        [ -n "$NO_NCCL" ] || echo '#define HAVE_NCCL 1'
        [ -z "$X86" ] || echo '#define HAVE_X86_KERNELS 1'
    } >"$BUILD/config.h.new"
    cmp -s "$BUILD/config.h.new" "$BUILD/config.h" || mv "$BUILD/config.h.new" "$BUILD/config.h"
}

# Print every source of the programs; those of CUDA, which take longest, come first.
sources() {
    find kernels/cuda -name '*.cu'
    find base precision kernels train patcher runner tests/reference -name '*.c'
    for name in gpu_ops model_steps profile rate stopwatch target; do echo "bench/$name.c"; done
}
# Write the flags and the list of files to compile, which are those whose object is older than its
# source or any header; compile.sh compiles them, $JOBS at a time.
build_objects() {
    X86='' NO_NCCL=''
    echo 'int main(void) { return 0; }' >"$BUILD/nothing.c"
    avx2='-mavx2 -mfma -mf16c'
    avx512="$avx2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16"
    ! $CC $avx512 -c -o "$BUILD/nothing.o" "$BUILD/nothing.c" 2>/dev/null || X86=yes
    has_header nccl.h || NO_NCCL=yes
    write_config
    hopper=
    [ "$GPU_ARCH" != 90 ] || [ "$(nvcc_release | cut -d. -f1)" -lt 12 ] ||
        hopper='-DFLASH_HOPPER=1 -gencode arch=compute_90a,code=sm_90a'
    cat >"$BUILD/flags" <<END
C='$CC -std=gnu11 -g -O2 -fno-math-errno -Wall -Wextra $CPPFLAGS $CUDA_INCLUDES -I$BUILD -I$top'
CUDA='$NVCC -ccbin $CXX -std=c++17 -O3 -lineinfo -I$top'
CODE='-gencode arch=compute_$GPU_ARCH,code=[sm_$GPU_ARCH,compute_$GPU_ARCH]'
HOPPER='$hopper'
AVX2='-O3 $avx2'
AVX512='-O3 $avx512'
X86='$X86'
END
    if ! cmp -s "$BUILD/flags" "$BUILD/flags.built"; then
        rm -rf "$BUILD/objects" "$BUILD/config.h"
        write_config
    fi
    mv "$BUILD/flags" "$BUILD/flags.built"
    layers='base precision kernels train patcher runner tests/reference bench'
    newest=$(find $layers tests/unit tests/gpu \( -name '*.h' -o -name '*.cuh' \) -print0 | xargs -0 ls -t | head -n 1)
    sources | while read -r file; do
        case $X86$file in *_avx*) [ -n "$X86" ] || continue ;; esac
        case ${NO_NCCL:-no}$file in
        yes*/cuda_group.c | yes*/cuda_nccl.c | no*/cuda_group_none.c) continue ;;
        */script/script_tree.c | runner/main.c | runner/train_main.c) continue ;; # the first requires tree-sitter
        esac
        object=$BUILD/objects/${file%.c*}.o
        for than in "$file" "$newest" "$BUILD/config.h"; do
            [ -z "$(find "$than" -newer "$object" 2>&1)" ] || { echo "$file"; break; }
        done
    done >"$BUILD/list"
    xargs -r -n 1 -P "$JOBS" sh tests/gpu/compile.sh <"$BUILD/list"
}

# Build the objects and one archive.  Sources that require a missing library are left out.  The
# objects of bench/ are in it, too.
build() {
    build_objects || return
    rm -f "$BUILD/libtrainspool.a"
    find "$BUILD/objects" -name '*.o' ! -name 'machines_*' -print0 |
        xargs -0 ar rcs "$BUILD/libtrainspool.a"
}

# build_program NAME SOURCE.c MACHINES|- [-DMACRO]: build $BUILD/NAME.  MACHINES: what operations run on.
build_program() {
    program=$BUILD/$1 source=$2 machines=
    [ "$3" = - ] || machines=$BUILD/objects/tests/reference/machines_$3.o
    . "$BUILD/flags.built"
    rm -f "$program"
    { $C ${4-} -c -o "$program.o" "$source" &&
        $CC $LDFLAGS -o "$program" "$program.o" $machines "$BUILD/libtrainspool.a" $LIBS \
            -L"$LIBRARY" -lcudart_static -lrt -ldl -lpthread -lstdc++ -lm; } >"$program.log" 2>&1
    program_status=$?
    cat "$program.log"
    rm -f "$program.o" "$program.log"
    return "$program_status"
}
# Build the programs listed in a file, one build_program's arguments per line, $JOBS at a time.
build_programs() { # FILE
    xargs -r -L 1 -P "$JOBS" sh tests/gpu/call.sh build_program <"$1"
}
# Return whether a program was built; otherwise record why it is not run.
is_built() { # NAME STEP
    [ ! -x "$BUILD/$1" ] || return 0
    record "$2" FAIL 0 "$1 was not built"
    return 1
}
# Print the programs of bench.sh, as for build_programs.
bench_programs() {
    for name in bench_train bench_cuda_attention bench_cuda_matmul bench_cuda_ops; do
        case $name:" $MISSING " in bench_train:*' libjansson-dev '*) continue ;; esac
        [ ! -f "bench/$name.c" ] || echo "$name bench/$name.c -"
    done
}
# Run one test, for call.sh; its name has : for each space.
run_test() { # LOG PROGRAM=STEP
    test_name=$(echo "${2#*=}" | tr : ' ')
    is_built "${2%%=*}" "$test_name" && step "$test_name" 300 "$1" "$BUILD/${2%%=*}"
}
# Build everything that the listed programs require, and them.
build_all() { # FILE
    if [ -n "${PREBUILT-}" ]; then
        skip build 'built before, elsewhere'
        return
    fi
    step build 900 build.log build || return
    step "build $(wc -l <"$1") programs" 900 build.log build_programs "$1" || true # is_built reports which
}

# Prepare a run of either script.  If the machine cannot run the tests, print the reason in one line
# and keep the earlier results.
prepare() {
    find_nvcc || { echo "no nvcc: add it to PATH, or set NVCC=FILE" >&2; return 1; }
    find_arch || { echo "no GPU: nvidia-smi reports none (set GPU_ARCH=90 to build anyway)" >&2; return 1; }
    "$NVCC" --list-gpu-arch 2>/dev/null | grep -qx "compute_$GPU_ARCH" || {
        echo "$NVCC, release $(nvcc_release), does not support sm_$GPU_ARCH; 6.0 to 7.2 require CUDA 12" >&2
        return 1
    }
    find_toolkit || { echo "cannot find cuda_runtime.h or libcudart_static.a near $NVCC" >&2; return 1; }
    mkdir -p "$LOGS"
    rm -f "$LOGS"/* "$OUT/$REPORT.md" "$OUT/$REPORT.tar.gz"
    : >"$LOGS/steps"
    MISSING='' LIBS=''
    if [ -n "${PREBUILT-}" ]; then # the toolkit may be in another place than where it was built
        LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$LIBRARY
        export LD_LIBRARY_PATH
    else
        find_libraries
    fi
    CPPFLAGS="-I$top/tests/gpu/cmocka $CPPFLAGS" # a subset of cmocka, so that no library has to be carried
    export NVCC GPU_ARCH INCLUDE LIBRARY CUDA_INCLUDES LIBS MISSING
    export CC CXX CPPFLAGS LDFLAGS PYTHON JOBS
    describe_machine >"$BUILD/machine"
    write_summary
    cat "$BUILD/machine"
    echo "- missing libraries: ${MISSING:-none}"
    echo
}
