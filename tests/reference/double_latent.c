/* tests/reference/double_latent.c - the operations of kernels/ops_latent.h in double. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include "tests/reference/reference.h"

static struct reference_latent latent_of(const double *table, const int32_t *positions,
                                         struct tensor whole, struct tensor up_q,
                                         struct tensor up_kv, size_t rotated,
                                         size_t heads, bool interleaved)
{
    size_t plain = up_q.cols / heads - rotated;

    return (struct reference_latent) { .rows = whole.rows,
                                       .heads = heads,
                                       .head = whole.cols / heads,
                                       .plain = plain,
                                       .rotated = rotated,
                                       .value = up_kv.cols / heads - plain,
                                       .positions = positions,
                                       .table = table,
                                       .interleaved = interleaved };
}

void double_latent(struct backend *be, const struct op_latent *op)
{
    struct reference_latent r =
        latent_of(take(be, op->table), op->positions, op->q, op->up_q, op->up_kv,
                  op->table.cols, op->heads, op->interleaved);
    size_t all = op->q.rows * op->q.cols;

    r.up_q = take(be, op->up_q);
    r.up_kv = take(be, op->up_kv);
    r.shared = take(be, op->shared);
    r.q = room(be, all);
    r.k = room(be, all);
    r.v = room(be, all);
    reference_latent(&r);
    put(be, op->q, r.q);
    put(be, op->k, r.k);
    put(be, op->v, r.v);
    done(be);
}

void double_latent_backward(struct backend *be, const struct op_latent_backward *op)
{
    struct reference_latent r =
        latent_of(take(be, op->table), op->positions, op->dq, op->dup_q, op->dup_kv,
                  op->table.cols, op->heads, op->interleaved);

    r.q = take(be, op->dq);
    r.k = take(be, op->dk);
    r.v = take(be, op->dv);
    r.up_q = room(be, op->dup_q.rows * op->dup_q.cols);
    r.up_kv = room(be, op->dup_kv.rows * op->dup_kv.cols);
    r.shared = room(be, op->dshared.rows * op->dshared.cols);
    reference_latent_backward(&r);
    put(be, op->dup_q, r.up_q);
    put(be, op->dup_kv, r.up_kv);
    put(be, op->dshared, r.shared);
    done(be);
}

void double_pad_heads(struct backend *be, const struct op_pad_heads *op)
{
    double *x = take(be, op->x), *out = room(be, op->out.rows * op->out.cols);
    size_t from = op->x.cols / op->heads, to = op->out.cols / op->heads;

    for (size_t i = 0; i < op->x.rows * op->heads; i++)
        for (size_t j = 0; j < from && j < to; j++)
            out[i * to + j] = x[i * from + j];
    put(be, op->out, out);
    done(be);
}
