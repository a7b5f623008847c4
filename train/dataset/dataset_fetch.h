/* train/dataset/dataset_fetch.h - tokens from the saved file or from the texts. */
#ifndef TRAIN_DATASET_DATASET_FETCH_H
#define TRAIN_DATASET_DATASET_FETCH_H

#include "train/dataset/dataset_tokens.h"

struct dataset_fetch {
    const struct dataset_reading *reading;
    const char *name; /* of the file with the tokens: "train.tokens" */
    bool read_only;   /* write nothing */
};

/* *out must be zeroed. origin: a sentence that says where the tokens come from. notes:
 * sentences for the user in addition to those of the tokens. */
bool dataset_fetch(const struct dataset_fetch *fetch, struct dataset_tokens *out,
                   char origin[320], struct dataset_notes *notes, struct error *err);

#endif
