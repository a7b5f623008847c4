/*
 * kernels/step_decision.h - op_decide, for host and device: whether the optimizer applies
 * a step, and the factor of its gradients.
 */
#ifndef KERNELS_STEP_DECISION_H
#define KERNELS_STEP_DECISION_H

#include <math.h>

#include "kernels/ops.h"
#include "precision/scaler_rule.h"

/* torch/nn/utils/clip_grad.py */
#define CLIP_EPSILON 1e-6

SCALER_CALL void step_decide(struct step_scalars *numbers)
{
    double scale = numbers->scaler.scale, clip = 1;
    double norm = sqrt(numbers->square_sum) / scale;

    if (numbers->max_grad_norm > 0)
        clip = fmin(1.0, numbers->max_grad_norm / (norm + CLIP_EPSILON));
    numbers->norm = norm;
    numbers->finite = norm - norm == 0 && !numbers->halted;
    numbers->halted = !numbers->finite;
    numbers->factor = clip / scale;
    scaler_rule(&numbers->scaler, numbers->finite != 0);
}

#endif
