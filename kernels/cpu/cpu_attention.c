/*
 * kernels/cpu/cpu_attention.c - causal attention by tiles, after Dao, "FlashAttention-2",
 * 2023.
 *
 * A task is a block of queries of one head.  Scores are held as (keys, queries), a query
 * a lane, so that maximum and sum of a query need no sum across lanes, and keys and
 * values are read as they lie.
 */
#include "config.h"

#include "kernels/cpu/cpu_attention.h"

struct attention {
    const struct op_attention *op;
    struct attention_part part;
    size_t head, width, vecs; /* vectors of queries */
    float *rows;              /* (ATTENTION_ROWS, width): queries, then the result */
    float *queries;           /* (width, ATTENTION_ROWS): scale * q^T */
    float *keys, *values;     /* (ATTENTION_ROWS, width) */
    float *scores;            /* (keys, ATTENTION_ROWS) */
    float *out;               /* (width, ATTENTION_ROWS) */
    vec max[ATTENTION_VECS], sum[ATTENTION_VECS];
};

static void attention_scratch(struct attention *a, struct pool_worker *worker)
{
    size_t bytes = ATTENTION_ROWS * a->width * sizeof(float);

    a->rows = pool_scratch(worker, bytes);
    a->queries = pool_scratch(worker, bytes);
    a->keys = pool_scratch(worker, bytes);
    a->values = pool_scratch(worker, bytes);
    a->out = pool_scratch(worker, bytes);
    a->scores = pool_scratch(worker, ATTENTION_ROWS * ATTENTION_ROWS * sizeof(float));
}

/* Hide what the queries of vector v do not see of the keys key .. key + rows. */
static void attention_mask(struct attention *a, size_t v, size_t key, size_t rows)
{
    ivec queries = attention_lanes(a->part.first + v * LANES);
    vec hidden = vec_all(-INFINITY);

    for (size_t i = 0; i < rows; i++) {
        float *at = a->scores + i * ATTENTION_ROWS + v * LANES;
        ivec sees =
            attention_sees(queries, (int32_t)(key + i) - (ivec) {}, a->op->window);

        vec_put(at, vec_select(sees, vec_get(at), hidden));
    }
}

/* Scores of vector v -> e^(score - max), with max, sum and out brought up to date. */
static void attention_softmax(struct attention *a, size_t v, size_t rows)
{
    float *scores = a->scores + v * LANES, *out = a->out + v * LANES;
    vec max = a->max[v], sum = {}, shift, fade;

    for (size_t i = 0; i < rows; i++)
        max = vec_max(vec_get(scores + i * ATTENTION_ROWS), max);
    shift = vec_select(max == -INFINITY, (vec) {}, max); /* nothing seen yet */
    fade = vec_exp(a->max[v] - shift);
    for (size_t i = 0; i < rows; i++) {
        vec p = vec_exp(vec_get(scores + i * ATTENTION_ROWS) - shift);

        vec_put(scores + i * ATTENTION_ROWS, p);
        sum += p;
    }
    a->max[v] = max;
    a->sum[v] = a->sum[v] * fade + sum;
    for (size_t i = 0; i < a->op->head_size; i++)
        vec_put(out + i * ATTENTION_ROWS, vec_get(out + i * ATTENTION_ROWS) * fade);
}

/* Take in `rows` keys from `key` on; `own`: the keys of the queries' own rows. */
static void attention_tile(struct attention *a, size_t key, size_t rows, bool own)
{
    const struct op_attention *op = a->op;
    size_t group = op->heads / op->kv_heads, band = own ? ATTENTION_BAND : rows;
    bool hidden = own || (op->window && key + op->window < a->part.last);

    attention_load(a->keys, a->width, op->k, key, rows, a->head / group, op->head_size);
    attention_load(a->values, a->width, op->v, key, rows, a->head / group, op->head_size);
    for (size_t i = 0; i < rows; i += band) {
        size_t skip = own ? i / LANES : 0;

        tile_multiply(
            &(struct tile_product) { .c = a->scores + i * ATTENTION_ROWS + skip * LANES,
                                     .ldc = ATTENTION_ROWS,
                                     .a = a->keys + i * a->width,
                                     .lda = a->width,
                                     .b = a->queries + skip * LANES,
                                     .ldb = ATTENTION_ROWS,
                                     .m = cpu_least(band, rows - i),
                                     .n = a->vecs - skip,
                                     .k = op->head_size });
    }
    for (size_t v = 0; v < a->vecs; v++) {
        size_t made =
            own ? cpu_least(rows, (v * LANES / ATTENTION_BAND + 1) * ATTENTION_BAND)
                : rows;

        if (hidden)
            attention_mask(a, v, key, made);
        attention_softmax(a, v, made);
    }
    for (size_t i = 0; i < rows; i += band) {
        size_t skip = own ? i / LANES : 0;

        tile_multiply(
            &(struct tile_product) { .c = a->out + skip * LANES,
                                     .ldc = ATTENTION_ROWS,
                                     .a = a->values + i * a->width,
                                     .lda = a->width,
                                     .trans_a = true,
                                     .b = a->scores + i * ATTENTION_ROWS + skip * LANES,
                                     .ldb = ATTENTION_ROWS,
                                     .m = op->head_size,
                                     .n = a->vecs - skip,
                                     .k = cpu_least(band, rows - i),
                                     .add = true });
    }
}

static void attention_finish(struct attention *a)
{
    const struct op_attention *op = a->op;
    size_t queries = a->part.last - a->part.first;
    float *lse = (float *)cpu_row(op->lse, a->head) + a->part.first;

    for (size_t v = 0; v < a->vecs; v++) {
        vec factor = 1.0f / a->sum[v];

        for (size_t i = 0; i < op->head_size; i++) {
            float *at = a->out + i * ATTENTION_ROWS + v * LANES;

            vec_put(at, vec_get(at) * factor);
        }
        for (size_t i = 0; i < vec_count(v * LANES, queries); i++)
            lse[v * LANES + i] = a->max[v][i] + logf(a->sum[v][i]);
    }
    tile_transpose(a->rows, a->width, a->out, ATTENTION_ROWS, a->width, ATTENTION_ROWS,
                   1);
    attention_store(op->out, a->part.first, queries, a->head, op->head_size, a->rows,
                    a->width, 1);
}

static void attention_part(struct attention *a)
{
    const struct op_attention *op = a->op;
    size_t queries = a->part.last - a->part.first;

    a->vecs = cpu_pieces(queries, LANES);
    attention_load(a->rows, a->width, op->q, a->part.first, queries, a->head,
                   op->head_size);
    tile_transpose(a->queries, ATTENTION_ROWS, a->rows, a->width, ATTENTION_ROWS,
                   a->width, op->scale);
    memset(a->out, 0, ATTENTION_ROWS * a->width * sizeof(float));
    for (size_t v = 0; v < a->vecs; v++) {
        a->max[v] = vec_all(-INFINITY);
        a->sum[v] = (vec) {};
    }
    for (size_t key = attention_begin(op, a->part, a->part.first); key < a->part.first;
         key += ATTENTION_ROWS)
        attention_tile(a, key, cpu_least(ATTENTION_ROWS, a->part.first - key), false);
    attention_tile(a, a->part.first, queries, true);
    attention_finish(a);
}

/* Later blocks see more, so they go first. */
static void attention_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_attention *op = context;
    size_t block = attention_blocks(op) - 1 - task / op->heads;
    size_t end = cpu_least((block + 1) * ATTENTION_ROWS, op->q.rows);
    struct attention a = { .op = op,
                           .head = task % op->heads,
                           .width = attention_width(op) };

    attention_scratch(&a, worker);
    for (size_t row = block * ATTENTION_ROWS; row < end; row = a.part.last) {
        a.part = attention_part_at(op, row, end);
        attention_part(&a);
    }
}

void CPU_OP(attention)(struct backend *be, const struct op_attention *op)
{
    cpu_backend_run(be, attention_blocks(op) * op->heads, attention_task, (void *)op);
}
