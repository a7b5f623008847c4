/* train/schedule.c - learning-rate schedules: transformers/optimization.py, function by
 * function. */
#include "config.h"

#include "train/schedule.h"

#include <math.h>

/* Where a step is: how far behind the warm-up, and the plan's settings with their
 * presets. */
struct place {
    const struct plan *plan;
    int64_t step, total, warmup;
    double cycles;
};

static double at_least(double value, double least)
{
    return value > least ? value : least;
}

static double share(double part, double whole)
{
    return part / at_least(whole, 1);
}

static double factor_linear(const struct place *p)
{
    return at_least(share((double)(p->total - p->step), (double)(p->total - p->warmup)),
                    0);
}

static double wave(double cycles, double progress)
{
    return 0.5 * (1 + cos(M_PI * cycles * 2 * progress));
}

static double factor_cosine(const struct place *p)
{
    double progress =
        share((double)(p->step - p->warmup), (double)(p->total - p->warmup));

    return at_least(wave(p->cycles, progress), 0);
}

static double factor_constant(const struct place *p)
{
    (void)p;
    return 1;
}

/* get_polynomial_decay_schedule_with_warmup */
static double factor_polynomial(const struct place *p)
{
    double lr = p->plan->learning_rate, end = p->plan->schedule_lr_end;
    double power = p->plan->schedule_power > 0 ? p->plan->schedule_power : 1;
    double left =
        1 - share((double)(p->step - p->warmup), (double)(p->total - p->warmup));

    if (!(lr > 0))
        return 0;
    if (p->step > p->total)
        return end / lr;
    return ((lr - end) * pow(at_least(left, 0), power) + end) / lr;
}

/* get_cosine_with_hard_restarts_schedule_with_warmup: each half wave begins anew */
static double factor_cosine_restarts(const struct place *p)
{
    double progress =
        share((double)(p->step - p->warmup), (double)(p->total - p->warmup));

    return progress >= 1 ? 0 : at_least(wave(0.5, fmod(p->cycles * progress, 1)), 0);
}

static double least_rate(const struct plan *plan)
{
    if (plan->schedule_min_lr > 0 && plan->learning_rate > 0)
        return plan->schedule_min_lr / plan->learning_rate;
    return plan->schedule_min_lr_rate;
}

/* get_cosine_with_min_lr_schedule_with_warmup */
static double factor_cosine_min(const struct place *p)
{
    double progress =
        share((double)(p->step - p->warmup), (double)(p->total - p->warmup));
    double rate = least_rate(p->plan);

    return at_least(wave(p->cycles, progress) * (1 - rate) + rate, 0);
}

/* get_wsd_schedule; without decay steps all that is left behind the stable ones decays */
static double factor_stable_decay(const struct place *p)
{
    int64_t after = p->total - p->warmup;
    int64_t stable = p->plan->schedule_stable_steps,
            decay = p->plan->schedule_decay_steps;
    double rate = least_rate(p->plan);
    double past;

    if (decay <= 0)
        decay = after - stable;
    else if (stable <= 0)
        stable = after - decay;
    past = (double)(p->step - p->warmup - stable);
    if (past < 0)
        return 1;
    if (past >= (double)decay)
        return rate;
    return at_least(wave(p->cycles, share(past, (double)decay)) * (1 - rate) + rate, 0);
}

static const struct row {
    const char *name;
    double (*after)(const struct place *place); /* the warm-up */
    bool warms_up;
    double cycles; /* where the plan has none; 0: 0.5 */
} rows[] = {
    [SCHEDULE_LINEAR] = { "linear", factor_linear, true },
    [SCHEDULE_COSINE] = { "cosine", factor_cosine, true },
    [SCHEDULE_CONSTANT] = { "constant", factor_constant, false },
    [SCHEDULE_CONSTANT_WITH_WARMUP] = { "constant_with_warmup", factor_constant, true },
    [SCHEDULE_POLYNOMIAL] = { "polynomial", factor_polynomial, true },
    [SCHEDULE_COSINE_WITH_RESTARTS] = { "cosine_with_restarts", factor_cosine_restarts,
                                        true, 1 },
    [SCHEDULE_COSINE_WITH_MIN_LR] = { "cosine_with_min_lr", factor_cosine_min, true },
    [SCHEDULE_WARMUP_STABLE_DECAY] = { "warmup_stable_decay", factor_stable_decay, true },
};

const char *schedule_name(enum schedule_kind kind)
{
    return rows[kind].name;
}

int64_t schedule_warmup(const struct plan *plan, int64_t total)
{
    if (plan->warmup_ratio > 0)
        return (int64_t)ceil((double)total * plan->warmup_ratio);
    if (plan->warmup_steps > 0 && plan->warmup_steps < 1)
        return (int64_t)ceil((double)total * plan->warmup_steps);
    return plan->warmup_steps > 0 ? (int64_t)ceil(plan->warmup_steps) : 0;
}

double schedule_factor(const struct plan *plan, int64_t step, int64_t total)
{
    const struct row *row = &rows[plan->schedule];
    double cycles = row->cycles > 0 ? row->cycles : 0.5;
    struct place place = {
        .plan = plan,
        .step = step,
        .total = total,
        .warmup = schedule_warmup(plan, total),
        .cycles = plan->schedule_num_cycles > 0 ? plan->schedule_num_cycles : cycles,
    };
    double rate = plan->schedule == SCHEDULE_WARMUP_STABLE_DECAY ? least_rate(plan) : 0;

    if (row->warms_up && step < place.warmup)
        return share((double)step, (double)place.warmup) * (1 - rate) + rate;
    return row->after(&place);
}
