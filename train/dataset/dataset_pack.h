/* train/dataset/dataset_pack.h - packing: which samples share a row. */
#ifndef TRAIN_DATASET_DATASET_PACK_H
#define TRAIN_DATASET_DATASET_PACK_H

#include "train/dataset/dataset_store.h"

/* Pack the listed samples into rows of at most `room` tokens, first-fit-decreasing.
 * members (`count` entries) gets the samples, row after row; starts (room for count + 1)
 * gets the rows + 1 positions in it where the rows start and end. Return the number of
 * rows. A sample longer than `room` gets its own row. */
size_t dataset_pack(const struct dataset_store *store, const uint32_t *samples,
                    size_t count, size_t room, uint32_t *members, size_t *starts);

#endif
