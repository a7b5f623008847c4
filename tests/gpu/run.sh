#!/bin/sh
# Build trainspool on this machine and test it on its GPU.  Requires nvcc and a C compiler, but no
# autotools.  Prints a table of steps at the end.  The status is 1 if a step failed, and 2 if the
# machine has no nvcc or no GPU.
#
#     tests/gpu/run.sh [build|models|bench|operations|ranks|curves|sanitizer]...
#
# Runs the named steps in the given order; the default is all steps in the order above.  The build
# always comes first.  gpu.sh describes the variables.  The table is in $OUT (gpu-results), with all
# logs in results.tar.gz.
set -u
. "$(dirname "$0")/gpu.sh"

# The most important results come first: whether models train correctly with the memory they use in
# practice, and how fast.  Tests of operations use managed memory, take long to build, and help to
# locate the error if a model is wrong.  The sanitizer may take hours.
steps=${*:-models bench operations ranks curves sanitizer}
for word in $steps; do
    case $word in
    build | models | bench | operations | ranks | curves | sanitizer) ;;
    *) echo "run.sh: unknown step $word" >&2; exit 2 ;;
    esac
done

# --- operations: the tests of the CPU kernels, run on the GPU

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

# --- models and curves: whole programs, which require every library

run_tests() { # NAME...: build and run unit tests that use the GPU
    for name; do
        if [ -n "$MISSING" ]; then
            skip "$name" "$MISSING is missing"
        elif [ ! -f "tests/unit/$name.c" ]; then
            skip "$name" 'not in this tree'
        else
            step "build $name" 300 models.log build_test "$name" cpu &&
                step "$name" 300 models.log "$BUILD/$name"
        fi
    done
}
# Programs whose ranks each have a GPU, with the real NCCL.
ranks() { # NAME...
    for name; do
        if [ -n "$MISSING" ]; then
            skip "$name" "$MISSING is missing"
        elif ! has_header nccl.h; then
            skip "$name" 'nccl.h is missing (libnccl-dev)'
        else
            step "build $name" 300 ranks.log build_test "$name" cpu -DUNIT_CUDA &&
                step "$name" 300 ranks.log "$BUILD/$name"
        fi
    done
}
# Train again from scratch, with the PyTorch of this machine.
curves() {
    model=$TRAINSPOOL_SHARED/data/stories260K/hf
    run_tests test_trainer_curve
    if [ ! -d "$model" ]; then
        skip 'curve by PyTorch' "no $model"
    elif ! python_can 'import torch, transformers'; then
        skip 'curve by PyTorch' 'no torch and transformers'
    else
        step 'curve by PyTorch' 300 curves.log sh tests/gpu/curve.sh "$model"
    fi
}

# --- sanitizer: memory errors, races and uninitialized reads in the same tests

SANITIZED=${SANITIZED:-swiglu activation norm layernorm headnorm rope embedding elementwise decide
    adamw loss topk distill preference attention matmul dequantize decode}
TOOLS=${TOOLS:-memcheck racecheck initcheck}
sanitizer_is_late() { # succeed if no time is left; record the skipped rest in one line
    [ "$(seconds_left)" -lt 30 ] || return
    skip 'rest of sanitizer' "no time left of $LIMIT s"
}
sanitizer() {
    sanitizer=$(dirname "$NVCC")/compute-sanitizer
    [ -x "$sanitizer" ] || sanitizer=$(command -v compute-sanitizer)
    if [ -z "$sanitizer" ]; then
        skip compute-sanitizer 'not installed'
        return
    fi
    for name in swiglu $SANITIZED; do # the first is used to try the sanitizer
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
for word in $steps; do
    case $word in
    models) run_tests test_model_cuda test_model_cuda_forward test_model_distill test_model_preference ;;
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
