/* tests/reference/double_rotation.c - matmuls by block, in double. */
#include "config.h"

#include "tests/reference/double_operand.h"

void double_skew(struct backend *be, const struct op_skew *op)
{
    const double *x = take(be, op->x);
    const size_t size = op->out.cols;
    double *out = room(be, numbers_of(op->out));

    for (size_t block = 0; block < op->x.rows; block++, out += size * size)
        for (size_t j = 0; j < size; j++) {
            out[j * size + j] = (double)op->diagonal;
            for (size_t k = j + 1; k < size; k++) {
                out[j * size + k] = *x;
                out[k * size + j] = -*x++;
            }
        }
    put(be, op->out, out - numbers_of(op->out));
    done(be);
}

void double_skew_backward(struct backend *be, const struct op_skew_backward *op)
{
    const double *dout = take(be, op->dout);
    const size_t size = op->dout.cols;
    double *dx = take(be, op->dx), *to = dx;

    for (size_t block = 0; block < op->dx.rows; block++, dout += size * size)
        for (size_t j = 0; j < size; j++)
            for (size_t k = j + 1; k < size; k++, to++)
                *to = (op->beta != 0 ? *to : 0) + dout[j * size + k] - dout[k * size + j];
    put(be, op->dx, dx);
    done(be);
}

/* Elements of an operand by block. */
struct blocks {
    double *values;
    size_t down, across, cols;
};

static struct blocks blocks_of(struct backend *be, const struct op_block_matmul *op,
                               struct tensor t)
{
    bool stacked = op->blocks == 1 || t.cols == op->size;

    return (struct blocks) { take(be, t), stacked ? op->size : 0, stacked ? 0 : op->size,
                             t.cols };
}

static double *at(const struct blocks *x, size_t block, size_t row, size_t col)
{
    return x->values + (block * x->down + row) * x->cols + block * x->across + col;
}

void double_block_matmul(struct backend *be, const struct op_block_matmul *op)
{
    struct blocks out = blocks_of(be, op, op->out), a = blocks_of(be, op, op->a),
                  b = blocks_of(be, op, op->b);
    const bool whole = op->blocks == 1;
    const size_t rows = out.down && !whole ? op->size : op->out.rows;
    const size_t depth = !op->trans_a || (a.down && !whole) ? op->size : op->a.rows;

    for (size_t i = 0; i < op->blocks * rows * op->size; i++) {
        size_t block = i / (rows * op->size), row = i / op->size % rows;
        size_t col = i % op->size;
        double sum = 0, *to = at(&out, block, row, col);

        for (size_t k = 0; k < depth; k++)
            sum += *(op->trans_a ? at(&a, block, k, row) : at(&a, block, row, k)) *
                   *(op->trans_b ? at(&b, block, col, k) : at(&b, block, k, col));
        *to = (double)op->alpha * sum + (op->beta != 0 ? *to : 0) +
              (row == col ? (double)op->diagonal : 0);
    }
    put(be, op->out, out.values);
    done(be);
}

/* The inverse of identity + skew is found by elimination in place, too. */
void double_block_inverse(struct backend *be, const struct op_block_inverse *op)
{
    double *x = take(be, op->x), *m = x;
    const size_t size = op->x.cols;

    for (; m < x + numbers_of(op->x); m += size * size)
        for (size_t p = 0; p < size; p++) {
            double pivot = 1 / m[p * size + p];

            for (size_t i = 0; i < size * size; i++)
                if (i / size != p && i % size != p)
                    m[i] -= m[i / size * size + p] * pivot * m[p * size + i % size];
            for (size_t i = 0; i < size; i++) {
                m[p * size + i] *= i == p ? 0 : pivot;
                m[i * size + p] *= i == p ? 0 : -pivot;
            }
            m[p * size + p] = pivot;
        }
    put(be, op->x, x);
    done(be);
}
