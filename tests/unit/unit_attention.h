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
    int32_t *offsets;
    int32_t *reach, *since; /* NULL: causal */
    uint64_t *draw;
    double *real[7]; /* out, lse, dq, dk, dv, sizes of dq and dk */
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
 * sequence; or those before it and those of its block. */
enum sight { SIGHT_BEFORE, SIGHT_BEFORE_GIVEN, SIGHT_ALL, SIGHT_BLOCKS };

/* Options of attention besides its shape. */
struct extra {
    double softcap;
    float p; /* dropout probability */
    struct attention_slopes slopes;
    enum sight sight;
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

static inline void make_sight(struct attention_case *c, const struct shape *shape,
                              enum sight sight)
{
    size_t rows = (size_t)shape->offsets[runs_of(shape)];

    c->reach = c->since = NULL;
    if (sight == SIGHT_BEFORE)
        return;
    c->reach = machines_memory(rows * sizeof(*c->reach));
    c->since = machines_memory(rows * sizeof(*c->since));
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
    size_t queries = rows * shape->heads * shape->head_size;

    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(queries + rows * shape->heads, sizeof(double));
    c->reference = (struct reference_attention) {
        .rows = rows,
        .sequences = runs,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .offsets = shape->offsets,
        .reach = c->reach,
        .scale = 1 / sqrt((double)shape->head_size),
        .softcap = extra.softcap,
        .slopes_most = (double)extra.slopes.most,
        .slopes_factor = (double)extra.slopes.factor,
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
    reference_attention_backward(&c->reference);
}

static inline void case_open_with(struct attention_case *c, const struct shape *shape,
                                  struct extra extra)
{
    size_t rows = (size_t)shape->offsets[runs_of(shape)];
    size_t wide = shape->heads * shape->head_size,
           narrow = shape->kv_heads * shape->head_size;
    enum format format = shape->format;

    c->q = operand_random(format, rows, wide, 2, 1);
    c->k = operand_random(format, rows, narrow, 2, 2);
    c->v = operand_random(format, rows, narrow, 1, 3);
    c->dout = operand_random(format, rows, wide, 1, 4);
    c->out = operand_filled(format, rows, wide, 7);
    c->lse = operand_filled(FORMAT_FP32, shape->heads, rows, 7);
    c->dq = operand_filled(format, rows, wide, 7);
    c->dk = operand_filled(format, rows, narrow, 7);
    c->dv = operand_filled(format, rows, narrow, 7);
    c->delta = operand_filled(FORMAT_FP32, shape->heads, rows, 7);
    c->offsets = machines_memory(sizeof(shape->offsets));
    memcpy(c->offsets, shape->offsets, sizeof(shape->offsets));
    c->draw = machines_memory(sizeof(*c->draw));
    *c->draw = DRAW;
    make_sight(c, shape, extra.sight);
    make_reference(c, shape, extra);
    c->op = (struct op_attention) {
        .out = c->out.tensor,
        .lse = c->lse.tensor,
        .q = c->q.tensor,
        .k = c->k.tensor,
        .v = c->v.tensor,
        .offsets = c->offsets,
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
    machines_memory_free(c->reach);
    machines_memory_free(c->since);
    machines_memory_free(c->draw);
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
