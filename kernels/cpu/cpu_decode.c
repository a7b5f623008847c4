/*
 * kernels/cpu/cpu_decode.c - attention of one new row per sequence over cached keys and
 * values.
 *
 * A task is a sequence and one of its key/value heads. All query heads that share it read
 * its rows together, DECODE_ROWS at a time, with an online softmax (Dao,
 * "FlashAttention-2", 2023).
 */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

enum { DECODE_ROWS = 64 };

/* One key/value head of one sequence. */
struct decode {
    const struct op_decode *op;
    size_t slot, head; /* of the cache, for keys and values */
    size_t sharing;    /* query heads that read it */
    size_t width;      /* elements of a head, in whole vectors */
    float *queries;    /* (sharing, width), zeros after a head */
    float *out;        /* the same: partial sums */
    float *scores;     /* (sharing, DECODE_ROWS) */
    float *most, *sum; /* (sharing) */
    float *slopes;     /* the same: of the bias of scores */
};

static const void *decode_row(const struct decode *d, struct tensor cache, size_t row)
{
    return cpu_row(cache, d->slot * d->op->room + row);
}

/* Append the new row to the cache. */
static void decode_keep(const struct decode *d, struct tensor cache, struct tensor from)
{
    size_t item = from.format == FORMAT_FP32 ? 4 : 2, size = d->op->head_size;
    size_t at = d->head * size * item;
    char *to = cpu_row(cache, d->slot * d->op->room + (size_t)d->op->lengths[d->slot]);

    memcpy(to + at, (char *)cpu_row(from, d->slot) + at, size * item);
}

static void decode_begin(struct decode *d, struct pool_worker *worker)
{
    const struct op_decode *op = d->op;
    size_t bytes = d->sharing * d->width * sizeof(float);
    const void *q = cpu_row(op->q, d->slot);

    d->queries = pool_scratch(worker, bytes);
    d->out = pool_scratch(worker, bytes);
    d->scores = pool_scratch(worker, d->sharing * DECODE_ROWS * sizeof(float));
    d->most = pool_scratch(worker, d->sharing * sizeof(float));
    d->sum = pool_scratch(worker, d->sharing * sizeof(float));
    d->slopes = pool_scratch(worker, d->sharing * sizeof(float));
    memset(d->out, 0, bytes);
    for (size_t h = 0; h < d->sharing; h++) {
        size_t at = (d->head * d->sharing + h) * op->head_size;

        for (size_t i = 0; i < d->width; i += LANES)
            vec_put(d->queries + h * d->width + i,
                    vec_load(q, op->q.format, at + i, vec_count(i, op->head_size)));
        d->most[h] = op->sinks ? op->sinks[d->head * d->sharing + h] : -INFINITY;
        d->sum[h] = op->sinks ? 1 : 0;
        d->slopes[h] = alibi_slope(op->slopes, op->heads, d->head * d->sharing + h);
    }
}

CPU_INLINE float decode_dot(const float *q, const void *key, size_t at, size_t size,
                            enum format format)
{
    vec sum = {};

    for (size_t i = 0; i < size; i += LANES)
        sum += vec_get(q + i) * vec_load(key, format, at + i, vec_count(i, size));
    return vec_sum(sum);
}

/* Compute the scores of `rows` keys from `first` on; mask those after them, up to a whole
 * tile. */
CPU_INLINE void decode_scores(const struct decode *d, size_t first, size_t rows,
                              enum format format)
{
    const struct op_decode *op = d->op;
    size_t at = d->head * op->head_size;
    int64_t last = op->lengths[d->slot];

    for (size_t j = 0; j < rows; j++) {
        const void *key = decode_row(d, op->keys, first + j);

        for (size_t h = 0; h < d->sharing; h++) {
            float score = op->scale * decode_dot(d->queries + h * d->width, key, at,
                                                 op->head_size, format);

            d->scores[h * DECODE_ROWS + j] =
                op->softcap > 0
                    ? op->softcap * tanhf(score / op->softcap)
                    : score + d->slopes[h] * (float)((int64_t)(first + j) - last);
        }
    }
    for (size_t h = 0; h < d->sharing; h++)
        for (size_t j = rows; j < DECODE_ROWS; j++)
            d->scores[h * DECODE_ROWS + j] = -INFINITY;
}

/* Turn scores into weights of the online softmax; rescale the partial sums of a head. */
static void decode_soften(const struct decode *d, size_t h)
{
    float *scores = d->scores + h * DECODE_ROWS, *out = d->out + h * d->width;
    vec most = vec_all(d->most[h]), sum = {}, shift, fade;

    for (size_t j = 0; j < DECODE_ROWS; j += LANES)
        most = vec_max(vec_get(scores + j), most);
    most = vec_all(vec_max_of(most));
    shift = vec_select(most == -INFINITY, (vec) {}, most); /* nothing seen yet */
    fade = vec_exp(vec_all(d->most[h]) - shift);
    for (size_t j = 0; j < DECODE_ROWS; j += LANES) {
        vec weight = vec_exp(vec_get(scores + j) - shift);

        sum += weight;
        vec_put(scores + j, weight);
    }
    for (size_t i = 0; i < d->width; i += LANES)
        vec_put(out + i, vec_get(out + i) * fade);
    d->sum[h] = d->sum[h] * fade[0] + vec_sum(sum);
    d->most[h] = most[0];
}

CPU_INLINE void decode_values(const struct decode *d, size_t first, size_t rows,
                              enum format format)
{
    size_t size = d->op->head_size, at = d->head * size;

    for (size_t j = 0; j < rows; j++) {
        const void *value = decode_row(d, d->op->values, first + j);

        for (size_t h = 0; h < d->sharing; h++) {
            float *out = d->out + h * d->width, weight = d->scores[h * DECODE_ROWS + j];

            for (size_t i = 0; i < size; i += LANES)
                vec_put(out + i,
                        vec_get(out + i) +
                            weight * vec_load(value, format, at + i, vec_count(i, size)));
        }
    }
}

static void decode_end(const struct decode *d)
{
    const struct op_decode *op = d->op;
    void *to = cpu_row(op->out, d->slot);

    for (size_t h = 0; h < d->sharing; h++) {
        size_t at = (d->head * d->sharing + h) * op->head_size;
        float factor = 1 / d->sum[h];

        for (size_t i = 0; i < op->head_size; i += LANES)
            vec_store(to, op->out.format, at + i, vec_count(i, op->head_size),
                      vec_get(d->out + h * d->width + i) * factor);
    }
}

static void decode_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_decode *op = context;
    struct decode d = { .op = op,
                        .slot = task / op->kv_heads,
                        .head = task % op->kv_heads,
                        .sharing = op->heads / op->kv_heads,
                        .width = size_divide_up(op->head_size, LANES) * LANES };
    size_t rows = (size_t)op->lengths[d.slot] + 1;
    size_t first = op->window && rows > op->window ? rows - op->window : 0;
    size_t chunk = op->chunk ? (rows - 1) / op->chunk * op->chunk : 0;

    decode_keep(&d, op->keys, op->k);
    decode_keep(&d, op->values, op->v);
    decode_begin(&d, worker);
    for (size_t row = first > chunk ? first : chunk; row < rows; row += DECODE_ROWS) {
        size_t count = size_min(DECODE_ROWS, rows - row);

        VEC_BY_FORMAT(op->keys.format, decode_scores, &d, row, count);
        for (size_t h = 0; h < d.sharing; h++)
            decode_soften(&d, h);
        VEC_BY_FORMAT(op->values.format, decode_values, &d, row, count);
    }
    decode_end(&d);
}

void CPU_OP(decode)(struct backend *be, const struct op_decode *op)
{
    cpu_backend_run(be, op->q.rows * op->kv_heads, decode_task, (void *)op);
}
