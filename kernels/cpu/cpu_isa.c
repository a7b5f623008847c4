/* kernels/cpu/cpu_isa.c - detects the instruction sets of the CPU. */
#include "config.h"

#include "kernels/cpu/cpu_isa.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[CPU_ISA_COUNT] = {
    [CPU_ISA_GENERIC] = "generic",
    [CPU_ISA_AVX2] = "avx2",
    [CPU_ISA_AVX512] = "avx512",
};

#ifdef HAVE_X86_KERNELS
#include <cpuid.h>

/* clang's __builtin_cpu_supports does not know this one. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static enum cpu_isa best(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return CPU_ISA_GENERIC;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bf16"))
        return CPU_ISA_AVX512;
    return CPU_ISA_AVX2;
}

/* CPUID 7.0, EDX 22: AMX-BF16 (Intel, Software Developer's Manual, volume 2A). */
static bool has_amx(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1);
}

bool cpu_isa_has_more(void)
{
    return has_amx() || (best() == CPU_ISA_AVX2 && __builtin_cpu_supports("avx512f"));
}
#else
static enum cpu_isa best(void)
{
    return CPU_ISA_GENERIC;
}

bool cpu_isa_has_more(void)
{
    return true;
}
#endif

enum cpu_isa cpu_isa_detect(void)
{
    const char *asked = getenv("TRAINSPOOL_ISA");
    enum cpu_isa isa = best();

    for (int i = 0; asked && i < (int)isa; i++)
        if (strcmp(asked, names[i]) == 0)
            return (enum cpu_isa)i;
    return isa;
}

const char *cpu_isa_name(enum cpu_isa isa)
{
    return names[isa];
}
