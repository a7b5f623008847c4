/* train/model/optimizer.c - an optimizer step: gradient norm, clipping, update of all
 * weights. */
#include "config.h"

#include "train/model/optimizer.h"

#include "train/model/optimizer_refresh.h"
#include "train/model/shapes.h"

#define PADDING_MAX \
    256 /* elements between groups of the segments, train/model/shapes.h */

/* Consecutive parameters that are updated alike. */
struct sequence {
    struct optimizer_update update;
    const struct parameter *first;
};

static struct tensor flat(struct tensor t, size_t count)
{
    return tensor_of(t.data, t.format, 1, count);
}

/* Return the distance in elements between the starts of two tensors; 0 if both are
 * absent. */
static ptrdiff_t distance(struct tensor from, struct tensor to)
{
    ptrdiff_t bytes = (char *)to.data - (char *)from.data;

    return to.data ? bytes / (ptrdiff_t)format_info(to.format)->bytes : 0;
}

static struct optimizer_update update_of(struct model *model, const struct plan *plan,
                                         const struct parameter *p)
{
    size_t count = p->rows * p->cols;

    return (struct optimizer_update) {
        .plan = plan,
        .w = flat(p->weight, count), /* of a sharded weight without data */
        .copy = p->gathered ? (struct tensor) { 0 } : flat(p->copy, count),
        .lr_factor = p->lr_factor,
        .decay = p->decays ? plan->weight_decay : 0,
        .first = p->at,
        .scalars = model_step_scalars(model),
    };
}

/* Return whether the moments of a parameter follow those of another like the weights. */
static bool moments_join(const struct parameter *a, const struct parameter *b,
                         size_t moments)
{
    for (size_t i = 0; i < moments; i++) {
        const struct shape_moment *from = &a->moments[i], *to = &b->moments[i];

        if ((from->count == 0) != (to->count == 0) || from->format != to->format)
            return false;
        if (from->count > 0 && to->at - from->at != (b->at - a->at) / from->each *
                                                        format_info(from->format)->bytes)
            return false;
    }
    return true;
}

/* Extend an update by the next one, if both have the same settings and the same layout in
 * all segments.  The padding between groups is updated too: it is zero and never read. */
static bool update_join(struct optimizer_update *u, const struct optimizer_update *next)
{
    size_t step = next->first - u->first;

    if (u->lr_factor != next->lr_factor || u->decay != next->decay ||
        (u->copy.data != NULL) != (next->copy.data != NULL) ||
        (u->w.data != NULL) != (next->w.data != NULL) ||
        (u->w.data && distance(u->w, next->w) != (ptrdiff_t)step) ||
        (u->copy.data && distance(u->copy, next->copy) != (ptrdiff_t)step) ||
        step >= u->w.cols + PADDING_MAX)
        return false;
    step += next->w.cols;
    u->w = flat(u->w, step);
    u->copy = flat(u->copy, step);
    return true;
}

static struct tensor part(struct tensor t, size_t first, size_t count)
{
    return t.data ? tensor_columns(t, first, count) : t;
}

/* Update the part that is in this rank's shard. */
static void update_shard(struct model *model, const struct sequence *sequence)
{
    const struct optimizer_update *whole = &sequence->update;
    struct model_shard shard = model_shard(model);
    size_t from = whole->first, to = whole->first + whole->w.cols;
    struct optimizer_update u = *whole;

    from = from > shard.first ? from : shard.first;
    to = to < shard.first + shard.count ? to : shard.first + shard.count;
    if (from >= to)
        return;
    u.w = whole->w.data ? part(whole->w, from - whole->first, to - from)
                        : model_shard_weights(model, from, to - from);
    u.grad = part(model_shard_gradients(model), from - shard.first, to - from);
    u.copy = part(whole->copy, from - whole->first, to - from);
    u.first = from;
    for (size_t i = 0; i < optimizer_of(u.plan)->moments; i++)
        u.moments[i] =
            model_moment(model, (enum moment)i, sequence->first, from, to - from);
    optimizer_of(u.plan)->update(model_backend(model), &u);
}

/* Update a parameter as the matrix that it is. */
static void update_whole(struct model *model, const struct sequence *sequence)
{
    const struct parameter *p = sequence->first;
    struct optimizer_update u = sequence->update;

    u.w = p->weight;
    u.grad = p->grad;
    if (u.copy.data)
        u.copy = p->copy;
    for (size_t i = 0; i < optimizer_of(u.plan)->moments; i++)
        u.moments[i] = model_moment(model, (enum moment)i, p, p->at, p->rows * p->cols);
    optimizer_of(u.plan)->update(model_backend(model), &u);
}

static void update_sequence(struct model *model, const struct sequence *sequence)
{
    if (optimizer_of(sequence->update.plan)->whole)
        update_whole(model, sequence);
    else
        update_shard(model, sequence);
}

static void update_all(struct model *model, const struct plan *plan)
{
    size_t moments = optimizer_of(plan)->moments;
    struct sequence now = { 0 };

    for (size_t i = 0; i < model_trained_parameters(model); i++) {
        const struct parameter *p = model_trained(model, i);
        struct sequence next = { update_of(model, plan, p), p };

        if (i > 0 && !optimizer_of(plan)->whole && moments_join(now.first, p, moments) &&
            update_join(&now.update, &next.update))
            continue;
        if (i > 0)
            update_sequence(model, &now);
        now = next;
    }
    update_sequence(model, &now);
}

static void find_norm(struct model *model)
{
    struct backend *be = model_backend(model);

    be->ops->square_sum(
        be, &(struct op_square_sum) { .x = model_shard_gradients(model),
                                      .sum = &model_step_scalars(model)->square_sum });
}

static void decide_and_update(struct model *model, const struct plan *plan)
{
    struct backend *be = model_backend(model);

    be->ops->decide(be, &(struct op_decide) { .numbers = model_step_scalars(model) });
    update_all(model, plan);
}

/* Several ranks: communication cannot be part of a recorded graph. */
static void step_ranks(struct model *model, const struct plan *plan)
{
    struct backend *be = model_backend(model);

    find_norm(model);
    be->ops->all_reduce(be, &model_step_scalars(model)->square_sum, 1);
    be->ops->meet(be);
    decide_and_update(model, plan);
    model_gather_weights(model);
}

bool optimizer_step(struct model *model, const struct plan *plan, struct error *err)
{
    struct backend *be = model_backend(model);
    static const char key[] = "optimizer step";

    if (optimizer_of(plan)->averages && !model_has_moments(model))
        model_start_average(model);
    if (optimizer_projects(plan) && !optimizer_refresh(model, plan, err))
        return false;
    if (model_ranks(model) > 1) {
        step_ranks(model, plan);
        return true;
    }
    if (be->ops->begin && !be->ops->begin(be, key, sizeof(key)))
        return true;
    find_norm(model);
    decide_and_update(model, plan);
    if (be->ops->end)
        be->ops->end(be);
    return true;
}
