/*
 * kernels/cpu/cpu_delta.h - code shared by the gated delta rule and its gradients: one
 * chunk of rows of one head, in fp32.
 *
 * With b the sum of the decays from the start of a chunk to a row, S the state there, and
 * rows of q and k normalized:
 *   u_i = beta_i (v_i - e^b_i S^T k_i) - sum over j < i of A_ij u_j,
 *         A_ij = beta_i e^(b_i - b_j) k_i k_j
 *   out_i = e^b_i S^T q_i + sum over j <= i of P_ij u_j,  P_ij = e^(b_i - b_j) q_i k_j
 *   S' = e^b_last S + sum over i of e^(b_last - b_i) k_i u_i^T
 * Differences of b are summed separately for each pair of rows: b itself may be large.
 */
#ifndef KERNELS_CPU_CPU_DELTA_H
#define KERNELS_CPU_CPU_DELTA_H

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_tile.h"

/* Matrices have rows of whole vectors: `wide` of a key, `broad` of a value, DELTA_CHUNK. */
struct delta_chunk {
    const struct op_delta *op;
    size_t key, value, wide, broad;
    size_t first, rows;   /* of the batch; what follows is 0 in the rows after them */
    float *q, *k, *kt;    /* (CHUNK, wide), and (wide, CHUNK) */
    float *q_by, *k_by;   /* (CHUNK): what q and k were multiplied by */
    float *scores, *gram; /* (CHUNK, CHUNK): q k^T, k k^T */
    float *fade;          /* (CHUNK, CHUNK): e^(b_i - b_j), 0 where j > i */
    float *since, *until; /* (CHUNK): e^b_i, e^(b_last - b_i) */
    float *beta;          /* (CHUNK) */
    float *error, *u;     /* (CHUNK, broad): v_i - e^b_i S^T k_i */
    float *own;           /* (CHUNK, CHUNK): A, then P */
};

static inline float *delta_room(struct pool_worker *worker, size_t rows, size_t cols)
{
    float *room = pool_scratch(worker, rows * cols * sizeof(float));

    memset(room, 0, rows * cols * sizeof(*room));
    return room;
}

static inline struct delta_chunk delta_chunk_open(const struct op_delta *op,
                                                  struct pool_worker *worker)
{
    struct delta_chunk c = { .op = op,
                             .key = op->q.cols / op->key_heads,
                             .value = op->v.cols / op->heads };
    float *rows = delta_room(worker, 5, DELTA_CHUNK);

    c.wide = size_divide_up(c.key, LANES) * LANES;
    c.broad = size_divide_up(c.value, LANES) * LANES;
    c.q = delta_room(worker, DELTA_CHUNK, c.wide);
    c.k = delta_room(worker, DELTA_CHUNK, c.wide);
    c.kt = delta_room(worker, c.wide, DELTA_CHUNK);
    c.error = delta_room(worker, DELTA_CHUNK, c.broad);
    c.u = delta_room(worker, DELTA_CHUNK, c.broad);
    c.scores = delta_room(worker, DELTA_CHUNK, DELTA_CHUNK);
    c.gram = delta_room(worker, DELTA_CHUNK, DELTA_CHUNK);
    c.fade = delta_room(worker, DELTA_CHUNK, DELTA_CHUNK);
    c.own = delta_room(worker, DELTA_CHUNK, DELTA_CHUNK);
    c.q_by = rows;
    c.k_by = rows + DELTA_CHUNK;
    c.since = rows + 2 * DELTA_CHUNK;
    c.until = rows + 3 * DELTA_CHUNK;
    c.beta = rows + 4 * DELTA_CHUNK;
    return c;
}

/* to (CHUNK, width) = `size` columns from `at` on of the chunk's rows of x, then zeros. */
static inline void delta_load(const struct delta_chunk *c, float *to, size_t width,
                              struct tensor x, size_t at, size_t size)
{
    for (size_t i = 0; i < c->rows; i++)
        for (size_t d = 0; d < size; d += LANES)
            vec_put(to + i * width + d, vec_load(cpu_row(x, c->first + i), x.format,
                                                 at + d, vec_count(d, size)));
    memset(to + c->rows * width, 0, (DELTA_CHUNK - c->rows) * width * sizeof(*to));
}

static inline void delta_store(const struct delta_chunk *c, const float *from,
                               size_t width, struct tensor x, size_t at, size_t size)
{
    for (size_t i = 0; i < c->rows; i++)
        for (size_t d = 0; d < size; d += LANES)
            vec_store(cpu_row(x, c->first + i), x.format, at + d, vec_count(d, size),
                      vec_get(from + i * width + d));
}

static inline float delta_dot(const float *a, const float *b, size_t width)
{
    vec sum = {};

    for (size_t i = 0; i < width; i += LANES)
        sum += vec_get(a + i) * vec_get(b + i);
    return vec_sum(sum);
}

/* row *= by */
static inline void delta_times(float *row, size_t width, float by)
{
    for (size_t i = 0; i < width; i += LANES)
        vec_put(row + i, vec_get(row + i) * by);
}

/* to += from * by */
static inline void delta_plus(float *to, const float *from, size_t width, float by)
{
    for (size_t i = 0; i < width; i += LANES)
        vec_put(to + i, vec_get(to + i) + vec_get(from + i) * by);
}

static inline void delta_normalize(const struct delta_chunk *c, float *x, float *by,
                                   float scale)
{
    for (size_t i = 0; i < c->rows; i++) {
        float *row = x + i * c->wide;

        by[i] = scale / sqrtf(delta_dot(row, row, c->wide) + 1e-6f);
        delta_times(row, c->wide, by[i]);
    }
}

/* c (m, n) = or += a b; n in elements */
struct delta_product {
    float *c;
    const float *a, *b;
    size_t ldc, lda, ldb, m, n, k;
    bool trans_a, add;
};

static inline void delta_multiply(struct delta_product p)
{
    tile_multiply(&(struct tile_product) { .c = p.c,
                                           .a = p.a,
                                           .b = p.b,
                                           .ldc = p.ldc,
                                           .lda = p.lda,
                                           .ldb = p.ldb,
                                           .m = p.m,
                                           .n = p.n / LANES,
                                           .k = p.k,
                                           .trans_a = p.trans_a,
                                           .add = p.add });
}

/* Load q and k of a head of keys, and what depends on them alone. */
static inline void delta_load_keys(struct delta_chunk *c, size_t head)
{
    delta_load(c, c->q, c->wide, c->op->q, head * c->key, c->key);
    delta_load(c, c->k, c->wide, c->op->k, head * c->key, c->key);
    delta_normalize(c, c->q, c->q_by, 1 / sqrtf((float)c->key));
    delta_normalize(c, c->k, c->k_by, 1);
    tile_transpose(c->kt, DELTA_CHUNK, c->k, c->wide, DELTA_CHUNK, c->wide);
    delta_multiply((struct delta_product) { .c = c->gram,
                                            .a = c->k,
                                            .b = c->kt,
                                            .ldc = DELTA_CHUNK,
                                            .lda = c->wide,
                                            .ldb = DELTA_CHUNK,
                                            .m = c->rows,
                                            .n = DELTA_CHUNK,
                                            .k = c->key });
    delta_multiply((struct delta_product) { .c = c->scores,
                                            .a = c->q,
                                            .b = c->kt,
                                            .ldc = DELTA_CHUNK,
                                            .lda = c->wide,
                                            .ldb = DELTA_CHUNK,
                                            .m = c->rows,
                                            .n = DELTA_CHUNK,
                                            .k = c->key });
}

static inline float delta_gate(struct tensor x, size_t row, size_t head)
{
    return ((const float *)cpu_row(x, row))[head];
}

/* Load the decays and beta of a head of values. */
static inline void delta_load_gates(struct delta_chunk *c, size_t head)
{
    float since = 0, sums[DELTA_CHUNK] = { 0 };

    for (size_t i = 0; i < c->rows; i++) {
        float decay = delta_gate(c->op->decay, c->first + i, head);
        float *row = c->fade + i * DELTA_CHUNK;

        since += decay;
        c->since[i] = since;
        c->beta[i] = delta_gate(c->op->beta, c->first + i, head);
        for (size_t j = 0; j < i; j++)
            sums[j] += decay;
        for (size_t j = 0; j < DELTA_CHUNK; j += LANES)
            vec_put(row + j, vec_exp(vec_get(sums + j)));
        memset(row + i + 1, 0, (DELTA_CHUNK - i - 1) * sizeof(*row));
    }
    for (size_t j = 0; j < DELTA_CHUNK; j += LANES) {
        vec_put(c->since + j, vec_exp(vec_get(c->since + j)));
        vec_put(c->until + j, vec_exp(vec_get(sums + j)));
    }
}

/* own = A without its diagonal */
static inline void delta_make_system(struct delta_chunk *c)
{
    for (size_t i = 0; i < c->rows; i++)
        for (size_t j = 0; j < DELTA_CHUNK; j += LANES)
            vec_put(c->own + i * DELTA_CHUNK + j,
                    vec_get(c->gram + i * DELTA_CHUNK + j) *
                        vec_get(c->fade + i * DELTA_CHUNK + j) * c->beta[i]);
}

/* own = P */
static inline void delta_make_scores(struct delta_chunk *c)
{
    for (size_t i = 0; i < c->rows * DELTA_CHUNK; i += LANES)
        vec_put(c->own + i, vec_get(c->scores + i) * vec_get(c->fade + i));
}

/* error, then u, of a head of values whose state is S (key, broad) */
static inline void delta_solve(struct delta_chunk *c, const float *state, size_t head)
{
    delta_load(c, c->error, c->broad, c->op->v, head * c->value, c->value);
    delta_multiply((struct delta_product) { .c = c->u,
                                            .a = c->k,
                                            .b = state,
                                            .ldc = c->broad,
                                            .lda = c->wide,
                                            .ldb = c->broad,
                                            .m = c->rows,
                                            .n = c->broad,
                                            .k = c->key });
    delta_make_system(c);
    for (size_t i = 0; i < c->rows; i++) {
        float *error = c->error + i * c->broad, *u = c->u + i * c->broad;

        delta_plus(error, u, c->broad, -c->since[i]);
        memcpy(u, error, c->broad * sizeof(*u));
        delta_times(u, c->broad, c->beta[i]);
        for (size_t j = 0; j < i; j++)
            delta_plus(u, c->u + j * c->broad, c->broad, -c->own[i * DELTA_CHUNK + j]);
    }
}

/* S = S', given u; `room` (CHUNK, broad) is overwritten. */
static inline void delta_advance(const struct delta_chunk *c, float *state, float *room)
{
    for (size_t i = 0; i < c->rows; i++)
        for (size_t d = 0; d < c->broad; d += LANES)
            vec_put(room + i * c->broad + d,
                    vec_get(c->u + i * c->broad + d) * c->until[i]);
    delta_times(state, c->key * c->broad, c->since[c->rows - 1]);
    delta_multiply((struct delta_product) { .c = state,
                                            .a = c->k,
                                            .b = room,
                                            .ldc = c->broad,
                                            .lda = c->wide,
                                            .ldb = c->broad,
                                            .m = c->key,
                                            .n = c->broad,
                                            .k = c->rows,
                                            .trans_a = true,
                                            .add = true });
}

#endif
