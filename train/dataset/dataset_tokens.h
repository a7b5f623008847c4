/*
 * train/dataset/dataset_tokens.h - the files of a list of data sets as tokens: what is read
 * before anything is mixed, parted or packed, and what a cache keeps.
 */
#ifndef TRAIN_DATASET_DATASET_TOKENS_H
#define TRAIN_DATASET_DATASET_TOKENS_H

#include "train/dataset/dataset_source.h"
#include "train/dataset/dataset_store.h"
#include "train/plan.h"
#include "train/chat/template.h"

/* Sentences for a person. */
struct dataset_notes {
    char **list;
    size_t count;
};
void dataset_notes_add(struct dataset_notes *notes, const char *note);
void dataset_notes_clear(struct dataset_notes *notes);

/* How they are read. */
struct dataset_reading {
    const struct plan *plan;
    const struct tokenizer *tokenizer;
    const struct chat_template *chat; /* NULL: stage pt without a template */
    struct dataset_sources sources;
    /* samples are kept as they are, cut by nothing; the same ones as if cut */
    bool whole;
    struct arena *arena;
    double started; /* seconds since 1970, before anything was read */
};

struct dataset_tokens {
    struct dataset_store store;
    /* samples of each source, which lie one behind the other; those of a pair (stage
     * dpo) are two, the chosen answer and the rejected one */
    size_t *parts;
    struct dataset_notes notes; /* records that were left out */
};

/* *out is zero.  ERROR_DATA with file, line and remedy for a broken line or record. */
bool dataset_tokens_read(const struct dataset_reading *reading,
                         struct dataset_tokens *out, struct error *err);
void dataset_tokens_clear(struct dataset_tokens *tokens);

/* The names of a comma-separated list as they stand in a job: a file or folder that lies
 * beside the job gets its folder before it, wherever this process is.  malloc'ed. */
char *dataset_tokens_names(const struct plan *plan, const char *names);

/* Records that are read of a source, at most; -1: all. */
int64_t dataset_tokens_most(const struct plan *plan, const struct dataset_source *source);

/* Samples that share rows: packing, or stage pt unless that is switched off.  Pairs
 * never. */
bool dataset_is_packed(const struct plan *plan);

#endif
