#!/bin/sh
# tests/gpu/run.sh where there is nothing to try with: one line that says so, status 2, nothing
# built, and the results of an earlier run left alone.
. "${top_srcdir-.}/tests/cli/lib.sh"

mkdir "$T/tools" "$T/results"
echo 'an earlier run' >"$T/results/summary.md"
tool() { # NAME, its text from stdin
    { echo '#!/bin/sh'; cat; } >"$T/tools/$1"
    chmod +x "$T/tools/$1"
}
# [VARIABLE=VALUE]... SCRIPT
gpu() {
    try env -u CUDA_HOME -u CUDA_PATH -u GPU_ARCH PATH="$T/tools:$PATH" NVCC="$T/tools/nvcc" \
        BUILD="$T/build" OUT="$T/results" "$@"
}
refuses() { # NAME PATTERN
    ok $((status != 2)) "$1: status 2"
    complains "$1: said" "$2"
    holds "$1: in one line" test "$(cat "$T/out" "$T/err" | wc -l)" -eq 1
    holds "$1: nothing is built" test -z "$(ls "$T/build")"
    holds "$1: earlier results stay" grep -q 'an earlier run' "$T/results/summary.md"
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
refuses 'a card that this nvcc makes no code for' \
    'nvcc, release 13.0, makes no code for sm_61; for 6.0 to 7.2 it takes CUDA 12$'

plan
