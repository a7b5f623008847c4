/*
 * train/dataset/dataset_reader.h - files of data, a record at a time: .jsonl (a line each), .json
 * (a list, or objects one after another) and .txt, each also .gz.  Memory stays that of
 * the largest record, and what a file may ask for is limited.
 */
#ifndef TRAIN_DATASET_DATASET_READER_H
#define TRAIN_DATASET_DATASET_READER_H

#include "base/text.h"

struct dataset_reader;

#define DATASET_LINE_MAX  ((size_t)1 << 20) /* bytes of a line or of a record in a list */
#define DATASET_DEPTH_MAX 64                /* nesting of a record */
#define DATASET_RATIO_MAX 200 /* of a .gz; text has 2 to 20, a bomb some 1000 */

/* A piece of the file; valid until the next call. */
struct dataset_record {
    const char *data;
    size_t len;
    struct mark at; /* where it begins */
    bool is_text;   /* of a .txt; else JSON, not parsed yet */
};

/* lines: of a .txt, each line is a record, else the whole file is one.  ERROR_DATA where
 * the file is not there or of no kind that is read. */
struct dataset_reader *dataset_reader_open(const char *path, bool lines,
                                           struct error *err);
void dataset_reader_close(struct dataset_reader *reader); /* NULL is allowed */

/* False at the end, and where something is wrong: then *err is set, with the place. */
bool dataset_reader_next(struct dataset_reader *reader, struct dataset_record *record,
                         struct error *err);

/* Does the name end as a file that is read? */
bool dataset_reader_knows(const char *path);
/* Does it end as tables do that are not read? */
bool dataset_reader_is_table(const char *path);
/* ERROR_DATA for one that is not read, with what makes one of it that is; returns
 * false. */
bool dataset_reader_refuse(const char *path, struct error *err);

#endif
