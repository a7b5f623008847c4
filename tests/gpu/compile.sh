#!/bin/sh
# shellcheck disable=SC2086,SC1091
# compile.sh FILE: compile one object for gpu.sh with the flags in $BUILD/flags.built.
file=$1
object=$BUILD/objects/${file%.c*}.o
mkdir -p "$(dirname "$object")"
. "$BUILD/flags.built"
case $file in
*.cu) set -- $CUDA ;;
*_avx2.c) set -- $C $AVX2 ;;
*_avx512.c) set -- $C $AVX512 ;;
kernels/cpu/*) set -- $C -O3 ;;
*) set -- $C ;;
esac
rm -f "$object"
"$@" -c -o "$object" "$file" >"$object.log" 2>&1 && { cat "$object.log"; exit 0; }
if grep -qE 'fatal error: (jansson|pcre2|utf8proc|nettle/[a-z0-9]*|zlib|yaml)\.h' "$object.log"; then
    echo "left out: $file"
    exit 0
fi
cat "$object.log"
echo "error: $file"
exit 1
