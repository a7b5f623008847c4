#!/bin/sh
# Build trainspool on this machine and try it on its GPU; needs nvcc and a C compiler, and no
# autotools.  Ends with a table of steps and status 1 if one failed; status 2 where there is
# nothing to try with: no nvcc, no GPU.
#
#     tests/gpu/run.sh [build|models|bench|operations|ranks|curves|sanitizer]...
#
# In the order of the words, without any in this one (build is always made).  gpu.sh has the variables that
# say where things are; the table goes to $OUT (gpu-results), with all logs in results.tar.gz.
set -u
. "$(dirname "$0")/gpu.sh"

# What is to be known first: whether models learn right in the memory that they have in use, and how
# fast.  Operations have their operands in memory that moves between host and card by itself, are
# many to build, and tell more where a model is wrong.  The last may take hours.
wanted=${*:-models bench operations ranks curves sanitizer}
for word in $wanted; do
    case $word in
    build | models | bench | operations | ranks | curves | sanitizer) ;;
    *) echo "run.sh: there is no step $word" >&2; exit 2 ;;
    esac
done

# --- operations: the tests of the CPU's kernels, with the GPU in their place

operations() {
    for file in tests/unit/test_cpu_*.c; do
        name=$(basename "$file" .c)
        grep -q machines_open "$file" || continue
        step "build ${name#test_cpu_}" 300 tests.log build_test "$name" cuda &&
            step "operation ${name#test_cpu_}" 300 tests.log "$BUILD/$name"
    done
    if has_cudnn; then
        step 'operation attention, forward by cuDNN' 300 tests.log \
            env TRAINSPOOL_CUDNN=1 "$BUILD/test_cpu_attention"
    else
        skip 'operation attention, forward by cuDNN' 'no libcudnn.so.9'
    fi
}

# --- models and curves: whole programs, for which every library has to be there

whole() { # NAME...: unit tests that use a GPU where there is one
    for name; do
        if [ -n "$MISSING" ]; then
            skip "$name" "without $MISSING"
        elif [ ! -f "tests/unit/$name.c" ]; then
            skip "$name" 'not in this tree'
        else
            step "build $name" 300 models.log build_test "$name" cpu &&
                step "$name" 300 models.log "$BUILD/$name"
        fi
    done
}
# Programs whose ranks have a GPU each, with NCCL as it is.
ranks() { # NAME...
    for name; do
        if [ -n "$MISSING" ]; then
            skip "$name" "without $MISSING"
        elif ! has_header nccl.h; then
            skip "$name" 'without nccl.h (libnccl-dev)'
        else
            step "build $name" 300 ranks.log build_test "$name" cpu -DUNIT_CUDA &&
                step "$name" 300 ranks.log "$BUILD/$name"
        fi
    done
}
# Again from the start, by the PyTorch that is here.
curves() {
    model=$TRAINSPOOL_SHARED/data/stories260K/hf
    whole test_trainer_curve
    if [ ! -d "$model" ]; then
        skip 'curve by PyTorch' "no $model"
    elif ! python_can 'import torch, transformers'; then
        skip 'curve by PyTorch' 'no torch and transformers'
    else
        step 'curve by PyTorch' 300 curves.log sh tests/gpu/curve.sh "$model"
    fi
}

# --- sanitizer: memory, races, uninitialised reads of the same tests

SANITIZED=${SANITIZED:-swiglu activation norm layernorm headnorm rope embedding elementwise decide
    adamw loss topk distill preference attention matmul dequantize decode}
TOOLS=${TOOLS:-memcheck racecheck initcheck}
sanitizer_is_late() { # one line for all that there is no time for
    [ "$(left)" -lt 30 ] || return
    skip 'sanitizer, what is left of it' "no time is left of $LIMIT s"
}
sanitizer() {
    sanitizer=$(dirname "$NVCC")/compute-sanitizer
    [ -x "$sanitizer" ] || sanitizer=$(command -v compute-sanitizer)
    if [ -z "$sanitizer" ]; then
        skip compute-sanitizer 'not installed'
        return
    fi
    for name in swiglu $SANITIZED; do # the first is what it is tried with
        ! sanitizer_is_late || return
        [ -x "$BUILD/test_cpu_$name" ] ||
            step "build $name" 300 tests.log build_test "test_cpu_$name" cuda || return
    done
    ! sanitizer_is_late || return
    timeout -k 5 "$(at_most 120)" "$sanitizer" "$BUILD/test_cpu_swiglu" >"$LOGS/sanitizer.log" 2>&1
    case $? in
    0 | 124 | 137) ;; # slow is not broken
    *)
        skip compute-sanitizer "does not work here: $(grep -m 1 -iE 'error|not supported' "$LOGS/sanitizer.log")"
        return
        ;;
    esac
    step_slow=yes
    for tool in $TOOLS; do
        for name in $SANITIZED; do
            ! sanitizer_is_late || return
            step "$tool $name" 120 sanitizer.log "$sanitizer" --tool "$tool" --error-exitcode 9 \
                "$BUILD/test_cpu_$name"
        done
    done
}

prepare || exit 2
step build 900 build.log build || { summary; exit 1; }
for word in $wanted; do
    case $word in
    models) whole test_model_cuda test_model_cuda_forward test_model_distill test_model_preference ;;
    bench) sh tests/gpu/bench.sh --within ;;
    operations) operations ;;
    ranks) ranks test_group test_model_ranks ;;
    curves) curves ;;
    sanitizer)
        sanitizer
        # shellcheck disable=SC2034 # gpu.sh reads it
        step_slow=
        ;;
    esac
done
summary
