/*
 * kernels/cpu/cpu_attention.c - attention by tiles, after Dao, "FlashAttention-2",
 * 2023.
 *
 * A task is a block of queries of one head. Scores are stored as (keys, queries), one
 * query per lane, so the maximum and the sum of a query need no reduction across lanes,
 * and keys and values are read in their memory order.
 */
#include "config.h"

#include "kernels/cpu/cpu_attention.h"

#include <assert.h>

#include "kernels/reach.h"

struct attention {
    const struct op_attention *op;
    struct attention_shape shape;
    struct attention_part part;
    size_t head, vecs; /* vectors of queries */
    float *rows;       /* (ATTENTION_ROWS, width): queries, then the result */
    float *queries;    /* (depth, ATTENTION_ROWS) */
    float *keys;       /* (ATTENTION_ROWS, width), words along d */
    float *values;     /* the same, words along keys */
    float *scores; /* (keys, ATTENTION_ROWS), then e^(score - max), words along keys */
    float *out;    /* (width, ATTENTION_ROWS) */
    vec max[ATTENTION_VECS], sum[ATTENTION_VECS];
    int32_t reach[ATTENTION_ROWS];   /* of the queries */
    struct attention_keep_bits kept; /* with dropout */
};

static void attention_scratch(struct attention *a, struct pool_worker *worker)
{
    size_t bytes = ATTENTION_ROWS * a->shape.width * sizeof(float);

    a->rows = pool_scratch(worker, bytes);
    a->queries = pool_scratch(worker, bytes);
    a->keys = pool_scratch(worker, bytes);
    a->values = pool_scratch(worker, bytes);
    a->out = pool_scratch(worker, bytes);
    a->scores = pool_scratch(worker, ATTENTION_ROWS * ATTENTION_ROWS * sizeof(float));
}

/* Transform the scores of vector v so that multiplying by `scale` yields
 * capped scores. */
static void attention_cap(struct attention *a, size_t v, size_t rows)
{
    float down = a->op->scale / a->op->softcap, up = a->op->softcap / a->op->scale;

    for (size_t i = 0; i < rows; i++) {
        float *at = a->scores + i * ATTENTION_ROWS + v * LANES;

        vec_put(at, vec_tanh(vec_get(at) * down) * up);
    }
}

/* Add the bias to the scores of vector v, which are multiplied by `scale` later. */
static void attention_lean(struct attention *a, size_t v, size_t key, size_t rows)
{
    ivec queries = attention_lanes(a->part.first + v * LANES);
    float slope = alibi_slope(a->op->slopes, a->op->heads, a->head) / a->op->scale;

    for (size_t i = 0; i < rows; i++) {
        float *at = a->scores + i * ATTENTION_ROWS + v * LANES;

        vec_put(at, vec_get(at) +
                        attention_bias(queries, (int32_t)(key + i) - (ivec) {}, slope));
    }
}

/* The same for a learned bias. */
static void attention_lean_learned(struct attention *a, size_t v, size_t key, size_t rows)
{
    const struct attention_distances *by = &a->op->distances;
    const int64_t most = (int64_t)by->most;
    const float *values = by->values + (a->head * 2 + 1) * by->most;
    const int64_t query = (int64_t)(a->part.first + v * LANES);

    for (size_t i = 0; i < rows; i++) {
        float *at = a->scores + i * ATTENTION_ROWS + v * LANES;
        vec bias = {};

        for (int64_t l = 0; l < LANES; l++) {
            const int64_t d = (int64_t)(key + i) - query - l;

            bias[l] = values[d < -most ? -most : d >= most ? most - 1 : d];
        }
        vec_put(at, vec_get(at) + bias / a->op->scale);
    }
}

/* Mask the keys key .. key + rows that the queries of vector v do not see. */
static void attention_mask(struct attention *a, size_t v, size_t key, size_t rows)
{
    ivec queries = attention_lanes(a->part.first + v * LANES);
    ivec reach = attention_reach_get(a->reach + v * LANES);
    vec hidden = vec_all(-INFINITY);

    for (size_t i = 0; i < rows; i++) {
        float *at = a->scores + i * ATTENTION_ROWS + v * LANES;
        ivec sees =
            attention_sees(queries, (int32_t)(key + i) - (ivec) {}, reach, a->op->window);

        vec_put(at, vec_select(sees, vec_get(at), hidden));
    }
}

/* Replace the scores of vector v with e^(scale * score - shift); return their sum. */
CPU_INLINE vec attention_weights(float *scores, size_t rows, float scale, vec shift,
                                 bool pairs)
{
    vec sum = {};

    for (size_t i = 0; i < rows; i += pairs ? 2 : 1) {
        vec p = vec_exp(vec_get(scores + i * ATTENTION_ROWS) * scale - shift), next = {};

        sum += p;
        if (pairs) {
            if (i + 1 < rows)
                next =
                    vec_exp(vec_get(scores + (i + 1) * ATTENTION_ROWS) * scale - shift);
            sum += next;
            vec_put(scores + i / 2 * ATTENTION_ROWS, tile_pair(p, next));
        } else {
            vec_put(scores + i * ATTENTION_ROWS, p);
        }
    }
    return sum;
}

/* Add the scores of vector v: update max, sum and out. */
static void attention_softmax(struct attention *a, size_t v, size_t rows)
{
    float *scores = a->scores + v * LANES, *out = a->out + v * LANES;
    float scale = a->op->scale;
    vec max = vec_all(-INFINITY), shift, fade, sum;

    for (size_t i = 0; i < rows; i++)
        max = vec_max(vec_get(scores + i * ATTENTION_ROWS), max);
    max = vec_max(max * scale, a->max[v]);
    shift = vec_select(max == -INFINITY, (vec) {}, max); /* nothing seen yet */
    fade = vec_exp(a->max[v] - shift);
    if (a->shape.pairs)
        sum = attention_weights(scores, rows, scale, shift, true);
    else
        sum = attention_weights(scores, rows, scale, shift, false);
    a->max[v] = max;
    a->sum[v] = a->sum[v] * fade + sum;
    for (size_t i = 0; i < a->shape.size; i++)
        vec_put(out + i * ATTENTION_ROWS, vec_get(out + i * ATTENTION_ROWS) * fade);
}

static void attention_load_tile(struct attention *a, size_t key, size_t rows)
{
    const struct op_attention *op = a->op;
    struct attention_source from = { op->k, key, rows,
                                     a->head / (op->heads / op->kv_heads) };

    attention_load(a->keys, a->shape, from);
    from.x = op->v;
    attention_load_across(a->values, a->shape, from);
}

/* scores = keys queries^T for rows i .. i + rows, except `skip` vectors of queries */
static void attention_scores(struct attention *a, size_t i, size_t rows, size_t skip)
{
    tile_multiply(
        &(struct tile_product) { .c = a->scores + i * ATTENTION_ROWS + skip * LANES,
                                 .ldc = ATTENTION_ROWS,
                                 .a = a->keys + i * a->shape.width,
                                 .lda = a->shape.width,
                                 .b = a->queries + skip * LANES,
                                 .ldb = ATTENTION_ROWS,
                                 .m = rows,
                                 .n = a->vecs - skip,
                                 .k = a->shape.depth,
                                 .pairs = a->shape.pairs });
}

/* out += values^T scores for the same block */
static void attention_outputs(struct attention *a, size_t i, size_t rows, size_t skip)
{
    size_t word = attention_words(a->shape, i);

    tile_multiply(
        &(struct tile_product) { .c = a->out + skip * LANES,
                                 .ldc = ATTENTION_ROWS,
                                 .a = a->values + word * a->shape.width,
                                 .lda = a->shape.width,
                                 .trans_a = true,
                                 .b = a->scores + word * ATTENTION_ROWS + skip * LANES,
                                 .ldb = ATTENTION_ROWS,
                                 .m = a->shape.size,
                                 .n = a->vecs - skip,
                                 .k = attention_words(a->shape, rows),
                                 .pairs = a->shape.pairs,
                                 .add = true });
}

/* Return how many of `rows` keys from `key` on have scores with vector v: those of the bands
 * that it reaches. */
static size_t attention_made(const struct attention *a, size_t v, size_t key, size_t rows)
{
    size_t reach = (size_t)a->reach[v * LANES + LANES - 1];

    if (reach <= key)
        return 0;
    return size_min(rows, size_divide_up(reach - key, ATTENTION_BAND) * ATTENTION_BAND);
}

/* Process `rows` keys from `key` on, of which some query reaches the last. */
static void attention_tile(struct attention *a, size_t key, size_t rows)
{
    bool partly = (size_t)a->reach[0] < key + rows;
    bool drops = a->op->dropout.p > 0;
    size_t band = partly ? ATTENTION_BAND : rows, window = a->op->window;

    attention_load_tile(a, key, rows);
    if (drops)
        attention_draw(&a->kept, a->op, a->head, a->part.first,
                       a->part.last - a->part.first, key - a->part.other_first, rows);
    for (size_t i = 0; i < rows; i += band)
        attention_scores(a, i, size_min(band, rows - i),
                         attention_skip(a->reach, key + i));
    for (size_t v = attention_skip(a->reach, key); v < a->vecs; v++) {
        size_t made = attention_made(a, v, key, rows);

        if (a->op->softcap > 0)
            attention_cap(a, v, made);
        if (a->op->slopes.factor > 0)
            attention_lean(a, v, key, made);
        if (a->op->distances.values)
            attention_lean_learned(a, v, key, made);
        if (partly || (window && key + window < a->part.last))
            attention_mask(a, v, key, made);
        attention_softmax(a, v, made);
        if (drops)
            attention_drop(a->scores + v * LANES, 0, made, v, &a->kept, false,
                           a->shape.pairs);
    }
    for (size_t i = 0; i < rows; i += band)
        attention_outputs(a, i, size_min(band, rows - i),
                          attention_skip(a->reach, key + i));
}

/* Return the queries of vector v that see a key: all of them, if keys are rows of their
 * own sequence. */
static ivec attention_seeing(const struct attention *a, size_t v)
{
    if (!a->op->key_offsets)
        return ~(ivec) {};
    return attention_reach_get(a->reach + v * LANES) > (int32_t)a->part.other_first;
}

static void attention_finish(struct attention *a, struct attention_source into)
{
    const struct op_attention *op = a->op;
    float *lse = (float *)cpu_row(op->lse, a->head) + into.first;
    float kept = dropout_factor(op->dropout.p);

    for (size_t v = 0; v < a->vecs; v++) {
        vec factor = kept / a->sum[v];
        ivec sees = attention_seeing(a, v);

        for (size_t i = 0; i < a->shape.size; i++) {
            float *at = a->out + i * ATTENTION_ROWS + v * LANES;

            vec_put(at, vec_select(sees, vec_get(at) * factor, (vec) {}));
        }
        for (size_t i = 0; i < vec_count(v * LANES, into.rows); i++)
            lse[v * LANES + i] = a->max[v][i] + logf(a->sum[v][i]);
    }
    tile_transpose(a->rows, a->shape.width, a->out, ATTENTION_ROWS, a->shape.width,
                   ATTENTION_ROWS);
    attention_store(into, a->shape, a->rows, 1);
}

/* Process the keys from `key` to `end`. */
static void attention_keys(struct attention *a, size_t key, size_t end)
{
    for (; key < end; key += ATTENTION_ROWS)
        attention_tile(a, key, size_min(ATTENTION_ROWS, end - key));
}

static void attention_part(struct attention *a)
{
    const struct op_attention *op = a->op;
    size_t first = a->part.first, rows = a->part.last - first;
    size_t end = attention_reach(op, a->part.last - 1, a->part.other_last);
    struct attention_source queries = { op->q, first, rows, a->head };

    a->vecs = size_divide_up(rows, LANES);
    attention_reaches(op, first, rows, a->part.other_last, a->reach);
    attention_load(a->rows, a->shape, queries);
    tile_transpose(a->queries, ATTENTION_ROWS, a->rows, a->shape.width, ATTENTION_ROWS,
                   size_divide_up(a->shape.depth, 4) * 4);
    memset(a->out, 0, ATTENTION_ROWS * a->shape.width * sizeof(float));
    for (size_t v = 0; v < a->vecs; v++) {
        a->max[v] = vec_all(-INFINITY);
        a->sum[v] = (vec) {};
    }
    if (op->key_offsets) {
        attention_keys(a, a->part.other_first, end);
    } else {
        attention_keys(a, attention_begin(op, a->part, first), first);
        attention_keys(a, first, a->part.last);
        attention_keys(a, a->part.last, end);
    }
    queries.x = op->out;
    attention_finish(a, queries);
}

static void attention_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_attention *op = context;
    struct attention_work work = attention_work_of(op, op->q.rows, task, op->heads, true);
    size_t end = size_min((work.block + 1) * ATTENTION_ROWS, op->q.rows);
    struct attention a = { .op = op,
                           .head = work.head,
                           .shape = attention_shape_of(op, op->out.format) };

    attention_scratch(&a, worker);
    for (size_t row = work.block * ATTENTION_ROWS; row < end; row = a.part.last) {
        a.part = attention_part_at(op, false, row, end);
        attention_part(&a);
    }
}

void CPU_OP(attention)(struct backend *be, const struct op_attention *op)
{
    assert(op->head_size <= ATTENTION_MOST);
    assert((size_t)op->offsets[op->sequences] == op->q.rows);
    assert(!op->distances.values || (op->slopes.factor <= 0 && op->softcap <= 0));
    if (op->key_offsets) {
        assert(op->window == 0 && op->slopes.factor <= 0 && !op->distances.values);
        assert((size_t)op->key_offsets[op->sequences] == op->k.rows);
        assert(reach_keys_hold(op->reach, op->offsets, op->key_offsets, op->sequences));
    } else {
        assert(!op->reach || reach_holds(op->reach, op->offsets, op->sequences));
    }
    cpu_backend_run(be, attention_blocks(op->q.rows) * op->heads, attention_task,
                    (void *)op);
}
