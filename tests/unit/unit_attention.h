/* tests/unit/unit_attention.h - a case of attention, for the operation and for the
 * reference. */
#ifndef TESTS_UNIT_UNIT_ATTENTION_H
#define TESTS_UNIT_UNIT_ATTENTION_H

#include <math.h>

#include "base/size.h"
#include "kernels/dropout.h"
#include "kernels/reach.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(attention)
OPERATION(attention_backward)

struct shape {
    enum format format;
    size_t heads, kv_heads, head_size, window;
    int32_t offsets[8]; /* up to the last nonzero one */
};

/* Everything one case needs, for the operation and for the reference. */
struct attention_case {
    struct operand q, k, v, out, lse, dout, dq, dk, dv, delta;
    int32_t *offsets, *key_offsets; /* key_offsets: or NULL */
    int32_t *reach, *since;         /* NULL: causal */
    uint64_t *draw;
    float *distances; /* NULL: none */
    double *real[7];  /* out, lse, dq, dk, dv, sizes of dq and dk */
    struct op_attention op;
    struct reference_attention reference;
};

static inline size_t runs_of(const struct shape *shape)
{
    size_t runs = TS_COUNT(shape->offsets) - 1;

    while (shape->offsets[runs] == 0)
        runs--;
    return runs;
}

static inline size_t longest_of(const struct shape *shape)
{
    int32_t longest = 0;

    for (size_t i = 0; i < runs_of(shape); i++)
        if (shape->offsets[i + 1] - shape->offsets[i] > longest)
            longest = shape->offsets[i + 1] - shape->offsets[i];
    return (size_t)longest;
}

/* The rows that a row sees: those before it, given by NULL or by `reach`; all of its
 * sequence; or those before it and those of its block.  Of other keys: all for
 * SIGHT_BEFORE, else from none to all, more and more. */
enum sight { SIGHT_BEFORE, SIGHT_BEFORE_GIVEN, SIGHT_ALL, SIGHT_BLOCKS };

/* Options of attention besides its shape. */
struct extra {
    double softcap;
    float p; /* dropout probability */
    struct attention_slopes slopes;
    size_t distances; /* of the learned bias; 0: none */
    enum sight sight;
    const int32_t *keys; /* offsets, as many as those of the shape; NULL: its own rows */
};

static const struct attention_dropout dropped = { .stream = 7,
                                                  .seed = 0x123456789abcdefu };
enum { DRAW = 41 };

/* Join the rows of blocks of up to 90 rows, after 0 to 15 others each. */
static inline void make_blocks(int32_t *reach, size_t first, size_t end)
{
    uint32_t draw = (uint32_t)(end * 40503u + 1);

    while (first < end) {
        size_t block;

        draw = draw * 1664525u + 1013904223u;
        first += draw >> 28;
        block = (draw >> 16 & 0xff) % 90 + 1;
        if (first + block > end)
            break;
        reach_join(reach, first, first + block);
        first += block;
    }
}

/* The rows of each sequence reach more and more of its keys; the first quarter sees none, and
 * the last may not see all. */
static inline void make_reach_of_keys(int32_t *reach, const struct shape *shape,
                                      const int32_t *keys)
{
    uint32_t draw = 12345;

    for (size_t i = 0; i < runs_of(shape); i++) {
        int32_t rows = shape->offsets[i + 1] - shape->offsets[i], at = keys[i];

        for (int32_t row = shape->offsets[i]; row < shape->offsets[i + 1]; row++) {
            draw = draw * 1664525u + 1013904223u;
            if (draw >> 28 < 5 && row - shape->offsets[i] >= rows / 4)
                at += (int32_t)((draw >> 8 & 0xff) * 10 *
                                (uint32_t)(keys[i + 1] - keys[i]) / 256 / (uint32_t)rows);
            if (at > keys[i + 1])
                at = keys[i + 1];
            reach[row] = at;
        }
    }
}

static inline void make_sight(struct attention_case *c, const struct shape *shape,
                              const struct extra *extra)
{
    size_t rows = (size_t)shape->offsets[runs_of(shape)];
    enum sight sight = extra->sight;

    c->reach = c->since = NULL;
    if (sight == SIGHT_BEFORE)
        return;
    c->reach = machines_memory(rows * sizeof(*c->reach));
    c->since = machines_memory(c->k.tensor.rows * sizeof(*c->since));
    if (extra->keys) {
        make_reach_of_keys(c->reach, shape, extra->keys);
        reach_since_keys(c->since, c->reach, shape->offsets, extra->keys, runs_of(shape));
        return;
    }
    reach_causal(c->reach, rows);
    for (size_t i = 0; i < runs_of(shape); i++) {
        size_t first = (size_t)shape->offsets[i], end = (size_t)shape->offsets[i + 1];

        if (sight == SIGHT_ALL)
            reach_join(c->reach, first, end);
        else if (sight == SIGHT_BLOCKS)
            make_blocks(c->reach, first, end);
    }
    reach_since(c->since, c->reach, rows);
}

static inline void make_reference(struct attention_case *c, const struct shape *shape,
                                  struct extra extra)
{
    size_t runs = runs_of(shape), rows = (size_t)shape->offsets[runs];
    size_t queries = rows * shape->heads * (shape->head_size + 1);

    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(queries + c->k.numbers, sizeof(double));
    c->reference = (struct reference_attention) {
        .rows = rows,
        .sequences = runs,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .offsets = shape->offsets,
        .reach = c->reach,
        .keys = c->k.tensor.rows,
        .key_offsets = extra.keys,
        .scale = 1 / sqrt((double)shape->head_size),
        .softcap = extra.softcap,
        .slopes_most = (double)extra.slopes.most,
        .slopes_factor = (double)extra.slopes.factor,
        .distances = c->distances,
        .distances_most = extra.distances,
        .threshold = dropout_threshold(extra.p),
        .bits = { .seed = dropped.seed, .draw = DRAW, .stream = dropped.stream },
        .q = c->q.real,
        .k = c->k.real,
        .v = c->v.real,
        .dout = c->dout.real,
        .out = c->real[0],
        .lse = c->real[1],
        .dq = c->real[2],
        .dk = c->real[3],
        .dv = c->real[4],
        .size_dq = c->real[5],
        .size_dk = c->real[6],
    };
    reference_attention(&c->reference);
    if (!c->distances)
        reference_attention_backward(&c->reference);
}

static inline void make_distances(struct attention_case *c, const struct shape *shape,
                                  size_t most)
{
    c->distances = NULL;
    if (most == 0)
        return;
    c->distances = machines_memory(2 * most * shape->heads * sizeof(*c->distances));
    for (size_t i = 0; i < 2 * most * shape->heads; i++)
        c->distances[i] = (float)(i * 40503u % 257) / 64 - 2;
}

static inline void case_open_with(struct attention_case *c, const struct shape *shape,
                                  struct extra extra)
{
    size_t runs = runs_of(shape), rows = (size_t)shape->offsets[runs];
    size_t keys = extra.keys ? (size_t)extra.keys[runs] : rows;
    size_t wide = shape->heads * shape->head_size,
           narrow = shape->kv_heads * shape->head_size;
    enum format format = shape->format;

    c->q = operand_random(format, rows, wide, 2, 1);
    c->k = operand_random(format, keys, narrow, 2, 2);
    c->v = operand_random(format, keys, narrow, 1, 3);
    c->dout = operand_random(format, rows, wide, 1, 4);
    c->out = operand_filled(format, rows, wide, 7);
    c->lse = operand_filled(FORMAT_FP32, shape->heads, rows, 7);
    c->dq = operand_filled(format, rows, wide, 7);
    c->dk = operand_filled(format, keys, narrow, 7);
    c->dv = operand_filled(format, keys, narrow, 7);
    c->delta = operand_filled(FORMAT_FP32, shape->heads, rows, 7);
    c->offsets = machines_memory(sizeof(shape->offsets));
    memcpy(c->offsets, shape->offsets, sizeof(shape->offsets));
    c->key_offsets = NULL;
    if (extra.keys) {
        c->key_offsets = machines_memory((runs + 1) * sizeof(*c->key_offsets));
        memcpy(c->key_offsets, extra.keys, (runs + 1) * sizeof(*c->key_offsets));
    }
    c->draw = machines_memory(sizeof(*c->draw));
    *c->draw = DRAW;
    make_sight(c, shape, &extra);
    make_distances(c, shape, extra.distances);
    make_reference(c, shape, extra);
    c->op = (struct op_attention) {
        .out = c->out.tensor,
        .lse = c->lse.tensor,
        .q = c->q.tensor,
        .k = c->k.tensor,
        .v = c->v.tensor,
        .offsets = c->offsets,
        .key_offsets = c->key_offsets,
        .reach = c->reach,
        .since = c->since,
        .sequences = c->reference.sequences,
        .longest = longest_of(shape),
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .scale = (float)c->reference.scale,
        .softcap = (float)extra.softcap,
        .slopes = extra.slopes,
        .distances = { c->distances, extra.distances },
        .dropout = dropped,
    };
    c->op.dropout.p = extra.p;
    c->op.dropout.draw = c->draw;
}

static inline void case_open(struct attention_case *c, const struct shape *shape)
{
    case_open_with(c, shape, (struct extra) { 0 });
}

static inline void case_close(struct attention_case *c)
{
    struct operand *operands[] = { &c->q,    &c->k,  &c->v,  &c->out, &c->lse,
                                   &c->dout, &c->dq, &c->dk, &c->dv,  &c->delta };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
    machines_memory_free(c->offsets);
    machines_memory_free(c->key_offsets);
    machines_memory_free(c->reach);
    machines_memory_free(c->since);
    machines_memory_free(c->draw);
    machines_memory_free(c->distances);
}

/* Return the operands of the backward pass. */
static inline struct op_attention_backward case_backward(const struct attention_case *c)
{
    return (struct op_attention_backward) { .dq = c->dq.tensor,
                                            .dk = c->dk.tensor,
                                            .dv = c->dv.tensor,
                                            .delta = c->delta.tensor,
                                            .dout = c->dout.tensor,
                                            .forward = c->op };
}

#endif
