/* train/dataset/dataset_trial.h - data that are only counted: which records have media that cannot
 * be used. Media are decoded for a limited time. */
#ifndef TRAIN_DATASET_DATASET_TRIAL_H
#define TRAIN_DATASET_DATASET_TRIAL_H

#include "train/dataset/dataset.h"
#include "train/media/media_probe.h"

struct dataset_trial {
    struct dataset_faults faults;
    double seconds; /* left for decoding */
    size_t
        skipped; /* media that were not decoded, because no time was left, or of their size */
    bool contents; /* some have been read from records, and not from files */
};

/* Decode contents that a record has, if there is time.  ERROR_DATA. */
bool dataset_trial_contents(struct dataset_trial *trial,
                            const struct media_settings *settings,
                            const struct media_bytes *bytes, struct error *err);
/* Decode the files of a dataset's media while there is time, and add those that have damage
 * inside to the faults. Return false, with the first in *err, if there are some. */
bool dataset_trial_files(struct dataset_trial *trial, const struct dataset *dataset,
                         const struct plan *plan, struct error *err);

#endif
