/* train/dataset/dataset_rows.h - what dataset.c fills and dataset_batch.c reads: samples, the
 * rows they lie in, and the order of an epoch. */
#ifndef TRAIN_DATASET_DATASET_ROWS_H
#define TRAIN_DATASET_DATASET_ROWS_H

#include "train/dataset/dataset.h"
#include "train/dataset/dataset_tokens.h"

/* The order of the epoch asked for last. */
struct dataset_order {
    uint32_t *rows;
    uint64_t epoch;
    bool known;
};

struct dataset {
    struct dataset_store store;       /* what was read */
    struct dataset_store blocks;      /* of it, where it is cut in blocks */
    const struct dataset_store *data; /* the one of them that rows are made of */
    int32_t end;   /* of a text, for labels that stand in other tokens' places */
    int64_t first; /* takes the place of the first token of each sample; -1: none */
    /* samples of a row: members[starts[row]] .. members[starts[row + 1]] */
    uint32_t *members;
    size_t *starts;
    size_t rows;
    /* a row has two members: the chosen answer to a question, the rejected one */
    bool pairs;
    struct dataset_order *order;
    uint64_t seed;
    bool shuffled, drop_last;
    struct dataset_notes notes;
    char origin[320];
};

#endif
