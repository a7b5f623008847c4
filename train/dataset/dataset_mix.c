/* train/dataset/dataset_mix.c - slices, draws and round-robin order, each as a list of
 * sample numbers. */
#include "config.h"

#include "train/dataset/dataset_mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pcg.h"
#include "base/random.h"

#define MAX_SAMPLES ((size_t)UINT32_MAX - 1)
/* The rounding tolerance of numpy's choice. */
#define SUM_TOLERANCE 1e-8

/* A list under construction. */
struct list {
    uint32_t *items;
    size_t count, room;
};

static void list_add(struct list *list, uint32_t item)
{
    if (list->count == list->room) {
        list->room = 2 * list->room + 64;
        list->items = memory_resize(list->items, list->room, sizeof(uint32_t));
    }
    list->items[list->count++] = item;
}

/* ---- One dataset ---- */

/* Convert a bound to samples. Percentages are rounded to nearest, half to even, as in
 * Python. */
static size_t bound_index(bool given, int64_t value, bool percent, size_t count,
                          size_t default_value)
{
    double at = (double)value;

    if (!given)
        return default_value;
    if (percent)
        at = nearbyint(at * (double)count / 100);
    if (at < 0)
        at = fmax((double)count + at, 0);
    return at < (double)count ? (size_t)at : count;
}

static struct dataset_part slice_of(const struct dataset_part *part)
{
    const struct dataset_slice *slice = &part->source->slice;
    size_t from =
        bound_index(slice->has_from, slice->from, slice->percent, part->count, 0);
    size_t to =
        bound_index(slice->has_to, slice->to, slice->percent, part->count, part->count);

    return (struct dataset_part) { .source = part->source,
                                   .first = part->first + from,
                                   .count = to > from ? to - from : 0 };
}

/* Draw num_samples in random order; if there are fewer, all of them, then some again. */
static void draw(const struct dataset_part *part, uint64_t seed, uint32_t stream,
                 struct list *out)
{
    size_t target = (size_t)part->source->num_samples;
    uint32_t *order = memory_resize(NULL, part->count + 1, sizeof(uint32_t));

    random_permutation(seed, RANDOM_DRAW, 2 * stream, order, part->count);
    for (size_t i = 0; i < target && part->count > 0; i++) {
        double at = random_uniform(seed, RANDOM_DRAW, 2 * stream + 1, i);
        size_t repeated = (size_t)(at * (double)part->count);

        list_add(out, (uint32_t)part->first +
                          (i < part->count ? order[i] : (uint32_t)repeated));
    }
    free(order);
}

static void select_samples(const struct dataset_part *whole, const struct plan *plan,
                           size_t index, struct list *out)
{
    struct dataset_part part = slice_of(whole);
    size_t limit = plan->max_samples > 0 ? (size_t)plan->max_samples : SIZE_MAX;

    if (whole->source->num_samples > 0)
        draw(&part, (uint64_t)plan->seed, (uint32_t)index, out);
    else
        for (size_t i = 0; i < part.count && i < limit; i++)
            list_add(out, (uint32_t)(part.first + i));
    out->count = out->count < limit ? out->count : limit;
}

/* ---- All datasets ---- */

/* A dataset being interleaved, and the position in it. */
struct turn {
    struct list list;
    size_t at;
    bool exhausted;
    double cumulative; /* the sum of probabilities up to and including this one */
};

struct mix {
    enum mix_strategy strategy;
    struct turn *turns;
    size_t count;
    bool drawn; /* otherwise round-robin */
    struct pcg random;
    size_t turns_taken, exhausted;
    struct list out;
};

static void concat(struct mix *mix)
{
    for (size_t i = 0; i < mix->count; i++)
        for (size_t j = 0; j < mix->turns[i].list.count; j++)
            list_add(&mix->out, mix->turns[i].list.items[j]);
}

/* numpy's choice: the first whose cumulative probability exceeds a number from [0, 1). */
static struct turn *next_turn(struct mix *mix)
{
    double at;
    size_t i = 0;

    if (!mix->drawn)
        return &mix->turns[mix->turns_taken % mix->count];
    at = pcg_uniform(&mix->random);
    while (i + 1 < mix->count && mix->turns[i].cumulative <= at)
        i++;
    return &mix->turns[i];
}

static void take_sample(struct mix *mix, struct turn *turn)
{
    bool without_repeats = mix->strategy == MIX_INTERLEAVE_ONCE;

    if (without_repeats && turn->exhausted)
        return;
    list_add(&mix->out, turn->list.items[turn->at++]);
    if (turn->at < turn->list.count)
        return;
    mix->exhausted += !turn->exhausted;
    turn->exhausted = true;
    turn->at = 0;
}

/* Without probabilities, the end is checked only after a complete round. */
static bool is_over(const struct mix *mix)
{
    if (!mix->drawn && mix->turns_taken % mix->count != 0)
        return false;
    return mix->strategy == MIX_INTERLEAVE_UNDER ? mix->exhausted > 0
                                                 : mix->exhausted == mix->count;
}

static bool interleave(struct mix *mix, struct error *err)
{
    for (; !is_over(mix); mix->turns_taken++) {
        if (mix->turns_taken >= MAX_SAMPLES)
            return error_set(err, ERROR_DATA,
                             "mixing takes more than %zu turns: a dataset has such a "
                             "small share in interleave_probs that it is never "
                             "exhausted",
                             MAX_SAMPLES);
        take_sample(mix, next_turn(mix));
    }
    return true;
}

/* ---- The keys ---- */

static bool fail_shares(struct error *err, const char *why)
{
    return error_set(err, ERROR_JOB, "interleave_probs %s", why);
}

/* Parse and sum the shares; turns NULL: only check them. */
static bool read_shares(const char *text, size_t count, bool all, struct turn *turns,
                        struct error *err)
{
    double sum = 0;
    size_t read = 0;

    for (const char *at = text; *at; read++) {
        char *end;
        double share = strtod(at, &end);

        end += strspn(end, " \t");
        if (end == at || (*end && *end != ',') || !(share >= 0 && share <= 1))
            return fail_shares(err, "must be numbers from 0 to 1, separated by commas");
        if (share == 0 && all)
            return fail_shares(err, "has a 0: that dataset would never be exhausted; "
                                    "remove it from dataset");
        sum += share;
        if (turns && read < count)
            turns[read].cumulative = sum;
        at = end + (*end == ',');
    }
    if (read != count)
        return error_set(err, ERROR_JOB,
                         "interleave_probs has %zu numbers for %zu datasets", read,
                         count);
    for (size_t i = 0; turns && i < count; i++)
        turns[i].cumulative /= sum;
    return fabs(sum - 1) <= SUM_TOLERANCE || fail_shares(err, "must add up to 1");
}

bool dataset_mix_check(const struct plan *plan, size_t sets, struct error *err)
{
    if (!plan->interleave_probs)
        return true;
    if (plan->mix_strategy == MIX_CONCAT)
        return error_set(err, ERROR_JOB,
                         "interleave_probs applies to mix_strategy interleave_under, "
                         "interleave_over and interleave_once, not concat");
    return read_shares(plan->interleave_probs, sets,
                       plan->mix_strategy != MIX_INTERLEAVE_UNDER, NULL, err);
}

static bool begin(struct mix *mix, const struct plan *plan, struct error *err)
{
    mix->drawn = plan->interleave_probs && mix->count > 1;
    pcg_seed(&mix->random, (uint64_t)plan->seed);
    for (size_t i = 0; i < mix->count; i++)
        if (mix->turns[i].list.count == 0 && mix->strategy != MIX_CONCAT)
            return error_set(err, ERROR_DATA,
                             "one of the datasets to mix has no sample left");
    return !mix->drawn ||
           read_shares(plan->interleave_probs, mix->count, false, mix->turns, err);
}

static bool is_all(const struct list *list, size_t samples)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] != i)
            return false;
    return list->count == samples;
}

bool dataset_mix(const struct plan *plan, const struct dataset_part *parts, size_t count,
                 struct dataset_choice *out, struct error *err)
{
    struct mix mix = {
        .strategy = count > 1 ? plan->mix_strategy : MIX_CONCAT,
        .turns = memory_alloc(count * sizeof(struct turn)),
        .count = count,
    };
    size_t samples = 0;
    bool ok;

    for (size_t i = 0; i < count; i++) {
        select_samples(&parts[i], plan, i, &mix.turns[i].list);
        samples += parts[i].count;
    }
    ok = dataset_mix_check(plan, count, err) && begin(&mix, plan, err);
    if (ok && mix.strategy == MIX_CONCAT)
        concat(&mix);
    else if (ok)
        ok = interleave(&mix, err);
    if (ok && mix.out.count == 0)
        ok = error_set(err, ERROR_DATA, "split leaves no sample of dataset");
    for (size_t i = 0; i < count; i++)
        free(mix.turns[i].list.items);
    free(mix.turns);
    *out = (struct dataset_choice) { mix.out.items, mix.out.count,
                                     is_all(&mix.out, samples) };
    return ok;
}
