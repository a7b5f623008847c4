/*
 * train/duration.h - estimated duration of an optimizer step of a native run on a
 * calibrated device.
 *
 *   matmuls      2 in out operations per token and linear layer; the same for the
 *                gradient of its input, and of its weight if that is trained; once more
 *                with checkpointing.  At the rate of matrices sqrt(in out) wide
 *   attention    2 operations per element of q k and of weights v, half of the square
 *                (causal); 2.5 times that backward (Dao, FlashAttention-2, 2023); at
 *                the rate of matrices as wide as a head, on a CPU in float32
 *   classifier   trained tokens, C V, as the matmuls
 *   traffic      reads and writes of norms, rotations and SwiGLU, at the bandwidth
 *   update       bytes per trained parameter by train/model/optimizer_table.h: 28 for
 *                AdamW, 12 for SGD
 *   operations   each takes at least as long as an almost empty one
 *
 * The range covers what the sum omits (caches, the last tile of a matmul): the measured
 * time is between low and high in the runs of docs/memory.md.
 */
#ifndef TRAIN_DURATION_H
#define TRAIN_DURATION_H

#include "precision/calibration.h"
#include "train/model/model_config.h"
#include "train/plan.h"

/* An optimizer step of one rank. */
struct duration_step {
    double tokens, learned; /* rows, and rows with a target */
    double length;          /* mean length of a sample */
};

struct duration {
    double low, expected, high; /* seconds */
};

/* Returns false if the plan does not fit the model, or if target is external. */
bool duration_of_step(const struct plan *plan, const struct model_config *config,
                      const struct calibration *calibration,
                      const struct duration_step *step, struct duration *out);

#endif
