/* tests/reference/reference_attention.c - attention and its gradients in double. */
#include "config.h"

#include "tests/reference/reference.h"

#include <math.h>
#include <stdlib.h>

/* One query of one head: the rows first .. end - 1 of its sequence that it sees, and the
 * offsets of its vectors. */
struct query {
    size_t run, first, end, row, head, kv_head; /* run: the first key of its sequence */
};

static const double *vector(const double *x, size_t row, size_t heads, size_t head,
                            size_t size)
{
    return x + (row * heads + head) * size;
}

static double dot(const double *x, const double *y, size_t size)
{
    double sum = 0;

    for (size_t i = 0; i < size; i++)
        sum += x[i] * y[i];
    return sum;
}

static double scaled(const struct reference_attention *r, struct query at, size_t key)
{
    return r->scale * dot(vector(r->q, at.row, r->heads, at.head, r->head_size),
                          vector(r->k, key, r->kv_heads, at.kv_head, r->head_size),
                          r->head_size);
}

/* By the recursion of the paper's code (get_slopes): slopes of the power of two below, and
 * every second one of the next power. */
static double slope_of_head(size_t heads, size_t head, double most)
{
    size_t power = 1;

    while (2 * power <= heads)
        power *= 2;
    if (head >= power)
        return slope_of_head(2 * power, 2 * (head - power), most);
    return pow(pow(2, -most / (double)power), (double)(head + 1));
}

static double score(const struct reference_attention *r, struct query at, size_t key)
{
    double s = scaled(r, at, key);

    if (r->slopes_factor > 0)
        s += r->slopes_factor * slope_of_head(r->heads, at.head, r->slopes_most) *
             ((double)key - (double)at.row);
    if (r->distances) {
        const long most = (long)r->distances_most;
        const long d = (long)key - (long)at.row;

        s += (double)r->distances[(long)at.head * 2 * most + most +
                                  (d < -most   ? -most
                                   : d >= most ? most - 1
                                               : d)];
    }
    return r->softcap > 0 ? r->softcap * tanh(s / r->softcap) : s;
}

/* The factor that dropout applies to a weight. */
static double kept(const struct reference_attention *r, struct query at, size_t key)
{
    struct random_head head = r->bits;

    if (r->threshold == 0)
        return 1;
    head.head = (uint32_t)at.head;
    if (random_weight(head, (uint32_t)at.row, (uint32_t)(key - at.run)) < r->threshold)
        return 0;
    return 65536.0 / (65536.0 - r->threshold);
}

static void forward(const struct reference_attention *r, struct query at)
{
    double *out = r->out + (at.row * r->heads + at.head) * r->head_size;
    double max = -INFINITY, sum = 0;

    for (size_t key = at.first; key < at.end; key++)
        max = fmax(max, score(r, at, key));
    for (size_t d = 0; d < r->head_size; d++)
        out[d] = 0;
    for (size_t key = at.first; key < at.end; key++) {
        double e = exp(score(r, at, key) - max), keep = kept(r, at, key);

        sum += e;
        for (size_t d = 0; d < r->head_size; d++)
            out[d] +=
                keep * e * vector(r->v, key, r->kv_heads, at.kv_head, r->head_size)[d];
    }
    for (size_t d = 0; d < r->head_size && at.end > at.first; d++)
        out[d] /= sum;
    r->lse[at.head * r->rows + at.row] = max + log(sum);
}

static double dot_size(const double *x, const double *y, size_t size)
{
    double sum = 0;

    for (size_t i = 0; i < size; i++)
        sum += fabs(x[i] * y[i]);
    return sum;
}

/* A weight after dropout, the gradient of its score, and the latter with all terms
 * positive. */
struct slope {
    double p, ds, size;
};

static struct slope slope_of(const struct reference_attention *r, struct query at,
                             size_t key)
{
    const double *dout = vector(r->dout, at.row, r->heads, at.head, r->head_size);
    const double *out = vector(r->out, at.row, r->heads, at.head, r->head_size);
    const double *v = vector(r->v, key, r->kv_heads, at.kv_head, r->head_size);
    double p = exp(score(r, at, key) - r->lse[at.head * r->rows + at.row]);
    double t = r->softcap > 0 ? tanh(scaled(r, at, key) / r->softcap) : 0;
    double scale = r->scale * (1 - t * t), keep = kept(r, at, key);

    return (struct slope) {
        .p = keep * p,
        .ds = scale * p *
              (keep * dot(dout, v, r->head_size) - dot(dout, out, r->head_size)),
        .size =
            scale * p *
            (keep * dot_size(dout, v, r->head_size) + dot_size(dout, out, r->head_size)),
    };
}

/* With p = softmax and m the factor of dropout: dv_j += m_j p_j dout, ds_j = scale p_j
 * (m_j dout v_j - dout out). */
static void backward(const struct reference_attention *r, struct query at)
{
    const double *dout = vector(r->dout, at.row, r->heads, at.head, r->head_size);
    size_t q = (at.row * r->heads + at.head) * r->head_size;

    for (size_t key = at.first; key < at.end; key++) {
        size_t k = (key * r->kv_heads + at.kv_head) * r->head_size;
        struct slope slope = slope_of(r, at, key);

        for (size_t d = 0; d < r->head_size; d++) {
            r->dv[k + d] += slope.p * dout[d];
            r->dq[q + d] += slope.ds * r->k[k + d];
            r->dk[k + d] += slope.ds * r->q[q + d];
            if (!r->size_dq)
                continue;
            r->size_dq[q + d] += slope.size * fabs(r->k[k + d]);
            r->size_dk[k + d] += slope.size * fabs(r->q[q + d]);
        }
    }
}

static void each_query(const struct reference_attention *r,
                       void (*visit)(const struct reference_attention *, struct query))
{
    for (size_t s = 0; s < r->sequences; s++)
        for (size_t row = (size_t)r->offsets[s]; row < (size_t)r->offsets[s + 1]; row++)
            for (size_t head = 0; head < r->heads; head++) {
                const int32_t *keys = r->key_offsets ? r->key_offsets : r->offsets;
                size_t begin = (size_t)keys[s];
                size_t last = r->key_offsets ? (size_t)keys[s + 1] : row + 1;
                struct query at = {
                    .run = begin,
                    .first = r->window && row - begin >= r->window ? row + 1 - r->window
                                                                   : begin,
                    .end = r->reach ? (size_t)r->reach[row] : last,
                    .row = row,
                    .head = head,
                    .kv_head = head / (r->heads / r->kv_heads),
                };

                visit(r, at);
            }
}

void reference_attention(const struct reference_attention *r)
{
    each_query(r, forward);
}

void reference_attention_backward(const struct reference_attention *r)
{
    size_t keys = r->key_offsets ? r->keys : r->rows;

    for (size_t i = 0; i < r->rows * r->heads * r->head_size; i++)
        r->dq[i] = 0;
    for (size_t i = 0; i < keys * r->kv_heads * r->head_size; i++)
        r->dk[i] = r->dv[i] = 0;
    each_query(r, backward);
}

static void decode_head(const struct reference_decode *r, size_t slot, size_t head,
                        double *weights)
{
    size_t size = r->head_size, last = (size_t)r->lengths[slot];
    size_t first = r->window && last >= r->window ? last - r->window + 1 : 0;
    size_t chunk = r->chunk ? last / r->chunk * r->chunk : 0;
    size_t shared = head / (r->heads / r->kv_heads);
    const double *q = vector(r->q, slot, r->heads, head, size);
    double *out = r->out + (slot * r->heads + head) * size, max = -INFINITY, sum = 0;

    first = first > chunk ? first : chunk;
    for (size_t row = first; row <= last; row++) {
        double s =
            r->scale *
            dot(q, vector(r->keys, slot * r->room + row, r->kv_heads, shared, size),
                size);

        if (r->slopes_factor > 0)
            s += r->slopes_factor * slope_of_head(r->heads, head, r->slopes_most) *
                 ((double)row - (double)last);
        weights[row] = r->softcap > 0 ? r->softcap * tanh(s / r->softcap) : s;
        max = fmax(max, weights[row]);
    }
    if (r->sinks) {
        max = fmax(max, r->sinks[head]);
        sum = exp(r->sinks[head] - max);
    }
    for (size_t row = first; row <= last; row++)
        sum += weights[row] = exp(weights[row] - max);
    for (size_t d = 0; d < size; d++) {
        out[d] = 0;
        for (size_t row = first; row <= last; row++)
            out[d] +=
                weights[row] / sum *
                vector(r->values, slot * r->room + row, r->kv_heads, shared, size)[d];
    }
}

void reference_decode(const struct reference_decode *r)
{
    double *weights = calloc(r->room, sizeof(*weights));
    size_t wide = r->kv_heads * r->head_size;

    for (size_t slot = 0; slot < r->sequences; slot++) {
        size_t row = slot * r->room + (size_t)r->lengths[slot];

        for (size_t i = 0; i < wide; i++) {
            r->keys[row * wide + i] = r->k[slot * wide + i];
            r->values[row * wide + i] = r->v[slot * wide + i];
        }
        for (size_t head = 0; head < r->heads; head++)
            decode_head(r, slot, head, weights);
    }
    free(weights);
}
