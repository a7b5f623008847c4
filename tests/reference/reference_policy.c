/* tests/reference/reference_policy.c - losses of sampled answers by the formula in
 * kernels/ops_policy.h. */
#include "config.h"

#include "tests/reference/double_ops.h"
#include "tests/reference/reference.h"

#include <math.h>

static double log_ratio(const struct reference_policy *r, int32_t n)
{
    return r->old ? r->old[n] - r->losses[n] : r->losses[n] - r->losses[n];
}

static double kl_of(const struct reference_policy *r, int32_t n)
{
    double closer = r->losses[n] - r->reference[n];

    return exp(closer) - closer - 1;
}

/* The mean of k over a sequence, or k of the row. */
static double shared_kl(const struct reference_policy *r, size_t s, int32_t n)
{
    double sum = 0, count = 0;

    if (!r->by_sequence)
        return kl_of(r, n);
    for (int32_t i = r->offsets[s]; i < r->offsets[s + 1]; i++)
        if (r->targets[i] >= 0) {
            sum += kl_of(r, i);
            count++;
        }
    return sum / count;
}

static double ratio_of(const struct reference_policy *r, size_t s, int32_t n)
{
    double sum = 0, count = 0;

    if (!r->by_sequence)
        return exp(log_ratio(r, n));
    for (int32_t i = r->offsets[s]; i < r->offsets[s + 1]; i++)
        if (r->targets[i] >= 0) {
            sum += log_ratio(r, i);
            count++;
        }
    return exp(sum / count);
}

/* p; *slope: by l, of a ratio whose slope is itself. */
static double surrogate(const struct reference_policy *r, double ratio, double advantage,
                        double *slope)
{
    double most = r->delta > 0 ? r->delta : HUGE_VAL;
    double clamped = fmin(fmax(ratio, 1 - r->low), 1 + r->high);
    double first = fmin(ratio, most) * advantage, second = clamped * advantage;
    double slopes[2] = { ratio <= most ? ratio * advantage : 0,
                         ratio == clamped ? ratio * advantage : 0 };

    if (isnan(ratio))
        return *slope = NAN;
    *slope = first < second   ? -slopes[0]
             : first > second ? -slopes[1]
                              : -(slopes[0] + slopes[1]) / 2;
    return -fmin(first, second);
}

static void refer_row(const struct reference_policy *r, size_t s, int32_t n, double *out)
{
    double a = r->advantages[s], ratio = ratio_of(r, s, n), slope, kl = 0;
    double times = r->corrects_kl ? ratio : 1;
    double loss = surrogate(r, ratio, a, &slope);

    if (r->reference) {
        kl = times * kl_of(r, n);
        slope += r->beta * times * (1 - exp(r->losses[n] - r->reference[n]));
        slope += r->corrects_kl ? r->beta * ratio * shared_kl(r, s, n) : 0;
    }
    loss += r->beta * kl;
    r->weights[n] = isnan(loss) ? loss : -r->factors[s] * slope;
    out[POLICY_LOSS] += r->factors[s] * loss;
    out[POLICY_KL] += kl;
    out[POLICY_CLIPPED] +=
        (a < 0 && ratio < 1 - r->low) || (a > 0 && ratio > 1 + r->high);
    out[POLICY_ROWS]++;
}

void reference_policy(const struct reference_policy *r)
{
    for (size_t n = 0; n < r->rows; n++)
        r->weights[n] = 0;
    for (size_t s = 0; s < r->sequences; s++) {
        double *out = r->values + s * POLICY_VALUES;

        for (size_t i = 0; i < POLICY_VALUES; i++)
            out[i] = 0;
        for (int32_t n = r->offsets[s]; n < r->offsets[s + 1]; n++)
            if (r->targets[n] >= 0)
                refer_row(r, s, n, out);
    }
}

static const double *values_of(struct backend *be, struct tensor t)
{
    return t.data ? double_values(be, t.data) : NULL;
}

void double_policy(struct backend *be, const struct op_policy *op)
{
    struct reference_policy r = {
        .sequences = op->values.rows,
        .rows = op->losses.cols,
        .losses = values_of(be, op->losses),
        .old = values_of(be, op->old),
        .reference = values_of(be, op->reference),
        .advantages = values_of(be, op->advantages),
        .factors = values_of(be, op->factors),
        .targets = op->targets,
        .offsets = op->offsets,
        .low = (double)op->low,
        .high = (double)op->high,
        .delta = (double)op->delta,
        .beta = (double)op->beta,
        .by_sequence = op->by_sequence,
        .corrects_kl = op->corrects_kl,
        .values = double_values(be, op->values.data),
        .weights = double_values(be, op->weights),
    };

    reference_policy(&r);
    for (size_t n = 0; n < r.rows; n++)
        op->weights[n] = (float)r.weights[n];
    for (size_t s = 0; s < r.sequences; s++) {
        for (size_t i = 0; i < POLICY_VALUES; i++)
            ((float *)op->values.data)[s * POLICY_VALUES + i] =
                (float)r.values[s * POLICY_VALUES + i];
        double_of(be)->preference += r.values[s * POLICY_VALUES + POLICY_LOSS];
    }
}
