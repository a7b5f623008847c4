/*
 * kernels/cpu/cpu_unchecked.h - innermost loops in a build with sanitizers.
 *
 * With each of their accesses looked at, products take five times as long and most of the
 * time of the tests.  So UNCHECKED functions have no sanitizers, and whoever calls one
 * has unchecked_region() look at the memory before.  What an UNCHECKED function has
 * inlined must be UNCHECKED_INLINE (gcc 12 breaks down otherwise), which inlined
 * elsewhere has the checks of addresses that its caller has, though none of alignment.
 */
#ifndef KERNELS_CPU_CPU_UNCHECKED_H
#define KERNELS_CPU_CPU_UNCHECKED_H

#include <stddef.h>

#define UNCHECKED        __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#define UNCHECKED_INLINE static inline __attribute__((always_inline)) UNCHECKED

#if defined(__SANITIZE_ADDRESS__) /* gcc's */
#define UNCHECKED_REGIONS 1
#elif defined(__has_feature)
#define UNCHECKED_REGIONS __has_feature(address_sanitizer)
#else
#define UNCHECKED_REGIONS 0
#endif

#if UNCHECKED_REGIONS
#include <sanitizer/asan_interface.h>

/* Ends the process, with a report, where some of it is not there. */
static inline void unchecked_region(const void *at, size_t bytes)
{
    const volatile char *bad = __asan_region_is_poisoned((void *)(size_t)at, bytes);

    if (bad)
        (void)*bad;
}
#else
static inline void unchecked_region(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}
#endif

/* `rows` rows of `bytes`, `stride` bytes from one to the next. */
static inline void unchecked_rows(const void *at, size_t rows, size_t bytes,
                                  size_t stride)
{
    for (size_t i = 0; i < rows; i++)
        unchecked_region((const char *)at + i * stride, bytes);
}

#endif
