/*
 * kernels/reach.h - the rows that each row of a batch sees in attention (reach and since of
 * kernels/ops_attention.h), in the host's memory.
 */
#ifndef KERNELS_REACH_H
#define KERNELS_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each of the rows sees itself and those before it: reach[n] = n + 1. */
void reach_causal(int32_t *reach, size_t rows);

/*
 * Let the rows first .. end - 1, which belong to one sequence, see each other: each of them
 * reaches `end`.  For an encoder, call it with each sequence; for images in a text, with
 * the rows of each image after reach_causal.  Blocks do not overlap.
 */
void reach_join(int32_t *reach, size_t first, size_t end);

/* since[k] = the first row n with reach[n] > k, for each of the rows. */
void reach_since(int32_t *since, const int32_t *reach, size_t rows);

/* Return whether each row reaches itself, none reaches past the end of its sequence, and
 * none reaches less than the row before it.  offsets (sequences + 1), from 0. */
bool reach_holds(const int32_t *reach, const int32_t *offsets, size_t sequences);

/*
 * The same two for cross-attention, in which a sequence has rows and keys, and reach counts
 * keys (key_offsets of kernels/ops_attention.h): since[k] = the first row n of the sequence
 * of key k with reach[n] > k, or the end of its rows.
 */
void reach_since_keys(int32_t *since, const int32_t *reach, const int32_t *offsets,
                      const int32_t *key_offsets, size_t sequences);

/* Return whether both offsets begin with 0 and do not decrease, and each row reaches a key of
 * its sequence, or none, and not less than the row before it.  reach: or NULL. */
bool reach_keys_hold(const int32_t *reach, const int32_t *offsets,
                     const int32_t *key_offsets, size_t sequences);

#endif
