/* kernels/cpu/cpu_ops.c - calls the variant of an operation that the backend's
 * instruction set selects. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"

#ifdef HAVE_X86_KERNELS
#define CPU_X86(name) \
    [CPU_ISA_AVX2] = cpu_##name##_avx2, [CPU_ISA_AVX512] = cpu_##name##_avx512,
#else
#define CPU_X86(name)
#endif

#define CPU_CHOOSE_ONCE(name)
#define CPU_CHOOSE_EACH_ISA(name)                                                  \
    void cpu_##name(struct backend *be, const struct op_##name *op)                \
    {                                                                              \
        static void (*const variants[CPU_ISA_COUNT])(struct backend *,             \
                                                     const struct op_##name *) = { \
            [CPU_ISA_GENERIC] = cpu_##name##_generic, CPU_X86(name)                \
        };                                                                         \
                                                                                   \
        variants[cpu_backend_of(be)->isa](be, op);                                 \
    }
#define CPU_CHOOSE(name, tensors, cpu, ...) CPU_CHOOSE_##cpu(name)

OPERATIONS(CPU_CHOOSE)
