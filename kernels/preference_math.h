/*
 * kernels/preference_math.h - the loss of a preference pair and its slopes: the part of
 * op_preference that both backends share.
 *
 * Everything is double: l may be a sum of thousands, and d is a small difference of four
 * such sums. It runs once per pair, so the cost is negligible.
 */
#ifndef KERNELS_PREFERENCE_MATH_H
#define KERNELS_PREFERENCE_MATH_H

#include <math.h>

#include "kernels/ops.h"

#ifdef __CUDACC__
#define PAIR_CALL static __device__ inline
#else
#define PAIR_CALL static inline
#endif

/* Upper bound of l: 1 - exp l is 2^-23 there. */
#define PAIR_LOGP_MAX (-0x1p-23)

/* Sums over the rows of an answer that have a target, and the number of these rows. */
struct pair_answer {
    double losses, reference, rows;
};

/* The values of a pair, and the weight of each row of its answers that has a target. */
struct pair {
    double numbers[PREFERENCE_VALUES];
    double chosen, rejected;
};

/* A loss, and its derivatives by l[C] and l[R]. */
struct pair_loss {
    double loss, chosen, rejected;
};

/* - log s(-x) = log(1 + exp x) */
PAIR_CALL double pair_softplus(double x)
{
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

/* s(x) = 1 / (1 + exp -x) */
PAIR_CALL double pair_logistic(double x)
{
    double e = exp(-fabs(x));

    return (x < 0 ? e : 1) / (1 + e);
}

/* 1 - exp l */
PAIR_CALL double pair_one_minus_exp(double l)
{
    return -expm1(l > PAIR_LOGP_MAX ? PAIR_LOGP_MAX : l);
}

/* For SimPO r is 0 in d, because there is no reference. */
PAIR_CALL struct pair_loss pair_by_difference(const struct op_preference *op, double d)
{
    double beta = (double)op->beta, e = (double)op->smoothing, x = beta * d;
    struct pair_loss out = { 0, 0, 0 };

    switch (op->kind) {
    case PREFERENCE_SIGMOID:
        out.loss = (1 - e) * pair_softplus(-x) + e * pair_softplus(x);
        out.chosen = beta * (e * pair_logistic(x) - (1 - e) * pair_logistic(-x));
        break;
    case PREFERENCE_HINGE:
        out.loss = x >= 1 ? 0 : 1 - x;
        out.chosen = x >= 1 ? 0 : x < 1 ? -beta : x; /* the last is NaN */
        break;
    case PREFERENCE_IPO:
        x = d - 1 / (2 * beta);
        out.loss = x * x;
        out.chosen = 2 * x;
        break;
    case PREFERENCE_SIMPO:
        x -= (double)op->margin;
        out.loss = pair_softplus(-x);
        out.chosen = -beta * pair_logistic(-x);
        break;
    case PREFERENCE_ORPO:
    case PREFERENCE_KTO:
    case PREFERENCE_REWARD:
        break;
    }
    out.rejected = -out.chosen;
    return out;
}

/* ORPO's x is the difference of log odds l - log(1 - exp l), of slope 1 / (1 - exp l). */
PAIR_CALL struct pair_loss pair_by_odds(double beta, double l, double l2)
{
    double doubt = pair_one_minus_exp(l), doubt2 = pair_one_minus_exp(l2);
    double x = l - log(doubt) - (l2 - log(doubt2));
    double slope = -beta * pair_logistic(-x);
    struct pair_loss out;

    out.loss = beta * pair_softplus(-x) - l;
    out.chosen = slope / doubt - 1;
    out.rejected = -slope / doubt2;
    return out;
}

PAIR_CALL bool pair_has_means(enum preference_loss kind)
{
    return kind == PREFERENCE_IPO || kind == PREFERENCE_ORPO || kind == PREFERENCE_SIMPO;
}

/* 0 - x avoids -0 for an answer without rows. */
PAIR_CALL struct pair pair_of(const struct op_preference *op, struct pair_answer chosen,
                              struct pair_answer rejected)
{
    double beta = (double)op->beta, ftx = (double)op->ftx;
    double rows = fmax(chosen.rows, 1.0), rows2 = fmax(rejected.rows, 1.0);
    bool means = pair_has_means(op->kind);
    double by = means ? rows : 1, by2 = means ? rows2 : 1;
    double l = (0 - chosen.losses) / by, r = (0 - chosen.reference) / by;
    double l2 = (0 - rejected.losses) / by2, r2 = (0 - rejected.reference) / by2;
    struct pair_loss loss = op->kind == PREFERENCE_ORPO
                                ? pair_by_odds(beta, l, l2)
                                : pair_by_difference(op, (l - r) - (l2 - r2));
    struct pair out;

    out.numbers[PREFERENCE_LOSS] = loss.loss + ftx * chosen.losses / rows;
    out.numbers[PREFERENCE_CHOSEN] = beta * (l - r);
    out.numbers[PREFERENCE_REJECTED] = beta * (l2 - r2);
    out.numbers[PREFERENCE_LOGP_CHOSEN] = l;
    out.numbers[PREFERENCE_LOGP_REJECTED] = l2;
    out.chosen = ftx / rows - loss.chosen / by;
    out.rejected = -loss.rejected / by2;
    return out;
}

/* ---- Rewards ---- */

/* The losses of both answers are their scores. */
PAIR_CALL struct pair pair_of_scores(const struct op_preference *op,
                                     struct pair_answer chosen,
                                     struct pair_answer rejected)
{
    double x = chosen.losses - rejected.losses, sum = chosen.losses + rejected.losses;
    double center = (double)op->center, slope = pair_logistic(-x);
    struct pair out;

    out.numbers[PREFERENCE_LOSS] = pair_softplus(-x) + center * sum * sum;
    out.numbers[PREFERENCE_CHOSEN] = chosen.losses;
    out.numbers[PREFERENCE_REJECTED] = rejected.losses;
    out.numbers[PREFERENCE_LOGP_CHOSEN] = out.numbers[PREFERENCE_LOGP_REJECTED] = 0;
    out.chosen = 2 * center * sum - slope;
    out.rejected = 2 * center * sum + slope;
    return out;
}

/* ---- KTO ---- */

/* What all answers of a batch have in common. */
struct feedback {
    double divergence; /* the sum of l - r over the sequences 2p + 1 */
    double good, pairs;
};

PAIR_CALL bool feedback_is_good(const struct op_preference *op, size_t p)
{
    int32_t from = op->offsets[2 * p], to = op->offsets[2 * p + 1];

    return to == from || op->targets[to - 1] != TARGET_BAD;
}

/* fmax would hide a NaN. */
PAIR_CALL struct pair feedback_of(const struct op_preference *op,
                                  struct pair_answer answer, bool good,
                                  const struct feedback *all)
{
    double beta = (double)op->beta, rows = fmax(answer.rows, 1.0);
    double mean = all->divergence / all->pairs, k = mean < 0 ? 0 : mean;
    double l = 0 - answer.losses, d = l + answer.reference;
    double x = good ? beta * (d - k) : beta * (k - d);
    double weight = (double)(good ? op->chosen_weight : op->rejected_weight);
    double share = all->pairs / fmax(all->good, 1.0);
    double ftx = good ? (double)op->ftx * share * share / rows : 0;
    double slope = weight * beta * pair_logistic(x) * pair_logistic(-x);
    struct pair out;

    out.numbers[PREFERENCE_LOSS] = weight * pair_logistic(-x) + ftx * answer.losses;
    out.numbers[FEEDBACK_REWARD] = beta * d;
    out.numbers[FEEDBACK_GOOD] = good;
    out.numbers[FEEDBACK_LOGP] = l;
    out.numbers[FEEDBACK_KL] = k;
    out.chosen = ftx + (good ? slope : -slope);
    out.rejected = 0;
    return out;
}

#endif
