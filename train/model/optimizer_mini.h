/* train/model/optimizer_mini.h - Adam-mini: the blocks of parameters that share a second
 * moment. */
#ifndef TRAIN_MODEL_OPTIMIZER_MINI_H
#define TRAIN_MODEL_OPTIMIZER_MINI_H

#include <stddef.h>

/* Return the elements of a block, of a parameter of `count` elements.  head: those of a
 * head of queries. */
size_t optimizer_mini_block(const char *name, size_t rank, size_t cols, size_t head,
                            size_t count);

#endif
