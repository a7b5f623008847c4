/* tests/reference/reference_preference.c - preference losses by the formulas in
 * kernels/ops.h. */
#include "config.h"

#include "tests/reference/reference.h"

#include <math.h>

/* log of the logistic function */
static double log_s(double x)
{
    return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x));
}

static double s(double x)
{
    return exp(log_s(x));
}

/* Sum x over the rows of a sequence that have a target; *count: the number of these
 * rows. */
static double sum_of(const struct reference_preference *r, size_t run, const double *x,
                     double *count)
{
    double sum = 0;

    *count = 0;
    for (int32_t n = r->offsets[run]; n < r->offsets[run + 1]; n++)
        if (r->targets[n] >= 0) {
            sum += x ? x[n] : 0;
            *count += 1;
        }
    return sum;
}

/* 1 / (1 - p) where p = exp l, with p at most exp -2^-23. */
static double per_doubt(double l)
{
    return l < -0x1p-23 || l != l ? 1 / -expm1(l) : 1 / -expm1(-0x1p-23);
}

/* Return the loss for l[C], l[R] and d; slopes[0], [1]: with respect to both l. */
static double loss_of(const struct reference_preference *r, const double l[2], double d,
                      double slopes[2])
{
    double beta = r->beta, e = r->smoothing, x;

    switch (r->kind) {
    case PREFERENCE_SIGMOID:
        x = beta * d;
        slopes[0] = -(1 - e) * s(-x) * beta + e * s(x) * beta;
        slopes[1] = -slopes[0];
        return -(1 - e) * log_s(x) - e * log_s(-x);
    case PREFERENCE_HINGE:
        slopes[0] = beta * d < 1 ? -beta : beta * d >= 1 ? 0 : NAN;
        slopes[1] = -slopes[0];
        return beta * d >= 1 ? 0 : 1 - beta * d;
    case PREFERENCE_IPO:
        slopes[0] = 2 * (d - 0.5 / beta);
        slopes[1] = -slopes[0];
        return pow(d - 0.5 / beta, 2);
    case PREFERENCE_ORPO:
        x = l[0] + log(per_doubt(l[0])) - l[1] - log(per_doubt(l[1]));
        slopes[0] = -1 - beta * s(-x) * per_doubt(l[0]);
        slopes[1] = beta * s(-x) * per_doubt(l[1]);
        return -l[0] - beta * log_s(x);
    case PREFERENCE_SIMPO:
        x = beta * (l[0] - l[1]) - r->margin;
        slopes[0] = -beta * s(-x);
        slopes[1] = beta * s(-x);
        return -log_s(x);
    case PREFERENCE_REWARD: /* l are minus the scores */
        slopes[0] = s(l[0] - l[1]) + 2 * r->center * (l[0] + l[1]);
        slopes[1] = -s(l[0] - l[1]) + 2 * r->center * (l[0] + l[1]);
        return -log_s(l[1] - l[0]) + r->center * pow(l[0] + l[1], 2);
    case PREFERENCE_KTO:
        break;
    }
    return NAN;
}

static void refer_pair(const struct reference_preference *r, size_t pair)
{
    bool average = r->kind == PREFERENCE_IPO || r->kind == PREFERENCE_ORPO ||
                   r->kind == PREFERENCE_SIMPO;
    double *out = r->out + pair * PREFERENCE_VALUES;
    double l[2], reward[2], d[2], slopes[2], count[2], loss;

    for (size_t i = 0; i < 2; i++) {
        double sum = sum_of(r, 2 * pair + i, r->losses, &count[i]);
        double referred = sum_of(r, 2 * pair + i, r->reference, &count[i]);
        double divisor = average && count[i] > 0 ? count[i] : 1;

        l[i] = -sum / divisor;
        d[i] = referred / divisor - sum / divisor;
        reward[i] = r->kind == PREFERENCE_REWARD ? sum : r->beta * d[i];
    }
    loss = loss_of(r, l, d[0] - d[1], slopes);
    if (count[0] > 0)
        loss += r->ftx * sum_of(r, 2 * pair, r->losses, &count[0]) / count[0];
    out[PREFERENCE_LOSS] = loss;
    out[PREFERENCE_CHOSEN] = reward[0];
    out[PREFERENCE_REJECTED] = reward[1];
    out[PREFERENCE_LOGP_CHOSEN] = r->kind == PREFERENCE_REWARD ? 0 : l[0];
    out[PREFERENCE_LOGP_REJECTED] = r->kind == PREFERENCE_REWARD ? 0 : l[1];
    for (size_t i = 0; i < 2; i++)
        for (int32_t n = r->offsets[2 * pair + i]; n < r->offsets[2 * pair + i + 1]; n++)
            if (r->targets[n] >= 0)
                r->weights[n] = (i == 0 ? r->ftx / count[i] : 0) -
                                slopes[i] / (average ? count[i] : 1);
}

/* l - r of a sequence */
static double ratio_of(const struct reference_preference *r, size_t run, double *count)
{
    double referred = sum_of(r, run, r->reference, count);

    return referred - sum_of(r, run, r->losses, count);
}

static bool is_bad(const struct reference_preference *r, size_t pair)
{
    int32_t end = r->offsets[2 * pair + 1];

    return end > r->offsets[2 * pair] && r->targets[end - 1] == TARGET_BAD;
}

static void refer_feedback(const struct reference_preference *r, size_t pair)
{
    double *out = r->out + pair * PREFERENCE_VALUES;
    double k = 0, good = 0, count, d, x, slope, ftx, share;
    bool bad = is_bad(r, pair);

    for (size_t i = 0; i < r->pairs; i++) {
        k += ratio_of(r, 2 * i + 1, &count) / (double)r->pairs;
        good += !is_bad(r, i);
    }
    k = k < 0 ? 0 : k;
    d = ratio_of(r, 2 * pair, &count);
    x = r->beta * (bad ? k - d : d - k);
    share = (double)r->pairs / good;
    ftx = bad || count == 0 ? 0 : r->ftx * share * share / count;
    slope = r->beta * s(x) * s(-x) * (bad ? -r->rejected_weight : r->chosen_weight);
    out[PREFERENCE_LOSS] = (bad ? r->rejected_weight : r->chosen_weight) * s(-x) +
                           ftx * sum_of(r, 2 * pair, r->losses, &count);
    out[FEEDBACK_REWARD] = r->beta * d;
    out[FEEDBACK_GOOD] = !bad;
    out[FEEDBACK_LOGP] = -sum_of(r, 2 * pair, r->losses, &count);
    out[FEEDBACK_KL] = k;
    for (int32_t n = r->offsets[2 * pair]; n < r->offsets[2 * pair + 1]; n++)
        if (r->targets[n] >= 0)
            r->weights[n] = ftx + slope;
}

void reference_preference(const struct reference_preference *r)
{
    for (size_t n = 0; n < r->rows; n++)
        r->weights[n] = 0;
    for (size_t pair = 0; r->kind == PREFERENCE_KTO && pair < r->pairs; pair++)
        refer_feedback(r, pair);
    if (r->kind == PREFERENCE_KTO)
        return;
    for (size_t pair = 0; pair < r->pairs; pair++)
        refer_pair(r, pair);
    for (size_t n = 0; r->scale > 0 && n < r->rows; n++)
        r->weights[n] *= r->scale;
}
