/*
 * train/dataset_source.h - which files a job's `dataset` means, and which columns of their
 * records: files named directly, or entries of dataset_info.json as LLaMA-Factory has it.
 */
#ifndef TRAIN_DATASET_SOURCE_H
#define TRAIN_DATASET_SOURCE_H

#include "base/arena.h"

enum dataset_form {
    DATASET_DETECT, /* by the keys of each record */
    DATASET_ALPACA,
    DATASET_MESSAGES
};

/* The names of a record's parts; NULL: there is no such part. */
struct dataset_columns {
    const char *prompt, *query, *response, *history, *system, *tools; /* alpaca */
    const char *messages;                                            /* a list of: */
    const char *role_tag, *content_tag;
    const char *user_tag, *assistant_tag, *observation_tag, *function_tag, *system_tag;
};

struct dataset_source {
    const char *name; /* as the job has it */
    const char *path;
    enum dataset_form form;
    struct dataset_columns columns;
    bool lines; /* of a .txt: each line is a document */
};

struct dataset_sources {
    struct dataset_source *list; /* in the arena */
    size_t count;
};

/*
 * The sources of a comma-separated list.  A name that ends as a data file is one, relative to
 * the current directory, else to `dir`; any other is looked up in `dir`/dataset_info.json.
 * ERROR_DATA naming what is missing, and the names there are.
 */
bool dataset_sources_find(const char *names, const char *dir, struct arena *arena,
                          struct dataset_sources *out, struct error *err);

#endif
