/*
 * precision/calibration.h - measured speed of a device, so that a plan can estimate the
 * time of a run.  kernels/measure.h measures, runner/job/calibrations.h stores.
 */
#ifndef PRECISION_CALIBRATION_H
#define PRECISION_CALIBRATION_H

#include "base/json.h"
#include "precision/format.h"

enum { CALIBRATION_WIDTHS = 6 }; /* of square matrices: 64, 128, ... 2048 */
#define CALIBRATION_WIDTH(i) ((size_t)64 << (i))

struct calibration {
    char device[96]; /* as in struct device */
    char build[128]; /* version, and the backend's description of itself */
    char date[11];   /* "2026-11-20" */
    int threads;     /* of a CPU; 0 for a GPU */
    double products[FORMAT_COUNT]
                   [CALIBRATION_WIDTHS]; /* operations per second; 0: not measured */
    /* read and written, for arrays larger than any cache */
    double bytes_per_second;
    /* overhead: measured with an operation that does almost nothing */
    double seconds_per_operation;
};

json_t *calibration_object(const struct calibration *calibration);
/* ERROR_DATA if a value is missing or not a positive number.  `where` names the source in
 * errors. */
bool calibration_read(const json_t *object, const char *where, struct calibration *out,
                      struct error *err);

/* Return operations per second of matmuls of about this width, interpolated between
 * measured widths; a format that was not measured counts as float32.  0: nothing was
 * measured. */
double calibration_rate(const struct calibration *calibration, enum format format,
                        double width);

#endif
