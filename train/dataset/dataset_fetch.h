/* train/dataset/dataset_fetch.h - tokens from where they are kept, or from the texts. */
#ifndef TRAIN_DATASET_DATASET_FETCH_H
#define TRAIN_DATASET_DATASET_FETCH_H

#include "train/dataset/dataset_tokens.h"

struct dataset_fetch {
    const struct dataset_reading *reading;
    const char *name; /* of the file that keeps them: "train.tokens" */
    bool peeking;     /* nothing is written */
};

/* *out is zero.  origin: a sentence on where they are from.  notes: what a person should
 * know beside those of the tokens. */
bool dataset_fetch(const struct dataset_fetch *how, struct dataset_tokens *out,
                   char origin[320], struct dataset_notes *notes, struct error *err);

#endif
