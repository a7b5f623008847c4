/* train/dataset/dataset_store.h - tokenised samples in a few large arrays: 4 bytes a token, and
 * where labels lie as runs. */
#ifndef TRAIN_DATASET_DATASET_STORE_H
#define TRAIN_DATASET_DATASET_STORE_H

#include "base/error.h"
#include "train/dataset/dataset_spill.h"

/* Tokens [start, start + len) of a sample are to be learnt, and count for so much. */
struct label_run {
    uint32_t start, len;
    float weight; /* not 0; below: the end of a text is learnt where the tokens stand */
};

struct sample {
    uint64_t at; /* in ids */
    uint64_t run_at;
    double weight; /* of its targets, summed up */
    uint32_t len;
    uint32_t targets; /* tokens to be learnt that something stands before */
    uint32_t runs;
    uint32_t unused; /* 0: so that each byte of a sample is told */
};

/* The arrays are the store's own, or lie in a mapped file and are only read. */
struct dataset_store {
    uint32_t *ids;
    size_t tokens, room;
    struct label_run *runs;
    size_t run_count, run_room;
    struct sample *samples;
    size_t count, sample_room;
    uint32_t token_max;
    bool weighted; /* some weight is not 1 */
    bool lent;     /* ids belong to another store */
    void *mapping; /* the file, or NULL */
    size_t mapped;
    const char *spill_dir; /* where ids go from spill_from of them on; NULL: memory */
    size_t spill_from;
    struct dataset_spill spill;
};

void dataset_store_clear(struct dataset_store *store);

/* weights: one for each token, 0: it is not to be learnt, below 0: the end of a text is
 * in its place; NULL: all are 1.  A sample has less than 2^31 tokens. */
void dataset_store_add(struct dataset_store *store, const uint32_t *ids,
                       const float *weights, size_t len);

/* The tokens of the samples listed, one behind the other, as one text of a new store. */
void dataset_store_join(const struct dataset_store *from, const uint32_t *samples,
                        size_t count, struct dataset_store *out);

/* All tokens as one text, in blocks of `block` tokens that are learnt whole; a rest is
 * left out, unless it is all there is.  The ids of *out are those of *from, which
 * stays. */
void dataset_store_cut(const struct dataset_store *from, size_t block,
                       struct dataset_store *out);

#endif
