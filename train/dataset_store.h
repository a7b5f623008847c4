/* train/dataset_store.h - tokenised samples in a few large arrays: 4 bytes a token, and where
 * labels lie as runs. */
#ifndef TRAIN_DATASET_STORE_H
#define TRAIN_DATASET_STORE_H

#include "base/error.h"

/* Tokens [start, start + len) of a sample are to be learnt, and count for so much. */
struct label_run {
    uint32_t start, len;
    float weight; /* above 0 */
};

struct sample {
    size_t at; /* in ids */
    uint32_t len;
    uint32_t targets; /* tokens to be learnt that something stands before */
    size_t run_at;
    uint32_t runs;
    double weight; /* of its targets, summed up */
};

struct dataset_store {
    uint32_t *ids;
    size_t tokens, room;
    struct label_run *runs;
    size_t run_count, run_room;
    struct sample *samples;
    size_t count, sample_room;
    bool weighted; /* some weight is not 1 */
};

void dataset_store_clear(struct dataset_store *store);

/* weights: one for each token, 0: it is not to be learnt; NULL: all are 1.  A sample has less
 * than 2^31 tokens. */
void dataset_store_add(struct dataset_store *store, const uint32_t *ids,
                       const float *weights, size_t len);

/* Keep the samples whose index is listed (ascending). */
void dataset_store_keep(struct dataset_store *store, const uint32_t *indices, size_t count);

/* All samples as one text, cut in blocks of `block` tokens; a rest is left out, unless it is
 * all there is.  first >= 0 takes the place of the first token of each block. */
void dataset_store_cut(struct dataset_store *store, size_t block, int64_t first);

/*
 * First-fit-decreasing: samples into rows of at most `room` tokens.  members: sample indices,
 * row after row; starts: rows + 1 places in it (both malloc'ed, `count` and count + 1 of them
 * at most).  Returns the rows.  Longer samples than `room` get a row of their own.
 */
size_t dataset_store_pack(const struct dataset_store *store, size_t room, uint32_t **members,
                          size_t **starts);

#endif
