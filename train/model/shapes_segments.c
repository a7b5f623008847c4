/* train/model/shapes_segments.c - where this rank has weights and gradients: shards, the weights
 * after them, and lanes. */
#include "config.h"

#include "base/size.h"
#include "train/model/shapes_internal.h"

#define ALIGN_ELEMENTS SHAPES_ALIGN_ELEMENTS

/* ---- Sharded weights ---- */

/* Only matmuls read the 16-bit copy of a weight instead of the weight. */
static bool reads_copy(const struct shape_parameter *p)
{
    return p->trainable && p->copy != FORMAT_COUNT &&
           (module_is_linear(p->module) || p->module == MODULE_HEAD);
}

/* Place this rank's shard, and the weights that every rank has after it.  Adapters are
 * small, and stay whole. */
void shapes_place_weights(struct shapes_builder *m)
{
    struct shapes *s = m->out;
    size_t at = s->shard, end = 0;

    for (size_t i = 0; i < s->count; i++) {
        struct shape_parameter *p = &s->parameters[i];

        p->weight_at = p->at;
        p->sharded = plan_ranks(m->plan) > 1 && !plan_adapts(m->plan) && reads_copy(p);
        s->shards_weights = s->shards_weights || p->sharded;
    }
    for (enum region region = REGION_MATRICES;
         s->shards_weights && region <= REGION_VECTORS; region++)
        for (size_t i = 0; i < s->count; i++) {
            struct shape_parameter *p = &s->parameters[i];

            if (!p->trainable || p->sharded || shapes_region(p) != region)
                continue;
            /* the distances of the segments: an update takes several at once */
            at = end > 0 && p->at >= end && p->at - end < ALIGN_ELEMENTS
                     ? at + (p->at - end)
                     : size_round(at, ALIGN_ELEMENTS);
            p->weight_at = at;
            at += p->rows * p->cols;
            end = p->at + p->rows * p->cols;
        }
    s->weight_bytes = (s->shards_weights ? size_round(at, ALIGN_ELEMENTS) : s->segment) *
                      format_info(s->trainable)->bytes;
}

/* ---- Levels of the backward pass ---- */

/* The last norm, below the head, has no matrix. */
size_t shapes_level(const struct shapes *shapes, const struct shape_parameter *p)
{
    if (p->module == MODULE_HEAD)
        return shapes->levels - 1;
    return module_in_block(p->module) ? p->layer + 1 : 0;
}

static bool is_matrix(const struct shape_parameter *p)
{
    return p->trainable && shapes_region(p) == REGION_MATRICES;
}

/* Find what alignment leaves between matrices. */
static void find_gaps(struct shapes_builder *m)
{
    struct shapes *s = m->out;
    size_t end = 0;

    s->gaps = arena_array(m->arena, s->count, sizeof(*s->gaps));
    for (size_t i = 0; i < s->count; i++) {
        const struct shape_parameter *p = &s->parameters[i];

        if (!is_matrix(p))
            continue;
        if (p->at > end)
            s->gaps[s->gap_count++] = (struct shape_gap) { end, p->at - end };
        end = p->at + p->rows * p->cols;
    }
}

/* Matrices are in the order of the forward pass. */
static void find_levels(struct shapes_builder *m)
{
    struct shapes *s = m->out;
    size_t start = s->matrices_end;

    s->levels = m->config->layers + 3;
    s->level_starts = arena_array(m->arena, s->levels + 1, sizeof(*s->level_starts));
    s->level_starts[s->levels] = start;
    for (size_t i = s->count, level = s->levels; level-- > 0;) {
        for (; i > 0 && (!is_matrix(&s->parameters[i - 1]) ||
                         shapes_level(s, &s->parameters[i - 1]) >= level);
             i--)
            if (is_matrix(&s->parameters[i - 1]))
                start = s->parameters[i - 1].at;
        s->level_starts[level] = start;
    }
}

enum lane shapes_lane(const struct shapes *shapes, size_t level)
{
    if (level == 0 || level + 1 == shapes->levels)
        return LANE_ROOT;
    return level % 2 ? LANE_ODD : LANE_EVEN;
}

/* Place this rank's shard, the lanes, and the tail of the segment. */
static size_t place_lanes(struct shapes *s)
{
    size_t longest[LANES] = { [LANE_TAIL] = s->segment - s->matrices_end };
    size_t at = s->shard;

    for (size_t level = 0; level < s->levels; level++) {
        size_t count = s->level_starts[level + 1] - s->level_starts[level];
        enum lane lane = shapes_lane(s, level);

        longest[lane] = count > longest[lane] ? count : longest[lane];
    }
    for (enum lane lane = 0; lane < LANES; lane++) {
        s->lanes[lane] = at;
        at += size_round(longest[lane], ALIGN_ELEMENTS);
    }
    return at;
}

static size_t gradient_at(const struct shapes_builder *m, const struct shape_parameter *p)
{
    const struct shapes *s = m->out;
    size_t level;

    if (!s->shards_gradients)
        return p->at;
    if (!is_matrix(p))
        return s->lanes[LANE_TAIL] + p->at - s->matrices_end;
    level = shapes_level(s, p);
    return s->lanes[shapes_lane(s, level)] + p->at - s->level_starts[level];
}

void shapes_place_gradients(struct shapes_builder *m)
{
    struct shapes *s = m->out;

    s->shards_gradients =
        m->plan->zero_stage > 1 && plan_ranks(m->plan) > 1 && !m->plan->generation.alone;
    find_levels(m);
    if (s->shards_gradients)
        find_gaps(m);
    s->lanes[LANE_TAIL] = s->matrices_end;
    s->gradient_bytes =
        (s->shards_gradients ? place_lanes(s) : s->segment) * sizeof(float);
    for (size_t i = 0; i < s->count; i++)
        if (s->parameters[i].trainable)
            s->parameters[i].grad_at = gradient_at(m, &s->parameters[i]);
}
