/* kernels/measure.h - measures the speed of a backend in a few seconds. */
#ifndef KERNELS_MEASURE_H
#define KERNELS_MEASURE_H

#include "kernels/backend.h"
#include "precision/calibration.h"

/*
 * Fill the rates of *out: matmuls of 1024 rows by square matrices in each of `formats`, a
 * sum over arrays of 64 MiB, a sum of 1024 elements. Each is repeated for at least a
 * twentieth of a second, and the best of three is taken, because disturbances only slow
 * it down.
 */
bool measure_backend(struct backend *be, const enum format *formats, size_t count,
                     struct calibration *out, struct error *err);

#endif
