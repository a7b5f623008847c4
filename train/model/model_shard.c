/*
 * train/model/model_shard.c - one model in several processes.  Each rank has all weights
 * and reduces all gradients of its own batches, but updates only its shard of them and
 * keeps only the moments of that shard (Rajbhandari et al., "ZeRO", 2020, stage 1).
 *
 * A shard is an equal piece of the trainable segments, regardless of parameter
 * boundaries.  During the backward pass, gradients that are complete are reduced to the
 * rank that has their shard, one bucket at a time; after the update, all ranks gather the
 * weights.
 *
 * The links transfer 8 bytes per trainable element and step: 4 of its gradient, during
 * the backward pass, and 4 of its weight, for which the next step waits.
 */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_internal.h"

/* Elements that are reduced at a time: enough to saturate a link, but at most this share
 * of all, so that most of the reduction is done before the backward pass ends. */
#define BUCKET_NUMBERS ((size_t)4 << 20)
#define BUCKET_SHARE   8

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t model_ranks(const struct model *model)
{
    return plan_ranks(model->plan);
}

struct model_shard model_shard(const struct model *model)
{
    size_t count = model->shapes.shard;

    return (struct model_shard) { model->rank * count, count };
}

const struct optimizer *model_optimizer(const struct model *model)
{
    return optimizer_of(model->plan);
}

size_t model_moments(const struct model *model)
{
    return model->shapes.moment_bytes > 0 ? model->shapes.moments : 0;
}

enum format model_moment_format(const struct model *model)
{
    return model->shapes.moment_format;
}

struct tensor model_moment(const struct model *model, enum moment moment, size_t first,
                           size_t count)
{
    enum format format = model->shapes.moment_format;
    char *data = model->moments[moment];

    if ((size_t)moment >= model_moments(model))
        return (struct tensor) { 0 };
    first -= model_shard(model).first;
    return tensor_of(data + first * format_info(format)->bytes, format, 1, count);
}

/* Return the part of `count` elements from `at` on that is in this rank's shard. */
static struct model_shard own_part(const struct model *model, size_t at, size_t count)
{
    struct model_shard shard = model_shard(model);
    size_t from = larger(at, shard.first);
    size_t to = smaller(at + count, shard.first + shard.count);

    return (struct model_shard) { from, to > from ? to - from : 0 };
}

void model_write_moment(struct model *model, enum moment moment,
                        const struct parameter *p, const void *from)
{
    struct model_shard own = own_part(model, p->at, p->rows * p->cols);
    size_t bytes = format_info(model->shapes.moment_format)->bytes;
    const char *data = from;

    if (own.count > 0)
        model->be->ops->upload(model->be,
                               model_moment(model, moment, own.first, own.count).data,
                               data + (own.first - p->at) * bytes, own.count * bytes);
}

bool model_read_span(struct model *model, enum moment moment, size_t first, size_t count,
                     void *to, struct error *err)
{
    struct tensor span = model_moment(model, moment, first, count);

    model->be->ops->download(model->be, to, span.data, tensor_bytes(span));
    return model->be->ops->sync(model->be, err);
}

bool model_read_moment(struct model *model, enum moment moment, const struct parameter *p,
                       void *to, struct error *err)
{
    size_t shard = model->shapes.shard, end = p->at + p->rows * p->cols;
    size_t bytes = format_info(model->shapes.moment_format)->bytes;
    char *data = to;

    for (size_t at = p->at; at < end;) {
        size_t rank = at / shard, count = smaller(end, (rank + 1) * shard) - at;
        struct moment_span span = { moment, rank, at, count, count * bytes };

        if (rank == model->rank ? !model_read_span(model, moment, at, count, data, err)
                                : !model->fetch(model->fetch_context, &span, data, err))
            return false;
        data += count * bytes;
        at += count;
    }
    return true;
}

void model_set_fetch(struct model *model, model_fetch *fetch, const void *context)
{
    model->fetch = fetch;
    model->fetch_context = context;
}

/* ---- Gradients, during the backward pass ---- */

/* Return whether a parameter is one of the matrices that are in the order of the forward
 * pass. */
static bool is_ordered_matrix(const struct model *m, const struct shape_parameter *p)
{
    return p->trainable && p->at < m->shapes.matrices_end;
}

/* Return the level of a matrix; the last norm has none. */
static size_t level_of(const struct model *m, const struct shape_parameter *p)
{
    if (p->module == MODULE_HEAD)
        return model_head_level(m);
    return module_in_block(p->module) ? p->layer + 1 : 0;
}

/* Find, for each level, from which element on gradients are complete once the level is
 * done.  Matrices are in the order of the forward pass. */
void model_find_level_starts(struct model *m)
{
    size_t levels = model_head_level(m) + 1, start = m->shapes.matrices_end;

    m->starts = arena_array(m->arena, levels, sizeof(*m->starts));
    for (size_t level = levels; level-- > 0;) {
        for (size_t i = 0; i < m->shapes.count; i++) {
            const struct shape_parameter *p = &m->shapes.parameters[i];

            if (is_ordered_matrix(m, p) && level_of(m, p) == level)
                start = smaller(start, p->at);
        }
        m->starts[level] = start;
    }
}

/* Reduce gradients `from` .. `to`, each piece to its rank. */
static void reduce_range(struct model *m, size_t from, size_t to)
{
    size_t shard = m->shapes.shard;

    for (size_t at = from; at < to;) {
        size_t rank = at / shard, end = smaller(to, (rank + 1) * shard);

        m->be->ops->reduce(m->be, m->gradients + at, end - at, (int)rank);
        at = end;
    }
}

/* Return whether a bucket is full once this level is done. */
static bool fills_bucket(const struct model *m, size_t level)
{
    size_t bucket = smaller(BUCKET_NUMBERS, m->shapes.segment / BUCKET_SHARE);
    size_t done = m->reduced_from - m->starts[level];

    return done > 0 && done >= bucket;
}

size_t model_next_reduction(const struct model *m)
{
    size_t level = m->reduced_level;

    while (level > 0 && !fills_bucket(m, --level))
        continue;
    return level;
}

/* Every rank uses the same buckets, regardless of its batches. */
void model_reduce_to_level(struct model *m, size_t level)
{
    while (m->reduced_level > level) {
        size_t next = --m->reduced_level;

        if (!fills_bucket(m, next))
            continue;
        reduce_range(m, m->starts[next], m->reduced_from);
        m->reduced_from = m->starts[next];
    }
}

void model_reduce_remaining(struct model *m)
{
    model_reduce_to_level(m, 0);
    reduce_range(m, 0, m->reduced_from);
    reduce_range(m, m->shapes.matrices_end, m->shapes.segment);
    m->be->ops->meet(m->be);
}

void model_expect_batches(struct model *m, size_t batches)
{
    struct tensor all = model_gradients(m);

    m->expected_batches = batches;
    m->reduced_from = m->shapes.matrices_end;
    m->reduced_level = model_head_level(m) + 1;
    if (batches > 0 || model_ranks(m) == 1)
        return;
    m->be->ops->zero(m->be, &(struct op_zero) { .out = all });
    model_reduce_remaining(m);
}

/* ---- Weights, after the update ---- */

void model_gather_weights(struct model *m)
{
    const struct backend_ops *ops = m->be->ops;
    size_t bytes = format_info(m->shapes.trainable)->bytes;

    ops->all_gather(m->be, m->memory_block, m->shapes.shard * bytes);
    ops->meet(m->be);
    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct parameter *p = &m->parameters[i];
        size_t count = p->rows * p->cols;

        if (p->trainable && p->copy.data && own_part(m, p->at, count).count < count)
            ops->convert(m->be, &(struct op_convert) { .out = p->copy, .x = p->weight });
    }
}
