/* train/dataset/dataset_kind.h - the format of a data file, by its name. */
#ifndef TRAIN_DATASET_DATASET_KIND_H
#define TRAIN_DATASET_DATASET_KIND_H

#include "base/error.h"

/* The supported formats, for messages. */
#define DATASET_FORMATS \
    ".json, .jsonl and .txt, each also .gz, .csv, .tsv, .parquet, .arrow and .feather"

enum dataset_kind {
    DATASET_UNKNOWN,
    DATASET_JSON,
    DATASET_JSONL,
    DATASET_TXT,
    DATASET_TABLE /* train/tables/table.h */
};

enum dataset_kind dataset_kind_find(const char *path);
/* Return whether the name has the extension of a supported format. */
bool dataset_kind_is_supported(const char *path);
/* Return whether the name has the extension of data in a format that is not supported. */
bool dataset_kind_is_foreign(const char *path);
/* Set ERROR_DATA for an unsupported file, and say how to convert it; return false. */
bool dataset_kind_refuse(const char *path, struct error *err);

#endif
