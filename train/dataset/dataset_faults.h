/* train/dataset/dataset_faults.h - lists the records whose media cannot be used: without such a
 * list, reading stops at the first. */
#ifndef TRAIN_DATASET_DATASET_FAULTS_H
#define TRAIN_DATASET_DATASET_FAULTS_H

#include "base/error.h"

enum { DATASET_FAULTS_MAX = 20 };

struct dataset_faults {
    /* called for the first DATASET_FAULTS_MAX records, as they are read */
    void (*report)(const struct error *fault);
    size_t count; /* of all */
    struct error first;
};

static inline void dataset_faults_add(struct dataset_faults *faults,
                                      const struct error *fault)
{
    if (faults->count == 0)
        faults->first = *fault;
    if (faults->count++ < DATASET_FAULTS_MAX)
        faults->report(fault);
}

#endif
