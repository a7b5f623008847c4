/* train/dataset/dataset_spill.h - array that grows beyond memory: it is in an unnamed
 * temporary file, which the kernel deletes when the process ends for any reason. */
#ifndef TRAIN_DATASET_DATASET_SPILL_H
#define TRAIN_DATASET_DATASET_SPILL_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: no array. */
struct dataset_spill {
    int fd; /* plus 1 */
    void *data;
    size_t bytes;
};

/* Grow to at least `bytes`, with the old content; data may move. Disk space is allocated
 * immediately, because a full disk would raise SIGBUS later. Return false (no such file
 * system, disk full) with the array unchanged. */
bool dataset_spill_grow(struct dataset_spill *spill, const char *dir, size_t bytes);
void dataset_spill_clear(struct dataset_spill *spill);

#endif
