/* train/dataset/dataset_left_out.h - what is not trained on: records that are left out, by
 * reason, and columns that are not read. */
#ifndef TRAIN_DATASET_DATASET_LEFT_OUT_H
#define TRAIN_DATASET_DATASET_LEFT_OUT_H

#include "train/dataset/dataset_notes.h"
#include "train/dataset/dataset_record.h"

enum { DATASET_POSITION = 340, DATASET_REASONS = 8, DATASET_UNREAD = 16 };

/* Records left out for one reason. */
struct dataset_skipped {
    char why[240];
    size_t count;
    char first[DATASET_POSITION]; /* file and position of the first */
};

/* A column that is not part of a sample. */
struct dataset_unread {
    char column[48];
    size_t count; /* records that have it */
};

/* Starts as zeros. */
struct dataset_left_out {
    struct dataset_skipped skipped[DATASET_REASONS];
    size_t reasons;
    struct dataset_unread unread[DATASET_UNREAD];
    size_t unread_count;
    size_t with_numbers; /* records with a number where a text belongs */
};

void dataset_left_out_record(struct dataset_left_out *left_out, const char *position,
                             const char *why);
/* Count the columns that a conversation was not read from. */
void dataset_left_out_columns(struct dataset_left_out *left_out,
                              const struct conversation *conversation, json_t *record);
void dataset_left_out_note_records(const struct dataset_left_out *left_out,
                                   struct dataset_notes *notes);
void dataset_left_out_note_columns(const struct dataset_left_out *left_out,
                                   struct dataset_notes *notes);

#endif
