/*
 * train/model/rotation.h - orthogonal adapters (OFT) as PEFT has them: the input of a linear
 * layer is divided into blocks, and each is multiplied by a rotation of its own.
 *
 *     Y = (X R) W^T + b      R = blocks of (I - Q) (I + Q)^-1 (Cayley), Q skew-symmetric
 *
 * or of the first terms of its series (Cayley-Neumann), which PEFT uses by default:
 *
 *     I + 2 Q + 2 Q^2 + ... + 2 Q^(d-1) + Q^d
 *
 * The parameter of a layer, oft_R, has a row for each block: Q above its diagonal.
 * peft/tuners/oft/layer.py; Qiu et al., 2023 and 2025 (kernels/ops_rotation.h).
 */
#ifndef TRAIN_MODEL_ROTATION_H
#define TRAIN_MODEL_ROTATION_H

#include <stdbool.h>
#include <stddef.h>

struct rotation {
    bool on;
    size_t blocks, size; /* of each layer; one of them is 0 */
    bool exact;          /* Cayley, not its series */
    size_t terms;        /* num_cayley_neumann_terms: 3 .. ROTATION_TERMS_MAX */
};

enum { ROTATION_TERMS = 5, ROTATION_TERMS_MAX = 16 };

/* Return the size of the blocks of a layer with that many inputs.  It divides them; it, or
 * the number of blocks, is the divisor nearest to the requested one. */
size_t rotation_size(const struct rotation *rotation, size_t inputs);
/* Return d, the degree of the series: PEFT adds its last power also to 3 terms. */
size_t rotation_degree(const struct rotation *rotation);
/* Compute one block, (size, size), from its row of oft_R. */
void rotation_compute(const struct rotation *rotation, size_t size, const float *packed,
                      double *out);

#endif
