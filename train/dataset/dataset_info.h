/* train/dataset/dataset_info.h - one entry of dataset_info.json as a source of data. */
#ifndef TRAIN_DATASET_DATASET_INFO_H
#define TRAIN_DATASET_DATASET_INFO_H

#include "base/json.h"
#include "train/dataset/dataset_source.h"

/* Where the entry stands, for messages, and where its file lies. */
struct dataset_info {
    const char *name; /* of dataset_info.json */
    const char *dir;
    struct arena *arena;
};

/* ERROR_DATA, with what to do instead, for what is not done here: other media, marks of
 * preference (KTO), what lies on a hub, loading scripts. */
bool dataset_info_read(const struct dataset_info *info, const char *name,
                       const json_t *entry, struct dataset_source *out,
                       struct error *err);

/* "train", or a part of it in brackets, as `split` there has it; false for anything
 * else. */
bool dataset_slice_read(const char *split, struct dataset_slice *out);

#endif
