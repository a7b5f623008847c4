/* kernels/measure.h - how fast a backend is, in a few seconds. */
#ifndef KERNELS_MEASURE_H
#define KERNELS_MEASURE_H

#include "kernels/backend.h"
#include "precision/calibration.h"

/*
 * Fills the rates of *out: products of 1024 rows by square matrices in each of `formats`,
 * a sum over arrays of 64 MiB, a sum of 1024 numbers.  Each is repeated for a
 * twentieth of a second at least, and the best of three is taken: what disturbs makes
 * slower.
 */
bool measure_backend(struct backend *be, const enum format *formats, size_t count,
                     struct calibration *out, struct error *err);

#endif
