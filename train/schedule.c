/* train/schedule.c - learning-rate schedules, function by function as in
 * transformers/optimization.py. */
#include "config.h"

#include "train/schedule.h"

#include <math.h>

#include "train/model/optimizer_table.h"

#define INVERSE_SQRT_STEPS 10000 /* time scale with neither timescale nor warm-up */

/* A step, and the settings of the plan with defaults filled in. */
struct schedule_step {
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

static double factor_linear(const struct schedule_step *p)
{
    return at_least(share((double)(p->total - p->step), (double)(p->total - p->warmup)),
                    0);
}

static double wave(double cycles, double progress)
{
    return 0.5 * (1 + cos(M_PI * cycles * 2 * progress));
}

static double factor_cosine(const struct schedule_step *p)
{
    double progress =
        share((double)(p->step - p->warmup), (double)(p->total - p->warmup));

    return at_least(wave(p->cycles, progress), 0);
}

static double factor_constant(const struct schedule_step *p)
{
    (void)p;
    return 1;
}

/* get_polynomial_decay_schedule_with_warmup */
static double factor_polynomial(const struct schedule_step *p)
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

/* get_cosine_with_hard_restarts_schedule_with_warmup: each cycle restarts at 1 */
static double factor_cosine_restarts(const struct schedule_step *p)
{
    double progress =
        share((double)(p->step - p->warmup), (double)(p->total - p->warmup));

    return progress >= 1 ? 0 : at_least(wave(0.5, fmod(p->cycles * progress, 1)), 0);
}

static double min_rate(const struct plan *plan)
{
    if (plan->schedule_min_lr > 0 && plan->learning_rate > 0)
        return plan->schedule_min_lr / plan->learning_rate;
    return plan->schedule_min_lr_rate;
}

/* get_cosine_with_min_lr_schedule_with_warmup */
static double factor_cosine_min(const struct schedule_step *p)
{
    double progress =
        share((double)(p->step - p->warmup), (double)(p->total - p->warmup));
    double rate = min_rate(p->plan);

    return at_least(wave(p->cycles, progress) * (1 - rate) + rate, 0);
}

/* get_inverse_sqrt_schedule */
static double factor_inverse_sqrt(const struct schedule_step *p)
{
    double scale = p->plan->schedule_timescale > 0 ? (double)p->plan->schedule_timescale
                   : p->warmup > 0                 ? (double)p->warmup
                                                   : INVERSE_SQRT_STEPS;

    return 1 / sqrt(((double)(p->step - p->warmup) + scale) / scale);
}

/* get_cosine_with_min_lr_schedule_with_warmup_lr_rate, which is one step ahead of
 * the others */
static double factor_cosine_warmup_min(const struct schedule_step *p)
{
    double progress =
        share((double)(p->step - p->warmup) + 1, (double)(p->total - p->warmup));
    double rate = min_rate(p->plan);

    return at_least(wave(p->cycles, progress) * (1 - rate) + rate, 0);
}

static double warm_from_rate(const struct schedule_step *p)
{
    double first = p->plan->schedule_warmup_lr_rate;

    if (first < 0)
        return share((double)p->step + 1, (double)p->warmup);
    return first + (1 - first) * share((double)p->step, (double)p->warmup - 1);
}

/* Decay from 1 to 0; the cosine does so with the default of half a cycle. */
static double decay(const struct schedule_step *p, double progress)
{
    switch (p->plan->schedule_decay) {
    case DECAY_LINEAR:
        return 1 - progress;
    case DECAY_ROOT:
        return 1 - sqrt(progress);
    default:
        return wave(p->cycles, progress);
    }
}

static double warm_selected(const struct schedule_step *p)
{
    double progress = share((double)p->step, (double)p->warmup);
    double rate = min_rate(p->plan);

    if (p->plan->schedule_warmup == WARMUP_COSINE)
        progress = 1 - wave(0.5, progress);
    else if (p->plan->schedule_warmup == WARMUP_ROOT)
        progress = 1 - sqrt(1 - progress);
    return progress * (1 - rate) + rate;
}

/* get_wsd_schedule; without decay steps, all steps after the stable ones decay */
static double factor_stable_decay(const struct schedule_step *p)
{
    int64_t after = p->total - p->warmup;
    int64_t stable = p->plan->schedule_stable_steps, last = p->plan->schedule_decay_steps;
    double rate = min_rate(p->plan);
    double past;

    if (last <= 0)
        last = after - stable;
    else if (stable <= 0)
        stable = after - last;
    past = (double)(p->step - p->warmup - stable);
    if (past < 0)
        return 1;
    if (past >= (double)last)
        return rate;
    return at_least(decay(p, share(past, (double)last)) * (1 - rate) + rate, 0);
}

static double warm_linear(const struct schedule_step *p)
{
    return share((double)p->step, (double)p->warmup);
}

static const struct row {
    const char *name;
    double (*warm)(const struct schedule_step *p); /* NULL: no warm-up */
    double (*after)(const struct schedule_step *p);
    double cycles; /* default of num_cycles; 0: 0.5 */
} rows[] = {
    [SCHEDULE_LINEAR] = { "linear", warm_linear, factor_linear },
    [SCHEDULE_COSINE] = { "cosine", warm_linear, factor_cosine },
    [SCHEDULE_CONSTANT] = { "constant", NULL, factor_constant },
    [SCHEDULE_CONSTANT_WITH_WARMUP] = { "constant_with_warmup", warm_linear,
                                        factor_constant },
    [SCHEDULE_POLYNOMIAL] = { "polynomial", warm_linear, factor_polynomial },
    [SCHEDULE_COSINE_WITH_RESTARTS] = { "cosine_with_restarts", warm_linear,
                                        factor_cosine_restarts, 1 },
    [SCHEDULE_COSINE_WITH_MIN_LR] = { "cosine_with_min_lr", warm_linear,
                                      factor_cosine_min },
    [SCHEDULE_WARMUP_STABLE_DECAY] = { "warmup_stable_decay", warm_selected,
                                       factor_stable_decay },
    [SCHEDULE_INVERSE_SQRT] = { "inverse_sqrt", warm_linear, factor_inverse_sqrt },
    [SCHEDULE_COSINE_WARMUP_WITH_MIN_LR] = { "cosine_warmup_with_min_lr", warm_from_rate,
                                             factor_cosine_warmup_min },
    /* evaluations reduce it: plateau.h */
    [SCHEDULE_REDUCE_ON_PLATEAU] = { "reduce_lr_on_plateau", NULL, factor_constant },
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

/* The warm-up that schedulefree has itself, in addition to the schedule's. */
static double own_warmup(const struct plan *plan, int64_t step, int64_t total)
{
    int64_t warmup = schedule_warmup(plan, total);

    return optimizer_of(plan)->averages && step < warmup
               ? (double)(step + 1) / (double)warmup
               : 1;
}

double schedule_average_share(struct schedule_average *average, const struct plan *plan,
                              int64_t step, int64_t total)
{
    double rate = 0;

    if (step < average->steps) /* an earlier step, again */
        *average = (struct schedule_average) { 0 };
    for (; average->steps <= step; average->steps++) {
        rate = plan->learning_rate * schedule_factor(plan, average->steps, total);
        average->most = rate > average->most ? rate : average->most;
        average->sum += average->most * average->most;
    }
    return average->sum > 0 ? average->most * average->most / average->sum : 0;
}

double schedule_factor(const struct plan *plan, int64_t step, int64_t total)
{
    const struct row *row = &rows[plan->schedule];
    double cycles = row->cycles > 0 ? row->cycles : 0.5;
    struct schedule_step at = {
        .plan = plan,
        .step = step,
        .total = total,
        .warmup = schedule_warmup(plan, total),
        .cycles = plan->schedule_num_cycles > 0 ? plan->schedule_num_cycles : cycles,
    };

    return (row->warm && step < at.warmup ? row->warm(&at) : row->after(&at)) *
           own_warmup(plan, step, total);
}
