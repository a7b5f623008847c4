/* train/model/mrope.c - the positions of text and images in a batch. */
#include "config.h"

#include "train/model/mrope.h"

#include <assert.h>

size_t mrope_image_of(const int32_t grid[ROPE_AXES], int32_t merge,
                      struct mrope_image *out)
{
    int64_t tokens = 1;

    for (size_t axis = 0; axis < ROPE_AXES; axis++) {
        int32_t by = axis == 0 ? 1 : merge;

        if (by < 1 || grid[axis] < 1 || grid[axis] % by != 0)
            return 0;
        out->size[axis] = grid[axis] / by;
        tokens *= out->size[axis];
        if (tokens > INT32_MAX)
            return 0;
    }
    return (size_t)tokens;
}

/* Fill the tokens of an image at position p; return the position after it. */
static int32_t fill_image(const struct mrope_image *image, int32_t p,
                          int32_t (*out)[ROPE_AXES])
{
    int32_t rows = image->size[1], columns = image->size[2];
    size_t n = 0;

    for (int32_t frame = 0; frame < image->size[0]; frame++)
        for (int32_t row = 0; row < rows; row++)
            for (int32_t column = 0; column < columns; column++, n++) {
                out[n][0] = p + frame;
                out[n][1] = p + row;
                out[n][2] = p + column;
            }
    return p + (rows > columns ? rows : columns);
}

void mrope_positions(const int32_t *offsets, size_t sequences,
                     const struct mrope_image *images, size_t count,
                     int32_t (*out)[ROPE_AXES])
{
    const struct mrope_image *image = images, *end = images + count;

    for (size_t s = 0; s < sequences; s++) {
        size_t row = (size_t)offsets[s], last = (size_t)offsets[s + 1];
        int32_t p = 0;

        while (row < last) {
            if (image < end && image->at == row) {
                p = fill_image(image, p, out + row);
                row += (size_t)image->size[0] * (size_t)image->size[1] *
                       (size_t)image->size[2];
                assert(row <= last);
                image++;
                continue;
            }
            for (size_t axis = 0; axis < ROPE_AXES; axis++)
                out[row][axis] = p;
            p++;
            row++;
        }
    }
    assert(image == end);
}

int32_t mrope_next(const int32_t (*positions)[ROPE_AXES], size_t rows)
{
    int32_t most = -1;

    for (size_t n = 0; n < rows; n++)
        for (size_t axis = 0; axis < ROPE_AXES; axis++)
            most = positions[n][axis] > most ? positions[n][axis] : most;
    return most + 1;
}
