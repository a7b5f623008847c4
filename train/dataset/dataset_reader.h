/* train/dataset/dataset_reader.h - data files, one record at a time: .jsonl (one per
 * line), .json (a list, or objects one after another) and .txt, each also .gz, and the
 * tables of train/tables/table.h. Memory is that of the largest record, and sizes are
 * limited. */
#ifndef TRAIN_DATASET_DATASET_READER_H
#define TRAIN_DATASET_DATASET_READER_H

#include "base/heartbeat.h"
#include "base/text.h"

struct dataset_reader;

#define DATASET_LINE_MAX  ((size_t)64 << 20) /* bytes of a record */
#define DATASET_DEPTH_MAX 64                 /* nesting of a record */
/* compression ratio of a .gz; text has 2 to 20, a bomb about 1000 */
#define DATASET_RATIO_MAX 200

/* One record of the file; valid until the next call. */
struct dataset_record {
    const char *data;
    size_t len;
    struct mark at; /* where it starts */
    bool is_text;   /* of a .txt; else JSON, not parsed yet */
    size_t number;  /* of the record in the file, from 1 */
    bool in_list;   /* of a .json, where a line may have several */
};

/* lines: each line of a .txt is a record; otherwise the whole file is one. ERROR_DATA if
 * the file does not exist or has an unsupported format. */
struct dataset_reader *dataset_reader_open(const char *path, bool lines,
                                           struct error *err);
void dataset_reader_close(struct dataset_reader *reader); /* NULL is allowed */

/* Set the most bytes of a record; DATASET_LINE_MAX by default. */
void dataset_reader_limit(struct dataset_reader *reader, size_t bytes);
/* Set what ticks with each record and each part of a long one, borrowed. */
void dataset_reader_set_heartbeat(struct dataset_reader *reader,
                                  struct heartbeat *heartbeat);
/* Return false at the end, and on an error; *err is then set, with the position. */
bool dataset_reader_next(struct dataset_reader *reader, struct dataset_record *record,
                         struct error *err);

#endif
