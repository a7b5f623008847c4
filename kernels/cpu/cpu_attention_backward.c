/*
 * kernels/cpu/cpu_attention_backward.c - the gradients of attention, by tiles.
 *
 * Two passes, so that each gradient is written once by one task and nothing is added up
 * between tasks: one over blocks of keys makes dk and dv, one over blocks of queries
 * makes dq.  Both make the scores again, which is 7 products of a tile where one pass
 * has 5. p = e^(score - lse),  ds = p (dout v^T - delta),  delta = sum of dout * out dv =
 * p^T dout,  dk = scale ds^T q,  dq = scale ds k
 */
#include "config.h"

#include "kernels/cpu/cpu_attention.h"

/* One task: the fixed side is a part of a block, the other side goes by tile by tile. */
struct gradient {
    const struct op_attention_backward *op;
    struct attention_part part;
    size_t head, width;
    float *left, *right;           /* fixed side, transposed (width, ATTENTION_ROWS) */
    float *sum_left, *sum_right;   /* its gradients */
    float *rows_left, *rows_right; /* the other side (ATTENTION_ROWS, width) */
    float *p, *ds;                 /* (other side, fixed side) */
    float lse[ATTENTION_ROWS], delta[ATTENTION_ROWS]; /* of the queries at hand */
};

static void gradient_scratch(struct gradient *g, struct pool_worker *worker)
{
    size_t bytes = ATTENTION_ROWS * g->width * sizeof(float);
    size_t square = ATTENTION_ROWS * ATTENTION_ROWS * sizeof(float);

    g->left = pool_scratch(worker, bytes);
    g->right = pool_scratch(worker, bytes);
    g->sum_left = pool_scratch(worker, bytes);
    g->sum_right = pool_scratch(worker, bytes);
    g->rows_left = pool_scratch(worker, bytes);
    g->rows_right = pool_scratch(worker, bytes);
    g->p = pool_scratch(worker, square);
    g->ds = pool_scratch(worker, square);
}

/* lse and delta of some queries; those around them are 0. */
static void gradient_queries(struct gradient *g, size_t head, size_t first, size_t rows)
{
    const float *lse = (float *)cpu_row(g->op->forward.lse, head) + first;
    const float *delta = (float *)cpu_row(g->op->delta, head) + first;

    memset(g->lse, 0, sizeof(g->lse));
    memset(g->delta, 0, sizeof(g->delta));
    memcpy(g->lse, lse, rows * sizeof(*lse));
    memcpy(g->delta, delta, rows * sizeof(*delta));
}

/* A tile copied out and turned, for the fixed side. */
static void gradient_fix(struct gradient *g, float *to, struct tensor x, size_t head,
                         float scale)
{
    attention_load(g->rows_left, g->width, x, g->part.first, g->part.last - g->part.first,
                   head, g->op->forward.head_size);
    tile_transpose(to, ATTENTION_ROWS, g->rows_left, g->width, ATTENTION_ROWS, g->width,
                   scale);
}

/* p and ds, of rows i .. i + rows of the other side with vectors v .. v + vecs of the
 * fixed. */
static void gradient_products(struct gradient *g, size_t i, size_t rows, size_t v,
                              size_t vecs)
{
    struct tile_product product = {
        .c = g->p + i * ATTENTION_ROWS + v * LANES,
        .ldc = ATTENTION_ROWS,
        .a = g->rows_left + i * g->width,
        .lda = g->width,
        .b = g->left + v * LANES,
        .ldb = ATTENTION_ROWS,
        .m = rows,
        .n = vecs,
        .k = g->op->forward.head_size,
    };

    tile_multiply(&product);
    product.c = g->ds + i * ATTENTION_ROWS + v * LANES;
    product.a = g->rows_right + i * g->width;
    product.b = g->right + v * LANES;
    tile_multiply(&product);
}

CPU_INLINE void gradient_scores(float *p, float *ds, vec lse, vec delta, ivec sees)
{
    vec e = vec_select(sees, vec_exp(vec_get(p) - lse), (vec) {});

    vec_put(p, e);
    vec_put(ds, vec_select(sees, e * (vec_get(ds) - delta), (vec) {}));
}

/* Rows i .. i + rows of the queries of a tile, from `query` on, with the keys of the
 * part. */
static void gradient_keys_band(struct gradient *g, size_t query, size_t i, size_t rows,
                               size_t keys)
{
    size_t vecs = cpu_pieces(keys, LANES);
    struct tile_product product = {
        .ldc = g->width,
        .lda = ATTENTION_ROWS,
        .trans_a = true,
        .ldb = g->width,
        .m = keys,
        .n = g->width / LANES,
        .k = rows,
        .add = true,
    };

    gradient_products(g, i, rows, 0, vecs);
    for (size_t row = i; row < i + rows; row++)
        for (size_t v = 0; v < vecs; v++) {
            size_t at = row * ATTENTION_ROWS + v * LANES;
            ivec sees = attention_sees((int32_t)(query + row) - (ivec) {},
                                       attention_lanes(g->part.first + v * LANES),
                                       g->op->forward.window);

            gradient_scores(g->p + at, g->ds + at, vec_all(g->lse[row]),
                            vec_all(g->delta[row]), sees);
        }
    product.c = g->sum_right;
    product.a = g->p + i * ATTENTION_ROWS;
    product.b = g->rows_right + i * g->width;
    tile_multiply(&product);
    product.c = g->sum_left;
    product.a = g->ds + i * ATTENTION_ROWS;
    product.b = g->rows_left + i * g->width;
    tile_multiply(&product);
}

/* What the queries of one head, some rows from `query` on, give to dk and dv of the part.
 */
static void gradient_keys_tile(struct gradient *g, size_t head, size_t query, size_t rows)
{
    const struct op_attention *forward = &g->op->forward;
    size_t keys = g->part.last - g->part.first;
    bool own = query == g->part.first;
    size_t band = own ? ATTENTION_BAND : rows;

    attention_load(g->rows_left, g->width, forward->q, query, rows, head,
                   forward->head_size);
    attention_load(g->rows_right, g->width, g->op->dout, query, rows, head,
                   forward->head_size);
    gradient_queries(g, head, query, rows);
    for (size_t i = 0; i < rows; i += band) {
        size_t count = cpu_least(band, rows - i);

        gradient_keys_band(g, query, i, count, own ? cpu_least(i + count, keys) : keys);
    }
}

static void gradient_keys_part(struct gradient *g)
{
    const struct op_attention *forward = &g->op->forward;
    size_t group = forward->heads / forward->kv_heads, size = forward->head_size;
    size_t keys = g->part.last - g->part.first, end = g->part.run_last;

    if (forward->window)
        end = cpu_least(end, g->part.last - 1 + forward->window);
    gradient_fix(g, g->left, forward->k, g->head, forward->scale);
    gradient_fix(g, g->right, forward->v, g->head, 1);
    memset(g->sum_left, 0, ATTENTION_ROWS * g->width * sizeof(float));
    memset(g->sum_right, 0, ATTENTION_ROWS * g->width * sizeof(float));
    for (size_t head = g->head * group; head < (g->head + 1) * group; head++) {
        gradient_keys_tile(g, head, g->part.first, keys);
        for (size_t query = g->part.last; query < end; query += ATTENTION_ROWS)
            gradient_keys_tile(g, head, query, cpu_least(ATTENTION_ROWS, end - query));
    }
    attention_store(g->op->dk, g->part.first, keys, g->head, size, g->sum_left, g->width,
                    forward->scale);
    attention_store(g->op->dv, g->part.first, keys, g->head, size, g->sum_right, g->width,
                    1);
}

/* Keys of earlier blocks are seen by more, so they go first. */
static void gradient_keys_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_attention_backward *op = context;
    const struct op_attention *forward = &op->forward;
    size_t block = task / forward->kv_heads;
    size_t end = cpu_least((block + 1) * ATTENTION_ROWS, forward->q.rows);
    struct gradient g = { .op = op,
                          .head = task % forward->kv_heads,
                          .width = attention_width(forward) };

    gradient_scratch(&g, worker);
    for (size_t row = block * ATTENTION_ROWS; row < end; row = g.part.last) {
        g.part = attention_part_at(forward, row, end);
        gradient_keys_part(&g);
    }
}

/* Rows i .. i + rows of the keys of a tile, from `key` on, with the queries of the part.
 */
static void gradient_queries_band(struct gradient *g, size_t key, size_t i, size_t rows,
                                  size_t skip)
{
    const struct op_attention *forward = &g->op->forward;
    size_t vecs = cpu_pieces(g->part.last - g->part.first, LANES);

    gradient_products(g, i, rows, skip, vecs - skip);
    for (size_t row = i; row < i + rows; row++)
        for (size_t v = skip; v < vecs; v++) {
            size_t at = row * ATTENTION_ROWS + v * LANES;
            ivec sees = attention_sees(attention_lanes(g->part.first + v * LANES),
                                       (int32_t)(key + row) - (ivec) {}, forward->window);

            gradient_scores(g->p + at, g->ds + at, vec_get(g->lse + v * LANES),
                            vec_get(g->delta + v * LANES), sees);
        }
    tile_multiply(&(struct tile_product) { .c = g->sum_left + skip * LANES,
                                           .ldc = ATTENTION_ROWS,
                                           .a = g->rows_left + i * g->width,
                                           .lda = g->width,
                                           .trans_a = true,
                                           .b = g->ds + i * ATTENTION_ROWS + skip * LANES,
                                           .ldb = ATTENTION_ROWS,
                                           .m = forward->head_size,
                                           .n = vecs - skip,
                                           .k = rows,
                                           .add = true });
}

/* What some keys from `key` on give to dq of the part. */
static void gradient_queries_tile(struct gradient *g, size_t key, size_t rows)
{
    const struct op_attention *forward = &g->op->forward;
    size_t head = g->head / (forward->heads / forward->kv_heads);
    bool own = key == g->part.first;
    size_t band = own ? ATTENTION_BAND : rows;

    attention_load(g->rows_left, g->width, forward->k, key, rows, head,
                   forward->head_size);
    attention_load(g->rows_right, g->width, forward->v, key, rows, head,
                   forward->head_size);
    for (size_t i = 0; i < rows; i += band)
        gradient_queries_band(g, key, i, cpu_least(band, rows - i), own ? i / LANES : 0);
}

static void gradient_queries_part(struct gradient *g)
{
    const struct op_attention *forward = &g->op->forward;
    size_t queries = g->part.last - g->part.first;

    gradient_fix(g, g->left, forward->q, g->head, forward->scale);
    gradient_fix(g, g->right, g->op->dout, g->head, 1);
    gradient_queries(g, g->head, g->part.first, queries);
    memset(g->sum_left, 0, ATTENTION_ROWS * g->width * sizeof(float));
    for (size_t key = attention_begin(forward, g->part, g->part.first);
         key < g->part.first; key += ATTENTION_ROWS)
        gradient_queries_tile(g, key, cpu_least(ATTENTION_ROWS, g->part.first - key));
    gradient_queries_tile(g, g->part.first, queries);
    tile_transpose(g->rows_left, g->width, g->sum_left, ATTENTION_ROWS, g->width,
                   ATTENTION_ROWS, forward->scale);
    attention_store(g->op->dq, g->part.first, queries, g->head, forward->head_size,
                    g->rows_left, g->width, 1);
}

static void gradient_queries_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_attention_backward *op = context;
    const struct op_attention *forward = &op->forward;
    size_t block = attention_blocks(forward) - 1 - task / forward->heads;
    size_t end = cpu_least((block + 1) * ATTENTION_ROWS, forward->q.rows);
    struct gradient g = { .op = op,
                          .head = task % forward->heads,
                          .width = attention_width(forward) };

    gradient_scratch(&g, worker);
    for (size_t row = block * ATTENTION_ROWS; row < end; row = g.part.last) {
        g.part = attention_part_at(forward, row, end);
        gradient_queries_part(&g);
    }
}

/* delta = sum over D of dout * out */
static void gradient_delta_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_attention_backward *op = context;
    size_t rows = cpu_task_rows(op->dout.cols), size = op->forward.head_size;

    (void)worker;
    for (size_t row = task * rows; row < cpu_least((task + 1) * rows, op->dout.rows);
         row++)
        for (size_t head = 0; head < op->forward.heads; head++) {
            const void *dout = cpu_row(op->dout, row),
                       *out = cpu_row(op->forward.out, row);
            vec sum = {};

            for (size_t i = 0; i < size; i += LANES) {
                size_t count = vec_count(i, size), at = head * size + i;

                sum += vec_load(dout, op->dout.format, at, count) *
                       vec_load(out, op->forward.out.format, at, count);
            }
            ((float *)cpu_row(op->delta, head))[row] = vec_sum(sum);
        }
}

void CPU_OP(attention_backward)(struct backend *be,
                                const struct op_attention_backward *op)
{
    size_t blocks = attention_blocks(&op->forward);

    cpu_backend_run(be, cpu_pieces(op->dout.rows, cpu_task_rows(op->dout.cols)),
                    gradient_delta_task, (void *)op);
    cpu_backend_run(be, blocks * op->forward.kv_heads, gradient_keys_task, (void *)op);
    cpu_backend_run(be, blocks * op->forward.heads, gradient_queries_task, (void *)op);
}
