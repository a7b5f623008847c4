/* train/model/weight_shards.h - the tensors of a model in one file or, if they are larger
 * than a limit, in several with an index, as transformers has them. */
#ifndef TRAIN_MODEL_WEIGHT_SHARDS_H
#define TRAIN_MODEL_WEIGHT_SHARDS_H

#include "train/model/save_share.h"

struct weight_shards {
    struct save_file *files; /* malloc'ed, as their names; the sources are borrowed */
    size_t count;
    uint64_t bytes; /* of all tensors */
};

/* Divide tensors into model.safetensors, or, if they have more than `limit` bytes (0: no
 * limit), model-00001-of-00002.safetensors and so on.  A tensor goes into the file of the
 * one before it unless that file would exceed the limit. */
void weight_shards_divide(const struct tensor_source *sources, size_t count,
                          uint64_t limit, struct weight_shards *out);
void weight_shards_clear(struct weight_shards *shards);
/* Write STEM.safetensors.index.json to a folder. */
bool weight_shards_write_index(const struct weight_shards *shards, const char *dir,
                               const char *stem, struct error *err);

#endif
