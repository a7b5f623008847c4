/*
 * kernels/cpu/cpu_scan_backward.c - gradients of the selective scan.
 *
 * First, for each head of a sequence, the states at the start of each chunk and the gradients
 * of those at its end; then, for each chunk and group, everything else: the heads of the
 * group are added in order.  The decay of a row multiplies what rows from it on read of the
 * rows before it, of the state at the start of the chunk, and what the state at its end has of
 * both.  These are added separately for each row: differences of sums would lose digits.
 */
#include "config.h"

#include "kernels/cpu/cpu_scan.h"

#include <assert.h>

/* A matrix of scratch that is kept for a chunk and a head: (size, depth). */
static float *scan_kept(const struct scan_chunk *k, struct tensor x, size_t chunk,
                        size_t head)
{
    return (float *)cpu_row(x, chunk) + head * k->size * k->depth;
}

/* dS = e^e_last dS + sum over i of e^e_i c_i^T dout_i */
static void scan_return(const struct scan_chunk *k, float *dstate, float *dout)
{
    for (size_t i = 0; i < k->rows; i++)
        delta_times(dout + i * k->broad, k->broad, k->since[i]);
    delta_times(dstate, k->depth * k->broad, k->since[k->rows - 1]);
    delta_multiply((struct delta_product) { .c = dstate,
                                            .a = k->c,
                                            .b = dout,
                                            .ldc = k->broad,
                                            .lda = k->wide,
                                            .ldb = k->broad,
                                            .m = k->depth,
                                            .n = k->broad,
                                            .k = k->rows,
                                            .trans_a = true,
                                            .add = true });
}

/* A task is a head of one sequence. */
static void scan_states_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_scan_backward *op = context;
    const struct op_scan *f = &op->forward;
    size_t sequence = task / f->heads, head = task % f->heads;
    size_t group = head / (f->heads / f->groups);
    size_t first = (size_t)f->offsets[sequence];
    size_t last = (size_t)f->offsets[sequence + 1];
    size_t room = op_scan_first_chunk(first, sequence);
    size_t chunks = size_divide_up(last - first, SCAN_CHUNK);
    struct scan_chunk k = scan_chunk_open(f, worker);
    float *state = delta_room(worker, k.depth, k.broad);
    float *rows = delta_room(worker, SCAN_CHUNK, k.broad);

    for (size_t i = 0; i < chunks; i++) {
        k.first = first + i * SCAN_CHUNK;
        k.rows = size_min(SCAN_CHUNK, last - k.first);
        scan_write_state(&k, state, scan_kept(&k, op->states, room + i, head));
        scan_load_group(&k, group);
        scan_load_head(&k, head);
        scan_advance(&k, state, rows);
    }
    memset(state, 0, k.depth * k.broad * sizeof(*state));
    for (size_t i = chunks; i-- > 0;) {
        k.first = first + i * SCAN_CHUNK;
        k.rows = size_min(SCAN_CHUNK, last - k.first);
        scan_write_state(&k, state, scan_kept(&k, op->dstates, room + i, head));
        scan_load_group(&k, group);
        scan_load_head(&k, head);
        scan_load(&k, rows, k.broad, op->dout, head * k.size, k.size);
        scan_return(&k, state, rows);
    }
}

struct scan_back {
    const struct op_scan_backward *op;
    struct scan_chunk k;
    size_t chunk;          /* of the scratch */
    float *dout, *du;      /* (CHUNK, broad): du of step x, then dx */
    float *xt;             /* (broad, CHUNK) */
    float *state, *dstate; /* (size, wide), of the ends of the chunk */
    float *dstatet;        /* (depth, broad) */
    float *pairs;          /* (CHUNK, CHUNK): e^(e_i - e_j) step_j dout_i x_j */
    float *along;          /* (CHUNK, wide) */
    float *db, *dc, *db_sum, *dc_sum; /* (CHUNK, wide): of a head, of the group */
    float *reads, *leaves;            /* (CHUNK): c dc and b db through states */
    float end;                        /* of the state at the start in that at the end */
};

static struct scan_back scan_back_open(const struct op_scan_backward *op,
                                       struct pool_worker *worker)
{
    struct scan_back s = { .op = op, .k = scan_chunk_open(&op->forward, worker) };
    size_t wide = s.k.wide, broad = s.k.broad;

    s.reads = delta_room(worker, 1, SCAN_CHUNK);
    s.leaves = delta_room(worker, 1, SCAN_CHUNK);
    s.dout = delta_room(worker, SCAN_CHUNK, broad);
    s.du = delta_room(worker, SCAN_CHUNK, broad);
    s.xt = delta_room(worker, broad, SCAN_CHUNK);
    s.state = delta_room(worker, broad, wide);
    s.dstate = delta_room(worker, broad, wide);
    s.dstatet = delta_room(worker, wide, broad);
    s.pairs = delta_room(worker, SCAN_CHUNK, SCAN_CHUNK);
    s.along = delta_room(worker, SCAN_CHUNK, wide);
    s.db = delta_room(worker, SCAN_CHUNK, wide);
    s.dc = delta_room(worker, SCAN_CHUNK, wide);
    s.db_sum = delta_room(worker, SCAN_CHUNK, wide);
    s.dc_sum = delta_room(worker, SCAN_CHUNK, wide);
    return s;
}

static void scan_load_states(struct scan_back *s, size_t head)
{
    const struct scan_chunk *k = &s->k;
    const float *state = scan_kept(k, s->op->states, s->chunk, head);
    const float *dstate = scan_kept(k, s->op->dstates, s->chunk, head);

    for (size_t p = 0; p < k->size; p++) {
        memcpy(s->state + p * k->wide, state + p * k->depth, k->depth * sizeof(*state));
        memcpy(s->dstate + p * k->wide, dstate + p * k->depth,
               k->depth * sizeof(*dstate));
    }
    scan_read_state(k, s->dstatet, dstate);
}

/* to (rows, wide) = x (rows, size) state */
static void scan_through(const struct scan_back *s, const float *x, const float *state,
                         float *to)
{
    const struct scan_chunk *k = &s->k;

    delta_multiply((struct delta_product) { .c = to,
                                            .a = x,
                                            .b = state,
                                            .ldc = k->wide,
                                            .lda = k->broad,
                                            .ldb = k->wide,
                                            .m = k->rows,
                                            .n = k->wide,
                                            .k = k->size });
}

static void scan_make_pairs(struct scan_back *s)
{
    const struct scan_chunk *k = &s->k;

    tile_transpose(s->xt, SCAN_CHUNK, k->x, k->broad, SCAN_CHUNK, k->broad);
    delta_multiply((struct delta_product) { .c = s->pairs,
                                            .a = s->dout,
                                            .b = s->xt,
                                            .ldc = SCAN_CHUNK,
                                            .lda = k->broad,
                                            .ldb = SCAN_CHUNK,
                                            .m = k->rows,
                                            .n = SCAN_CHUNK,
                                            .k = k->size });
    for (size_t i = 0; i < k->rows; i++)
        for (size_t j = 0; j <= i; j++)
            s->pairs[i * SCAN_CHUNK + j] *= k->fade[i * SCAN_CHUNK + j] * k->step[j];
}

/* dc and db of a head, and what states get. */
static void scan_group_backward(struct scan_back *s)
{
    const struct scan_chunk *k = &s->k;

    scan_through(s, s->dout, s->state, s->dc);
    scan_through(s, k->x, s->dstate, s->along);
    s->end = k->since[k->rows - 1] * delta_dot(s->state, s->dstate, k->size * k->wide);
    for (size_t i = 0; i < k->rows; i++) {
        float *dc = s->dc + i * k->wide, *db = s->db + i * k->wide;

        delta_times(dc, k->wide, k->since[i]);
        memcpy(db, s->along + i * k->wide, k->wide * sizeof(*db));
        delta_times(db, k->wide, k->until[i] * k->step[i]);
        s->reads[i] = delta_dot(k->c + i * k->wide, dc, k->wide);
        s->leaves[i] = delta_dot(k->b + i * k->wide, db, k->wide);
    }
    for (size_t i = 0; i < k->rows; i++)
        for (size_t j = 0; j <= i; j++) {
            float by = s->pairs[i * SCAN_CHUNK + j];

            delta_plus(s->dc + i * k->wide, k->b + j * k->wide, k->wide, by);
            delta_plus(s->db + j * k->wide, k->c + i * k->wide, k->wide, by);
        }
    for (size_t i = 0; i < k->rows * k->wide; i += LANES) {
        vec_put(s->dc_sum + i, vec_get(s->dc_sum + i) + vec_get(s->dc + i));
        vec_put(s->db_sum + i, vec_get(s->db_sum + i) + vec_get(s->db + i));
    }
}

/* du = the gradient of step x */
static void scan_values_backward(struct scan_back *s)
{
    const struct scan_chunk *k = &s->k;

    delta_multiply((struct delta_product) { .c = s->du,
                                            .a = k->b,
                                            .b = s->dstatet,
                                            .ldc = k->broad,
                                            .lda = k->wide,
                                            .ldb = k->broad,
                                            .m = k->rows,
                                            .n = k->broad,
                                            .k = k->depth });
    for (size_t j = 0; j < k->rows; j++) {
        delta_times(s->du + j * k->broad, k->broad, k->until[j]);
        for (size_t i = j; i < k->rows; i++)
            delta_plus(s->du + j * k->broad, s->dout + i * k->broad, k->broad,
                       k->scores[i * SCAN_CHUNK + j] * k->fade[i * SCAN_CHUNK + j]);
    }
}

/* The gradient of the decay of a row. */
static float scan_decay(const struct scan_back *s, size_t row)
{
    float sum = s->end;

    for (size_t j = 0; j < row; j++)
        sum += s->leaves[j];
    for (size_t i = row; i < s->k.rows; i++) {
        sum += s->reads[i];
        for (size_t j = 0; j < row; j++)
            sum += s->pairs[i * SCAN_CHUNK + j] * s->k.scores[i * SCAN_CHUNK + j];
    }
    return sum;
}

static void scan_put(struct tensor x, size_t row, size_t col, float value)
{
    vec_store(cpu_row(x, row), x.format, col, 1, vec_all(value));
}

/* dx and ddt, and this chunk's sums of da_log, dbias and dskip. */
static void scan_rows_backward(struct scan_back *s, size_t head)
{
    struct scan_chunk *k = &s->k;
    float *sums = (float *)cpu_row(s->op->sums, s->chunk) + 3 * head;

    for (size_t i = 0; i < k->rows; i++) {
        const float *dout = s->dout + i * k->broad, *x = k->x + i * k->broad;
        float *du = s->du + i * k->broad, decay = scan_decay(s, i);
        float dstep = delta_dot(du, x, k->broad) + decay * k->rate;
        float ddt = dstep * k->slope[i];

        sums[0] += decay * k->rate * k->step[i];
        sums[1] += ddt;
        sums[2] += delta_dot(dout, x, k->broad);
        scan_put(s->op->ddt, k->first + i, head, ddt);
        delta_times(du, k->broad, k->step[i]);
        delta_plus(du, dout, k->broad, k->skip);
    }
    scan_store(k, s->du, k->broad, s->op->dx, head * k->size, k->size);
}

/* Set the rows of a chunk; false: the scratch has no such chunk. */
static bool scan_find(struct scan_back *s, size_t chunk)
{
    const struct op_scan *op = &s->op->forward;
    size_t sequence = 0, first, last;

    while (sequence + 1 < op->sequences &&
           op_scan_first_chunk((size_t)op->offsets[sequence + 1], sequence + 1) <= chunk)
        sequence++;
    first = (size_t)op->offsets[sequence];
    last = (size_t)op->offsets[sequence + 1];
    s->chunk = chunk;
    s->k.first = first + (chunk - op_scan_first_chunk(first, sequence)) * SCAN_CHUNK;
    if (chunk < op_scan_first_chunk(first, sequence) || s->k.first >= last)
        return false;
    s->k.rows = size_min(SCAN_CHUNK, last - s->k.first);
    return true;
}

/* A task is a group of heads of a chunk. */
static void scan_chunk_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_scan_backward *op = context;
    size_t groups = op->forward.groups, sharing = op->forward.heads / groups;
    size_t group = task % groups, first = group * sharing;
    struct scan_back s = scan_back_open(op, worker);
    float *sums = (float *)cpu_row(op->sums, task / groups) + 3 * first;

    memset(sums, 0, 3 * sharing * sizeof(*sums));
    if (!scan_find(&s, task / groups))
        return;
    scan_load_group(&s.k, group);
    for (size_t head = first; head < first + sharing; head++) {
        scan_load_head(&s.k, head);
        scan_load(&s.k, s.dout, s.k.broad, op->dout, head * s.k.size, s.k.size);
        scan_load_states(&s, head);
        scan_make_pairs(&s);
        scan_group_backward(&s);
        scan_values_backward(&s);
        scan_rows_backward(&s, head);
    }
    scan_store(&s.k, s.dc_sum, s.k.wide, op->dc, group * s.k.depth, s.k.depth);
    scan_store(&s.k, s.db_sum, s.k.wide, op->db, group * s.k.depth, s.k.depth);
}

/* Add up the chunks in order. */
static void scan_add_sums(const struct op_scan_backward *op, struct tensor to,
                          size_t which, size_t head)
{
    double sum = 0;

    for (size_t i = 0;
         to.data && i < op_scan_chunks(op->dout.rows, op->forward.sequences); i++)
        sum += (double)((const float *)cpu_row(op->sums, i))[3 * head + which];
    if (to.data)
        ((float *)to.data)[head] += (float)sum;
}

static void scan_sums_task(void *context, size_t head, struct pool_worker *worker)
{
    const struct op_scan_backward *op = context;

    (void)worker;
    scan_add_sums(op, op->da_log, 0, head);
    scan_add_sums(op, op->dbias, 1, head);
    scan_add_sums(op, op->dskip, 2, head);
}

void CPU_OP(scan_backward)(struct backend *be, const struct op_scan_backward *op)
{
    const struct op_scan *f = &op->forward;

    assert(f->x.cols <= f->heads * SCAN_SIZE_MAX);
    assert(f->b.cols <= f->groups * SCAN_STATE_MAX);
    if (f->sequences == 0)
        return;
    cpu_backend_run(be, f->sequences * f->heads, scan_states_task, (void *)op);
    cpu_backend_run(be, op_scan_chunks(op->dout.rows, f->sequences) * f->groups,
                    scan_chunk_task, (void *)op);
    cpu_backend_run(be, f->heads, scan_sums_task, (void *)op);
}
