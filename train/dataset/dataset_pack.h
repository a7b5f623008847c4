/* train/dataset/dataset_pack.h - which samples share a row. */
#ifndef TRAIN_DATASET_DATASET_PACK_H
#define TRAIN_DATASET_DATASET_PACK_H

#include "train/dataset/dataset_store.h"

/*
 * First-fit-decreasing: the samples listed into rows of at most `room` tokens.  members
 * (count of them): the samples, row after row; starts (count + 1): rows + 1 places in it.
 * Returns the rows.  Longer samples than `room` get a row of their own.
 */
size_t dataset_pack(const struct dataset_store *store, const uint32_t *samples,
                    size_t count, size_t room, uint32_t *members, size_t *starts);

#endif
