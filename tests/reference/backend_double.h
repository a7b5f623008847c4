/*
 * tests/reference/backend_double.h - a backend whose fp32 numbers are doubles.
 *
 * Models and operations run on it unchanged, by the loops of reference.h, and their
 * gradients can be held against finite differences without rounding in the way.  Beside
 * its blocks, which have the layout of any backend, lies a double for every four bytes:
 * operations read and write these, and leave them rounded in the block for the host.
 * What is uploaded is taken for fp32 and for integers at once, as only the operations
 * know which it is.
 *
 * It has what a forward and a backward pass in fp32 are made of.  What is missing in its
 * table (products of 16 and 4 bits, decoding, the optimizer) is NULL.
 */
#ifndef TESTS_REFERENCE_BACKEND_DOUBLE_H
#define TESTS_REFERENCE_BACKEND_DOUBLE_H

#include "kernels/backend.h"

extern const struct backend_ops backend_double;

/* The numbers at an address inside a block: what is written there, is there. */
double *double_numbers(struct backend *be, const void *data);

/* What op_classifier and op_distill have made since this was last asked, without
 * rounding: the sum over rows of what the gradients are of, save for grad_scale. */
double double_take_loss(struct backend *be);

/* Likewise what op_preference has made: the sum of what the pairs lose. */
double double_take_preference(struct backend *be);

#endif
