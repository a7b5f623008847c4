/* train/dataset/dataset_key.h - everything that determines the tokens, to check whether
 * saved tokens are still valid. */
#ifndef TRAIN_DATASET_DATASET_KEY_H
#define TRAIN_DATASET_DATASET_KEY_H

#include "base/json.h"
#include "train/dataset/dataset_tokens.h"

/* Everything except the files, as a JSON object; NULL with *err if a source has no
 * files. */
json_t *dataset_key_options(const struct dataset_reading *reading, struct error *err);

/* The files of data and tokenizer: path, size, time and digest of each. */
json_t *dataset_key_files(const struct dataset_reading *reading, struct error *err);

/* Return whether a list of files, saved at time `kept` (seconds), describes the present
 * files. If not, *why names the first one that differs. */
bool dataset_key_matches(const struct dataset_reading *reading, const json_t *files,
                         int64_t kept, struct text *why);

/* The same for the file of a medium. */
bool dataset_key_medium_matches(const struct stored_medium *medium, const char *path,
                                int64_t kept, struct heartbeat *heartbeat);

#endif
