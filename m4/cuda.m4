dnl TS_CUDA: find nvcc, the runtime library and the headers of cuBLASLt; choose the architectures.
dnl
dnl   --with-cuda        require CUDA; --with-cuda=DIR names its directory
dnl   --without-cuda     build without CUDA; by default CUDA is used if found and if this machine has a GPU
dnl   --with-cuda-archs  capabilities to generate code for, as "75 90"; "all" for packages; by default those
dnl                      of the GPUs of this machine
dnl
dnl The runtime is linked statically, so the program starts without a driver and reports that;
dnl cuBLASLt is loaded when a GPU is opened (kernels/cuda/cuda_library.c).
AC_DEFUN([TS_CUDA], [
    AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit (default: used if found)])],
        [], [with_cuda=auto])
    AC_ARG_WITH([cuda-archs],
        [AS_HELP_STRING([--with-cuda-archs=LIST],
            [compute capabilities without the dot, or all (default: those of the GPUs of this machine)])],
        [cuda_archs=$withval], [cuda_archs=native])

    have_cuda=no
    AS_CASE([$with_cuda],
        [no], [],
        [auto|yes], [TS_CUDA_FIND([$CUDA_HOME $CUDA_PATH /usr/local/cuda /usr/lib/cuda /usr])],
        [TS_CUDA_FIND([$with_cuda])])
    AS_IF([test "$with_cuda" != no && test "$with_cuda" != auto && test "$have_cuda" = no],
          [AC_MSG_ERROR([cannot find a CUDA toolkit with nvcc, cuda_runtime.h, cublasLt.h and libcudart_static.a])])

    AS_IF([test "$have_cuda" != no], [TS_CUDA_ARCHS])
    AS_IF([test "$have_cuda" != no],
          [TS_CUDA_FLAGS
           AC_DEFINE([HAVE_CUDA], [1], [kernels/cuda is built])
           AC_DEFINE_UNQUOTED([CUDA_ARCHS], ["$ts_taken"],
               [compute capabilities that kernels/cuda has code for, in addition to PTX])
           AC_DEFINE_UNQUOTED([CUDA_LIBRARY_DIR], ["$ts_library_dir"],
               [library directory of the toolkit])])
    AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" != no])
    AS_IF([test "$have_cuda" = no && test -n "$ts_no_gpu"], [have_cuda="no, $ts_no_gpu"], [ts_no_gpu=])
    TS_NCCL
    AC_SUBST([NVCC])
    AC_SUBST([NVCC_FLAGS])
    AC_SUBST([NVCC_HOPPER_FLAGS])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDA_LIBS])
])

dnl TS_CUDA_FIND(DIRECTORIES): choose the first directory with a complete toolkit.
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

dnl TS_CUDA_ARCHS: find the capabilities to generate code for.  Without a GPU, code for all of them takes
dnl minutes and cannot run here, so there is none unless --with-cuda or --with-cuda-archs asks for it.
AC_DEFUN([TS_CUDA_ARCHS], [
    ts_all="60 61 70 75 80 86 89 90 100 120" ts_no_gpu=
    AS_IF([test "$cuda_archs" = native], [
        AC_MSG_CHECKING([for GPUs of this machine])
        cuda_archs=$( (nvidia-smi --query-gpu=compute_cap --format=csv,noheader) 2>/dev/null |
            sed -n 's/^\(@<:@0-9@:>@*\)\.\(@<:@0-9@:>@\)@<:@^0-9@:>@*$/\1\2/p' | sort -nu | tr '\n' ' ')
        AC_MSG_RESULT([${cuda_archs:-none}])
        AS_IF([test -z "$cuda_archs" && test "$with_cuda" = auto],
              [have_cuda=no
               ts_no_gpu="this machine has no GPU; --with-cuda-archs=all builds for every GPU"],
              [TS_CUDA_SUPPORTED([$cuda_archs])
               # PTX for the newest capability runs on newer cards
               test -n "$ts_taken" || cuda_archs=all])])
    AS_IF([test "$cuda_archs" = all], [cuda_archs=$ts_all])
])

dnl Generate machine code for each capability that this nvcc supports, and PTX for future ones.  The
dnl sources differ only between the capabilities in the loop over `base` (hardware.cuh); the compiler
dnl runs once for each of these, and the assembler turns its PTX into code for every capability up to
dnl the next one.  Attention for 9.0 (flash_hopper_*.cu) has instructions that only code for sm_90a may
dnl contain; without it, these files are compiled as the others, and have no kernels.
AC_DEFUN([TS_CUDA_FLAGS], [
    AC_MSG_CHECKING([for compute capabilities of $NVCC])
    ts_base= ts_codes=
    NVCC_FLAGS="-std=c++17 -O3 --threads 2 -Xcompiler -Wall,-Wextra"
    TS_CUDA_COMPRESS
    NVCC_HOPPER_FLAGS="$NVCC_FLAGS -DFLASH_HOPPER=1 -gencode arch=compute_90a,code=sm_90a"
    TS_CUDA_SUPPORTED([$cuda_archs])
    AS_IF([test -z "$ts_taken"], [AC_MSG_ERROR([$NVCC supports none of: $cuda_archs])])
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
    AS_CASE([" $ts_taken "], [*" 90 "*], [], [NVCC_HOPPER_FLAGS=$NVCC_FLAGS])
    AS_IF([test "${ts_release:-0}" -lt 12], [NVCC_HOPPER_FLAGS=$NVCC_FLAGS])
    AC_MSG_RESULT([$ts_taken])
    have_cuda="$have_cuda (sm $ts_taken)"
])

dnl TS_CUDA_SUPPORTED(ARCHS): set ts_taken to those that this nvcc supports.
AC_DEFUN([TS_CUDA_SUPPORTED], [
    ts_known=" "$(echo $($NVCC --list-gpu-arch 2>/dev/null))" "
    ts_taken=
    for arch in $1; do
        AS_CASE([$ts_known], [*" compute_$arch "*], [ts_taken="$ts_taken${ts_taken:+ }$arch"])
    done
])

dnl The code of seven capabilities is nearly identical; compressed together it takes a tenth of the space.
dnl Drivers before 550 cannot decompress it; CUDA 13 requires 580 anyway.
AC_DEFUN([TS_CUDA_COMPRESS], [
    ts_release=$($NVCC --version 2>/dev/null | sed -n 's/.*release \(@<:@0-9@:>@*\).*/\1/p')
    AS_IF([test "${ts_release:-0}" -ge 13 && $NVCC --help | grep -q -e --compress-mode],
          [NVCC_FLAGS="$NVCC_FLAGS --compress-mode=size"])
])

dnl TS_NCCL: reductions over several GPUs; the build requires only the header, the library is loaded at
dnl run time.
AC_DEFUN([TS_NCCL], [
    AC_ARG_WITH([nccl],
        [AS_HELP_STRING([--with-nccl], [several GPUs in one job (default: if nccl.h is found)])],
        [], [with_nccl=auto])
    have_nccl=no
    AS_IF([test -n "$NVCC_FLAGS" && test "$with_nccl" != no], [
        AC_MSG_CHECKING([for nccl.h of 2.14 or newer])
        ts_cppflags=$CPPFLAGS
        CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>]],
            [[ncclConfig_t config = NCCL_CONFIG_INITIALIZER; config.blocking = 0;]])],
            [have_nccl=yes])
        CPPFLAGS=$ts_cppflags
        AC_MSG_RESULT([$have_nccl])])
    AS_IF([test "$with_nccl" = yes && test "$have_nccl" = no],
          [AC_MSG_ERROR([--with-nccl requires CUDA and nccl.h; on Debian: apt-get install libnccl-dev])])
    AS_IF([test "$have_nccl" = yes], [AC_DEFINE([HAVE_NCCL], [1], [several GPUs in one job])])
    AM_CONDITIONAL([HAVE_NCCL], [test "$have_nccl" = yes])
])

dnl Add the -gencode option of one base capability to NVCC_FLAGS.
AC_DEFUN([TS_CUDA_CODES], [
    AS_IF([test -n "$ts_base"],
          [NVCC_FLAGS="$NVCC_FLAGS -gencode arch=compute_$ts_base,code=@<:@$ts_codes@:>@"])
])
