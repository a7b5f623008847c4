#!/bin/sh
# Build trainspool on this machine and test it on its GPU.  Requires nvcc and a C compiler, but no
# autotools.  Prints a table of steps at the end.  The status is 1 if a step failed, and 2 if the
# machine has no nvcc or no GPU.
#
#     tests/gpu/run.sh [build|models|bench|operations|ranks|curves|sanitizer]...
#
# Runs the named steps in the given order; the default is all steps in the order above.  The build
# always comes first; the step `build` alone builds all programs, to be carried to a machine with a
# GPU, where PREBUILT=yes runs them.  gpu.sh describes the variables.  The table is summary.md in $OUT
# (gpu-results), with all logs in summary.tar.gz.
# shellcheck disable=SC2046,SC2086,SC2154,SC1091
set -u
. "$(dirname "$0")/gpu.sh"

# The most important results come first: whether models train correctly with the memory they use in
# practice, and how fast.  Tests of operations use managed memory, take long to build, and help to
# locate the error if a model is wrong.  The sanitizer may take hours.
all='models bench operations ranks curves sanitizer'
steps=${*:-$all}
for word in $steps; do
    case $word in
    build | models | bench | operations | ranks | curves | sanitizer) ;;
    *) echo "run.sh: unknown step $word" >&2; exit 2 ;;
    esac
done

# --- programs: NAME SOURCE MACHINES [-DMACRO], the arguments of build_program

model_tests='test_model_cuda test_model_cuda_forward test_model_media_cuda test_tower_cuda test_model_distill test_model_preference'
rank_tests='test_group test_model_gather test_model_ranks test_recorded_ranks'
operations=$(grep -l machines_open tests/unit/test_cpu_*.c | sed 's,.*/test_cpu_\(.*\)\.c,\1,')
test_programs() { # MACHINES NAME...: those whose source is in the tree
    test_machines=$1
    shift
    for name; do
        [ ! -f "tests/unit/$name.c" ] || echo "$name tests/unit/$name.c $test_machines"
    done
}
operation_tests() { # NAME...
    test_programs cuda $(printf 'test_cpu_%s ' "$@")
}
programs() { # STEP...
    for word; do
        case $word in
        models) operation_tests matmul_sums ;;
        operations) operation_tests $operations ;;
        sanitizer) operation_tests swiglu $SANITIZED ;;
        bench) bench_programs ;;
        esac
        [ -z "$MISSING" ] || continue
        case $word in
        models)
            test_programs cpu $model_tests
            for name in main:trainspool train_main:trainspool-train; do
                [ ! -f "runner/${name%:*}.c" ] || echo "${name#*:} runner/${name%:*}.c -"
            done
            ;;
        ranks) ! has_header nccl.h || test_programs 'cpu -DUNIT_CUDA' $rank_tests ;;
        curves) test_programs cpu test_trainer_curve ;;
        esac
    done | sort -u
}
# Run tests that do not depend on each other at the same time: LOG PROGRAM=STEP...
together() {
    together_log=$1
    shift
    printf '%s\n' "$@" | xargs -r -P "$JOBS" -I '{}' sh tests/gpu/call.sh run_test "$together_log" '{}'
}
# Print `PROGRAM=STEP` for each test whose requirements are met; record the others as skipped.
runnable() { # NAME...
    for name; do
        if [ -n "$MISSING" ]; then
            skip "$name" "$MISSING is missing" >&2
        elif [ ! -f "tests/unit/$name.c" ]; then
            skip "$name" 'not in this tree' >&2
        else
            echo "$name=$name"
        fi
    done
}

# --- models: matmuls of ones first, because nothing else is right if these are not

models() {
    together models.log 'test_cpu_matmul_sums=sums of ones'
    together models.log $(runnable $model_tests)
    if [ -n "$MISSING" ]; then
        skip 'trainspool on the card' "$MISSING is missing"
    elif is_built trainspool-train 'trainspool on the card' && is_built trainspool 'trainspool on the card'; then
        step 'trainspool on the card' 300 train.log env top_srcdir="$top" top_builddir="$BUILD" sh tests/gpu/train.t
    fi
}

# --- operations: the tests of the CPU kernels, run on the GPU

operations() {
    export TRAINSPOOL_CUDNN=0
    together tests.log $(for name in $operations; do
        [ "$name" = matmul_sums ] || echo "test_cpu_$name=operation:$name"
    done)
    unset TRAINSPOOL_CUDNN
    if ! has_cudnn; then
        skip 'operation attention by cuDNN' 'no libcudnn.so.9'
        return
    fi
    for name in attention attention_limits; do
        [ -f "tests/unit/test_cpu_$name.c" ] || continue
        step "operation $name, forward by cuDNN" 300 tests.log env TRAINSPOOL_CUDNN=1 "$BUILD/test_cpu_$name"
        [ "$GPU_ARCH" -lt 90 ] || step "operation $name, both passes by cuDNN" 300 tests.log \
            env TRAINSPOOL_CUDNN=1 GRADIENTS_MIB=1024 "$BUILD/test_cpu_$name"
    done
}

# --- ranks: programs whose ranks each have a GPU, with the real NCCL

ranks() {
    if [ -z "$MISSING" ] && ! has_header nccl.h; then
        for name in $rank_tests; do skip "$name" 'nccl.h is missing (libnccl-dev)'; done
        return
    fi
    JOBS=1 together ranks.log $(runnable $rank_tests)
}

# --- curves

# Train again from scratch, with the PyTorch of this machine.
curves() {
    model=$TRAINSPOOL_SHARED/data/stories260K/hf
    together curves.log $(runnable test_trainer_curve)
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
    adamw loss topk distill preference attention attention_keys matmul dequantize decode route experts pair_scale delta dora sink clamped gate xielu rotation heads media
    latent optimizers optimizers_whole optimizers_projected schedule_free policy}
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
    sanitized=
    for name in $SANITIZED; do
        if [ ! -f "tests/unit/test_cpu_$name.c" ]; then
            skip "sanitizer $name" 'not in this tree'
        elif is_built "test_cpu_$name" "sanitizer $name"; then
            sanitized="$sanitized $name"
        fi
    done
    ! sanitizer_is_late || return
    # the first program is used to try the sanitizer
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
        for name in $sanitized; do
            ! sanitizer_is_late || return
            step "$tool $name" 120 sanitizer.log "$sanitizer" --tool "$tool" --error-exitcode 9 \
                "$BUILD/test_cpu_$name"
        done
    done
}

prepare || exit 2
if [ "$steps" = build ]; then programs $all; else programs $steps; fi >"$BUILD/programs"
build_all "$BUILD/programs" || { summary; exit 1; }
for word in $steps; do
    case $word in
    models) models ;;
    bench) sh tests/gpu/bench.sh --within ;;
    operations) operations ;;
    ranks) ranks ;;
    curves) curves ;;
    sanitizer)
        sanitizer
        # shellcheck disable=SC2034 # gpu.sh reads it
        step_slow=
        ;;
    esac
done
summary
