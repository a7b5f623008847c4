/*
 * kernels/cpu/cpu_unchecked.h - inner loops in a build with sanitizers.
 *
 * If every access were checked, matmuls would take five times as long and most of the
 * time of the tests. So UNCHECKED functions have no sanitizers, and their callers have
 * unchecked_region() check the memory first. A function inlined into an UNCHECKED
 * function must be UNCHECKED_INLINE (gcc 12 fails to compile it otherwise); inlined
 * elsewhere, it has its caller's checks of addresses, but no checks of alignment.
 */
#ifndef KERNELS_CPU_CPU_UNCHECKED_H
#define KERNELS_CPU_CPU_UNCHECKED_H

#include <stddef.h>

#define UNCHECKED        __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#define UNCHECKED_INLINE static inline __attribute__((always_inline)) UNCHECKED

#if defined(__SANITIZE_ADDRESS__) /* gcc */
#define UNCHECKED_REGIONS 1
#elif defined(__has_feature)
#define UNCHECKED_REGIONS __has_feature(address_sanitizer)
#else
#define UNCHECKED_REGIONS 0
#endif

#if UNCHECKED_REGIONS
#include <sanitizer/asan_interface.h>

/* End the process with a report if part of the region is not addressable. */
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

/* The same for `rows` rows of `bytes`, `stride` bytes apart. */
static inline void unchecked_rows(const void *at, size_t rows, size_t bytes,
                                  size_t stride)
{
    for (size_t i = 0; i < rows; i++)
        unchecked_region((const char *)at + i * stride, bytes);
}

#endif
