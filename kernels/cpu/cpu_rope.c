/* kernels/cpu/cpu_rope.c - rotary position embeddings: of two halves of a head, or of
 * adjacent elements. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

/* What turns in one head: elements at .. at + 2 * half of a row. */
struct turn {
    void *row;
    enum format format;
    size_t at, half;
    const float *table;
    float sign;
};

static void rope_halves(const struct turn *t)
{
    for (size_t i = 0; i < t->half; i += LANES) {
        size_t count = vec_count(i, t->half);
        vec cosine = vec_load(t->table, FORMAT_FP32, i, count);
        vec sine = vec_load(t->table, FORMAT_FP32, t->half + i, count) * t->sign;
        vec left = vec_load(t->row, t->format, t->at + i, count);
        vec right = vec_load(t->row, t->format, t->at + t->half + i, count);

        vec_store(t->row, t->format, t->at + i, count, left * cosine - right * sine);
        vec_store(t->row, t->format, t->at + t->half + i, count,
                  right * cosine + left * sine);
    }
}

static void rope_pairs(const struct turn *t)
{
    for (size_t i = 0; i < t->half; i += LANES) {
        size_t count = vec_count(i, t->half), at = t->at + 2 * i;
        size_t lower = vec_count(0, 2 * count), upper = 2 * count - lower;
        vec cosine = vec_load(t->table, FORMAT_FP32, i, count);
        vec sine = vec_load(t->table, FORMAT_FP32, t->half + i, count) * t->sign;
        vec a = vec_load(t->row, t->format, at, lower);
        vec b = upper ? vec_load(t->row, t->format, at + LANES, upper) : (vec) {};
        vec even = __builtin_shufflevector(a, b, LANES_EVEN);
        vec odd = __builtin_shufflevector(a, b, LANES_ODD);

        a = even * cosine - odd * sine;
        b = odd * cosine + even * sine;
        vec_store(t->row, t->format, at, lower,
                  __builtin_shufflevector(a, b, LANES_LOWER));
        if (upper)
            vec_store(t->row, t->format, at + LANES, upper,
                      __builtin_shufflevector(a, b, LANES_UPPER));
    }
}

static void rope_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_rope *op = context;
    size_t rows = cpu_task_rows(op->x.cols), size = op->x.cols / op->heads;
    struct turn turn = { .format = op->x.format,
                         .half = (op->rotary ? op->rotary : size) / 2,
                         .sign = op->inverse ? -1 : 1 };

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++) {
        turn.row = cpu_row(op->x, row);
        turn.table = cpu_row(op->table, (size_t)op->positions[row]);
        for (size_t head = 0; head < op->heads; head++) {
            turn.at = head * size;
            if (op->interleaved)
                rope_pairs(&turn);
            else
                rope_halves(&turn);
        }
    }
}

void CPU_OP(rope)(struct backend *be, const struct op_rope *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)), rope_task,
                    (void *)op);
}
