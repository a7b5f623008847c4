/* kernels/cpu/cpu_elementwise.c - elementwise operations, and sums over rows. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_random.h"
#include "kernels/cpu/cpu_vector.h"

#include <assert.h>

/* Columns of one task, and rows summed before they are added to the total, in sums over
 * rows. */
enum { SUM_COLUMNS = 64, SUM_ROWS = 64 };

/* A matrix split into tasks: pieces of CPU_TASK_ELEMENTS elements of a row, or several
 * rows. */
struct cells {
    size_t rows, cols, rows_a_task, pieces_a_row, tasks;
};

static struct cells cells_of(size_t rows, size_t cols)
{
    struct cells cells = { .rows = rows, .cols = cols };

    cells.rows_a_task = cpu_task_rows(cols);
    cells.pieces_a_row = size_divide_up(cols, CPU_TASK_ELEMENTS);
    cells.tasks = size_divide_up(rows, cells.rows_a_task) * cells.pieces_a_row;
    return cells;
}

/* The range of one task: rows row .. last_row, columns first .. last. */
struct cell {
    size_t row, last_row, first, last;
};

static struct cell cell_of(const struct cells *cells, size_t task)
{
    struct cell cell = {
        .row = task / cells->pieces_a_row * cells->rows_a_task,
        .first = task % cells->pieces_a_row * CPU_TASK_ELEMENTS,
    };

    cell.last_row = size_min(cell.row + cells->rows_a_task, cells->rows);
    cell.last = size_min(cell.first + CPU_TASK_ELEMENTS, cells->cols);
    return cell;
}

/* View both as one long row, if neither has gaps. */
static void elementwise_flatten(struct tensor *x, struct tensor *y)
{
    if (x->stride == x->cols && y->stride == y->cols) {
        *x = cpu_flat(*x);
        *y = cpu_flat(*y);
    }
}

struct add {
    struct op_add op;
    struct cells cells;
};

static void add_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct add *add = context;
    const struct op_add *op = &add->op;
    struct cell cell = cell_of(&add->cells, task);

    (void)worker;
    for (size_t row = cell.row; row < cell.last_row; row++) {
        const void *a = cpu_row(op->a, row), *b = cpu_row(op->b, row);
        void *out = cpu_row(op->out, row);

        for (size_t i = cell.first; i < cell.last; i += LANES) {
            size_t count = vec_count(i, cell.last);

            vec_store(out, op->out.format, i, count,
                      vec_load(a, op->a.format, i, count) +
                          vec_load(b, op->b.format, i, count));
        }
    }
}

void CPU_OP(add)(struct backend *be, const struct op_add *op)
{
    struct add add = { .op = *op };

    if (op->a.stride == op->a.cols && op->b.stride == op->b.cols &&
        op->out.stride == op->out.cols)
        add.op = (struct op_add) { cpu_flat(op->out), cpu_flat(op->a), cpu_flat(op->b) };
    add.cells = cells_of(add.op.out.rows, add.op.out.cols);
    cpu_backend_run(be, add.cells.tasks, add_task, &add);
}

struct scale {
    struct op_scale op;
    struct cells cells;
};

static void scale_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct scale *scale = context;
    const struct op_scale *op = &scale->op;
    struct cell cell = cell_of(&scale->cells, task);

    (void)worker;
    for (size_t row = cell.row; row < cell.last_row; row++) {
        const void *x = cpu_row(op->x, row);
        void *out = cpu_row(op->out, row);

        for (size_t i = cell.first; i < cell.last; i += LANES) {
            size_t count = vec_count(i, cell.last);

            vec_store(out, op->out.format, i, count,
                      op->factor * vec_load(x, op->x.format, i, count));
        }
    }
}

void CPU_OP(scale)(struct backend *be, const struct op_scale *op)
{
    struct scale scale = { .op = *op };

    if (op->by.data)
        scale.op.factor *= *(const float *)op->by.data;
    elementwise_flatten(&scale.op.out, &scale.op.x);
    scale.cells = cells_of(scale.op.out.rows, scale.op.out.cols);
    cpu_backend_run(be, scale.cells.tasks, scale_task, &scale);
}

struct convert {
    struct tensor out, x;
    size_t copy; /* bytes of an element if both formats are the same, else 0 */
    struct cells cells;
};

static void convert_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct convert *convert = context;
    struct cell cell = cell_of(&convert->cells, task);

    (void)worker;
    for (size_t row = cell.row; row < cell.last_row; row++) {
        const void *x = cpu_row(convert->x, row);
        void *out = cpu_row(convert->out, row);

        if (convert->copy) {
            memmove((char *)out + cell.first * convert->copy,
                    (const char *)x + cell.first * convert->copy,
                    (cell.last - cell.first) * convert->copy);
            continue;
        }
        for (size_t i = cell.first; i < cell.last; i += LANES) {
            size_t count = vec_count(i, cell.last);

            vec_store(out, convert->out.format, i, count,
                      vec_load(x, convert->x.format, i, count));
        }
    }
}

void CPU_OP(convert)(struct backend *be, const struct op_convert *op)
{
    struct convert convert = { .out = op->out, .x = op->x };

    if (op->out.format == op->x.format)
        convert.copy = format_info(op->x.format)->bytes;
    elementwise_flatten(&convert.out, &convert.x);
    convert.cells = cells_of(convert.out.rows, convert.out.cols);
    cpu_backend_run(be, convert.cells.tasks, convert_task, &convert);
}

struct zero {
    struct tensor out;
    struct cells cells;
};

static void zero_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct zero *zero = context;
    struct cell cell = cell_of(&zero->cells, task);
    size_t bytes = format_info(zero->out.format)->bytes;

    (void)worker;
    for (size_t row = cell.row; row < cell.last_row; row++)
        memset((char *)cpu_row(zero->out, row) + cell.first * bytes, 0,
               (cell.last - cell.first) * bytes);
}

void CPU_OP(zero)(struct backend *be, const struct op_zero *op)
{
    struct zero zero = { .out = cpu_flat(op->out) };

    zero.cells = cells_of(zero.out.rows, zero.out.cols);
    cpu_backend_run(be, zero.cells.tasks, zero_task, &zero);
}

struct dropout {
    struct tensor out, x;
    struct random_key key;
    uint64_t base;     /* index of the first element */
    int32_t threshold; /* kept: bits - 2^31 >= threshold */
    float factor;
    struct cells cells;
};

/* Process elements first .. last of a row whose element 0 has the index `index`. */
static void dropout_range(const struct dropout *dropout, size_t row, size_t first,
                          size_t last, uint64_t index)
{
    const void *x = cpu_row(dropout->x, row);
    void *out = cpu_row(dropout->out, row);
    uint32_t bits[RANDOM_ROOM] = { 0 };

    while (first < last) {
        uint64_t at = index + first, block = at / 4;
        size_t skip = at % 4, end = size_min(first + RANDOM_NUMBERS - skip, last);

        random_fill(&dropout->key, block, bits);
        for (size_t i = first; i < end; i += LANES) {
            size_t count = vec_count(i, end);
            vec value = vec_load(x, dropout->x.format, i, count);
            ivec signs;

            memcpy(&signs, bits + skip + i - first, sizeof(signs));
            signs = (signs ^ INT32_MIN) >= dropout->threshold;
            value = vec_select(signs, value * dropout->factor, (vec) {});
            vec_store(out, dropout->out.format, i, count, value);
        }
        first = end;
    }
}

static void dropout_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct dropout *dropout = context;
    struct cell cell = cell_of(&dropout->cells, task);

    (void)worker;
    for (size_t row = cell.row; row < cell.last_row; row++)
        dropout_range(dropout, row, cell.first, cell.last,
                      dropout->base + row * dropout->x.cols);
}

void CPU_OP(dropout)(struct backend *be, const struct op_dropout *op)
{
    struct dropout dropout = {
        .out = op->out,
        .x = op->x,
        .key = { op->seed, RANDOM_DROPOUT, op->stream },
        .base = (op->step + (op->draw ? *op->draw : 0)) *
                ((op->rows ? *op->rows : op->x.rows) * op->x.cols),
        .threshold = (int32_t)(ceil((double)op->p * 0x1p32) - 0x1p31),
        .factor = 1 / (1 - op->p),
    };

    assert(op->p >= 0 && op->p < 1);
    elementwise_flatten(&dropout.out, &dropout.x);
    dropout.cells = cells_of(dropout.out.rows, dropout.out.cols);
    cpu_backend_run(be, dropout.cells.tasks, dropout_task, &dropout);
}

/* Sum SUM_COLUMNS columns over all rows. */
static void sum_rows_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_sum_rows *op = context;
    size_t first = task * SUM_COLUMNS, cols = size_min(first + SUM_COLUMNS, op->x.cols);
    vec total[SUM_COLUMNS / LANES] = { 0 };

    (void)worker;
    for (size_t begin = 0; begin < op->x.rows; begin += SUM_ROWS) {
        vec part[SUM_COLUMNS / LANES] = { 0 };

        for (size_t row = begin; row < size_min(begin + SUM_ROWS, op->x.rows); row++) {
            const void *x = cpu_row(op->x, row);

            for (size_t i = first; i < cols; i += LANES)
                part[(i - first) / LANES] +=
                    vec_load(x, op->x.format, i, vec_count(i, cols));
        }
        for (int j = 0; j < SUM_COLUMNS / LANES; j++)
            total[j] += part[j];
    }
    for (size_t i = first; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec was = vec_load(op->out.data, FORMAT_FP32, i, count);

        vec_store(op->out.data, FORMAT_FP32, i, count, was + total[(i - first) / LANES]);
    }
}

void CPU_OP(sum_rows)(struct backend *be, const struct op_sum_rows *op)
{
    cpu_backend_run(be, size_divide_up(op->x.cols, SUM_COLUMNS), sum_rows_task,
                    (void *)op);
}
