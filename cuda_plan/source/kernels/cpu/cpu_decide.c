/* kernels/cpu/cpu_decide.c - whether a step is made, and what its gradients are
 * multiplied by. */
#include "config.h"

#include "kernels/cpu/cpu_backend.h"

#include <math.h>

/* torch/nn/utils/clip_grad.py */
#define CLIP_EPSILON 1e-6

void cpu_decide(struct backend *be, const struct op_decide *op)
{
    struct step_numbers *numbers = op->numbers;
    double scale = numbers->scaler.scale, clip = 1;

    if (cpu_backend_of(be)->failed.code != ERROR_NONE)
        return;
    numbers->norm = sqrt(numbers->square_sum) / scale;
    numbers->finite = isfinite(numbers->norm);
    if (numbers->max_grad_norm > 0)
        clip = fmin(1, numbers->max_grad_norm / (numbers->norm + CLIP_EPSILON));
    numbers->factor = clip / scale;
    scaler_note(&numbers->scaler, numbers->finite);
}
