/* train/dataset/dataset_position.h - where a record is. */
#ifndef TRAIN_DATASET_DATASET_POSITION_H
#define TRAIN_DATASET_DATASET_POSITION_H

#include <stdint.h>

struct dataset_position {
    const char *file; /* of data, */
    uint32_t line;    /* and a line, or the row of a table */
};

#endif
