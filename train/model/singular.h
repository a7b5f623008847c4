/* train/model/singular.h - the largest singular values of a matrix, and their vectors. */
#ifndef TRAIN_MODEL_SINGULAR_H
#define TRAIN_MODEL_SINGULAR_H

#include <stddef.h>

/* values (count), descending; left (count, rows) and right (count, cols): unit vectors, with
 * which a right = value left; those of values near 0 may be 0 */
struct singular {
    double *values, *left, *right;
};

/*
 * Compute the `count` largest of a (rows, cols), row after row; count is at most rows and
 * cols.  The same bits on any number of threads.  Golub and Kahan's bidiagonalization with
 * full reorthogonalization (Golub and Van Loan, "Matrix Computations", 4th edition, 10.4),
 * until the residuals are `tolerance` times the largest value: SINGULAR_EXACT, or one that
 * takes fewer steps.
 */
#define SINGULAR_EXACT 1e-10
struct singular singular_compute(const float *a, size_t rows, size_t cols, size_t count,
                                 double tolerance);
void singular_clear(struct singular *singular);

#endif
