/* train/plateau.c - the learning rate falls when a metric no longer improves. */
#include "config.h"

#include "train/plateau.h"

#include <math.h>

void plateau_init(struct plateau *plateau, const struct plan *plan)
{
    *plateau = (struct plateau) {
        .rate = plan->learning_rate,
        .best = plan->plateau.mode == PLATEAU_MAX ? -INFINITY : INFINITY,
    };
}

static bool is_better(const struct plateau_settings *settings, double metric, double best)
{
    double threshold = settings->threshold;
    bool relative = settings->threshold_mode == THRESHOLD_REL;

    if (settings->mode == PLATEAU_MAX)
        return metric > (relative ? best * (threshold + 1) : best + threshold);
    return metric < (relative ? best * (1 - threshold) : best - threshold);
}

static void reduce(struct plateau *plateau, const struct plan *plan)
{
    double rate = fmax(plateau->rate * plan->plateau.factor, plan->schedule_min_lr);

    if (plateau->rate - rate > plan->plateau.eps)
        plateau->rate = rate;
}

void plateau_add(struct plateau *plateau, const struct plan *plan, double metric)
{
    if (is_better(&plan->plateau, metric, plateau->best)) {
        plateau->best = metric;
        plateau->bad = 0;
    } else {
        plateau->bad++;
    }
    if (plateau->cooldown > 0) {
        plateau->cooldown--;
        plateau->bad = 0;
    }
    if (plateau->bad > plan->plateau.patience) {
        reduce(plateau, plan);
        plateau->cooldown = plan->plateau.cooldown;
        plateau->bad = 0;
    }
}
