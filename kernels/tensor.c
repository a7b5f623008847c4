/* kernels/tensor.c - views of matrices. */
#include "config.h"

#include "kernels/tensor.h"

#include "base/size.h"

#include <assert.h>

struct tensor tensor_of(void *data, enum format format, size_t rows, size_t cols)
{
    return (struct tensor) {
        .data = data, .format = format, .rows = rows, .cols = cols, .stride = cols
    };
}

static void *address_at(struct tensor whole, size_t numbers)
{
    if (!whole.data)
        return NULL;
    return (char *)whole.data + numbers * format_info(whole.format)->bytes;
}

struct tensor tensor_columns(struct tensor whole, size_t first, size_t cols)
{
    assert(first <= whole.cols && cols <= whole.cols - first);
    whole.data = address_at(whole, first);
    whole.cols = cols;
    return whole;
}

struct tensor tensor_rows(struct tensor whole, size_t first, size_t rows)
{
    assert(first <= whole.rows && rows <= whole.rows - first);
    whole.data = address_at(whole, first * whole.stride);
    whole.rows = rows;
    return whole;
}

size_t tensor_bytes(struct tensor tensor)
{
    size_t numbers, bytes;
    bool fits = size_mul(tensor.rows, tensor.cols, &numbers) &&
                size_mul(numbers, format_info(tensor.format)->bytes, &bytes);

    assert(fits && tensor.stride == tensor.cols);
    return fits ? bytes : 0;
}
