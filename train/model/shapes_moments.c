/* train/model/shapes_moments.c - the moments of an optimizer: how many elements each
 * parameter has, where they are, and which part of them each rank keeps. */
#include "config.h"

#include "train/model/shapes.h"

#include "base/size.h"
#include "precision/dynamic_map.h"
#include "train/model/optimizer_mini.h"
#include "train/model/optimizer_muon.h"
#include "train/model/optimizer_projected.h"
#include "train/model/shapes_internal.h"

size_t shapes_trained_alignment(const struct shapes_builder *m)
{
    return optimizer_has_codes(optimizer_of(m->plan)) ? DYNAMIC_BLOCK
                                                      : SHAPES_ALIGN_ELEMENTS;
}

/* Of an encoder, the matrices that no matmul reads are tables of positions, nn.Embedding. */
static bool is_table(const struct shape_parameter *p)
{
    return module_is_table(p->module) ||
           (p->tensor && p->rank == 2 && !p->tensor->multiplied);
}

/* bitsandbytes keeps 32 bits of small parameters, transformers' Trainer of embeddings
 * (create_optimizer).  The blocks of a parameter begin where it does. */
static bool has_codes(const struct shape_parameter *p)
{
    return !is_table(p) && p->rows * p->cols >= MOMENT_CODES_LEAST &&
           p->at % DYNAMIC_BLOCK == 0;
}

/* Where the next parameter's elements go. */
struct cursor {
    size_t at;      /* bytes */
    size_t element; /* of the segments */
    size_t rank;    /* next whose start is not known */
    enum format format;
};

/* Pass the elements up to `element`; shards that start there have their part from the same
 * position on. */
static void cursor_pass(struct cursor *cursor, const struct shapes *s, size_t *starts,
                        size_t element)
{
    size_t bytes = format_info(cursor->format)->bytes;

    /* the segment is that of all ranks, or empty */
    for (; cursor->rank * s->shard < element; cursor->rank++)
        starts[cursor->rank] =
            cursor->at + (cursor->rank * s->shard - cursor->element) * bytes;
    cursor->at += (element - cursor->element) * bytes;
    cursor->element = element;
}

/* Elements between groups take up space as those before them, so that one update goes over
 * several parameters. */
static void cursor_change(struct cursor *cursor, enum format format)
{
    if (format != cursor->format)
        cursor->at = size_round(cursor->at, SHAPES_ALIGNMENT);
    cursor->format = format;
}

static void place_codes(struct shapes_builder *m, enum moment moment)
{
    struct shapes *s = m->out;
    struct cursor cursor = { .format = FORMAT_CODES };
    size_t *starts = s->moment_starts[moment];

    for (enum region region = REGION_MATRICES; region <= REGION_VECTORS; region++)
        for (size_t i = 0; i < s->count; i++) {
            struct shape_parameter *p = &s->parameters[i];
            struct shape_moment *kept = &p->moments[moment];

            if (!p->trainable || shapes_region(p) != region)
                continue;
            *kept = (struct shape_moment) {
                .each = 1,
                .count = p->rows * p->cols,
                .format = has_codes(p) ? FORMAT_CODES : FORMAT_FP32,
            };
            cursor_pass(&cursor, s, starts, p->at);
            cursor_change(&cursor, kept->format);
            kept->at = cursor.at;
            cursor_pass(&cursor, s, starts, p->at + kept->count);
        }
    cursor_pass(&cursor, s, starts, s->segment);
    starts[plan_ranks(m->plan)] = cursor.at;
}

static void place_absmax(struct shapes_builder *m, enum moment moment)
{
    struct shapes *s = m->out;

    for (size_t i = 0; i < s->count; i++) {
        struct shape_parameter *p = &s->parameters[i];

        if (!p->trainable || !has_codes(p))
            continue;
        p->moments[moment] = (struct shape_moment) {
            .at = p->at / DYNAMIC_BLOCK * sizeof(float),
            .each = DYNAMIC_BLOCK,
            .count = dynamic_blocks(p->rows * p->cols),
            .format = FORMAT_FP32,
        };
    }
    for (size_t i = 0; i <= plan_ranks(m->plan); i++)
        s->moment_starts[moment][i] = i * s->shard / DYNAMIC_BLOCK * sizeof(float);
}

static void place_as_weight(struct shapes_builder *m, enum moment moment)
{
    struct shapes *s = m->out;
    size_t bytes = format_info(s->trainable)->bytes;

    for (size_t i = 0; i < s->count; i++)
        if (s->parameters[i].trainable)
            s->parameters[i].moments[moment] = (struct shape_moment) {
                .at = s->parameters[i].at * bytes,
                .each = 1,
                .count = s->parameters[i].rows * s->parameters[i].cols,
                .format = s->trainable,
            };
    for (size_t i = 0; i <= plan_ranks(m->plan); i++)
        s->moment_starts[moment][i] = i * s->shard * bytes;
}

/* Rows, columns or vectors, of one rank. */
static void place_apart(struct shapes_builder *m, enum moment moment)
{
    enum moment_kind kind = optimizer_of(m->plan)->kinds[moment];
    struct shapes *s = m->out;
    size_t at = 0;

    for (size_t i = 0; i < s->count; i++) {
        struct shape_parameter *p = &s->parameters[i];
        size_t each = kind == MOMENT_ROWS      ? p->cols
                      : kind == MOMENT_COLUMNS ? p->rows
                                               : 1;

        if (!p->trainable || (p->rank == 1) != (kind == MOMENT_VECTORS))
            continue;
        p->moments[moment] = (struct shape_moment) {
            .at = at,
            .each = each,
            .count = p->rows * p->cols / each,
            .format = FORMAT_FP32,
        };
        at += size_round(p->rows * p->cols / each * sizeof(float), SHAPES_ALIGNMENT);
    }
    for (size_t i = 1; i <= plan_ranks(m->plan); i++)
        s->moment_starts[moment][i] = at;
}

static void place_means(struct shapes_builder *m, enum moment moment)
{
    struct shapes *s = m->out;
    size_t head = m->dims[DIM_C] * m->dims[DIM_C] / m->config->heads, at = 0;

    for (size_t i = 0; i < s->count; i++) {
        struct shape_parameter *p = &s->parameters[i];
        size_t count = p->rows * p->cols, each;

        if (!p->trainable)
            continue;
        each = optimizer_mini_block(p->name, p->rank, p->cols, head, count);
        p->moments[moment] =
            (struct shape_moment) { at, each, count / each, FORMAT_FP32 };
        at += size_round(count / each * sizeof(float), SHAPES_ALIGNMENT);
    }
    for (size_t i = 1; i <= plan_ranks(m->plan); i++)
        s->moment_starts[moment][i] = at;
}

static void place_not_muon(struct shapes_builder *m, enum moment moment)
{
    struct shapes *s = m->out;
    size_t bytes = format_info(s->trainable)->bytes, at = 0;

    for (size_t i = 0; i < s->count; i++) {
        struct shape_parameter *p = &s->parameters[i];

        if (!p->trainable || optimizer_muon_applies(p->name, p->rank))
            continue;
        p->moments[moment] =
            (struct shape_moment) { at, 1, p->rows * p->cols, s->trainable };
        at += size_round(p->rows * p->cols * bytes, SHAPES_ALIGNMENT);
    }
    for (size_t i = 1; i <= plan_ranks(m->plan); i++)
        s->moment_starts[moment][i] = at;
}

/* One update runs at a time. */
static void place_scratch(struct shapes_builder *m, enum moment moment)
{
    struct shapes *s = m->out;
    size_t most = 0;

    for (size_t i = 0; i < s->count; i++) {
        struct shape_parameter *p = &s->parameters[i];
        size_t count = optimizer_muon_scratch(p->rows, p->cols);

        if (!p->trainable || !optimizer_muon_applies(p->name, p->rank))
            continue;
        p->moments[moment] = (struct shape_moment) { 0, 1, count, s->compute };
        most = count > most ? count : most;
    }
    for (size_t i = 1; i <= plan_ranks(m->plan); i++)
        s->moment_starts[moment][i] = most * format_info(s->compute)->bytes;
}

/* Return how the gradient of a parameter is projected; false: it is not. */
static bool projection_of(const struct shapes_builder *m, const struct shape_parameter *p,
                          struct projection *out)
{
    const struct projection_settings *settings = optimizer_projects(m->plan);

    if (!p->trainable || p->rank != 2 || !module_is_linear(p->module) ||
        !optimizer_projects_name(settings, p->name))
        return false;
    *out = optimizer_projection(settings, p->rows, p->cols);
    return true;
}

/* Return the elements of a moment of a parameter, 0: it has none. */
static size_t projected_elements(const struct shapes_builder *m, enum moment_kind kind,
                                 const struct shape_parameter *p)
{
    struct projection projection;

    if (!projection_of(m, p, &projection))
        return kind == MOMENT_PROJECTED ? p->rows * p->cols : 0;
    if (kind == MOMENT_PROJECTED_SCRATCH)
        return optimizer_projected_scratch(m->plan, p->rows, p->cols);
    return kind == MOMENT_PROJECTED    ? projection.rows * projection.cols
           : kind == MOMENT_PROJECTION ? projection.elements
                                       : 1;
}

/* All have the same scratch. */
static void place_projected(struct shapes_builder *m, enum moment moment)
{
    enum moment_kind kind = optimizer_of(m->plan)->kinds[moment];
    bool shared = kind == MOMENT_PROJECTED_SCRATCH;
    struct shapes *s = m->out;
    size_t at = 0, most = 0;

    for (size_t i = 0; i < s->count; i++) {
        struct shape_parameter *p = &s->parameters[i];
        size_t count = p->trainable ? projected_elements(m, kind, p) : 0;
        struct projection projection;
        enum format format =
            projection_of(m, p, &projection) ? FORMAT_FP32 : s->trainable;
        size_t bytes = size_round(count * format_info(format)->bytes, SHAPES_ALIGNMENT);

        if (count == 0)
            continue;
        p->moments[moment] = (struct shape_moment) { shared ? 0 : at, 0, count, format };
        at += bytes;
        most = bytes > most ? bytes : most;
    }
    for (size_t i = 1; i <= plan_ranks(m->plan); i++)
        s->moment_starts[moment][i] = shared ? most : at;
}

bool shapes_check_projections(const struct shapes_builder *m, struct error *err)
{
    const struct projection_settings *settings = optimizer_projects(m->plan);
    const struct shapes *s = m->out;
    struct projection projection;

    if (!settings || m->plan->external || s->trainable_elements == 0)
        return true;
    for (size_t i = 0; i < s->count; i++)
        if (projection_of(m, &s->parameters[i], &projection))
            return true;
    return error_set(err, ERROR_JOB,
                     "%s_target must be all, or parts of names of linear layers that are "
                     "trained, not \"%s\"",
                     optimizer_name(m->plan->optimizer), settings->target);
}

void shapes_place_moments(struct shapes_builder *m)
{
    static void (*const place[])(struct shapes_builder * m, enum moment moment) = {
        [MOMENT_AS_WEIGHT] = place_as_weight,
        [MOMENT_CODES] = place_codes,
        [MOMENT_ABSMAX] = place_absmax,
        [MOMENT_ROWS] = place_apart,
        [MOMENT_COLUMNS] = place_apart,
        [MOMENT_VECTORS] = place_apart,
        [MOMENT_MEANS] = place_means,
        [MOMENT_NOT_MUON] = place_not_muon,
        [MOMENT_SCRATCH] = place_scratch,
        [MOMENT_PROJECTED] = place_projected,
        [MOMENT_PROJECTION] = place_projected,
        [MOMENT_NORM] = place_projected,
        [MOMENT_PROJECTED_SCRATCH] = place_projected,
    };
    const struct optimizer *optimizer = optimizer_of(m->plan);
    struct shapes *s = m->out;
    size_t ranks = plan_ranks(m->plan);

    s->moments = optimizer->moments;
    s->moments_bytes = 0;
    for (size_t i = 0; i < s->moments && !m->overflow; i++) {
        size_t *starts = arena_array(m->arena, ranks + 1, sizeof(*starts)), most = 0;

        s->moment_starts[i] = starts;
        place[optimizer->kinds[i]](m, (enum moment)i);
        for (size_t rank = 0; rank < ranks; rank++)
            if (starts[rank + 1] - starts[rank] > most)
                most = starts[rank + 1] - starts[rank];
        s->moment_bytes[i] = size_round(most, SHAPES_ALIGNMENT);
        if (!size_add(s->moments_bytes, s->moment_bytes[i], &s->moments_bytes))
            m->overflow = true;
    }
    s->offloads = plan_offloads(m->plan) && s->moments_bytes > 0;
}
