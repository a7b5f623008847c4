/* base/size.h - size multiplication and addition with overflow checks. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* a / b, rounded up.  a + b must not overflow. */
static inline size_t size_divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static inline bool size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Round size up to a multiple of `unit` (a power of two).  Must not overflow. */
static inline size_t size_round(size_t size, size_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

#define TS_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
