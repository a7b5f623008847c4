#!/bin/sh
# shellcheck disable=SC2086,SC1091
# compile.sh FILE: compile one source for gpu.sh with the flags in $BUILD/flags.built.  An operation
# of the CPU becomes an object for each instruction set, as in kernels/local.mk.
file=$1
object=$BUILD/objects/${file%.c*}
mkdir -p "$(dirname "$object")"
. "$BUILD/flags.built"

compile() { # OBJECT COMMAND...
    log=$1.log out=$1
    shift
    rm -f "$out"
    "$@" -c -o "$out" "$file" >"$log" 2>&1 && { cat "$log"; return 0; }
    if grep -qE 'fatal error: (jansson|pcre2|utf8proc|nettle/[a-z0-9]*|zlib|yaml)\.h' "$log"; then
        echo "left out: $file"
        return 0
    fi
    cat "$log"
    echo "error: $file"
    return 1
}

case $file in
*/flash_hopper_*.cu) set -- $CUDA ${HOPPER:-$CODE} ;;
*.cu) set -- $CUDA $CODE ;;
*_avx2.c) set -- $C $AVX2 ;;
*_avx512.c) set -- $C $AVX512 ;;
kernels/cpu/*) set -- $C -O3 ;;
*) set -- $C ;;
esac
if [ -n "$X86" ] && grep -q 'CPU_OP(' "$file"; then
    compile "$object.avx2.o" $C $AVX2 -DCPU_VARIANT=avx2 || exit 1
    compile "$object.avx512.o" $C $AVX512 -DCPU_VARIANT=avx512 || exit 1
fi
compile "$object.o" "$@"
