/*
 * train/dataset/dataset_spill.h - an array that grows beyond memory: it lies in a file that
 * nobody sees and that is gone when the process ends, however it ends.
 */
#ifndef TRAIN_DATASET_DATASET_SPILL_H
#define TRAIN_DATASET_DATASET_SPILL_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: there is none. */
struct dataset_spill {
    int fd; /* plus 1 */
    void *data;
    size_t bytes;
};

/* At least so many bytes, the first as they were; data may move.  The room is taken on
 * the disk at once, so that a full one is no SIGBUS later.  False (no such file system, a
 * full disk): it is as it was. */
bool dataset_spill_grow(struct dataset_spill *spill, const char *dir, size_t bytes);
void dataset_spill_clear(struct dataset_spill *spill);

#endif
