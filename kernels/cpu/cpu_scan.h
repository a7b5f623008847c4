/*
 * kernels/cpu/cpu_scan.h - code shared by the selective scan and its gradients: one chunk of
 * rows of one head, in fp32.
 *
 * With e_i the sum of the decays from the start of a chunk to row i, and S the state there,
 * transposed:
 *   out_i = e^e_i c_i S + sum over j <= i of W_ij step_j x_j + skip x_i,
 *           W_ij = e^(e_i - e_j) c_i b_j
 *   S' = e^e_last S + sum over i of e^(e_last - e_i) step_i b_i^T x_i
 * Differences of e are summed separately for each pair of rows: e itself may be large.
 */
#ifndef KERNELS_CPU_CPU_SCAN_H
#define KERNELS_CPU_CPU_SCAN_H

#include "kernels/cpu/cpu_delta.h"

/* Matrices have rows of whole vectors: `wide` of b and c, `broad` of x, SCAN_CHUNK. */
struct scan_chunk {
    const struct op_scan *op;
    size_t depth, size, wide, broad; /* D, P */
    size_t first, rows;     /* of the batch; what follows is 0 in the rows after them */
    float *b, *c, *bt;      /* (CHUNK, wide), and (wide, CHUNK) */
    float *x;               /* (CHUNK, broad) */
    float *scores;          /* (CHUNK, CHUNK): c b^T */
    float *fade;            /* (CHUNK, CHUNK): e^(e_i - e_j), 0 where j > i */
    float *since, *until;   /* (CHUNK): e^e_i, e^(e_last - e_i) */
    float *step, *slope;    /* (CHUNK): and the derivative of step by dt */
    float rate, bias, skip; /* -e^a_log */
};

static inline struct scan_chunk scan_chunk_open(const struct op_scan *op,
                                                struct pool_worker *worker)
{
    struct scan_chunk k = { .op = op,
                            .depth = op->b.cols / op->groups,
                            .size = op->x.cols / op->heads };
    float *rows = delta_room(worker, 4, SCAN_CHUNK);

    k.wide = size_divide_up(k.depth, LANES) * LANES;
    k.broad = size_divide_up(k.size, LANES) * LANES;
    k.b = delta_room(worker, SCAN_CHUNK, k.wide);
    k.c = delta_room(worker, SCAN_CHUNK, k.wide);
    k.bt = delta_room(worker, k.wide, SCAN_CHUNK);
    k.x = delta_room(worker, SCAN_CHUNK, k.broad);
    k.scores = delta_room(worker, SCAN_CHUNK, SCAN_CHUNK);
    k.fade = delta_room(worker, SCAN_CHUNK, SCAN_CHUNK);
    k.since = rows;
    k.until = rows + SCAN_CHUNK;
    k.step = rows + 2 * SCAN_CHUNK;
    k.slope = rows + 3 * SCAN_CHUNK;
    return k;
}

/* to (CHUNK, width) = `size` columns from `at` on of the chunk's rows of x, then zeros. */
static inline void scan_load(const struct scan_chunk *k, float *to, size_t width,
                             struct tensor x, size_t at, size_t size)
{
    for (size_t i = 0; i < k->rows; i++)
        for (size_t d = 0; d < size; d += LANES)
            vec_put(to + i * width + d, vec_load(cpu_row(x, k->first + i), x.format,
                                                 at + d, vec_count(d, size)));
    memset(to + k->rows * width, 0, (SCAN_CHUNK - k->rows) * width * sizeof(*to));
}

static inline void scan_store(const struct scan_chunk *k, const float *from, size_t width,
                              struct tensor x, size_t at, size_t size)
{
    for (size_t i = 0; i < k->rows; i++)
        for (size_t d = 0; d < size; d += LANES)
            vec_store(cpu_row(x, k->first + i), x.format, at + d, vec_count(d, size),
                      vec_get(from + i * width + d));
}

static inline float scan_get(struct tensor x, size_t row, size_t col)
{
    return vec_load(cpu_row(x, row), x.format, col, 1)[0];
}

static inline float scan_sigmoid(float x)
{
    float t = expf(-fabsf(x));

    return x < 0 ? t / (1 + t) : 1 / (1 + t);
}

/* Load what all heads of a group share. */
static inline void scan_load_group(struct scan_chunk *k, size_t group)
{
    scan_load(k, k->b, k->wide, k->op->b, group * k->depth, k->depth);
    scan_load(k, k->c, k->wide, k->op->c, group * k->depth, k->depth);
    tile_transpose(k->bt, SCAN_CHUNK, k->b, k->wide, SCAN_CHUNK, k->wide);
    delta_multiply((struct delta_product) { .c = k->scores,
                                            .a = k->c,
                                            .b = k->bt,
                                            .ldc = SCAN_CHUNK,
                                            .lda = k->wide,
                                            .ldb = SCAN_CHUNK,
                                            .m = k->rows,
                                            .n = SCAN_CHUNK,
                                            .k = k->depth });
}

/* The step of a row, and its derivative by dt. */
static inline void scan_step(struct scan_chunk *k, size_t row, size_t head)
{
    float dt = scan_get(k->op->dt, k->first + row, head) + k->bias;
    float step = dt > 20 ? dt : (dt > 0 ? dt : 0) + log1pf(expf(-fabsf(dt)));
    bool inside = !(step < k->op->low) && !(step > k->op->high); /* NaN is inside */

    k->step[row] = inside ? step : step < k->op->low ? k->op->low : k->op->high;
    k->slope[row] = !inside ? 0 : dt > 20 ? 1 : scan_sigmoid(dt);
}

/* Load the rows of x of a head, its steps and its decays. */
static inline void scan_load_head(struct scan_chunk *k, size_t head)
{
    float since = 0, sums[SCAN_CHUNK] = { 0 };

    k->rate = -expf(scan_get(k->op->a_log, 0, head));
    k->bias = scan_get(k->op->bias, 0, head);
    k->skip = scan_get(k->op->skip, 0, head);
    scan_load(k, k->x, k->broad, k->op->x, head * k->size, k->size);
    for (size_t i = 0; i < k->rows; i++) {
        float *row = k->fade + i * SCAN_CHUNK, decay;

        scan_step(k, i, head);
        decay = k->rate * k->step[i];
        since += decay;
        k->since[i] = since;
        for (size_t j = 0; j < i; j++)
            sums[j] += decay;
        for (size_t j = 0; j < SCAN_CHUNK; j += LANES)
            vec_put(row + j, vec_exp(vec_get(sums + j)));
        memset(row + i + 1, 0, (SCAN_CHUNK - i - 1) * sizeof(*row));
    }
    for (size_t j = 0; j < SCAN_CHUNK; j += LANES) {
        vec_put(k->since + j, vec_exp(vec_get(k->since + j)));
        vec_put(k->until + j, vec_exp(vec_get(sums + j)));
    }
}

/* S (depth, broad) = S'; `room` (CHUNK, broad) is overwritten. */
static inline void scan_advance(const struct scan_chunk *k, float *state, float *room)
{
    for (size_t i = 0; i < k->rows; i++)
        for (size_t d = 0; d < k->broad; d += LANES)
            vec_put(room + i * k->broad + d,
                    vec_get(k->x + i * k->broad + d) * (k->step[i] * k->until[i]));
    delta_times(state, k->depth * k->broad, k->since[k->rows - 1]);
    delta_multiply((struct delta_product) { .c = state,
                                            .a = k->b,
                                            .b = room,
                                            .ldc = k->broad,
                                            .lda = k->wide,
                                            .ldb = k->broad,
                                            .m = k->depth,
                                            .n = k->broad,
                                            .k = k->rows,
                                            .trans_a = true,
                                            .add = true });
}

/* A state as operands have it, (size, depth), from and to S. */
static inline void scan_read_state(const struct scan_chunk *k, float *state,
                                   const float *from)
{
    for (size_t d = 0; d < k->depth; d++)
        for (size_t p = 0; p < k->size; p++)
            state[d * k->broad + p] = from[p * k->depth + d];
}

static inline void scan_write_state(const struct scan_chunk *k, const float *state,
                                    float *to)
{
    for (size_t p = 0; p < k->size; p++)
        for (size_t d = 0; d < k->depth; d++)
            to[p * k->depth + d] = state[d * k->broad + p];
}

#endif
