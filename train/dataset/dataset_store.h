/* train/dataset/dataset_store.h - tokenized samples in a few large arrays: 4 bytes per
 * token, and the positions of labels as spans. */
#ifndef TRAIN_DATASET_DATASET_STORE_H
#define TRAIN_DATASET_DATASET_STORE_H

#include "base/error.h"
#include "train/dataset/dataset_position.h"
#include "train/dataset/dataset_spill.h"
#include "train/media/media_kind.h"

/* Tokens [start, start + len) of a sample are trained on, with this weight. */
struct label_span {
    uint32_t start, len;
    float weight; /* not 0; negative: the label is the end-of-text token */
};

/* A medium, which several samples may have. */
struct stored_medium {
    uint64_t path, key, source;   /* in `strings`; source: the data file, */
    uint64_t bytes;               /* of the file, */
    int64_t seconds, nanoseconds; /* and when it was changed; all 0: there is no file */
    uint8_t digest[32];           /* of its content; 0: there is no file */
    uint32_t rows;
    int32_t grid[3];
    uint32_t kind;  /* enum media_kind */
    uint32_t token; /* in each of `rows` positions of a span */
    uint32_t line;  /* of the first record that has it, in `source` */
    uint32_t unused;
};

struct sample {
    uint64_t at; /* in ids */
    uint64_t span_at;
    double weight; /* sum of the weights of its targets */
    uint32_t len;
    uint32_t targets; /* trained tokens that have a token before them */
    uint32_t spans;
    uint32_t media, media_at; /* its media spans, in order */
    uint32_t unused;          /* 0, so that every byte of a sample is defined */
};

/* The store owns the arrays, or they are in a mapped file and read-only. */
struct dataset_store {
    uint32_t *ids;
    size_t tokens, room;
    struct label_span *spans;
    size_t span_count, span_room;
    struct sample *samples;
    size_t count, sample_room;
    struct media_span *media_spans;
    size_t media_span_count, media_span_room;
    struct stored_medium *media;
    size_t media_count, media_room;
    char *strings; /* each ends in a zero */
    size_t string_bytes, string_room;
    uint32_t token_max;
    bool weighted;    /* some weight is not 1 */
    bool borrows_ids; /* ids belong to another store */
    void *mapping;    /* the file, or NULL */
    size_t mapped;
    const char *spill_dir; /* folder for spill_from or more ids; NULL: memory */
    size_t spill_from;
    struct dataset_spill spill;
};

void dataset_store_clear(struct dataset_store *store);

/* weights: one for each token, 0: not trained on, negative: the label is the end of the
 * text; NULL: all are 1. A sample has fewer than 2^31 tokens. */
void dataset_store_add(struct dataset_store *store, const uint32_t *ids,
                       const float *weights, size_t len);

/* Let the last sample have media, in order and not overlapping. */
void dataset_store_add_media(struct dataset_store *store, const struct media_span *spans,
                             size_t count);
/* Add a medium, which the record at `position` has; its texts are copied. Return its index. */
uint32_t dataset_store_medium(struct dataset_store *store,
                              const struct stored_medium *medium, const char *path,
                              const char *key, const struct dataset_position *position);

/* Concatenate the tokens of the listed samples, as one text of a new store. */
void dataset_store_join(const struct dataset_store *from, const uint32_t *samples,
                        size_t count, struct dataset_store *out);

/* Cut all tokens, as one text, into blocks of `block` tokens that are trained on in full;
 * a shorter last block is left out, unless it is the only one. *out shares the ids of
 * *from, which must outlive it. */
void dataset_store_cut(const struct dataset_store *from, size_t block,
                       struct dataset_store *out);

#endif
