#!/bin/sh
# tests/gpu/run.sh without a GPU: one line with the reason, status 2, no build, and earlier results are
# kept.  tests/gpu/run.sh with a GPU: a tree of a few empty sources, with a stub compiler, GPU and
# sanitizer.
. "${top_srcdir-.}/tests/cli/lib.sh"

mkdir "$T/tools" "$T/results"
echo 'an earlier run' >"$T/results/summary.md"
tool() { # NAME: write a script from standard input
    { echo '#!/bin/sh'; cat; } >"$T/tools/$1"
    chmod +x "$T/tools/$1"
}
# [VARIABLE=VALUE]... SCRIPT: run it with the stub tools
gpu() {
    try env -u CUDA_HOME -u CUDA_PATH -u GPU_ARCH PATH="$T/tools:$PATH" NVCC="$T/tools/nvcc" \
        BUILD="$T/build" OUT="$T/results" "$@"
}
refuses() { # NAME PATTERN: the last command gave status 2 and one line
    ok $((status != 2)) "$1: status 2"
    expect_error "$1: the message gives the reason" "$2"
    expect "$1: the message is one line" test "$(cat "$T/out" "$T/err" | wc -l)" -eq 1
    expect "$1: nothing is built" test -z "$(ls "$T/build")"
    expect "$1: earlier results are kept" grep -q 'an earlier run' "$T/results/summary.md"
}

tool nvcc <<'END'
case $1 in
--version) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;
--list-gpu-arch) printf 'compute_%s\n' 75 80 90 ;;
*) exit 1 ;;
esac
END
tool nvidia-smi <<'END'
echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'
exit 9
END
for script in run.sh bench.sh; do
    gpu sh "$source/tests/gpu/$script"
    refuses "$script without a GPU" '^no GPU: '
done

tool nvidia-smi <<'END'
echo 6.1
END
gpu sh "$source/tests/gpu/run.sh"
refuses 'a GPU that nvcc does not support' \
    'nvcc, release 13.0, does not support sm_61; 6.0 to 7.2 require CUDA 12$'

# --- a complete run

tree=$T/tree toolkit=$T/toolkit results=$T/whole
mkdir -p "$toolkit/bin" "$toolkit/include" "$toolkit/lib64" "$tree/tests/unit" "$tree/tests/reference" \
    "$tree/kernels/cpu" "$tree/kernels/cuda" "$tree/bench" "$tree/base" "$tree/precision" "$tree/train/room" \
    "$tree/patcher/script" "$tree/runner" "$T/shared"
cp -R "$source/tests/gpu" "$tree/tests"
echo 'echo ok 1 - trains' >"$tree/tests/gpu/train.t"
echo 'AC_INIT([trainspool], [1.0])' >"$tree/configure.ac"
: >"$toolkit/include/cuda_runtime.h"
: >"$toolkit/lib64/libcudart_static.a"
: >"$tree/tests/unit/unit.h"
for file in base/one precision/one kernels/one kernels/cpu/one kernels/cuda/one train/room/one \
    patcher/script/script_tree runner/main runner/train_main tests/reference/machines_cpu \
    tests/reference/machines_cuda tests/unit/test_model_cuda tests/unit/test_group tests/unit/test_trainer_curve \
    bench/gpu_ops bench/model_steps bench/rate bench/stopwatch bench/target bench/bench_cuda_ops; do
    : >"$tree/$file.c"
done
: >"$tree/kernels/cuda/one.cu"
for name in attention matmul_sums norm swiglu; do
    echo machines_open >"$tree/tests/unit/test_cpu_$name.c"
done

# Stub compiler: makes empty objects and programs that pass; linking with the library $UNLINKED fails.
tool cc <<'END'
made='' words=" $* "
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || made=$2
    shift
done
case $words in
*' -E '*) exit 0 ;;
*" -l${UNLINKED:- } "*) exit 1 ;;
*' -c '*) : >"$made" ;;
*) printf '#!/bin/sh\nsleep "${STALLS:-0}"\necho ok 1 - passes\n' >"$made" && chmod +x "$made" ;;
esac
END
cat >"$toolkit/bin/nvcc" <<'END'
#!/bin/sh
case $1 in
--version) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;
--list-gpu-arch) printf 'compute_%s\n' 80 90 ;;
*) exec cc "$@" ;;
esac
END
cat >"$toolkit/bin/compute-sanitizer" <<'END'
#!/bin/sh
shift $(($# - 1))
sleep "${SLOW:-0}"
exec "$1"
END
chmod +x "$toolkit/bin/nvcc" "$toolkit/bin/compute-sanitizer"
tool nvidia-smi <<END
echo asked >>"$T/asked"
case \$* in
*compute_cap*) echo 9.0 ;;
*) echo 'A card, 580.1, 80000 MiB' ;;
esac
END
tool python3 <<'END'
exit 1
END
# [VARIABLE=VALUE]... [STEP...]: run run.sh on the stub tree
whole() {
    whole_set=
    while :; do
        case ${1-} in
        *=*) whole_set="$whole_set $1" ;;
        *) break ;;
        esac
        shift
    done
    # shellcheck disable=SC2086
    try env -u CUDA_HOME -u CUDA_PATH -u GPU_ARCH -u DEPS -u LLMC -u LIMIT -u UNTIL PATH="$T/tools:$PATH" \
        NVCC="$toolkit/bin/nvcc" CC=cc CXX=cc PYTHON=python3 BUILD="$T/made" OUT="$results" JOBS=2 \
        TRAINSPOOL_SHARED="$T/shared" $whole_set sh "$tree/tests/gpu/run.sh" "$@"
}
steps() { # print the steps of the summary in order: NAME|RESULT
    sed -n 's/^| \([^|]*\) | \(ok\|FAIL\|skip\) | .*/\1|\2/p' "$results/summary.md"
}

whole
ok "$status" 'a complete run passes'
expect 'models come first, then speed, then operations' test "$(steps | sed -n \
    -e 's/^\(sums of ones\|test_model_cuda\|ours: operations\|operation norm\|test_group\|test_trainer_curve\|memcheck norm\)|ok$/\1/p' |
    tr '\n' ,)" = 'sums of ones,test_model_cuda,ours: operations,operation norm,test_group,test_trainer_curve,memcheck norm,'
expect 'the summary names the GPU' grep -q '^- card: A card, 580.1, 80000 MiB$' "$results/summary.md"
ok $(($(wc -l <"$T/asked") > 2)) 'the driver is queried at most twice'
expect 'the run leaves two files' test "$(ls "$results" | tr '\n' ' ')" = 'summary.md summary.tar.gz '
try tar -C "$T" -xzf "$results/summary.tar.gz"
expect 'the archive has every log' cmp "$T/summary/tests.log" "$T/made/logs/summary/tests.log"
expect 'the archive has every step' test "$(cut -f 1,2 "$T/summary/steps" | tr '\t' '|')" = "$(steps)"

whole LIMIT=32 SLOW=1 SANITIZED=norm sanitizer
ok "$status" 'a run that exceeds its time limit passes'
ok $(($(steps | grep -c '|skip$') != 1)) 'one line records the skipped rest of the sanitizer step'
expect 'the skipped rest is the last line' test "$(steps | tail -n 1)" = 'rest of sanitizer|skip'

whole UNLINKED=yaml operations models
ok "$status" 'a run without one library passes'
expect_output 'the missing library is listed' '^- missing libraries: libyaml-dev$'
expect 'steps that require the library are skipped' \
    test "$(steps | grep -v ' attention\| norm\| swiglu')" = "build|ok
build 4 programs|ok
sums of ones|ok
test_model_cuda|skip
test_model_cuda_forward|skip
test_model_media_cuda|skip
test_tower_cuda|skip
test_model_distill|skip
test_model_preference|skip
trainspool on the card|skip"
expect 'programs use the cmocka.h of the tree' grep -q -e "-I$tree/tests/gpu/cmocka " "$T/made/flags.built"

whole SANITIZED=norm TOOLS=racecheck sanitizer
ok "$status" 'a selected part of the sanitizer step passes'
expect 'only the selected part runs' test "$(steps | grep check)" = 'racecheck norm|ok'

whole LIMIT=8 STALLS=60 models
ok "$status" 'steps cut off by the limit do not fail'
expect 'steps cut off by the limit are skipped' test "$(steps | tail -n 3 | grep -c '|skip$')" -eq 3

whole curves models
expect 'steps run in the given order' \
    test "$(steps | grep '^test_.*ok' | tr '\n' ,)" = 'test_trainer_curve|ok,test_model_cuda|ok,'
whole build
ok "$status" 'building alone passes'
expect 'building alone runs nothing' test "$(steps | sed 's/[0-9][0-9]* programs/N programs/' | tr '\n' ,)" = 'build|ok,build N programs|ok,'
rm "$T/made/test_cpu_norm"
whole PREBUILT=yes operations
expect 'a prebuilt program runs' test "$(steps | grep swiglu)" = 'operation swiglu|ok'
expect 'a missing program fails' test "$(steps | grep norm)" = 'operation norm|FAIL'
whole models operation
ok $((status != 2)) 'an unknown step gives 2'
expect_error 'the message names the unknown step' 'unknown step operation$'

plan
