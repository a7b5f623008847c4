/*
 * train/model/model_shard.c - one model in several processes.  Each rank has all weights
 * and reduces all gradients of its own batches, but updates only its shard of them and
 * keeps only the moments of that shard (Rajbhandari et al., "ZeRO", 2020, stage 1).  In
 * stage 2 it also keeps only the gradients of that shard (shapes.h), in stage 3 also only
 * its part of the weights of blocks (model_gather.c).
 *
 * A shard is an equal piece of the trainable segments, regardless of parameter
 * boundaries.  During the backward pass, gradients that are complete are reduced to the
 * rank that has their shard, one bucket at a time; after the update, all ranks gather the
 * weights.
 *
 * The links transfer 8 bytes per trainable element and step: 4 of its gradient, during
 * the backward pass, and 4 of its weight, for which the next step waits; 2 of the gradient
 * with reduce_dtype: bf16, and 2 of the weight if only its copy is sent.  Stage 2
 * transfers gradients in each micro-batch, not only in the last one of a step; stage 3
 * also weights, in the format of the matmuls, in its forward and in its backward pass.
 */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

/* Elements that are reduced at a time: enough to saturate a link, but at most this share
 * of all, so that most of the reduction is done before the backward pass ends. */
#define BUCKET_NUMBERS ((size_t)4 << 20)
#define BUCKET_SHARE   8

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
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
    return model->shapes.moments_bytes > 0 ? model->shapes.moments : 0;
}

/* Return how many elements of a moment belong to this many weights. */
static size_t moment_elements(const struct shape_moment *kept, size_t weights)
{
    return kept->each > 0 ? size_divide_up(weights, kept->each) : kept->count;
}

/* Return the bytes of a moment that belong to the weights before these. */
static size_t moment_offset(const struct shape_moment *kept, size_t weights)
{
    return kept->each > 0 ? weights / kept->each * format_info(kept->format)->bytes : 0;
}

struct tensor model_moment(const struct model *model, enum moment moment,
                           const struct parameter *p, size_t first, size_t count)
{
    const struct shape_moment *kept = &p->moments[moment];
    size_t at;

    if ((size_t)moment >= model_moments(model) || kept->count == 0)
        return (struct tensor) { 0 };
    at = kept->at + moment_offset(kept, first - p->at);
    return tensor_of(model->moments[moment] + at -
                         model->shapes.moment_starts[moment][model->rank],
                     kept->format, 1, moment_elements(kept, count));
}

/* Return the part of `count` elements from `at` on that is in this rank's shard. */
static struct model_shard own_part(const struct model *model, size_t at, size_t count)
{
    return model_part(model, at, count, model->shapes.shard);
}

/* Elements of a moment, first and count. */
static struct model_shard own_elements(const struct model *model, enum moment moment,
                                       const struct parameter *p, size_t first,
                                       size_t count)
{
    struct model_shard own = own_part(model, p->at, p->rows * p->cols);
    const struct shape_moment *kept = &p->moments[moment];
    size_t from = kept->each > 0 ? (own.first - p->at) / kept->each : 0;
    size_t end = from + (own.count > 0 ? moment_elements(kept, own.count) : 0);

    from = first > from ? first : from;
    end = smaller(end, first + count);
    return (struct model_shard) { from, end > from ? end - from : 0 };
}

bool model_has_elements(const struct model *model, enum moment moment,
                        const struct parameter *p, size_t first, size_t count)
{
    return own_elements(model, moment, p, first, count).count > 0;
}

void model_write_elements(struct model *model, enum moment moment,
                          const struct parameter *p, size_t first, size_t count,
                          const void *from)
{
    struct model_shard own = own_elements(model, moment, p, first, count);
    const struct shape_moment *kept = &p->moments[moment];
    size_t item = format_info(kept->format)->bytes;
    const char *data = from;
    struct tensor to;

    model->has_moments = true;
    if (own.count == 0)
        return;
    data += (own.first - first) * item;
    to = model_moment(model, moment, p, p->at + own.first * kept->each, 0);
    if (model->shapes.offloads)
        memcpy(to.data, data, own.count * item);
    else
        model->be->ops->upload(model->be, to.data, data, own.count * item);
}

void model_write_moment(struct model *model, enum moment moment,
                        const struct parameter *p, const void *from)
{
    model_write_elements(model, moment, p, 0, p->moments[moment].count, from);
}

void model_zero_moments(struct model *model)
{
    model->has_moments = false;
    for (size_t i = 0; i < model_moments(model); i++) {
        struct tensor all = tensor_of(model->moments[i], FORMAT_FP32, 1,
                                      model->shapes.moment_bytes[i] / sizeof(float));

        if (model->shapes.offloads)
            memset(all.data, 0, tensor_bytes(all));
        else
            model->be->ops->zero(model->be, &(struct op_zero) { .out = all });
    }
}

struct tensor model_shard_weights(const struct model *model, size_t at, size_t count)
{
    enum format format = model->shapes.trainable;
    size_t first = at - model_shard(model).first;

    return tensor_of(model->memory_block + first * format_info(format)->bytes, format, 1,
                     count);
}

size_t model_span_bytes(const struct model *model, const struct moment_span *span)
{
    const struct parameter *p = &model->parameters[span->parameter];
    const struct shape_moment *kept = &p->moments[span->moment % MOMENTS_MAX];

    if (span->moment == SPAN_WEIGHT)
        return span->count * format_info(model->shapes.trainable)->bytes;
    return moment_elements(kept, span->count) * format_info(kept->format)->bytes;
}

bool model_read_span(struct model *model, const struct moment_span *span, void *to,
                     struct error *err)
{
    bool weights = span->moment == SPAN_WEIGHT;
    bool on_host = model->shapes.offloads && !weights;
    struct tensor own =
        weights ? model_shard_weights(model, span->first, span->count)
                : model_moment(model, span->moment, &model->parameters[span->parameter],
                               span->first, span->count);

    if (!on_host)
        model->be->ops->download(model->be, to, own.data, tensor_bytes(own));
    if (!model->be->ops->sync(model->be, err))
        return false;
    if (on_host)
        memcpy(to, own.data, tensor_bytes(own));
    return true;
}

/* Read elements of the segments from the ranks that have them. */
static bool read_spans(struct model *model, const struct moment_span *all, void *to,
                       struct error *err)
{
    size_t shard = model->shapes.shard, end = all->first + all->count;
    char *data = to;

    for (size_t at = all->first; at < end;) {
        size_t rank = at / shard, count = smaller(end, (rank + 1) * shard) - at;
        struct moment_span span = *all;

        span.rank = rank;
        span.first = at;
        span.count = count;
        span.bytes = model_span_bytes(model, &span);
        if (rank == model->rank ? !model_read_span(model, &span, data, err)
                                : !model->fetch(model->fetch_context, &span, data, err))
            return false;
        data += span.bytes;
        at += count;
    }
    return true;
}

bool model_read_moment(struct model *model, enum moment moment, const struct parameter *p,
                       void *to, struct error *err)
{
    const struct moment_span all = {
        moment, (size_t)(p - model->parameters), 0, p->at, p->rows * p->cols, 0
    };

    return read_spans(model, &all, to, err);
}

bool model_read_elements(struct model *model, enum moment moment,
                         const struct parameter *p, size_t first, size_t count, void *to,
                         struct error *err)
{
    const struct moment_span all = { moment, (size_t)(p - model->parameters),
                                     0,      first,
                                     count,  0 };
    const size_t item = format_info(p->weight.format)->bytes;

    if (moment != SPAN_WEIGHT || p->sharded)
        return read_spans(model, &all, to, err);
    model->be->ops->download(model->be, to,
                             (const char *)p->weight.data + (first - p->at) * item,
                             count * item);
    return model->be->ops->sync(model->be, err);
}

bool model_read_weight(const struct model *m, const struct parameter *p, size_t first,
                       size_t rows, void *to, struct error *err)
{
    struct tensor weight = tensor_rows(p->weight, first, rows);
    const struct moment_span all = { SPAN_WEIGHT,
                                     (size_t)(p - m->parameters),
                                     0,
                                     p->at + first * p->cols,
                                     rows * p->cols,
                                     0 };

    if (p->sharded && m->writer != SIZE_MAX)
        return model_send_weight(m, all.first, all.count, to, err);
    if (p->sharded)
        return read_spans((struct model *)m, &all, to, err);
    m->be->ops->download(m->be, to, weight.data, tensor_bytes(weight));
    return m->be->ops->sync(m->be, err);
}

/* Round and upload in pieces. */
static void write_copy(struct model *m, struct tensor copy, enum format format,
                       const char *from)
{
    size_t count = copy.rows * copy.cols, item = format_info(format)->bytes;
    size_t step = smaller(count, MODEL_SPAN);
    char *packed = memory_alloc(step * format_info(copy.format)->bytes), *to = copy.data;

    for (size_t at = 0, part; at < count; at += part) {
        part = smaller(count - at, step);
        format_convert(packed, copy.format, from + at * item, format, part);
        m->be->ops->upload(m->be, to + at * format_info(copy.format)->bytes, packed,
                           part * format_info(copy.format)->bytes);
    }
    free(packed);
}

void model_write_weight(struct model *m, const struct parameter *p, size_t first,
                        size_t rows, const void *from)
{
    struct tensor to = tensor_rows(p->weight, first, rows);
    size_t item = format_info(to.format)->bytes, at = p->at + first * p->cols;
    struct model_shard own = own_part(m, at, rows * p->cols);
    const char *data = from;

    if (!p->sharded) {
        m->be->ops->upload(m->be, to.data, from, tensor_bytes(to));
        return;
    }
    if (own.count > 0)
        m->be->ops->upload(m->be, model_shard_weights(m, own.first, own.count).data,
                           data + (own.first - at) * item, own.count * item);
    if (p->gathered)
        model_drop_windows(m);
    else
        write_copy(m, tensor_rows(p->copy, first, rows), to.format, data);
}

void model_set_fetch(struct model *model, model_fetch *fetch, const void *context)
{
    model->fetch = fetch;
    model->fetch_context = context;
}

/* ---- Gradients, during the backward pass ---- */

struct tensor model_shard_gradients(const struct model *m)
{
    struct model_shard shard = model_shard(m);
    struct tensor all = model_gradients(m);

    return m->shapes.shards_gradients ? all
                                      : tensor_columns(all, shard.first, shard.count);
}

/* Wait for the reduction of a lane, and add this rank's part of it to its shard. */
static void settle(struct model *m)
{
    struct model_shard part = m->reducing_part;
    struct tensor sum;

    if (m->reducing == LANES)
        return;
    m->be->ops->meet(m->be);
    m->reducing = LANES;
    if (part.count == 0)
        return;
    sum =
        tensor_columns(model_gradients(m), part.first - model_shard(m).first, part.count);
    m->be->ops->add(m->be,
                    &(struct op_add) {
                        .out = sum,
                        .a = sum,
                        .b = tensor_of(m->reducing_data, FORMAT_FP32, 1, part.count) });
}

static void reduce_pieces(struct model *m, float *data, size_t from, size_t to)
{
    const struct backend_ops *ops = m->be->ops;
    size_t shard = m->shapes.shard;

    if (ops->reduce_shards) {
        ops->reduce_shards(m->be, data, to - from, from, shard);
        return;
    }
    for (size_t at = from; at < to;) {
        size_t rank = at / shard, end = smaller(to, (rank + 1) * shard);

        ops->reduce(m->be, data + (at - from), end - at, (int)rank);
        at = end;
    }
}

/* What the level before has left in a lane is not of this one where it has no gradients. */
static void zero_gaps(struct model *m, float *data, size_t from, size_t to)
{
    for (size_t i = 0; i < m->shapes.gap_count; i++) {
        const struct shape_gap *gap = &m->shapes.gaps[i];

        if (gap->at >= from && gap->at + gap->count <= to)
            m->be->ops->zero(m->be, &(struct op_zero) {
                                        .out = tensor_of(data + (gap->at - from),
                                                         FORMAT_FP32, 1, gap->count) });
    }
}

/* Reduce gradients `from` .. `to`, each piece to its rank.  They are in a lane, unless
 * gradients are not sharded. */
static void reduce_range(struct model *m, size_t from, size_t to, enum lane lane)
{
    bool sharded = m->shapes.shards_gradients;
    float *data = m->gradients + (sharded ? m->shapes.lanes[lane] : from);

    if (from >= to)
        return;
    settle(m);
    if (m->adds_nothing)
        m->be->ops->zero(m->be, &(struct op_zero) {
                                    .out = tensor_of(data, FORMAT_FP32, 1, to - from) });
    else if (sharded)
        zero_gaps(m, data, from, to);
    reduce_pieces(m, data, from, to);
    if (!sharded)
        return;
    m->reducing = lane;
    m->reducing_part = own_part(m, from, to - from);
    m->reducing_data = data + (m->reducing_part.first - from);
}

/* Return whether a bucket is full once this level is done.  A lane is reduced as soon as
 * anything is in it. */
static bool fills_bucket(const struct model *m, size_t level)
{
    size_t bucket = smaller(BUCKET_NUMBERS, m->shapes.segment / BUCKET_SHARE);
    size_t done = m->reduced_from - m->shapes.level_starts[level];

    return done > 0 && (done >= bucket || m->shapes.shards_gradients);
}

size_t model_next_reduction(const struct model *m)
{
    size_t level = m->reduced_level;

    while (level > 0 && !fills_bucket(m, --level))
        continue;
    return level;
}

void model_begin_reductions(struct model *m)
{
    m->reduced_from = m->shapes.matrices_end;
    m->reduced_level = model_head_level(m) + 1;
}

void model_free_lane(struct model *m, size_t level)
{
    if (m->reducing == shapes_lane(&m->shapes, level))
        settle(m);
}

/* Every rank uses the same buckets, regardless of its batches. */
void model_reduce_to_level(struct model *m, size_t level)
{
    while (m->reduced_level > level) {
        size_t next = --m->reduced_level;

        if (!fills_bucket(m, next))
            continue;
        reduce_range(m, m->shapes.level_starts[next], m->reduced_from,
                     shapes_lane(&m->shapes, next));
        m->reduced_from = m->shapes.level_starts[next];
    }
}

void model_reduce_remaining(struct model *m)
{
    model_reduce_to_level(m, 0);
    reduce_range(m, 0, m->reduced_from, LANE_ROOT);
    reduce_range(m, m->shapes.matrices_end, m->shapes.segment, LANE_TAIL);
    settle(m);
    m->be->ops->meet(m->be);
}

/* Take part in the reductions of a micro-batch that only other ranks have. */
static void reduce_nothing(struct model *m)
{
    m->adds_nothing = true;
    if (m->shapes.shards_blocks) {
        model_follow_forward(m);
        model_follow_backward(m);
    } else {
        model_begin_reductions(m);
        model_reduce_remaining(m);
    }
    m->adds_nothing = false;
}

void model_reduce_others(struct model *m)
{
    size_t count = m->shapes.shards_gradients ? m->most_batches - m->expected_batches
                                              : m->expected_batches == 0;

    for (size_t i = 0; i < count; i++)
        reduce_nothing(m);
}

void model_expect_batches(struct model *m, size_t batches, size_t most)
{
    m->expected_batches = batches;
    m->most_batches = most;
    if (model_ranks(m) == 1)
        return;
    m->reducing = LANES;
    if (m->shapes.shards_gradients)
        m->be->ops->zero(m->be, &(struct op_zero) { .out = model_gradients(m) });
    if (batches == 0)
        model_reduce_others(m);
}

/* ---- Weights, after the update ---- */

/* Return this rank's part of a parameter's copy. */
static struct tensor own_copy(const struct parameter *p, struct model_shard own)
{
    struct tensor flat = tensor_of(p->copy.data, p->copy.format, 1, p->rows * p->cols);

    return tensor_columns(flat, own.first - p->at, own.count);
}

void model_widen_copy(struct model *m, const struct parameter *p)
{
    struct model_shard own = own_part(m, p->at, p->rows * p->cols);

    if (own.count > 0)
        m->be->ops->convert(m->be, &(struct op_convert) { .out = model_shard_weights(
                                                              m, own.first, own.count),
                                                          .x = own_copy(p, own) });
}

/* Extend the run by a parameter if it continues it, with the same gap in both. */
static bool joins(struct divided *run, const struct divided *next)
{
    size_t step = next->at - run->at;

    if (!run->data || next->item != run->item || next->at < run->at + run->count ||
        next->data != run->data + step * run->item)
        return false;
    run->count = step + next->count;
    return true;
}

static void broadcast_weights(struct model *m)
{
    struct divided run = { .shard = m->shapes.shard };

    for (size_t i = 0; i < m->trained_count; i++) {
        const struct parameter *p = m->trained[i];
        struct tensor sent = p->sharded ? p->copy : p->weight;
        struct divided next = { p->at, p->rows * p->cols, format_info(sent.format)->bytes,
                                m->shapes.shard, sent.data };

        if (p->sharded && p->gathered)
            continue;
        if (joins(&run, &next))
            continue;
        model_send_pieces(m, &run);
        run = next;
    }
    model_send_pieces(m, &run);
    m->be->ops->meet(m->be);
}

void model_gather_weights(struct model *m)
{
    const struct backend_ops *ops = m->be->ops;
    size_t bytes = format_info(m->shapes.trainable)->bytes;

    model_drop_windows(m);
    if (m->shapes.shards_weights) {
        broadcast_weights(m);
    } else {
        ops->all_gather(m->be, m->memory_block, m->shapes.shard * bytes);
        ops->meet(m->be);
    }
    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct parameter *p = &m->parameters[i];
        size_t count = p->rows * p->cols;

        if (p->trainable && !p->sharded && !p->gathered && p->copy.data &&
            own_part(m, p->at, count).count < count)
            ops->convert(m->be, &(struct op_convert) { .out = p->copy, .x = p->weight });
    }
}

void model_update_copies(struct model *m)
{
    model_drop_windows(m);
    for (size_t i = 0; i < m->trained_count; i++) {
        const struct parameter *p = m->trained[i];
        struct model_shard own = own_part(m, p->at, p->rows * p->cols);
        struct op_convert op = { .out = p->copy, .x = p->weight };

        if (p->gathered)
            continue;
        if (p->sharded && own.count > 0) {
            op.out = own_copy(p, own);
            op.x = model_shard_weights(m, own.first, own.count);
        }
        if (p->copy.data && (!p->sharded || own.count > 0))
            m->be->ops->convert(m->be, &op);
    }
}
