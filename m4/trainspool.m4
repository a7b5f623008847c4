dnl TS_NEED(VARIABLE, MODULE, DEBIAN-PACKAGE)
dnl Require a library; add its flags to LIBRARY_CFLAGS and LIBRARY_LIBS.
AC_DEFUN([TS_NEED], [
    PKG_CHECK_MODULES([$1], [$2], [],
        [AC_MSG_ERROR([$2 is missing: ${$1_PKG_ERRORS}
on Debian: apt-get install $3])])
    LIBRARY_CFLAGS="$LIBRARY_CFLAGS ${$1_CFLAGS}"
    LIBRARY_LIBS="$LIBRARY_LIBS ${$1_LIBS}"
    AC_SUBST([LIBRARY_CFLAGS])
    AC_SUBST([LIBRARY_LIBS])
])

dnl TS_MEDIA(VARIABLE, MODULE, DEBIAN-PACKAGE, WHAT)
dnl Use a decoder if it is found; --without-VARIABLE, in lower case, leaves it out.  WHAT says what it reads.
dnl Programs that decode link MEDIA_LIBS.
AC_DEFUN([TS_MEDIA], [
    AC_ARG_WITH(m4_tolower([$1]),
        [AS_HELP_STRING([--without-]m4_tolower([$1]), [read no $4 (default: read it if $2 is found)])],
        [ts_media=$withval], [ts_media=auto])
    have_$1=no
    AS_IF([test "$ts_media" != no], [PKG_CHECK_MODULES([$1], [$2], [have_$1=yes], [:])])
    AS_IF([test "$ts_media" = yes && test "$have_$1" = no],
          [AC_MSG_ERROR([$2 is missing: ${$1_PKG_ERRORS}
on Debian: apt-get install $3])])
    AS_IF([test "$have_$1" = yes],
          [AC_DEFINE([HAVE_$1], [1], [Define if this decoder is found.])
           decoders="$decoders m4_tolower([$1])"
           LIBRARY_CFLAGS="$LIBRARY_CFLAGS ${$1_CFLAGS}"
           MEDIA_LIBS="$MEDIA_LIBS ${$1_LIBS}"])
    AM_CONDITIONAL([HAVE_$1], [test "$have_$1" = yes])
    AC_SUBST([MEDIA_LIBS])
])

dnl TS_TRY_CFLAGS(FLAGS, IF-ACCEPTED, IF-NOT)
dnl Try to compile with FLAGS.
AC_DEFUN([TS_TRY_CFLAGS], [
    ts_cflags=$CFLAGS
    CFLAGS="$CFLAGS $1 -Werror"
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([int nothing;])],
                      [CFLAGS=$ts_cflags; $2], [CFLAGS=$ts_cflags; $3])
])

dnl Set HAVE_SCRIPTS if tree-sitter and its grammar of Python are in the folder that
dnl patcher/script/grammar.sh fills.  Without them, trainspool reads no Python scripts.
AC_DEFUN([TS_SCRIPTS], [
    AC_ARG_WITH([tree-sitter-python],
        [AS_HELP_STRING([--with-tree-sitter-python=DIR],
                        [read Python scripts with the parser in DIR, default build-grammar in the source])],
        [], [with_tree_sitter_python=yes])
    GRAMMAR=$with_tree_sitter_python
    AS_IF([test "$GRAMMAR" = yes], [GRAMMAR=`cd "$srcdir" && pwd`/build-grammar])
    have_scripts="no (patcher/script/grammar.sh build-grammar fetches the parser)"
    AS_IF([test "$GRAMMAR" != no && test -f "$GRAMMAR/grammar/scanner.c"], [
        have_scripts=yes
        LIBRARY_CFLAGS="$LIBRARY_CFLAGS -isystem $GRAMMAR/library/include"
    ], [test "$with_tree_sitter_python" != yes && test "$GRAMMAR" != no], [
        AC_MSG_ERROR([no parser of Python in $GRAMMAR])
    ])
    AC_SUBST([GRAMMAR])
    AM_CONDITIONAL([HAVE_SCRIPTS], [test "$have_scripts" = yes])
])

dnl No flag here may hide a NaN or an infinity: the loss scaler depends on seeing them.
AC_DEFUN([TS_WARNINGS], [
    OPTIMIZE="-O2"
    WARNINGS="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla"
    AC_SUBST([OPTIMIZE])
    AC_SUBST([WARNINGS])
])

AC_DEFUN([TS_SANITIZERS], [
    AS_IF([test "$enable_sanitizers" = yes], [
        OPTIMIZE="-O1"
        SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
    ])
    AC_SUBST([SANITIZE])
    AM_CONDITIONAL([SANITIZERS], [test "$enable_sanitizers" = yes])
])

dnl Set HAVE_X86_KERNELS if the compiler can build the kernels for AVX2 and AVX-512
dnl (kernels/local.mk).  The program chooses between them at
dnl run time.
AC_DEFUN([TS_X86_KERNELS], [
    AVX2_CFLAGS="-mavx2 -mfma -mf16c"
    AVX512_CFLAGS="$AVX2_CFLAGS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16"
    AC_MSG_CHECKING([for AVX2 and AVX-512 in the compiler])
    TS_TRY_CFLAGS([$AVX512_CFLAGS], [x86_kernels=yes], [x86_kernels=no])
    AC_MSG_RESULT([$x86_kernels])
    AS_IF([test "$x86_kernels" = yes],
          [AC_DEFINE([HAVE_X86_KERNELS], [1], [the AVX2 and AVX-512 kernels are built])])
    AM_CONDITIONAL([HAVE_X86_KERNELS], [test "$x86_kernels" = yes])
    AC_SUBST([AVX2_CFLAGS])
    AC_SUBST([AVX512_CFLAGS])
])

dnl TS_EMULATION: check whether the tests can run the CUDA kernels on the CPU, which requires a C++17
dnl compiler.  Their calls of fmaf() compile to one instruction if this machine has it, with the same
dnl result; -ffp-contract=off keeps other expressions from being fused.
AC_DEFUN([TS_EMULATION], [
    have_emulation="no (g++ is missing)"
    ts_cxxflags=$CXXFLAGS
    AC_LANG_PUSH([C++])
    CXXFLAGS="-std=c++17 $CXXFLAGS"
    AC_MSG_CHECKING([whether $CXX supports C++17])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <tuple>]],
                                       [[auto [a, b] = std::tuple<int, int>(1, -1); return a + b;]])],
                      [have_emulation=yes])
    AC_MSG_RESULT([$have_emulation])
    AC_MSG_CHECKING([whether $CXX can initialize automatic variables])
    CXXFLAGS="$CXXFLAGS -Werror -ftrivial-auto-var-init=pattern"
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([int nothing;])],
                      [EMULATION_FILL="-ftrivial-auto-var-init=pattern -DEMULATION_FILLED"])
    AC_MSG_RESULT([${EMULATION_FILL:-no}])
    AC_SUBST([EMULATION_FILL])
    CXXFLAGS="-std=c++17 $ts_cxxflags -Werror -mfma -ffp-contract=off"
    AC_MSG_CHECKING([whether this machine has fused multiply-add])
    AC_RUN_IFELSE([AC_LANG_PROGRAM([], [[return !__builtin_cpu_supports("fma");]])],
                  [EMULATION_FMA="-mfma -ffp-contract=off"], [], [])
    AC_MSG_RESULT([${EMULATION_FMA:-no}])
    AC_SUBST([EMULATION_FMA])
    AC_LANG_POP([C++])
    CXXFLAGS=$ts_cxxflags
    AM_CONDITIONAL([HAVE_EMULATION], [test "$have_emulation" = yes && test "$have_cmocka" = yes])
])
