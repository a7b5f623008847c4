/* tests/reference/double_gate.c - a learned gate of the output of a layer, in double. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include <math.h>

void double_gate(struct backend *be, const struct op_gate *op)
{
    double factor = tanh(*take(be, op->gate)), *x = take(be, op->x);

    for (size_t i = 0; i < numbers_of(op->x); i++)
        x[i] = op->seen && op->seen[i / op->x.cols] == 0 ? 0 : factor * x[i];
    put(be, op->out, x);
    done(be);
}

void double_gate_backward(struct backend *be, const struct op_gate_backward *op)
{
    double factor = tanh(*take(be, op->gate)), sum = 0;
    double *dout = take(be, op->dout), *x = take(be, op->x);
    double *dgate = take(be, op->dgate);

    for (size_t i = 0; i < numbers_of(op->dout); i++) {
        if (op->seen && op->seen[i / op->dout.cols] == 0)
            dout[i] = 0;
        if (dgate && dout[i] != 0)
            sum += dout[i] * x[i];
        dout[i] *= factor;
    }
    if (dgate)
        *dgate += (1 - factor * factor) * sum;
    put(be, op->dx, dout);
    put(be, op->dgate, dgate);
    done(be);
}
