/*
 * kernels/cpu/cpu_delta_backward.c - gradients of the gated delta rule.
 *
 * A task is a head of keys of one sequence, with all heads of values that share it, so that
 * their gradients of q and k are added in order.  It first computes the states at the start
 * of each chunk again, then passes the gradient of the state from chunk to chunk, from the
 * last to the first.
 */
#include "config.h"

#include "kernels/cpu/cpu_delta.h"

#include <assert.h>

struct delta_back {
    const struct op_delta_backward *op;
    struct delta_chunk c;
    size_t sequence, head;
    float *state, *statet; /* (key, broad), (broad, wide) */
    float *dstate;         /* of each head that shares the keys: (key, broad) */
    float *dstatet;        /* (broad, wide) */
    float *dout, *dv;      /* (CHUNK, broad) */
    float *room, *ut;      /* (CHUNK, broad), (broad, CHUNK) */
    float *dq, *dk;        /* (CHUNK, wide) */
    float *along;          /* (CHUNK, wide) */
    float *system, *ds;    /* (CHUNK, CHUNK): A; gradients of A or P */
    float *db;             /* (CHUNK) */
};

static struct delta_back delta_back_open(const struct op_delta_backward *op,
                                         struct pool_worker *worker)
{
    const struct op_delta *forward = &op->forward;
    struct delta_back b = { .op = op, .c = delta_chunk_open(forward, worker) };
    size_t wide = b.c.wide, broad = b.c.broad, key = b.c.key;

    b.state = delta_room(worker, key, broad);
    b.statet = delta_room(worker, broad, wide);
    b.dstate = delta_room(worker, key * (forward->heads / forward->key_heads), broad);
    b.dstatet = delta_room(worker, broad, wide);
    b.dout = delta_room(worker, DELTA_CHUNK, broad);
    b.dv = delta_room(worker, DELTA_CHUNK, broad);
    b.room = delta_room(worker, DELTA_CHUNK, broad);
    b.ut = delta_room(worker, broad, DELTA_CHUNK);
    b.dq = delta_room(worker, DELTA_CHUNK, wide);
    b.dk = delta_room(worker, DELTA_CHUNK, wide);
    b.along = delta_room(worker, DELTA_CHUNK, wide);
    b.system = delta_room(worker, DELTA_CHUNK, DELTA_CHUNK);
    b.ds = delta_room(worker, DELTA_CHUNK, DELTA_CHUNK);
    b.db = delta_room(worker, 1, DELTA_CHUNK);
    return b;
}

/* Where the state at the start of this chunk is kept: (key, value). */
static float *delta_kept(const struct delta_back *b, size_t head)
{
    size_t begin = (size_t)b->op->forward.offsets[b->sequence];
    size_t chunk = op_delta_first_chunk(begin, b->sequence);

    chunk += (b->c.first - begin) / DELTA_CHUNK;
    return (float *)cpu_row(b->op->states, chunk) + head * b->c.key * b->c.value;
}

static void delta_keep(const struct delta_back *b, const float *state, size_t head)
{
    float *to = delta_kept(b, head);

    for (size_t i = 0; i < b->c.key; i++)
        memcpy(to + i * b->c.value, state + i * b->c.broad, b->c.value * sizeof(*to));
}

/* Compute the states of a head again, in the room of its gradient. */
static void delta_again(struct delta_back *b, size_t head, float *state)
{
    const struct op_delta *op = &b->op->forward;
    struct delta_chunk *c = &b->c;
    size_t last = (size_t)op->offsets[b->sequence + 1];

    for (c->first = (size_t)op->offsets[b->sequence]; c->first < last;
         c->first += c->rows) {
        c->rows = size_min(DELTA_CHUNK, last - c->first);
        delta_keep(b, state, head);
        delta_load_keys(c, b->head);
        delta_load_gates(c, head);
        delta_solve(c, state, head);
        delta_advance(c, state, b->room);
    }
    memset(state, 0, c->key * c->broad * sizeof(*state));
}

static void delta_load_head(struct delta_back *b, size_t head, const float *dstate)
{
    struct delta_chunk *c = &b->c;
    const float *from = delta_kept(b, head);

    for (size_t i = 0; i < c->key; i++)
        memcpy(b->state + i * c->broad, from + i * c->value, c->value * sizeof(*from));
    tile_transpose(b->statet, c->wide, b->state, c->broad, c->key / 4 * 4, c->broad);
    tile_transpose(b->dstatet, c->wide, dstate, c->broad, c->key / 4 * 4, c->broad);
    for (size_t i = c->key / 4 * 4; i < c->key; i++)
        for (size_t d = 0; d < c->broad; d++) {
            b->statet[d * c->wide + i] = b->state[i * c->broad + d];
            b->dstatet[d * c->wide + i] = dstate[i * c->broad + d];
        }
    delta_load(c, b->dout, c->broad, b->op->dout, head * c->value, c->value);
    delta_load_gates(c, head);
    delta_solve(c, b->state, head);
    memcpy(b->system, c->own, DELTA_CHUNK * DELTA_CHUNK * sizeof(*b->system));
    memset(c->u + c->rows * c->broad, 0,
           (DELTA_CHUNK - c->rows) * c->broad * sizeof(*c->u));
    tile_transpose(b->ut, DELTA_CHUNK, c->u, c->broad, DELTA_CHUNK, c->broad);
    delta_make_scores(c);
    memset(b->db, 0, DELTA_CHUNK * sizeof(*b->db));
}

/* dv = the gradient of u, then that of the right side of its system. */
static void delta_solve_backward(struct delta_back *b, const float *dstate)
{
    struct delta_chunk *c = &b->c;

    delta_multiply((struct delta_product) { .c = b->dv,
                                            .a = c->k,
                                            .b = dstate,
                                            .ldc = c->broad,
                                            .lda = c->wide,
                                            .ldb = c->broad,
                                            .m = c->rows,
                                            .n = c->broad,
                                            .k = c->key });
    for (size_t i = 0; i < c->rows; i++)
        delta_times(b->dv + i * c->broad, c->broad, c->until[i]);
    delta_multiply((struct delta_product) { .c = b->dv,
                                            .a = c->own,
                                            .b = b->dout,
                                            .ldc = c->broad,
                                            .lda = DELTA_CHUNK,
                                            .ldb = c->broad,
                                            .m = c->rows,
                                            .n = c->broad,
                                            .k = c->rows,
                                            .trans_a = true,
                                            .add = true });
    for (size_t i = c->rows; i-- > 0;)
        for (size_t j = i + 1; j < c->rows; j++)
            delta_plus(b->dv + i * c->broad, b->dv + j * c->broad, c->broad,
                       -b->system[j * DELTA_CHUNK + i]);
}

/* along = x s^T: x (rows, broad), st (broad, wide) */
static void delta_along(const struct delta_back *b, const float *x, const float *st)
{
    const struct delta_chunk *c = &b->c;

    delta_multiply((struct delta_product) { .c = b->along,
                                            .a = x,
                                            .b = st,
                                            .ldc = c->wide,
                                            .lda = c->broad,
                                            .ldb = c->wide,
                                            .m = c->rows,
                                            .n = c->wide,
                                            .k = c->value });
}

/* What the states at the start and at the end of the chunk add to dq, dk and db. */
static void delta_through_states(struct delta_back *b, const float *dstate)
{
    struct delta_chunk *c = &b->c;
    float end = 0;

    delta_along(b, b->dout, b->statet);
    for (size_t i = 0; i < c->rows; i++) {
        const float *x = b->along + i * c->wide;

        delta_plus(b->dq + i * c->wide, x, c->wide, c->since[i]);
        b->db[i] += c->since[i] * delta_dot(c->q + i * c->wide, x, c->wide);
    }
    delta_along(b, b->dv, b->statet);
    for (size_t i = 0; i < c->rows; i++) {
        const float *x = b->along + i * c->wide, by = -c->beta[i] * c->since[i];

        delta_plus(b->dk + i * c->wide, x, c->wide, by);
        b->db[i] += by * delta_dot(c->k + i * c->wide, x, c->wide);
    }
    delta_along(b, c->u, b->dstatet);
    for (size_t i = 0; i < c->rows; i++) {
        const float *x = b->along + i * c->wide;
        float slope = c->until[i] * delta_dot(c->k + i * c->wide, x, c->wide);

        delta_plus(b->dk + i * c->wide, x, c->wide, c->until[i]);
        b->db[i] -= slope;
        end += slope;
    }
    end += c->since[c->rows - 1] * delta_dot(dstate, b->state, c->key * c->broad);
    b->db[c->rows - 1] += end;
}

/* ds = x u^T for rows of x (rows, broad) */
static void delta_pairs(const struct delta_back *b, const float *x)
{
    const struct delta_chunk *c = &b->c;

    delta_multiply((struct delta_product) { .c = b->ds,
                                            .a = x,
                                            .b = b->ut,
                                            .ldc = DELTA_CHUNK,
                                            .lda = c->broad,
                                            .ldb = DELTA_CHUNK,
                                            .m = c->rows,
                                            .n = DELTA_CHUNK,
                                            .k = c->value });
}

/* to (rows, wide) += ds x, or ds^T x */
static void delta_spread(const struct delta_back *b, float *to, const float *x,
                         bool turned)
{
    const struct delta_chunk *c = &b->c;

    delta_multiply((struct delta_product) { .c = to,
                                            .a = b->ds,
                                            .b = x,
                                            .ldc = c->wide,
                                            .lda = DELTA_CHUNK,
                                            .ldb = c->wide,
                                            .m = c->rows,
                                            .n = c->wide,
                                            .k = c->rows,
                                            .trans_a = turned,
                                            .add = true });
}

/* What pairs of rows add: of the scores, then of the system. */
static void delta_through_pairs(struct delta_back *b, float *dbeta)
{
    struct delta_chunk *c = &b->c;

    delta_pairs(b, b->dout);
    for (size_t i = 0; i < c->rows; i++)
        for (size_t j = 0; j < DELTA_CHUNK; j++) {
            float *ds = &b->ds[i * DELTA_CHUNK + j];

            if (j < i) {
                b->db[i] += *ds * c->own[i * DELTA_CHUNK + j];
                b->db[j] -= *ds * c->own[i * DELTA_CHUNK + j];
            }
            *ds = j <= i ? *ds * c->fade[i * DELTA_CHUNK + j] : 0;
        }
    delta_spread(b, b->dq, c->k, false);
    delta_spread(b, b->dk, c->q, true);
    delta_pairs(b, b->dv);
    for (size_t i = 0; i < c->rows; i++) {
        dbeta[i] = delta_dot(b->dv + i * c->broad, c->error + i * c->broad, c->broad);
        for (size_t j = 0; j < DELTA_CHUNK; j++) {
            float *ds = &b->ds[i * DELTA_CHUNK + j];
            float by = c->fade[i * DELTA_CHUNK + j], slope;

            if (j >= i) {
                *ds = 0;
                continue;
            }
            slope = -*ds * b->system[i * DELTA_CHUNK + j];
            b->db[i] += slope;
            b->db[j] -= slope;
            dbeta[i] -= *ds * by * c->gram[i * DELTA_CHUNK + j];
            *ds *= -c->beta[i] * by;
        }
    }
    delta_spread(b, b->dk, c->k, false);
    delta_spread(b, b->dk, c->k, true);
}

/* dS = e^b_last dS' + sum of e^b_i q_i dout_i^T - beta_i e^b_i k_i dv_i^T; then dv becomes
 * the gradient of v. */
static void delta_return(struct delta_back *b, float *dstate)
{
    struct delta_chunk *c = &b->c;
    struct delta_product product = { .c = dstate,
                                     .a = c->q,
                                     .b = b->dout,
                                     .ldc = c->broad,
                                     .lda = c->wide,
                                     .ldb = c->broad,
                                     .m = c->key,
                                     .n = c->broad,
                                     .k = c->rows,
                                     .trans_a = true,
                                     .add = true };

    for (size_t i = 0; i < c->rows; i++) {
        delta_times(b->dout + i * c->broad, c->broad, c->since[i]);
        delta_times(b->dv + i * c->broad, c->broad, c->beta[i]);
        memset(b->room + i * c->broad, 0, c->broad * sizeof(*b->room));
        delta_plus(b->room + i * c->broad, b->dv + i * c->broad, c->broad, -c->since[i]);
    }
    delta_times(dstate, c->key * c->broad, c->since[c->rows - 1]);
    delta_multiply(product);
    product.a = c->k;
    product.b = b->room;
    delta_multiply(product);
}

static void delta_head_backward(struct delta_back *b, size_t head, float *dstate)
{
    struct delta_chunk *c = &b->c;
    float dbeta[DELTA_CHUNK], sum = 0;

    delta_load_head(b, head, dstate);
    delta_solve_backward(b, dstate);
    delta_through_states(b, dstate);
    delta_through_pairs(b, dbeta);
    delta_return(b, dstate);
    delta_store(c, b->dv, c->broad, b->op->dv, head * c->value, c->value);
    for (size_t i = c->rows; i-- > 0;) {
        sum += b->db[i];
        ((float *)cpu_row(b->op->ddecay, c->first + i))[head] = sum;
        ((float *)cpu_row(b->op->dbeta, c->first + i))[head] = dbeta[i];
    }
}

/* Back through y = x * by, by = scale / sqrt(x^2 + eps): dx = by (dy - y (y dy) /
 * scale^2) */
static void delta_normalize_backward(const struct delta_back *b, float *dy,
                                     const float *y, bool query)
{
    const struct delta_chunk *c = &b->c;
    float share = query ? (float)c->key : 1;

    for (size_t i = 0; i < c->rows; i++) {
        float *row = dy + i * c->wide;
        const float *unit = y + i * c->wide;
        float along = delta_dot(row, unit, c->wide) * share;

        delta_plus(row, unit, c->wide, -along);
        delta_times(row, c->wide, query ? c->q_by[i] : c->k_by[i]);
    }
}

static void delta_chunk_backward(struct delta_back *b)
{
    const struct op_delta *op = &b->op->forward;
    size_t sharing = op->heads / op->key_heads;
    struct delta_chunk *c = &b->c;

    delta_load_keys(c, b->head);
    memset(b->dq, 0, DELTA_CHUNK * c->wide * sizeof(*b->dq));
    memset(b->dk, 0, DELTA_CHUNK * c->wide * sizeof(*b->dk));
    for (size_t i = 0; i < sharing; i++)
        delta_head_backward(b, b->head * sharing + i, b->dstate + i * c->key * c->broad);
    delta_normalize_backward(b, b->dq, c->q, true);
    delta_normalize_backward(b, b->dk, c->k, false);
    delta_store(c, b->dq, c->wide, b->op->dq, b->head * c->key, c->key);
    delta_store(c, b->dk, c->wide, b->op->dk, b->head * c->key, c->key);
}

static void delta_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_delta_backward *op = context;
    size_t sharing = op->forward.heads / op->forward.key_heads, first, rows;
    struct delta_back b = delta_back_open(op, worker);

    b.sequence = task / op->forward.key_heads;
    b.head = task % op->forward.key_heads;
    first = (size_t)op->forward.offsets[b.sequence];
    rows = (size_t)op->forward.offsets[b.sequence + 1] - first;
    for (size_t i = 0; i < sharing; i++)
        delta_again(&b, b.head * sharing + i, b.dstate + i * b.c.key * b.c.broad);
    for (size_t chunk = size_divide_up(rows, DELTA_CHUNK); chunk-- > 0;) {
        b.c.first = first + chunk * DELTA_CHUNK;
        b.c.rows = size_min(DELTA_CHUNK, rows - chunk * DELTA_CHUNK);
        delta_chunk_backward(&b);
    }
}

void CPU_OP(delta_backward)(struct backend *be, const struct op_delta_backward *op)
{
    assert(op->forward.q.cols <= op->forward.key_heads * DELTA_SIZE_MAX);
    assert(op->forward.v.cols <= op->forward.heads * DELTA_SIZE_MAX);
    cpu_backend_run(be, op->forward.sequences * op->forward.key_heads,
                    delta_backward_task, (void *)op);
}
