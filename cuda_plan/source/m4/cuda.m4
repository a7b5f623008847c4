dnl TS_CUDA: nvcc, the runtime library, the headers of cuBLASLt and the architectures.
dnl
dnl   --with-cuda        CUDA must be there; --with-cuda=DIR says where
dnl   --without-cuda     leave it out; the default takes it where it is found
dnl   --with-cuda-archs  capabilities to make code for, "75 90" compiles faster than all
dnl
dnl The runtime is linked statically, so that the program starts without a driver and says so;
dnl cuBLASLt is loaded when a GPU is opened (kernels/cuda/cuda_library.c).
AC_DEFUN([TS_CUDA], [
    AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit (default: found or left out)])],
        [], [with_cuda=auto])
    AC_ARG_WITH([cuda-archs],
        [AS_HELP_STRING([--with-cuda-archs=LIST],
            [compute capabilities without the dot (default: all that nvcc knows of 60 61 70 75 80 86 89 90 100 120)])],
        [cuda_archs=$withval], [cuda_archs="60 61 70 75 80 86 89 90 100 120"])

    have_cuda=no
    AS_CASE([$with_cuda],
        [no], [],
        [auto|yes], [TS_CUDA_FIND([$CUDA_HOME $CUDA_PATH /usr/local/cuda /usr/lib/cuda /usr])],
        [TS_CUDA_FIND([$with_cuda])])
    AS_IF([test "$with_cuda" != no && test "$with_cuda" != auto && test "$have_cuda" = no],
          [AC_MSG_ERROR([no CUDA toolkit with nvcc, cuda_runtime.h, cublasLt.h and libcudart_static.a found])])

    AS_IF([test "$have_cuda" != no],
          [TS_CUDA_FLAGS
           AC_DEFINE([HAVE_CUDA], [1], [kernels/cuda is built])
           AC_DEFINE_UNQUOTED([CUDA_ARCHS], ["$ts_taken"],
               [compute capabilities that kernels/cuda has code for, besides PTX])
           AC_DEFINE_UNQUOTED([CUDA_LIBRARY_DIR], ["$ts_library_dir"],
               [where the toolkit has its libraries])])
    AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" != no])
    TS_NCCL
    AC_SUBST([NVCC])
    AC_SUBST([NVCC_FLAGS])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDA_LIBS])
])

dnl TS_CUDA_FIND(DIRECTORIES): the first that is whole.
AC_DEFUN([TS_CUDA_FIND], [
    AC_MSG_CHECKING([for CUDA])
    for dir in $1; do
        AS_IF([test "$have_cuda" = no && test -x "$dir/bin/nvcc" \
               && test -f "$dir/include/cuda_runtime.h" && test -f "$dir/include/cublasLt.h"],
              [for lib in lib64 lib lib/x86_64-linux-gnu; do
                   AS_IF([test "$have_cuda" = no && test -f "$dir/$lib/libcudart_static.a"],
                         [have_cuda=$dir
                          NVCC=$dir/bin/nvcc
                          CUDA_CPPFLAGS="-isystem $dir/include"
                          CUDA_LIBS="-L$dir/$lib -lcudart_static -lrt -ldl -lpthread -lstdc++"
                          ts_library_dir=$dir/$lib])
               done])
    done
    AC_MSG_RESULT([$have_cuda])
])

dnl Machine code for each capability this nvcc knows, and PTX for those to come.  Sources differ
dnl only for the capabilities that the loop over `base` names (hardware.cuh); each goes through
dnl the compiler once, and its PTX through an assembler for every capability up to the next.
AC_DEFUN([TS_CUDA_FLAGS], [
    AC_MSG_CHECKING([for compute capabilities of $NVCC])
    ts_known=$($NVCC --list-gpu-arch 2>/dev/null)
    ts_taken= ts_base= ts_codes=
    NVCC_FLAGS="-std=c++17 -O3 --threads 2 -Xcompiler -Wall,-Wextra"
    TS_CUDA_COMPRESS
    for arch in $cuda_archs; do
        AS_CASE([" "$(echo $ts_known)" "], [*" compute_$arch "*],
                [ts_taken="$ts_taken${ts_taken:+ }$arch"])
    done
    AS_IF([test -z "$ts_taken"], [AC_MSG_ERROR([$NVCC knows none of: $cuda_archs])])
    for arch in $ts_taken; do
        ts_of=$arch
        for base in 60 61 70 75 80; do
            AS_IF([test $base -le $arch], [ts_of=$base])
        done
        AS_IF([test "$ts_of" = "$ts_base"], [ts_codes="$ts_codes,sm_$arch"],
              [TS_CUDA_CODES
               ts_base=$ts_of ts_codes=sm_$arch])
    done
    ts_codes="$ts_codes,compute_$ts_base"
    TS_CUDA_CODES
    AS_CASE([" $ts_taken "], [*" 6"*|*" 7@<:@012@:>@"*],
            [NVCC_FLAGS="$NVCC_FLAGS -Wno-deprecated-gpu-targets"])
    AC_MSG_RESULT([$ts_taken])
    have_cuda="$have_cuda (sm $ts_taken)"
])

dnl The code of seven capabilities is much the same seven times, and packed as one a tenth as large.
dnl Drivers before 550 cannot unpack it; CUDA 13 wants 580 anyway.
AC_DEFUN([TS_CUDA_COMPRESS], [
    ts_release=$($NVCC --version 2>/dev/null | sed -n 's/.*release \(@<:@0-9@:>@*\).*/\1/p')
    AS_IF([test "${ts_release:-0}" -ge 13 && $NVCC --help | grep -q -e --compress-mode],
          [NVCC_FLAGS="$NVCC_FLAGS --compress-mode=size"])
])

dnl TS_NCCL: sums over several GPUs; only its header is needed, the library is loaded at run time.
AC_DEFUN([TS_NCCL], [
    AC_ARG_WITH([nccl],
        [AS_HELP_STRING([--with-nccl], [several GPUs in one job (default: where nccl.h is found)])],
        [], [with_nccl=auto])
    have_nccl=no
    AS_IF([test "$have_cuda" != no && test "$with_nccl" != no], [
        AC_MSG_CHECKING([for nccl.h of 2.14 or newer])
        ts_cppflags=$CPPFLAGS
        CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>]],
            [[ncclConfig_t config = NCCL_CONFIG_INITIALIZER; config.blocking = 0;]])],
            [have_nccl=yes])
        CPPFLAGS=$ts_cppflags
        AC_MSG_RESULT([$have_nccl])])
    AS_IF([test "$with_nccl" = yes && test "$have_nccl" = no],
          [AC_MSG_ERROR([--with-nccl wants CUDA and nccl.h; on Debian: apt-get install libnccl-dev])])
    AS_IF([test "$have_nccl" = yes], [AC_DEFINE([HAVE_NCCL], [1], [several GPUs in one job])])
    AM_CONDITIONAL([HAVE_NCCL], [test "$have_nccl" = yes])
])

AC_DEFUN([TS_CUDA_CODES], [
    AS_IF([test -n "$ts_base"],
          [NVCC_FLAGS="$NVCC_FLAGS -gencode arch=compute_$ts_base,code=@<:@$ts_codes@:>@"])
])
