/* train/dataset/dataset_source.h - the files that a job's `dataset` names, and the
 * columns of their records: files and folders named directly, or entries of
 * dataset_info.json in LLaMA-Factory's format. */
#ifndef TRAIN_DATASET_DATASET_SOURCE_H
#define TRAIN_DATASET_DATASET_SOURCE_H

#include "base/arena.h"
#include "base/error.h"
#include "train/plan.h"

enum dataset_form {
    DATASET_DETECT, /* by the keys of each record */
    DATASET_ALPACA,
    DATASET_MESSAGES
};

/* The names of a record's parts; NULL: the record does not have the part. */
struct dataset_columns {
    const char *prompt, *query, *response, *history, *system, *tools; /* alpaca */
    const char *messages;                                             /* a list of: */
    const char *role_tag, *content_tag;
    const char *user_tag, *assistant_tag, *observation_tag, *function_tag, *system_tag;
    const char *chosen, *rejected; /* preference data: the two answers */
    const char *kto_tag;           /* whether the answer is good: true or false */
    const char *images, *audios;
};

/* "train[10:-5]" or "train[10%:90%]" of Hugging Face datasets: a range of samples. */
struct dataset_slice {
    bool has_from, has_to; /* otherwise from the first, to the last */
    bool percent;
    int64_t from, to; /* negative: counted from the end */
};

struct dataset_source {
    const char *name; /* as in the job */
    const char *path; /* of a file, or of a folder of files */
    const char *info; /* the dataset_info.json that has it; NULL: named directly */
    enum dataset_form form;
    bool ranking; /* declared there: each record has two answers, as stage dpo requires */
    struct dataset_columns columns;
    bool lines; /* each line of a .txt is a document */
    struct dataset_slice slice;
    int64_t num_samples; /* random draw, with repeats if there are fewer; 0: all */
};

struct dataset_sources {
    struct dataset_source *list; /* in the arena */
    size_t count;
};

/* Find the sources of a comma-separated list. A name that ends in a data file's extension
 * or in a slash is a file or a folder, relative to the current directory, or else to
 * `dir`; other names are looked up in `dir`/dataset_info.json. ERROR_DATA names what is
 * missing, and the names that exist. */
bool dataset_sources_find(const char *names, const char *dir, struct arena *arena,
                          struct dataset_sources *out, struct error *err);

/* Find single names; dataset_info.json is read only once. */
struct dataset_lookup;
struct dataset_lookup *dataset_lookup_open(const char *dir, struct arena *arena);
void dataset_lookup_close(struct dataset_lookup *lookup);
bool dataset_lookup_find(struct dataset_lookup *lookup, const char *name,
                         struct dataset_source *out, struct error *err);

/* Check that the source suits the stage: dpo (pairs), kto (marks), others. This can only fail
 * for an entry of dataset_info.json: the kind of a file that is named directly is
 * detected from its records. ERROR_DATA. */
bool dataset_source_check(const struct dataset_source *source, enum stage stage,
                          struct error *err);

/* Return whether the name is a file or a folder, and not an entry of
 * dataset_info.json. */
bool dataset_name_is_path(const char *name);

/* List the files of a source, sorted by name, in the arena: its path, or all files in
 * that folder except those whose names start with a dot. ERROR_DATA if there is none, or
 * one with an unsupported format. */
bool dataset_source_files(const struct dataset_source *source, struct arena *arena,
                          const char *const **files, size_t *count, struct error *err);

#endif
