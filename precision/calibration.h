/*
 * precision/calibration.h - how fast a device was measured to be, so that a plan can tell
 * the time of a run without inventing it.  kernels/measure.h measures,
 * runner/job/calibrations.h keeps.
 */
#ifndef PRECISION_CALIBRATION_H
#define PRECISION_CALIBRATION_H

#include "base/json.h"
#include "precision/format.h"

enum { CALIBRATION_WIDTHS = 6 }; /* of square matrices: 64, 128, ... 2048 */
#define CALIBRATION_WIDTH(i) ((size_t)64 << (i))

struct calibration {
    char device[96]; /* as struct device names it */
    char build[128]; /* version, and what the backend says of itself */
    char date[11];   /* "2026-11-20" */
    int threads;     /* of a CPU; 0 of a GPU */
    double products[FORMAT_COUNT]
                   [CALIBRATION_WIDTHS]; /* operations a second; 0: not measured */
    double bytes_per_second;             /* read and written, of arrays past any cache */
    double seconds_per_operation;        /* that has next to nothing to do */
};

json_t *calibration_object(const struct calibration *calibration);
/* ERROR_DATA where something is missing or no positive number.  `where` names it in
 * errors. */
bool calibration_read(const json_t *object, const char *where, struct calibration *out,
                      struct error *err);

/* Operations a second of products about so wide, between what was measured; a format that
 * was not is taken as float32.  0: nothing was measured. */
double calibration_rate(const struct calibration *calibration, enum format format,
                        double width);

#endif
