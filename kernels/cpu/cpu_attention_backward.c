/*
 * kernels/cpu/cpu_attention_backward.c - the gradients of attention, by tiles.
 *     p = e^(score - lse),  ds = p (dout v^T - delta),  delta = sum of dout * out
 *     dv = p^T dout,  dk = scale ds^T q,  dq = scale ds k
 *
 *
 * With dropout, where m is 0 or 1 / (1 - probability): ds = p (m dout v^T - delta), dv =
 * (m p)^T dout; delta is computed from the output after dropout.
 *
 * There are two passes, so that one task writes each gradient once and tasks share no
 * sums: one pass over blocks of keys computes dk and dv, one over blocks of queries
 * computes dq. Both recompute the scores: 7 matmuls per tile instead of the 5 of a single
 * pass.
 */
#include "config.h"

#include <assert.h>

#include "base/size.h"
#include "kernels/cpu/cpu_attention.h"

/* One task: the fixed side is a part of a block, the other side is processed tile by
 * tile. */
struct gradient {
    const struct op_attention_backward *op;
    struct attention_shape shape;
    struct attention_part part;
    size_t head;
    float slope; /* of the bias of the current head's scores, divided by their scale */
    float *left, *right;               /* fixed side (depth, ATTENTION_ROWS) */
    float *sum_left, *sum_right;       /* its gradients */
    float *rows_left, *rows_right;     /* the other side (ATTENTION_ROWS, width) */
    float *across_left, *across_right; /* the same, words across rows */
    float *p, *ds; /* (other side, fixed side), then words along the first */
    /* of the current queries */
    float lse[ATTENTION_ROWS], delta[ATTENTION_ROWS];
    int32_t reach[ATTENTION_ROWS];
    struct attention_keep_bits kept; /* of the current tile, with dropout */
};

static void gradient_scratch(struct gradient *g, struct pool_worker *worker)
{
    float **tiles[] = {
        &g->left,      &g->right,      &g->sum_left,    &g->sum_right,
        &g->rows_left, &g->rows_right, &g->across_left, &g->across_right
    };
    size_t square = ATTENTION_ROWS * ATTENTION_ROWS * sizeof(float);

    for (size_t i = 0; i < TS_COUNT(tiles); i++)
        *tiles[i] = pool_scratch(worker, ATTENTION_ROWS * g->shape.width * sizeof(float));
    g->p = pool_scratch(worker, square);
    g->ds = pool_scratch(worker, square);
}

/* Load lse and delta of some queries, padded with 0, and what they reach; `end`: of the keys
 * of their sequence. */
static void gradient_queries(struct gradient *g, size_t head, size_t first, size_t rows,
                             size_t end)
{
    const float *lse = (float *)cpu_row(g->op->forward.lse, head) + first;
    const float *delta = (float *)cpu_row(g->op->delta, head) + first;

    memset(g->lse, 0, sizeof(g->lse));
    memset(g->delta, 0, sizeof(g->delta));
    memcpy(g->lse, lse, rows * sizeof(*lse));
    memcpy(g->delta, delta, rows * sizeof(*delta));
    attention_reaches(&g->op->forward, first, rows, end, g->reach);
}

/* Copy a tile and transpose it, for the fixed side. */
static void gradient_fix(struct gradient *g, float *to, struct tensor x, size_t head)
{
    struct attention_source from = { x, g->part.first, g->part.last - g->part.first,
                                     head };

    attention_load(g->rows_left, g->shape, from);
    tile_transpose(to, ATTENTION_ROWS, g->rows_left, g->shape.width, ATTENTION_ROWS,
                   size_divide_up(g->shape.depth, 4) * 4);
}

/* Copy a tile for the other side; skip the version across its rows if it is
 * not needed. */
static void gradient_load(struct gradient *g, struct tensor left, struct tensor right,
                          struct attention_source from, bool right_across)
{
    from.x = left;
    attention_load(g->rows_left, g->shape, from);
    attention_load_across(g->across_left, g->shape, from);
    from.x = right;
    attention_load(g->rows_right, g->shape, from);
    if (right_across)
        attention_load_across(g->across_right, g->shape, from);
}

/* Some rows of the other side with some vectors of the fixed side. */
struct gradient_band {
    size_t first; /* row of the batch that is row 0 of the other side */
    size_t row, rows;
    size_t vec, vecs;
    bool hidden; /* some pairs are masked */
};

/* p = scores, ds = their gradients before softmax */
static void gradient_products(struct gradient *g, const struct gradient_band *band)
{
    struct tile_product product = {
        .c = g->p + band->row * ATTENTION_ROWS + band->vec * LANES,
        .ldc = ATTENTION_ROWS,
        .a = g->rows_left + band->row * g->shape.width,
        .lda = g->shape.width,
        .b = g->left + band->vec * LANES,
        .ldb = ATTENTION_ROWS,
        .m = band->rows,
        .n = band->vecs,
        .k = g->shape.depth,
        .pairs = g->shape.pairs,
    };

    tile_multiply(&product);
    product.c = g->ds + band->row * ATTENTION_ROWS + band->vec * LANES;
    product.a = g->rows_right + band->row * g->shape.width;
    product.b = g->right + band->vec * LANES;
    tile_multiply(&product);
}

/* Apply dropout to ds, before the softmax. */
static void gradient_drop(struct gradient *g, const struct gradient_band *band,
                          bool fixed_keys)
{
    vec factor = vec_all(dropout_factor(g->op->forward.dropout.p));

    for (size_t row = band->row; row < band->row + band->rows; row++)
        for (size_t v = band->vec; v < band->vec + band->vecs; v++) {
            float *at = g->ds + row * ATTENTION_ROWS + v * LANES;
            ivec keep = attention_keeps(&g->kept, fixed_keys ? row : v * LANES,
                                        fixed_keys ? v * LANES : row, fixed_keys);

            vec_put(at, vec_select(keep, vec_get(at) * factor, (vec) {}));
        }
}

/* p and ds of one row and vector */
struct gradient_cell {
    vec p, ds;
};

CPU_INLINE struct gradient_cell gradient_cell(const struct gradient *g,
                                              const struct gradient_band *band,
                                              size_t row, size_t v, bool fixed_keys)
{
    size_t at = row * ATTENTION_ROWS + v * LANES;
    vec lse = fixed_keys ? vec_all(g->lse[row]) : vec_get(g->lse + v * LANES);
    vec delta = fixed_keys ? vec_all(g->delta[row]) : vec_get(g->delta + v * LANES);
    ivec fixed = attention_lanes(g->part.first + v * LANES);
    ivec other = (int32_t)(band->first + row) - (ivec) {}, sees;
    float scale = g->op->forward.scale, cap = g->op->forward.softcap;
    vec score = vec_get(g->p + at), slope = vec_all(1);
    struct gradient_cell cell;

    if (cap > 0) { /* multiplying it by `scale` yields a capped score */
        vec t = vec_tanh(score * (scale / cap));

        score = t * (cap / scale);
        slope = 1.0f - t * t;
    }
    if (g->slope > 0)
        score += fixed_keys ? attention_bias(other, fixed, g->slope)
                            : attention_bias(fixed, other, g->slope);
    cell.p = vec_exp(score * scale - lse);
    cell.ds = cell.p * (vec_get(g->ds + at) - delta) * slope;
    if (!band->hidden)
        return cell;
    sees = fixed_keys
               ? attention_sees(other, fixed, g->reach[row] - (ivec) {},
                                g->op->forward.window)
               : attention_sees(fixed, other, attention_reach_get(g->reach + v * LANES),
                                g->op->forward.window);
    cell.p = vec_select(sees, cell.p, (vec) {});
    cell.ds = vec_select(sees, cell.ds, (vec) {});
    return cell;
}

/* Turn the matmuls' results into p and ds, in place. */
CPU_INLINE void gradient_softmax(struct gradient *g, const struct gradient_band *band,
                                 bool fixed_keys, bool pairs)
{
    size_t end = band->row + band->rows;

    for (size_t row = band->row; row < end; row += pairs ? 2 : 1)
        for (size_t v = band->vec; v < band->vec + band->vecs; v++) {
            struct gradient_cell cell = gradient_cell(g, band, row, v, fixed_keys),
                                 next = { 0 };
            size_t at = (pairs ? row / 2 : row) * ATTENTION_ROWS + v * LANES;

            if (pairs && row + 1 < end)
                next = gradient_cell(g, band, row + 1, v, fixed_keys);
            vec_put(g->p + at, pairs ? tile_pair(cell.p, next.p) : cell.p);
            vec_put(g->ds + at, pairs ? tile_pair(cell.ds, next.ds) : cell.ds);
        }
}

/* Add the contribution of the band's queries to dv and dk of the part. */
static void gradient_keys_band(struct gradient *g, const struct gradient_band *band,
                               size_t keys)
{
    size_t word = attention_words(g->shape, band->row);
    bool drops = g->op->forward.dropout.p > 0;
    struct tile_product product = {
        .c = g->sum_right,
        .ldc = g->shape.width,
        .a = g->p + word * ATTENTION_ROWS,
        .lda = ATTENTION_ROWS,
        .trans_a = true,
        .b = g->across_right + word * g->shape.width,
        .ldb = g->shape.width,
        .m = keys,
        .n = g->shape.width / LANES,
        .k = attention_words(g->shape, band->rows),
        .pairs = g->shape.pairs,
        .add = true,
    };

    gradient_products(g, band);
    if (drops)
        gradient_drop(g, band, true);
    if (g->shape.pairs)
        gradient_softmax(g, band, true, true);
    else
        gradient_softmax(g, band, true, false);
    for (size_t v = band->vec; drops && v < band->vec + band->vecs; v++)
        attention_drop(g->p + word * ATTENTION_ROWS + v * LANES, band->row,
                       band->row + band->rows, v, &g->kept, true, g->shape.pairs);
    tile_multiply(&product);
    product.c = g->sum_left;
    product.a = g->ds + word * ATTENTION_ROWS;
    product.b = g->across_left + word * g->shape.width;
    tile_multiply(&product);
}

/* Process some rows of the queries of one head, from `query` on, which reach the first key
 * of the part. */
static void gradient_keys_tile(struct gradient *g, size_t head, size_t query, size_t rows)
{
    const struct op_attention *forward = &g->op->forward;
    size_t all = g->part.last - g->part.first, step;
    bool partly;

    gradient_load(
        g, forward->q, g->op->dout,
        (struct attention_source) { .first = query, .rows = rows, .head = head }, true);
    gradient_queries(g, head, query, rows, g->part.run_last);
    partly = (size_t)g->reach[0] < g->part.last;
    step = partly ? ATTENTION_BAND : rows;
    g->slope = alibi_slope(forward->slopes, forward->heads, head) / forward->scale;
    if (forward->dropout.p > 0)
        attention_draw(&g->kept, forward, head, query, rows,
                       g->part.first - g->part.run_first, all);
    for (size_t i = 0; i < rows; i += step) {
        size_t count = size_min(step, rows - i);
        size_t keys = size_min((size_t)g->reach[i + count - 1] - g->part.first, all);

        gradient_keys_band(
            g,
            &(struct gradient_band) { .first = query,
                                      .row = i,
                                      .rows = count,
                                      .vecs = size_divide_up(keys, LANES),
                                      .hidden = partly || forward->window },
            keys);
    }
}

/* Process the queries of one head from `query` to `end`. */
static void gradient_keys_tiles(struct gradient *g, size_t head, size_t query, size_t end)
{
    for (; query < end; query += ATTENTION_ROWS)
        gradient_keys_tile(g, head, query, size_min(ATTENTION_ROWS, end - query));
}

/* Return the first query that sees a key of the part. */
static size_t gradient_since(const struct gradient *g)
{
    const struct op_attention *forward = &g->op->forward;

    if (forward->reach)
        return (size_t)forward->since[g->part.first];
    return forward->key_offsets ? g->part.other_first : g->part.first;
}

static void gradient_keys_part(struct gradient *g)
{
    const struct op_attention *forward = &g->op->forward;
    size_t group = forward->heads / forward->kv_heads;
    size_t keys = g->part.last - g->part.first, end = g->part.other_last;
    size_t first = gradient_since(g);

    if (forward->window)
        end = size_min(end, g->part.last - 1 + forward->window);
    gradient_fix(g, g->left, forward->k, g->head);
    gradient_fix(g, g->right, forward->v, g->head);
    memset(g->sum_left, 0, ATTENTION_ROWS * g->shape.width * sizeof(float));
    memset(g->sum_right, 0, ATTENTION_ROWS * g->shape.width * sizeof(float));
    for (size_t head = g->head * group; head < (g->head + 1) * group; head++) {
        if (forward->key_offsets) {
            gradient_keys_tiles(g, head, first, end);
        } else {
            gradient_keys_tiles(g, head, first, g->part.first);
            gradient_keys_tiles(g, head, g->part.first, g->part.last);
            gradient_keys_tiles(g, head, g->part.last, end);
        }
    }
    attention_store((struct attention_source) { g->op->dk, g->part.first, keys, g->head },
                    g->shape, g->sum_left, forward->scale);
    attention_store((struct attention_source) { g->op->dv, g->part.first, keys, g->head },
                    g->shape, g->sum_right, dropout_factor(forward->dropout.p));
}

static void gradient_keys_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_attention_backward *op = context;
    const struct op_attention *forward = &op->forward;
    struct attention_work work =
        attention_work_of(forward, forward->k.rows, task, forward->kv_heads, false);
    size_t end = size_min((work.block + 1) * ATTENTION_ROWS, forward->k.rows);
    struct gradient g = { .op = op,
                          .head = work.head,
                          .shape = attention_shape_of(forward, op->dout.format) };

    gradient_scratch(&g, worker);
    for (size_t row = work.block * ATTENTION_ROWS; row < end; row = g.part.last) {
        g.part = attention_part_at(forward, true, row, end);
        gradient_keys_part(&g);
    }
}

/* Add the contribution of the band's keys to dq of the part, stored as (d, queries). */
static void gradient_queries_band(struct gradient *g, const struct gradient_band *band)
{
    size_t word = attention_words(g->shape, band->row);

    gradient_products(g, band);
    if (g->op->forward.dropout.p > 0)
        gradient_drop(g, band, false);
    if (g->shape.pairs)
        gradient_softmax(g, band, false, true);
    else
        gradient_softmax(g, band, false, false);
    tile_multiply(
        &(struct tile_product) { .c = g->sum_left + band->vec * LANES,
                                 .ldc = ATTENTION_ROWS,
                                 .a = g->across_left + word * g->shape.width,
                                 .lda = g->shape.width,
                                 .trans_a = true,
                                 .b = g->ds + word * ATTENTION_ROWS + band->vec * LANES,
                                 .ldb = ATTENTION_ROWS,
                                 .m = g->shape.size,
                                 .n = band->vecs,
                                 .k = attention_words(g->shape, band->rows),
                                 .pairs = g->shape.pairs,
                                 .add = true });
}

/* Process some keys from `key` on. */
static void gradient_queries_tile(struct gradient *g, size_t key, size_t rows)
{
    const struct op_attention *forward = &g->op->forward;
    size_t head = g->head / (forward->heads / forward->kv_heads);
    size_t vecs = size_divide_up(g->part.last - g->part.first, LANES);
    bool partly = (size_t)g->reach[0] < key + rows;
    size_t step = partly ? ATTENTION_BAND : rows;

    g->slope = alibi_slope(forward->slopes, forward->heads, g->head) / forward->scale;
    gradient_load(g, forward->k, forward->v,
                  (struct attention_source) { .first = key, .rows = rows, .head = head },
                  false);
    if (forward->dropout.p > 0)
        attention_draw(&g->kept, forward, g->head, g->part.first,
                       g->part.last - g->part.first, key - g->part.other_first, rows);
    for (size_t i = 0; i < rows; i += step) {
        size_t skip = attention_skip(g->reach, key + i);

        gradient_queries_band(
            g, &(struct gradient_band) { .first = key,
                                         .row = i,
                                         .rows = size_min(step, rows - i),
                                         .vec = skip,
                                         .vecs = vecs - skip,
                                         .hidden = partly || forward->window });
    }
}

/* Process the keys from `key` to `end`. */
static void gradient_queries_tiles(struct gradient *g, size_t key, size_t end)
{
    for (; key < end; key += ATTENTION_ROWS)
        gradient_queries_tile(g, key, size_min(ATTENTION_ROWS, end - key));
}

static void gradient_queries_part(struct gradient *g)
{
    const struct op_attention *forward = &g->op->forward;
    size_t queries = g->part.last - g->part.first;
    size_t end = attention_reach(forward, g->part.last - 1, g->part.other_last);

    gradient_fix(g, g->left, forward->q, g->head);
    gradient_fix(g, g->right, g->op->dout, g->head);
    gradient_queries(g, g->head, g->part.first, queries, g->part.other_last);
    memset(g->sum_left, 0, ATTENTION_ROWS * g->shape.width * sizeof(float));
    if (forward->key_offsets) {
        gradient_queries_tiles(g, g->part.other_first, end);
    } else {
        gradient_queries_tiles(g, attention_begin(forward, g->part, g->part.first),
                               g->part.first);
        gradient_queries_tiles(g, g->part.first, g->part.last);
        gradient_queries_tiles(g, g->part.last, end);
    }
    tile_transpose(g->rows_left, g->shape.width, g->sum_left, ATTENTION_ROWS,
                   g->shape.width, ATTENTION_ROWS);
    attention_store(
        (struct attention_source) { g->op->dq, g->part.first, queries, g->head },
        g->shape, g->rows_left, forward->scale);
}

static void gradient_queries_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_attention_backward *op = context;
    const struct op_attention *forward = &op->forward;
    struct attention_work work =
        attention_work_of(forward, forward->q.rows, task, forward->heads, true);
    size_t end = size_min((work.block + 1) * ATTENTION_ROWS, forward->q.rows);
    struct gradient g = { .op = op,
                          .head = work.head,
                          .shape = attention_shape_of(forward, op->dout.format) };

    gradient_scratch(&g, worker);
    for (size_t row = work.block * ATTENTION_ROWS; row < end; row = g.part.last) {
        g.part = attention_part_at(forward, false, row, end);
        gradient_queries_part(&g);
    }
}

/* delta = sum over D of dout * out */
static void gradient_delta_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_attention_backward *op = context;
    size_t rows = cpu_task_rows(op->dout.cols), size = op->forward.head_size;

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->dout.rows);
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
    const struct op_attention *forward = &op->forward;

    assert(!forward->reach || forward->since);
    assert(!forward->distances.values);
    cpu_backend_run(be, size_divide_up(op->dout.rows, cpu_task_rows(op->dout.cols)),
                    gradient_delta_task, (void *)op);
    cpu_backend_run(be, attention_blocks(forward->k.rows) * forward->kv_heads,
                    gradient_keys_task, (void *)op);
    cpu_backend_run(be, attention_blocks(forward->q.rows) * forward->heads,
                    gradient_queries_task, (void *)op);
}
