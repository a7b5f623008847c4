/* precision/affine.c - the parts of a matrix of integer codes. */
#include "config.h"

#include "precision/affine.h"

static size_t aligned(size_t at)
{
    return (at + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

struct affine_layout affine_layout(struct affine how, size_t rows, size_t cols)
{
    size_t factors = rows * affine_groups(how, cols), elements = rows * cols;
    struct affine_layout at = {
        .scales = aligned(how.bits == 8 ? elements : elements / 2 + elements % 2)
    };

    at.zeros = at.scales + factors * sizeof(float);
    at.columns = aligned(at.zeros + factors);
    at.total = at.columns + cols * sizeof(uint32_t);
    return at;
}
