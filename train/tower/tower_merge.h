/* train/tower/tower_merge.h - an adapter that is merged into the weights of an encoder
 * while they are loaded: W + scale B A. */
#ifndef TRAIN_TOWER_TOWER_MERGE_H
#define TRAIN_TOWER_TOWER_MERGE_H

#include "base/digest.h"
#include "train/model/model_config.h"
#include "train/tower/tower_parameters.h"

struct tower_merge;

/* What is merged: the adapter of a folder, for a model whose config has the list of
 * tower_trained.h. */
struct tower_merged {
    const char *adapter_dir; /* NULL: nothing */
    const struct model_config *config;
};

/* Open the adapter, which is borrowed, as its config.  *out is NULL if it has no layer of the
 * encoder.  ERROR_DATA for a kind of adapter that is not merged. */
bool tower_merge_open(const struct tower_merged *merged, struct tower_merge **out,
                      struct error *err);
void tower_merge_close(struct tower_merge *merge); /* NULL is allowed */
/* Add the adapter of one part of a parameter, if it has one, to the part's values. */
bool tower_merge_add(const struct tower_merge *merge, const struct tower_config *config,
                     const struct tower_parameter *parameter, size_t part, float *values,
                     struct error *err);
/* Add all that is merged to a digest. */
bool tower_merge_digest(const struct tower_merge *merge, struct digest *digest,
                        struct error *err);

#endif
