/* kernels/cpu/cpu_latent.c - whole heads of multi-head latent attention from their parts, and
 * heads of another size. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_turn.h"

#include <assert.h>
#include <string.h>

/* Columns of heads, and of their parts. */
struct latent_sizes {
    size_t heads, head, plain, rotated, value;
    size_t bytes; /* of an element */
    enum format format;
};

static struct latent_sizes latent_sizes_of(struct tensor whole, struct tensor up_q,
                                           struct tensor up_kv, size_t rotated,
                                           size_t heads)
{
    struct latent_sizes s = { .heads = heads,
                              .head = whole.cols / heads,
                              .plain = up_q.cols / heads - rotated,
                              .rotated = rotated,
                              .bytes = format_info(whole.format)->bytes,
                              .format = whole.format };

    s.value = up_kv.cols / heads - s.plain;
    assert(s.head >= s.plain + rotated && s.head >= s.value &&
           up_q.format == whole.format && up_kv.format == whole.format);
    return s;
}

/* Copy `count` elements, and set those up to `all` to 0. */
static void latent_copy(const struct latent_sizes *s, char *to, const char *from,
                        size_t count, size_t all)
{
    memcpy(to, from, count * s->bytes);
    memset(to + count * s->bytes, 0, (all - count) * s->bytes);
}

static struct turn latent_turn(const struct latent_sizes *s, struct tensor table,
                               int32_t position, float sign)
{
    return (struct turn) { .format = s->format,
                           .half = s->rotated / 2,
                           .table = cpu_row(table, (size_t)position),
                           .sign = sign };
}

static void latent_row(const struct op_latent *op, const struct latent_sizes *s,
                       size_t row)
{
    struct turn turn = latent_turn(s, op->table, op->positions[row], 1);
    const char *up_q = cpu_row(op->up_q, row), *up_kv = cpu_row(op->up_kv, row);
    char *q = cpu_row(op->q, row), *k = cpu_row(op->k, row), *v = cpu_row(op->v, row);
    const char *shared = cpu_row(op->shared, row);
    size_t both = s->plain + s->rotated, plain = s->plain * s->bytes;

    for (size_t h = 0; h < s->heads; h++) {
        latent_copy(s, q, up_q, both, s->head);
        latent_copy(s, k, up_kv, s->plain, s->head);
        latent_copy(s, v, up_kv + plain, s->value, s->head);
        turn.row = q;
        turn.at = s->plain;
        turn_row(&turn, op->interleaved);
        memcpy(k + plain, shared, s->rotated * s->bytes);
        if (h == 0) { /* the others copy it */
            turn.row = k;
            turn_row(&turn, op->interleaved);
            shared = k + plain;
        }
        up_q += both * s->bytes;
        up_kv += plain + s->value * s->bytes;
        q += s->head * s->bytes;
        k += s->head * s->bytes;
        v += s->head * s->bytes;
    }
}

static void latent_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_latent *op = context;
    const struct latent_sizes s =
        latent_sizes_of(op->q, op->up_q, op->up_kv, op->table.cols, op->heads);
    size_t rows = cpu_task_rows(op->q.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->q.rows); row++)
        latent_row(op, &s, row);
}

void CPU_OP(latent)(struct backend *be, const struct op_latent *op)
{
    cpu_backend_run(be, size_divide_up(op->q.rows, cpu_task_rows(op->q.cols)),
                    latent_task, (void *)op);
}

/* The gradient of what the keys of all heads share: the sum of theirs, turned back. */
static void latent_sum_keys(const struct op_latent_backward *op,
                            const struct latent_sizes *s, size_t row)
{
    struct turn turn = latent_turn(s, op->table, op->positions[row], -1);
    const void *dk = cpu_row(op->dk, row);
    void *out = cpu_row(op->dshared, row);
    float sums[HEAD_SIZE_MAX] = { 0 };

    for (size_t h = 0; h < s->heads; h++)
        for (size_t i = 0; i < s->rotated; i += LANES) {
            size_t count = vec_count(i, s->rotated);

            vec_store(sums, FORMAT_FP32, i, count,
                      vec_load(sums, FORMAT_FP32, i, count) +
                          vec_load(dk, s->format, h * s->head + s->plain + i, count));
        }
    turn.row = sums;
    turn.format = FORMAT_FP32;
    turn_row(&turn, op->interleaved);
    for (size_t i = 0; i < s->rotated; i += LANES) {
        size_t count = vec_count(i, s->rotated);

        vec_store(out, s->format, i, count, vec_load(sums, FORMAT_FP32, i, count));
    }
}

static void latent_row_backward(const struct op_latent_backward *op,
                                const struct latent_sizes *s, size_t row)
{
    struct turn turn = latent_turn(s, op->table, op->positions[row], -1);
    char *dup_q = cpu_row(op->dup_q, row), *dup_kv = cpu_row(op->dup_kv, row);
    const char *dq = cpu_row(op->dq, row), *dk = cpu_row(op->dk, row),
               *dv = cpu_row(op->dv, row);
    size_t both = s->plain + s->rotated;

    for (size_t h = 0; h < s->heads; h++) {
        size_t at = h * s->head * s->bytes;

        latent_copy(s, dup_q, dq + at, both, both);
        turn.row = dup_q;
        turn.at = s->plain;
        turn_row(&turn, op->interleaved);
        latent_copy(s, dup_kv, dk + at, s->plain, s->plain);
        latent_copy(s, dup_kv + s->plain * s->bytes, dv + at, s->value, s->value);
        dup_q += both * s->bytes;
        dup_kv += (s->plain + s->value) * s->bytes;
    }
    latent_sum_keys(op, s, row);
}

static void latent_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_latent_backward *op = context;
    const struct latent_sizes s =
        latent_sizes_of(op->dq, op->dup_q, op->dup_kv, op->table.cols, op->heads);
    size_t rows = cpu_task_rows(op->dq.cols);

    (void)worker;
    assert(s.rotated <= HEAD_SIZE_MAX);
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->dq.rows); row++)
        latent_row_backward(op, &s, row);
}

void CPU_OP(latent_backward)(struct backend *be, const struct op_latent_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->dq.rows, cpu_task_rows(op->dq.cols)),
                    latent_backward_task, (void *)op);
}

static void pad_heads_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_pad_heads *op = context;
    const struct latent_sizes s = { .bytes = format_info(op->x.format)->bytes };
    size_t from = op->x.cols / op->heads, to = op->out.cols / op->heads;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    assert(op->x.format == op->out.format);
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++)
        for (size_t h = 0; h < op->heads; h++)
            latent_copy(&s, (char *)cpu_row(op->out, row) + h * to * s.bytes,
                        (const char *)cpu_row(op->x, row) + h * from * s.bytes,
                        size_min(from, to), to);
}

void CPU_OP(pad_heads)(struct backend *be, const struct op_pad_heads *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    pad_heads_task, (void *)op);
}
