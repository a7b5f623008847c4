/* train/dataset/dataset_internal.h - internals that dataset.c fills and dataset_batch.c
 * reads: samples, the rows that hold them, and the order of an epoch. */
#ifndef TRAIN_DATASET_DATASET_INTERNAL_H
#define TRAIN_DATASET_DATASET_INTERNAL_H

#include "train/dataset/dataset.h"
#include "train/dataset/dataset_tokens.h"

/* The order of the most recently used epoch. */
struct dataset_order {
    uint32_t *rows;
    uint64_t epoch;
    bool valid;
};

struct dataset {
    struct dataset_store store; /* samples that were read */
    /* the same samples cut into blocks, if they are cut */
    struct dataset_store blocks;
    const struct dataset_store *data; /* the store that rows are made of */
    int32_t end_token;   /* end-of-text token, the label of spans with negative weight */
    int64_t first_token; /* replaces the first token of each sample; -1: none */
    /* samples of a row: members[starts[row]] .. members[starts[row + 1]] */
    uint32_t *members;
    size_t *starts;
    size_t rows;
    /* each row has two members: the chosen and the rejected answer to a question */
    bool pairs;
    /* stage kto: a row has one member, and makes two sequences (dataset_feedback.h); pairs
     * is set, too */
    bool feedback;
    size_t cutoff_len;
    struct dataset_order *order;
    uint64_t seed;
    bool shuffled, drop_last;
    /* media of the rows, and for each medium of the store the one of these */
    struct media_item *media;
    size_t media_count;
    uint32_t *media_of;
    bool decoded; /* contents of media in records, by dataset_trial_contents */
    struct dataset_notes notes;
    char origin[320];
};

/* dataset_media.c: find the media of all rows. */
void dataset_media_list(struct dataset *dataset);
/* The feature rows in tokens [from, to) of a sample. */
size_t dataset_media_rows(const struct dataset *dataset, const struct sample *sample,
                          size_t from, size_t to);
/* Append the media in tokens [from, to) of a sample to the sequence of the batch that is
 * being added: token `from` is row `at`. The batch has room. */
void dataset_media_add(const struct dataset *dataset, const struct sample *sample,
                       size_t from, size_t to, size_t at, struct batch *batch);

/* dataset_batch.c: make room for a batch, and empty it. */
void dataset_batch_room(struct batch *batch, size_t rows, size_t sequences, bool weighted,
                        size_t media, size_t media_rows);

#endif
