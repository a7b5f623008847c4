/* kernels/ops_gate.h - a learned gate of the output of a layer (part of kernels/ops.h). */
#ifndef KERNELS_OPS_GATE_H
#define KERNELS_OPS_GATE_H

#include <stdint.h>

#include "kernels/tensor.h"

/*
 * out[n] = tanh(gate) * x[n];  0 for rows with seen[n] == 0
 *   out, x (N, C) any format; out may be x
 *   gate (1, 1) fp32 or 16-bit (frozen)
 *   seen (N) int32, in the backend's memory; NULL: all rows
 * Alayrac et al., "Flamingo", 2022.
 */
struct op_gate {
    struct tensor out, x, gate;
    const int32_t *seen;
};

/*
 * dx[n] = tanh(gate) * dout[n];  0 for rows with seen[n] == 0
 * dgate (1, 1) fp32 += (1 - tanh(gate)^2) * sum of dout * x over the other rows, or absent:
 * then x may be absent, too
 *   dx, dout, x (N, C) any format; dx may be dout
 */
struct op_gate_backward {
    struct tensor dx, dgate, dout, x, gate;
    const int32_t *seen;
};

#endif
