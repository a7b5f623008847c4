/* kernels/cpu/cpu_rotation.c - stacks of skew-symmetric matrices, and matmuls by block. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

/* A task of a matmul computes a tile of that many rows and columns of one block; it reads
 * as many elements of the sum at a time. */
enum { TILE = 64 };

static void skew_task(void *context, size_t row, struct pool_worker *worker)
{
    const struct op_skew *op = context;
    const size_t size = op->out.cols;
    const char *packed = cpu_row(op->x, row);
    const size_t item = format_info(op->x.format)->bytes;

    (void)worker;
    for (size_t j = 0; j < size; j++) {
        float *out = cpu_row(op->out, row * size + j);

        out[j] = op->diagonal;
        format_convert(out + j + 1, FORMAT_FP32, packed, op->x.format, size - 1 - j);
        packed += (size - 1 - j) * item;
        for (size_t k = j + 1; k < size; k++)
            *((float *)cpu_row(op->out, row * size + k) + j) = -out[k];
    }
}

void CPU_OP(skew)(struct backend *be, const struct op_skew *op)
{
    cpu_backend_run(be, op->x.rows, skew_task, (void *)op);
}

static void skew_backward_task(void *context, size_t row, struct pool_worker *worker)
{
    const struct op_skew_backward *op = context;
    const size_t size = op->dout.cols;
    float *dx = cpu_row(op->dx, row);

    (void)worker;
    for (size_t j = 0; j < size; j++) {
        const float *upper = cpu_row(op->dout, row * size + j);

        for (size_t k = j + 1; k < size; k++, dx++)
            *dx = (op->beta != 0 ? *dx : 0) + upper[k] -
                  *((const float *)cpu_row(op->dout, row * size + k) + j);
    }
}

void CPU_OP(skew_backward)(struct backend *be, const struct op_skew_backward *op)
{
    cpu_backend_run(be, op->dx.rows, skew_backward_task, (void *)op);
}

/* Return a block of an operand. */
static struct tensor block_of(const struct op_block_matmul *op, struct tensor x,
                              size_t block)
{
    if (op->blocks == 1)
        return x;
    return x.cols == op->size ? tensor_rows(x, block * op->size, op->size)
                              : tensor_columns(x, block * op->size, op->size);
}

/* A range of rows or columns. */
struct range {
    size_t first, count;
};

/* Copy rows and columns of x to out[TILE][TILE], transposed if asked to. */
static void read_tile(struct tensor x, struct range rows, struct range cols,
                      bool transposed, float *out)
{
    const size_t item = format_info(x.format)->bytes;

    if (!transposed) {
        for (size_t i = 0; i < rows.count; i++)
            format_convert(out + i * TILE, FORMAT_FP32,
                           (char *)cpu_row(x, rows.first + i) + cols.first * item,
                           x.format, cols.count);
        return;
    }
    for (size_t j = 0; j < cols.count; j++) {
        float values[TILE];

        format_convert(values, FORMAT_FP32,
                       (char *)cpu_row(x, cols.first + j) + rows.first * item, x.format,
                       rows.count);
        for (size_t i = 0; i < rows.count; i++)
            out[i * TILE + j] = values[i];
    }
}

/* sums[rows][TILE] += a[rows][depth] b[depth][TILE] */
static void add_tile(float *restrict sums, const float *restrict a,
                     const float *restrict b, size_t rows, size_t depth)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t at = 0; at < TILE; at += LANES) {
            vec sum = vec_load(sums + i * TILE, FORMAT_FP32, at, LANES);

            for (size_t k = 0; k < depth; k++)
                sum += a[i * TILE + k] * vec_load(b + k * TILE, FORMAT_FP32, at, LANES);
            vec_store(sums + i * TILE, FORMAT_FP32, at, LANES, sum);
        }
}

static void write_tile(const struct op_block_matmul *op, struct tensor out,
                       struct range rows, struct range cols, const float *sums)
{
    for (size_t i = 0; i < rows.count; i++)
        for (size_t at = 0; at < cols.count; at += LANES) {
            size_t count = vec_count(at, cols.count), col = cols.first + at;
            size_t row = rows.first + i;
            vec value = op->alpha * vec_load(sums + i * TILE, FORMAT_FP32, at, count);

            if (op->beta != 0)
                value += vec_load(cpu_row(out, row), out.format, col, count);
            if (row >= col && row < col + count)
                value[row - col] += op->diagonal;
            vec_store(cpu_row(out, row), out.format, col, count, value);
        }
}

/* Of a matmul: the rows of a block of the output, and tiles of one. */
struct block_tiles {
    const struct op_block_matmul *op;
    size_t rows, depth, down, across;
};

static void block_matmul_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct block_tiles *t = context;
    const struct op_block_matmul *op = t->op;
    const size_t block = task / (t->down * t->across);
    struct range rows = { task / t->across % t->down * TILE, 0 }, cols, depth;
    struct tensor a = block_of(op, op->a, block), b = block_of(op, op->b, block);
    float sums[TILE * TILE] = { 0 }, left[TILE * TILE], right[TILE * TILE] = { 0 };

    (void)worker;
    rows.count = size_min(TILE, t->rows - rows.first);
    cols.first = task % t->across * TILE;
    cols.count = size_min(TILE, op->size - cols.first);
    for (depth.first = 0; depth.first < t->depth; depth.first += TILE) {
        depth.count = size_min(TILE, t->depth - depth.first);
        read_tile(a, rows, depth, op->trans_a, left);
        read_tile(b, depth, cols, op->trans_b, right);
        add_tile(sums, left, right, rows.count, depth.count);
    }
    write_tile(op, block_of(op, op->out, block), rows, cols, sums);
}

void CPU_OP(block_matmul)(struct backend *be, const struct op_block_matmul *op)
{
    const struct tensor a = block_of(op, op->a, 0), out = block_of(op, op->out, 0);
    struct block_tiles t = { .op = op,
                             .rows = out.rows,
                             .depth = op->trans_a ? a.rows : a.cols,
                             .down = size_divide_up(out.rows, TILE),
                             .across = size_divide_up(op->size, TILE) };

    cpu_backend_run(be, op->blocks * t.down * t.across, block_matmul_task, &t);
}

/* Gauss-Jordan elimination in place. */
static void invert(struct tensor x)
{
    for (size_t p = 0; p < x.cols; p++) {
        float *pivot_row = cpu_row(x, p), pivot = 1 / pivot_row[p];

        pivot_row[p] = 1;
        for (size_t j = 0; j < x.cols; j++)
            pivot_row[j] *= pivot;
        for (size_t i = 0; i < x.cols; i++) {
            float *row = cpu_row(x, i), factor = row[p];

            if (i == p)
                continue;
            row[p] = 0;
            for (size_t j = 0; j < x.cols; j++)
                row[j] -= factor * pivot_row[j];
        }
    }
}

static void block_inverse_task(void *context, size_t block, struct pool_worker *worker)
{
    const struct op_block_inverse *op = context;

    (void)worker;
    invert(tensor_rows(op->x, block * op->x.cols, op->x.cols));
}

void CPU_OP(block_inverse)(struct backend *be, const struct op_block_inverse *op)
{
    cpu_backend_run(be, op->x.rows / op->x.cols, block_inverse_task, (void *)op);
}
