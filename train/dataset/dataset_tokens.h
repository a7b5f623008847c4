/* train/dataset/dataset_tokens.h - the files of a list of datasets as tokens, before
 * mixing, splitting and packing; the cache stores this. */
#ifndef TRAIN_DATASET_DATASET_TOKENS_H
#define TRAIN_DATASET_DATASET_TOKENS_H

#include "train/dataset/dataset_notes.h"
#include "train/dataset/dataset_source.h"
#include "train/dataset/dataset_store.h"
#include "train/plan.h"
#include "train/chat/template.h"

struct dataset_trial;

/* What to read, and how. */
struct dataset_reading {
    const struct plan *plan;
    const struct tokenizer *tokenizer;
    const struct chat_template *chat; /* NULL: stage pt without a template */
    struct dataset_sources sources;
    /* do not cut samples; the selection is the same as with cutting */
    bool whole;
    /* folder for the contents of media that the records have in them, by digest; NULL: they
     * are not saved. saves_media: this process writes them, and others may do so. */
    const char *media_folder;
    bool saves_media;
    bool counts_only; /* nothing will be trained on: do not hash the files of media */
    /* lists records whose media cannot be used; NULL: stop at the first, and decode none */
    struct dataset_trial *trial;
    struct arena *arena;
    double started; /* seconds since 1970, before anything was read */
};

struct dataset_tokens {
    struct dataset_store store;
    /* samples of each source, in this order; a pair (stage dpo) counts as two, the chosen
     * and the rejected answer */
    size_t *parts;
    struct dataset_notes notes; /* on records that were left out */
};

/* *out must be zeroed. ERROR_DATA with file, line and remedy for a broken line or
 * record. */
bool dataset_tokens_read(const struct dataset_reading *reading,
                         struct dataset_tokens *out, struct error *err);
void dataset_tokens_clear(struct dataset_tokens *tokens);

#endif
