/* train/model/rope.h - the table of rotations that op_rope reads. */
#ifndef TRAIN_MODEL_ROPE_H
#define TRAIN_MODEL_ROPE_H

#include "train/model/model_config.h"

/*
 * Row p of `table` (rows, head_size): cos(p f) for the head_size / 2 frequencies f, then
 * sin. f[i] = theta^(-2 i / head_size), scaled as the kind says. Su et al., "RoFormer",
 * 2021; linear and llama3 as transformers/modeling_rope_utils.py.
 */
void rope_fill(const struct rope *rope, size_t head_size, float *table, size_t rows);
/* The i-th frequency. */
double rope_frequency(const struct rope *rope, size_t head_size, size_t i);

#endif
