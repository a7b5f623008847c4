/* kernels/cpu/cpu_ops.c - an operation goes to its variant for the backend's instruction
 * set. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"

#ifdef HAVE_X86_KERNELS
#define CPU_VARIANTS(name)                                                            \
    {                                                                                 \
        [CPU_ISA_GENERIC] = cpu_##name##_generic, [CPU_ISA_AVX2] = cpu_##name##_avx2, \
        [CPU_ISA_AVX512] = cpu_##name##_avx512,                                       \
    }
#else
#define CPU_VARIANTS(name)                       \
    {                                            \
        [CPU_ISA_GENERIC] = cpu_##name##_generic \
    }
#endif

#define CPU_CHOOSE(name, unused)                                              \
    void cpu_##name(struct backend *be, const struct op_##name *op)           \
    {                                                                         \
        static void (*const variants[CPU_ISA_COUNT])(                         \
            struct backend *, const struct op_##name *) = CPU_VARIANTS(name); \
                                                                              \
        variants[cpu_backend_of(be)->isa](be, op);                            \
    }

CPU_EACH_OP(CPU_CHOOSE, )
