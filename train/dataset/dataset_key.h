/* train/dataset/dataset_key.h - what tokens depend on: are those that were kept still the
 * same? */
#ifndef TRAIN_DATASET_DATASET_KEY_H
#define TRAIN_DATASET_DATASET_KEY_H

#include "base/json.h"
#include "train/dataset/dataset_tokens.h"

/* All but the files, as a JSON object; NULL with *err where a source has no files. */
json_t *dataset_key_options(const struct dataset_reading *reading, struct error *err);

/* The files of data and tokenizer: path, size, time and digest of each. */
json_t *dataset_key_files(const struct dataset_reading *reading, struct error *err);

/* Does such a list, kept at a time (seconds), tell the files that there are?  Else *why
 * is the first that differs. */
bool dataset_key_fresh(const struct dataset_reading *reading, const json_t *files,
                       int64_t kept, struct text *why);

#endif
