/*
 * train/duration.h - how long an optimizer step of a native run takes on a device that
 * was measured.
 *
 *   products     2 in out operations a token and linear layer; the same for the
 *                gradient of its input, and of its weight where that is trained; once
 *                more with checkpointing.  At the rate of matrices sqrt(in out) wide
 *   attention    2 operations a number of q and k and of weights and v, half of the
 *                square (causal); 2.5 times that backward (Dao, FlashAttention-2,
 *                2023); at the rate of matrices as wide as a head, on a CPU in float32
 *   classifier   tokens that are learnt, C V, as the products
 *   traffic      what norms, rotations and SwiGLU read and write, at the bandwidth
 *   update       28 bytes a trained parameter: weight, gradient and moments are read,
 *                all but the gradient written
 *   operations   each at least as long as one that does next to nothing
 *
 * What the sum leaves out (caches, the last tile of a product) is in the range: the real
 * time is between low and high in the runs of docs/memory.md.
 */
#ifndef TRAIN_DURATION_H
#define TRAIN_DURATION_H

#include "precision/calibration.h"
#include "train/model/model_config.h"
#include "train/plan.h"

/* An optimizer step of one rank. */
struct duration_step {
    double tokens, learnt; /* rows, and those with a target */
    double length;         /* of a sample, on the mean */
};

struct duration {
    double low, expected, high; /* seconds */
};

/* False where the plan and the model do not go together, or are another program's. */
bool duration_of_step(const struct plan *plan, const struct model_config *config,
                      const struct calibration *calibration,
                      const struct duration_step *step, struct duration *out);

#endif
