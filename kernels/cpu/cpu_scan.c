/* kernels/cpu/cpu_scan.c - the selective scan of Mamba-2, chunk by chunk. */
#include "config.h"

#include "kernels/cpu/cpu_scan.h"

#include <assert.h>

/* out (rows, broad); `own` (CHUNK, CHUNK) is overwritten. */
static void scan_output(const struct scan_chunk *k, const float *state, float *own,
                        float *out)
{
    delta_multiply((struct delta_product) { .c = out,
                                            .a = k->c,
                                            .b = state,
                                            .ldc = k->broad,
                                            .lda = k->wide,
                                            .ldb = k->broad,
                                            .m = k->rows,
                                            .n = k->broad,
                                            .k = k->depth });
    for (size_t i = 0; i < k->rows; i++) {
        delta_times(out + i * k->broad, k->broad, k->since[i]);
        delta_plus(out + i * k->broad, k->x + i * k->broad, k->broad, k->skip);
        for (size_t j = 0; j < SCAN_CHUNK; j++)
            own[i * SCAN_CHUNK + j] = j <= i
                                          ? k->scores[i * SCAN_CHUNK + j] *
                                                k->fade[i * SCAN_CHUNK + j] * k->step[j]
                                          : 0;
    }
    /* not a product of whole chunks: a later row must not reach an earlier one as 0 x NaN */
    for (size_t i = 0; i < k->rows; i++)
        for (size_t j = 0; j <= i; j++)
            delta_plus(out + i * k->broad, k->x + j * k->broad, k->broad,
                       own[i * SCAN_CHUNK + j]);
}

/* A task is a head of one sequence. */
static void scan_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_scan *op = context;
    size_t sequence = task / op->heads, head = task % op->heads;
    size_t last = (size_t)op->offsets[sequence + 1];
    struct scan_chunk k = scan_chunk_open(op, worker);
    float *state = delta_room(worker, k.depth, k.broad), *kept = NULL;
    float *out = delta_room(worker, SCAN_CHUNK, k.broad);
    float *own = delta_room(worker, SCAN_CHUNK, SCAN_CHUNK);

    if (op->state.data)
        kept = (float *)cpu_row(op->state, sequence) + head * k.size * k.depth;
    if (kept && op->resumes)
        scan_read_state(&k, state, kept);
    for (k.first = (size_t)op->offsets[sequence]; k.first < last; k.first += k.rows) {
        k.rows = size_min(SCAN_CHUNK, last - k.first);
        scan_load_group(&k, head / (op->heads / op->groups));
        scan_load_head(&k, head);
        scan_output(&k, state, own, out);
        scan_store(&k, out, k.broad, op->out, head * k.size, k.size);
        scan_advance(&k, state, out);
    }
    if (kept)
        scan_write_state(&k, state, kept);
}

void CPU_OP(scan)(struct backend *be, const struct op_scan *op)
{
    assert(op->x.cols <= op->heads * SCAN_SIZE_MAX);
    assert(op->b.cols <= op->groups * SCAN_STATE_MAX);
    cpu_backend_run(be, op->sequences * op->heads, scan_task, (void *)op);
}
