/*
 * train/tower/tower_conformer.h - the Conformer of Phi-4-multimodal: three convolutions, each
 * of which halves the frames and their mel bins, then blocks with a feed-forward layer before
 * and after attention and a convolution over time.
 *
 * Rows attend within pieces of CONFORMER_ROWS rows.  A sound of more has several, of which
 * the last is filled up with zeros that its rows do see, as in transformers.
 */
#ifndef TRAIN_TOWER_TOWER_CONFORMER_H
#define TRAIN_TOWER_TOWER_CONFORMER_H

#include "train/tower/tower_pass.h"

enum { CONFORMER_ROWS = 500, CONFORMER_REDUCTION = 8 };

/* What a piece of a sound reads, and where that is in the sound. */
struct conformer_piece {
    struct tower_size size;
    size_t total[CONFORMER_STAGES]; /* rows of the whole sound at each stage */
    size_t first[CONFORMER_STAGES]; /* the first of them that the piece has */
};

/* Return the rows of a sound of so many frames. */
size_t conformer_rows(size_t frames);
/* The piece that starts at row `row`, a multiple of CONFORMER_ROWS. */
struct conformer_piece conformer_piece_at(size_t frames, size_t row);
/* Mel bins at a stage: of frames, then after each convolution. */
size_t conformer_bins(size_t mels, size_t stage);
/* Write the 9 taps of each output of the convolution from a stage to the next. */
void conformer_taps(const struct conformer_piece *piece, size_t mels, size_t stage,
                    int32_t *taps);
/* Write the taps of a convolution over time that reads no later rows. */
void conformer_time_taps(size_t rows, size_t size, int32_t *taps);

/* Replace the biases of all heads for each distance, as in files, by those of all distances for
 * each head.  If these are symmetric, there is one for both directions.  NULL: there are none. */
void conformer_distances(const struct tower_config *config, float **biases);

/* As tower_forward.  Return false if the heartbeat ends it. */
bool conformer_forward(const struct tower_pass *pass);

#endif
