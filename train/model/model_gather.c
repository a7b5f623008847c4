/*
 * train/model/model_gather.c - sharded blocks (ZeRO stage 3, shapes.h): the matrices of a
 * block are gathered from all ranks before they are used, one block ahead.
 *
 * Each rank copies its part into the window and sends it to the others.  Trained matrices
 * are rounded to the format of the matmuls on the way.  All ranks gather the same blocks in
 * the same order, so a rank that has no batch takes part in the passes of the others: in
 * training it knows how many there are, otherwise they announce each.
 */
#include "config.h"

#include "train/model/model.h"

#include "base/size.h"
#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"

static char *window(const struct model *m, size_t layer)
{
    return m->windows + layer % SHAPES_WINDOWS * m->shapes.window_bytes;
}

struct model_shard model_part(const struct model *m, size_t at, size_t count,
                              size_t shard)
{
    size_t first = m->rank * shard;
    size_t from = at > first ? at : first;
    size_t to = at + count < first + shard ? at + count : first + shard;

    return (struct model_shard) { from, to > from ? to - from : 0 };
}

void model_send_pieces(struct model *m, const struct divided *all)
{
    size_t end = all->at + all->count;

    for (size_t at = all->at; at < end;) {
        size_t rank = at / all->shard, to = (rank + 1) * all->shard;

        to = to < end ? to : end;
        m->be->ops->broadcast(m->be, all->data + (at - all->at) * all->item,
                              (to - at) * all->item, (int)rank);
        at = to;
    }
}

static void gather_trained(struct model *m, size_t layer)
{
    const struct shapes *s = &m->shapes;
    enum format format =
        s->rounds_in_matmul || s->compute == FORMAT_FP32 ? s->trainable : s->compute;
    struct divided all = { .at = s->level_starts[layer + 1],
                           .count =
                               s->level_starts[layer + 2] - s->level_starts[layer + 1],
                           .item = format_info(format)->bytes,
                           .shard = s->shard };
    struct model_shard own = model_part(m, all.at, all.count, all.shard);

    if (s->window_frozen == 0 || all.count == 0)
        return;
    all.data = window(m, layer) + (all.at - shapes_window_element(s, layer)) * all.item;
    if (own.count > 0)
        m->unwatched->convert(
            m->be, &(struct op_convert) {
                       .out = tensor_of(all.data + (own.first - all.at) * all.item,
                                        format, 1, own.count),
                       .x = model_shard_weights(m, own.first, own.count) });
    model_send_pieces(m, &all);
}

/* Bytes are copied as elements of fp32, whatever they are: each piece has multiples of
 * SHAPES_ALIGNMENT. */
static void gather_frozen(struct model *m, size_t layer)
{
    const struct shapes *s = &m->shapes;
    size_t at = shapes_window_byte(s, layer);
    struct divided all = {
        .at = at,
        .count = size_round(s->frozen_starts[layer + 1], SHAPES_ALIGNMENT) - at,
        .item = 1,
        .shard = s->frozen_shard,
        .data = window(m, layer) + s->window_frozen
    };
    struct model_shard own;

    if (s->frozen_starts[layer + 1] == s->frozen_starts[layer])
        return;
    own = model_part(m, all.at, all.count, all.shard);
    if (own.count > 0)
        m->unwatched->convert(
            m->be, &(struct op_convert) {
                       .out = tensor_of(all.data + (own.first - at), FORMAT_FP32, 1,
                                        own.count / sizeof(float)),
                       .x = tensor_of(m->frozen_shard + (own.first - m->rank * all.shard),
                                      FORMAT_FP32, 1, own.count / sizeof(float)) });
    model_send_pieces(m, &all);
}

bool model_holds_block(const struct model *m, size_t layer)
{
    return m->held[layer % SHAPES_WINDOWS] == layer;
}

/* Add up a number of all ranks.  The scalars of a step are not in use between steps, and
 * this one not before its end. */
static void announce(struct model *m, double number)
{
    double *sum = &model_step_scalars(m)->square_sum;

    m->be->ops->upload(m->be, sum, &number, sizeof(number));
    m->be->ops->all_reduce(m->be, sum, 1);
    m->be->ops->meet(m->be);
}

static bool read_sum(struct model *m, double *sum, struct error *err)
{
    m->be->ops->download(m->be, sum, &model_step_scalars(m)->square_sum, sizeof(*sum));
    return m->be->ops->sync(m->be, err);
}

/* Return whether this is the teacher or the reference of another model. */
static bool is_second(const struct model *m)
{
    return m->plan->generation.alone;
}

static void gather(struct model *m, size_t layer)
{
    if (model_holds_block(m, layer))
        return;
    if (m->leads)
        announce(m, is_second(m) ? -(double)layer - 1 : (double)layer + 1);
    m->held[layer % SHAPES_WINDOWS] = layer;
    gather_trained(m, layer);
    gather_frozen(m, layer);
    m->be->ops->mark(m->be);
    m->gathering = true;
}

void model_use_block(struct model *m, size_t layer, size_t next)
{
    if (!m->shapes.shards_blocks)
        return;
    gather(m, layer);
    if (m->gathering)
        m->be->ops->meet_mark(m->be); /* gradients may still be on their way */
    m->gathering = false;
    if (next < m->config->layers)
        gather(m, next);
}

void model_drop_windows(struct model *m)
{
    for (size_t i = 0; i < SHAPES_WINDOWS; i++)
        m->held[i] = SIZE_MAX;
}

void model_fill_window(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;

    for (enum module i = 0; m->shapes.shards_blocks && i < MODULES; i++) {
        const struct parameter *a = m->slots[(layer * MODULES + i) * PARTS + PART_LORA_A];

        if (a && a->gathered)
            m->unwatched->convert(
                m->be, &(struct op_convert) { .out = a->copy, .x = a->weight });
    }
}

/* ---- Ranks that have no batch ---- */

/* Count the ranks that make another pass. */
void model_announce(struct model *m)
{
    if (!m->leads)
        announce(m, 1);
}

static void follow_blocks(struct model *m)
{
    for (size_t l = 0; l < m->config->layers; l++)
        model_use_block(m, l, l + 1);
}

bool model_follow(struct model *m, struct error *err)
{
    double passes = m->shapes.shards_blocks;

    while (passes > 0) {
        announce(m, 0);
        if (!read_sum(m, &passes, err))
            return false;
        if (passes > 0 && m->reference) { /* whose pass comes first */
            follow_blocks(m->reference);
            announce(m, 0);
        }
        if (passes > 0)
            follow_blocks(m);
    }
    return true;
}

bool model_shards_blocks(const struct model *m)
{
    return m->shapes.shards_blocks;
}

static struct model *second_of(const struct model *m)
{
    return m->teacher ? m->teacher : m->reference;
}

static void drop_both(struct model *m)
{
    model_drop_windows(m);
    if (second_of(m))
        model_drop_windows(second_of(m));
}

void model_lead(struct model *m, bool leads)
{
    drop_both(m);
    if (!leads)
        announce(m, 0);
    m->leads = leads;
    if (second_of(m))
        second_of(m)->leads = leads;
}

bool model_follow_rank_0(struct model *m, struct error *err)
{
    double next;

    drop_both(m);
    do {
        announce(m, 0);
        if (!read_sum(m, &next, err))
            return false;
        if (next > 0)
            model_use_block(m, (size_t)next - 1, SIZE_MAX);
        if (next < 0 && second_of(m))
            model_use_block(second_of(m), (size_t)-next - 1, SIZE_MAX);
    } while (next != 0);
    drop_both(m);
    return true;
}

void model_follow_forward(struct model *m)
{
    if (m->teacher)
        follow_blocks(m->teacher);
    if (plan_has_reference(m->plan))
        follow_blocks(m->reference ? m->reference : m);
    follow_blocks(m);
}

/* ---- Loading ---- */

/* Return the position of a byte of a window among the frozen matrices of all blocks. */
static size_t frozen_byte(const struct model *m, size_t layer, const void *at)
{
    return shapes_window_byte(&m->shapes, layer) +
           (size_t)((const char *)at - window(m, layer)) - m->shapes.window_frozen;
}

void model_upload_frozen(struct model *m, const struct parameter *p, void *to,
                         const void *from, size_t bytes)
{
    size_t shard = m->shapes.frozen_shard, at;
    struct model_shard own;

    m->rounded_frozen = false;
    if (!p->gathered || p->trainable) {
        m->be->ops->upload(m->be, to, from, bytes);
        return;
    }
    model_drop_windows(m);
    at = frozen_byte(m, m->shapes.parameters[p - m->parameters].layer, to);
    own = model_part(m, at, bytes, shard);
    if (own.count > 0)
        m->be->ops->upload(m->be, m->frozen_shard + (own.first - m->rank * shard),
                           (const char *)from + (own.first - at), own.count);
}

bool model_keeps(const struct model *m, const struct parameter *p)
{
    const struct shape_parameter *shape = &m->shapes.parameters[p - m->parameters];
    size_t count = p->rows * p->cols, bytes;

    if (!p->gathered || shape->folded)
        return true;
    if (p->trainable)
        return model_part(m, p->at, count, m->shapes.shard).count > 0;
    bytes = p->quantized.codes ? shapes_quantized_bytes(&m->shapes, p->rows, p->cols)
                               : tensor_bytes(p->weight);
    return model_part(m, shape->at, bytes, m->shapes.frozen_shard).count > 0;
}
