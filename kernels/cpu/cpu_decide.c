/* kernels/cpu/cpu_decide.c - op_decide on the CPU. */
#include "config.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/step_decision.h"

void cpu_decide(struct backend *be, const struct op_decide *op)
{
    if (cpu_backend_of(be)->failed.code == ERROR_NONE)
        step_decide(op->numbers);
}
