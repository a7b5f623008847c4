/*
 * tests/reference/backend_double.h - a backend whose fp32 values are doubles.
 * Models and operations run on it unchanged, with the loops of reference.h, and their
 * gradients can be compared with finite differences free of rounding errors.  Next to
 * each block, which has the layout of any backend, the backend keeps a double for every
 * four bytes: operations read and write these, and store them rounded in the block for
 * the host. Uploaded data are taken as both fp32 and integers, because only the
 * operations know which they are.
 * It has the operations of a forward and a backward pass in fp32.  The others (matmuls in
 * 16 and 4 bits, decoding, the optimizer) are NULL in its table.
 */
#ifndef TESTS_REFERENCE_BACKEND_DOUBLE_H
#define TESTS_REFERENCE_BACKEND_DOUBLE_H

#include "kernels/backend.h"

extern const struct backend_ops backend_double;

/* Return the doubles at an address inside a block; writes to them take effect. */
double *double_values(struct backend *be, const void *data);

/* Return the unrounded result of op_classifier and op_distill since the last call: the
 * sum over rows of the value the gradients belong to, without grad_scale. */
double double_take_loss(struct backend *be);

/* The same for op_preference: the sum of the losses of the pairs. */
double double_take_preference(struct backend *be);

/* The same for op_route_backward: the load balancing loss times its coefficient and
 * factor, the sum over the layers that were differentiated. */
double double_take_balance(struct backend *be);

#endif
