/*
 * train/dataset/dataset_source.h - which files a job's `dataset` means, and which columns of
 * their records: files and folders named directly, or entries of dataset_info.json as
 * LLaMA-Factory has it.
 */
#ifndef TRAIN_DATASET_DATASET_SOURCE_H
#define TRAIN_DATASET_DATASET_SOURCE_H

#include "base/arena.h"
#include "base/error.h"

enum dataset_form {
    DATASET_DETECT, /* by the keys of each record */
    DATASET_ALPACA,
    DATASET_MESSAGES
};

/* The names of a record's parts; NULL: there is no such part. */
struct dataset_columns {
    const char *prompt, *query, *response, *history, *system, *tools; /* alpaca */
    const char *messages;                                             /* a list of: */
    const char *role_tag, *content_tag;
    const char *user_tag, *assistant_tag, *observation_tag, *function_tag, *system_tag;
    const char *chosen, *rejected; /* preference data: the two answers */
};

/* "train[10:-5]" or "train[10%:90%]" of Hugging Face datasets: which samples are
 * taken. */
struct dataset_slice {
    bool has_from, has_to; /* else from the first, to the last */
    bool percent;
    int64_t from, to; /* below 0: counted from the end */
};

struct dataset_source {
    const char *name; /* as the job has it */
    const char *path; /* of a file, or of a folder of files */
    const char *info; /* the dataset_info.json it is from; NULL: named directly */
    enum dataset_form form;
    bool ranking; /* by that file: each record has two answers, as stage dpo wants them */
    struct dataset_columns columns;
    bool lines; /* of a .txt: each line is a document */
    struct dataset_slice slice;
    int64_t num_samples; /* drawn by the seed, some twice where there are fewer; 0: all */
};

struct dataset_sources {
    struct dataset_source *list; /* in the arena */
    size_t count;
};

/*
 * The sources of a comma-separated list.  A name that ends as a data file or in a slash
 * is a file or a folder, relative to the current directory, else to `dir`; any other is
 * looked up in `dir`/dataset_info.json.  ERROR_DATA naming what is missing, and the names
 * there are.
 */
bool dataset_sources_find(const char *names, const char *dir, struct arena *arena,
                          struct dataset_sources *out, struct error *err);

/* The same name by name, for which dataset_info.json is read once. */
struct dataset_lookup;
struct dataset_lookup *dataset_lookup_open(const char *dir, struct arena *arena);
void dataset_lookup_close(struct dataset_lookup *lookup);
bool dataset_lookup_find(struct dataset_lookup *lookup, const char *name,
                         struct dataset_source *out, struct error *err);

/* Is it for stage dpo (pairs), or for the others?  Only an entry of dataset_info.json can
 * be of the wrong kind, as a file that is named directly is known by its records.
 * ERROR_DATA. */
bool dataset_source_check(const struct dataset_source *source, bool pairs,
                          struct error *err);

/* Is the name a file or a folder, and no entry of dataset_info.json? */
bool dataset_names_path(const char *name);

/*
 * The files of a source in the order of their names, in the arena: its path, or all in
 * that folder but those that begin with a dot.  ERROR_DATA where there is none, or one of
 * a kind that is not read.
 */
bool dataset_source_files(const struct dataset_source *source, struct arena *arena,
                          const char *const **files, size_t *count, struct error *err);

#endif
