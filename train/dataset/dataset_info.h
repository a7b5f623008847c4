/* train/dataset/dataset_info.h - one entry of dataset_info.json as a data source. */
#ifndef TRAIN_DATASET_DATASET_INFO_H
#define TRAIN_DATASET_DATASET_INFO_H

#include "base/json.h"
#include "train/dataset/dataset_source.h"

/* The file that has the entry, for messages, and the folder of its data files. */
struct dataset_info {
    const char *name; /* of dataset_info.json */
    const char *dir;
    struct arena *arena;
};

/* Fail with ERROR_DATA, and what to do instead, for everything that is not supported:
 * other media, data on a hub, loading scripts. */
bool dataset_info_read(const struct dataset_info *info, const char *name,
                       const json_t *entry, struct dataset_source *out,
                       struct error *err);

/* Parse the `split` of an entry: "train", or a part of it in brackets; false for anything
 * else. */
bool dataset_slice_read(const char *split, struct dataset_slice *out);

#endif
