/* kernels/cpu/cpu_delta.c - the gated delta rule, chunk by chunk. */
#include "config.h"

#include "kernels/cpu/cpu_delta.h"

#include <assert.h>

/* out (rows, broad), given u */
static void delta_output(struct delta_chunk *c, const float *state, float *out)
{
    delta_multiply((struct delta_product) { .c = out,
                                            .a = c->q,
                                            .b = state,
                                            .ldc = c->broad,
                                            .lda = c->wide,
                                            .ldb = c->broad,
                                            .m = c->rows,
                                            .n = c->broad,
                                            .k = c->key });
    for (size_t i = 0; i < c->rows; i++)
        delta_times(out + i * c->broad, c->broad, c->since[i]);
    delta_make_scores(c);
    delta_multiply((struct delta_product) { .c = out,
                                            .a = c->own,
                                            .b = c->u,
                                            .ldc = c->broad,
                                            .lda = DELTA_CHUNK,
                                            .ldb = c->broad,
                                            .m = c->rows,
                                            .n = c->broad,
                                            .k = c->rows,
                                            .add = true });
}

/* The state of a head, as the operand has it. */
static float *delta_state_of(const struct op_delta *op, size_t sequence, size_t head,
                             size_t size)
{
    return (float *)cpu_row(op->state, sequence) + head * size;
}

static void delta_read_state(const struct delta_chunk *c, float *state, const float *from)
{
    for (size_t i = 0; i < c->key; i++)
        memcpy(state + i * c->broad, from + i * c->value, c->value * sizeof(*state));
}

static void delta_write_state(const struct delta_chunk *c, const float *state, float *to)
{
    for (size_t i = 0; i < c->key; i++)
        memcpy(to + i * c->value, state + i * c->broad, c->value * sizeof(*state));
}

/* A task is a head of values of one sequence. */
static void delta_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_delta *op = context;
    size_t sequence = task / op->heads, head = task % op->heads;
    size_t last = (size_t)op->offsets[sequence + 1];
    struct delta_chunk c = delta_chunk_open(op, worker);
    float *state = delta_room(worker, c.key, c.broad);
    float *out = delta_room(worker, DELTA_CHUNK, c.broad);

    if (op->state.data && op->resumes)
        delta_read_state(&c, state, delta_state_of(op, sequence, head, c.key * c.value));
    for (c.first = (size_t)op->offsets[sequence]; c.first < last; c.first += c.rows) {
        c.rows = size_min(DELTA_CHUNK, last - c.first);
        delta_load_keys(&c, head / (op->heads / op->key_heads));
        delta_load_gates(&c, head);
        delta_solve(&c, state, head);
        delta_output(&c, state, out);
        delta_store(&c, out, c.broad, op->out, head * c.value, c.value);
        delta_advance(&c, state, out);
    }
    if (op->state.data)
        delta_write_state(&c, state, delta_state_of(op, sequence, head, c.key * c.value));
}

void CPU_OP(delta)(struct backend *be, const struct op_delta *op)
{
    assert(op->q.cols <= op->key_heads * DELTA_SIZE_MAX);
    assert(op->v.cols <= op->heads * DELTA_SIZE_MAX);
    cpu_backend_run(be, op->sequences * op->heads, delta_task, (void *)op);
}
