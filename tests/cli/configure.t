#!/bin/sh
# configure: which GPUs the build has code for, with a stub toolkit and a stub nvidia-smi.
. "${top_srcdir-.}/tests/cli/lib.sh"

if [ ! -x "$source/configure" ]; then
    echo '1..0 # SKIP no configure script'
    exit 0
fi
toolkit=$T/toolkit
mkdir -p "$T/bin" "$T/build" "$toolkit/bin" "$toolkit/include" "$toolkit/lib64"
: >"$toolkit/include/cuda_runtime.h"
: >"$toolkit/include/cublasLt.h"
: >"$toolkit/lib64/libcudart_static.a"
cat >"$toolkit/bin/nvcc" <<'END'
#!/bin/sh
case $1 in
--version) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;
--list-gpu-arch) printf 'compute_%s\n' 75 80 86 89 90 100 ;;
esac
END
cat >"$T/bin/nvidia-smi" <<'END'
#!/bin/sh
printf "$CARDS"
END
chmod +x "$toolkit/bin/nvcc" "$T/bin/nvidia-smi"
# CARDS ARGUMENT...: configure in a folder of its own; the archs of the build, or `none`, are in $T/archs
configured() {
    cards=$1
    shift
    try env -C "$T/build" CUDA_HOME="$toolkit" CARDS="$cards" PATH="$T/bin:$PATH" \
        "$source/configure" --cache-file="$T/cache" --srcdir="$source" "$@"
    sed -n 's/^#define CUDA_ARCHS "\(.*\)"/\1/p' "$T/build/config.h" >"$T/archs"
    [ -s "$T/archs" ] || echo none >"$T/archs"
}
archs() { # NAME ARCHS
    ok "$status" "$1: configure succeeds"
    expect "$1" test "$(cat "$T/archs")" = "$2"
}

if [ -f "$source/config.status" ]; then
    echo '1..0 # SKIP the tree was configured in place'
    exit 0
fi
configured ''
archs 'without a GPU there is no CUDA code' none
expect_output 'the summary says how to build for every GPU' 'no GPU; --with-cuda-archs=all builds for every GPU'
configured '9.0\n8.6\n9.0\n'
archs 'the build has code for the GPUs of the machine' '86 90'
configured '12.0\n'
archs 'a GPU newer than nvcc gets every architecture and PTX' '75 80 86 89 90 100'
configured '' --with-cuda-archs=all
archs 'all architectures can be requested' '75 80 86 89 90 100'
configured '' "--with-cuda=$toolkit"
archs 'CUDA that is required is built for every GPU' '75 80 86 89 90 100'
plan
