/* train/model/weight_shards.h - writes the tensors of a model to one file or, if they are
 * larger than a limit, to several with an index, as transformers does. */
#ifndef TRAIN_MODEL_WEIGHT_SHARDS_H
#define TRAIN_MODEL_WEIGHT_SHARDS_H

#include "train/files/safetensors.h"

/* Write a file of `dir`: a temporary one next to it, which then replaces it. */
bool weight_file_write(const char *dir, const char *name,
                       const struct tensor_source *sources, size_t count,
                       struct error *err);

/* Write model.safetensors in `dir`, or, if the tensors have more than `limit` bytes (0: no
 * limit), model-00001-of-00002.safetensors and so on and model.safetensors.index.json. A
 * tensor goes into the file of the one before it unless that file would exceed the limit. */
bool weight_shards_write(const char *dir, const struct tensor_source *sources,
                         size_t count, uint64_t limit, struct error *err);

#endif
