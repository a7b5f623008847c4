/* kernels/cpu/cpu_isa.h - the instruction set to use, chosen when the backend opens. */
#ifndef KERNELS_CPU_CPU_ISA_H
#define KERNELS_CPU_CPU_ISA_H

#include <stdbool.h>

enum cpu_isa {
    CPU_ISA_GENERIC,
    CPU_ISA_AVX2, /* with FMA and F16C */
    /* F, BW, VL, DQ and BF16: Zen 4, Cooper Lake, Sapphire Rapids and newer */
    CPU_ISA_AVX512,
    CPU_ISA_COUNT
};

/* Return the best instruction set that both this CPU and this build support.
 * TRAINSPOOL_ISA=generic or avx2 in the environment selects a lower one; a request for
 * one that is not available is ignored. */
enum cpu_isa cpu_isa_detect(void);
/* Return whether this CPU multiplies faster with instructions we have no kernels for:
 * AMX, AVX-512 without BF16, or any architecture other than x86-64. */
bool cpu_isa_has_more(void);
const char *cpu_isa_name(enum cpu_isa isa); /* "avx512" */

#endif
