/* train/model/shapes_windows.c - the matrices of sharded blocks: what a rank keeps of them,
 * and the windows that they are gathered in. */
#include "config.h"

#include "train/model/shapes.h"

#include "base/size.h"
#include "train/model/shapes_internal.h"

#define ALIGN_ELEMENTS (SHAPES_ALIGNMENT / 2) /* as in shapes_parameters.c */

/* Adapters, and what they train as a whole, are small, and stay whole. */
bool shapes_is_gathered(const struct shapes_builder *m, const struct shape_parameter *p)
{
    bool small = p->trainable && plan_adapts(m->plan);

    return m->out->shards_blocks && module_in_block(p->module) &&
           module_is_linear(p->module) &&
           (p->folded || (p->part == PART_WEIGHT && !small));
}

size_t shapes_window_element(const struct shapes *shapes, size_t layer)
{
    return shapes->level_starts[layer + 1] / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
}

size_t shapes_window_byte(const struct shapes *shapes, size_t layer)
{
    return shapes->frozen_starts[layer] / SHAPES_ALIGNMENT * SHAPES_ALIGNMENT;
}

/* Frozen matrices are in the order of the forward pass. */
static void find_frozen_starts(struct shapes_builder *m)
{
    struct shapes *s = m->out;
    size_t layers = m->config->layers, last = layers;

    s->frozen_starts = arena_array(m->arena, layers + 1, sizeof(*s->frozen_starts));
    s->frozen_starts[layers] = m->blocks_at;
    for (size_t i = s->count; i-- > 0;) {
        const struct shape_parameter *p = &s->parameters[i];

        if (!p->gathered || p->sharded)
            continue;
        for (; last > p->layer; last--)
            s->frozen_starts[last - 1] = s->frozen_starts[last];
        s->frozen_starts[p->layer] = p->folded ? p->copy_at : p->at;
    }
    for (; last > 0; last--)
        s->frozen_starts[last - 1] = s->frozen_starts[last];
}

/* Return the bytes of the trained matrices of the largest block. */
static size_t trained_bytes(const struct shapes_builder *m)
{
    const struct shapes *s = m->out;
    size_t most = 0;

    for (size_t i = 0; i < s->count; i++) {
        const struct shape_parameter *p = &s->parameters[i];
        size_t bytes;

        if (!p->gathered || !p->sharded)
            continue;
        /* a block is gathered up to where the next one starts */
        bytes = (s->level_starts[p->layer + 2] - shapes_window_element(s, p->layer)) *
                format_info(p->copy)->bytes;
        most = bytes > most ? bytes : most;
    }
    return size_round(most, SHAPES_ALIGNMENT);
}

static size_t window_bytes(const struct shapes_builder *m)
{
    const struct shapes *s = m->out;
    size_t most = 0;

    for (size_t l = 0; l < m->config->layers; l++) {
        size_t bytes = s->frozen_starts[l + 1] - shapes_window_byte(s, l);

        most = bytes > most ? bytes : most;
    }
    return s->window_frozen + size_round(most, SHAPES_ALIGNMENT);
}

static size_t window_at(const struct shapes *s, const struct shape_parameter *p)
{
    if (p->sharded)
        return (p->at - shapes_window_element(s, p->layer)) * format_info(p->copy)->bytes;
    return s->window_frozen + (p->folded ? p->copy_at : p->at) -
           shapes_window_byte(s, p->layer);
}

void shapes_place_windows(struct shapes_builder *m)
{
    struct shapes *s = m->out;
    size_t ranks = plan_ranks(m->plan), layers = m->config->layers;

    s->frozen_bytes = size_round(m->frozen_at, SHAPES_ALIGNMENT);
    if (!s->shards_blocks)
        return;
    find_frozen_starts(m);
    s->frozen_shard = size_round((m->blocks_at + ranks - 1) / ranks, SHAPES_ALIGNMENT);
    s->frozen_shard_at = s->frozen_bytes;
    s->windows_at = s->frozen_shard_at + s->frozen_shard;
    s->window_frozen = trained_bytes(m);
    s->window_bytes = window_bytes(m);
    s->frozen_bytes =
        s->windows_at +
        s->window_bytes * (layers < SHAPES_WINDOWS ? layers : SHAPES_WINDOWS);
    for (size_t i = 0; i < s->count; i++)
        if (s->parameters[i].gathered)
            s->parameters[i].window_at = window_at(s, &s->parameters[i]);
}
