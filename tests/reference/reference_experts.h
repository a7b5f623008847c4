/*
 * tests/reference/reference_experts.h - the operations of kernels/ops_experts.h as plain
 * loops that follow their formulas, in double.  Matrices are contiguous; NULL is absent;
 * letters and shapes as there.
 */
#ifndef TESTS_REFERENCE_REFERENCE_EXPERTS_H
#define TESTS_REFERENCE_REFERENCE_EXPERTS_H

#include "kernels/ops.h"

/* op has the settings, draw and rows included; its tensors are read for their shapes
 * only. */
struct reference_route {
    const struct op_route *op;
    const double *logits, *bias;
    double *probabilities, *weights;
    int32_t *experts, *order, *slots, *starts, *counts;
};
void reference_route(const struct reference_route *r);

/* forward: after reference_route */
struct reference_route_backward {
    const struct op_route_backward *op;
    struct reference_route forward;
    const double *dweights;
    double *dlogits;
};
void reference_route_backward(const struct reference_route_backward *r);

/* The load balancing loss itself, times its coefficient, of one layer. */
double reference_balance(const struct reference_route_backward *r);

/* (rows, inner) by stacks of (inner, cols); trans_a: stacks of (inner, cols), summed over
 * the rows of each group */
struct reference_grouped_matmul {
    size_t groups, inner, cols;
    const int32_t *starts;
    const double *a, *b;
    bool trans_a, trans_b;
    double alpha, beta;
    double *out;
};
void reference_grouped_matmul(const struct reference_grouped_matmul *r);

struct reference_combine {
    size_t rows, chosen, cols;
    const int32_t *slots;
    const double *base, *y, *weights, *dout; /* weights NULL: 1 */
    double *out, *dy, *dweights;
};
void reference_combine(const struct reference_combine *r);
void reference_combine_backward(const struct reference_combine *r);

#endif
