/*
 * train/plateau.h - the learning rate of reduce_lr_on_plateau, as
 * torch.optim.lr_scheduler.ReduceLROnPlateau computes it from the metrics of evaluations.
 */
#ifndef TRAIN_PLATEAU_H
#define TRAIN_PLATEAU_H

#include "train/plan.h"

struct plateau {
    double rate, best;
    int64_t bad; /* evaluations without improvement */
    int64_t cooldown;
};

void plateau_init(struct plateau *plateau, const struct plan *plan);
/* Take over the metric of the next evaluation.  A NaN is no improvement. */
void plateau_add(struct plateau *plateau, const struct plan *plan, double metric);

#endif
