/* train/tower/tower_order.c - the order of patches, and what depends on where they are. */
#include "config.h"

#include "train/tower/tower_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Most patches of an image: those of its limits of pixels are far fewer. */
#define PATCHES_MAX ((size_t)1 << 22)

static bool check(const struct tower_config *c, size_t height, size_t width,
                  struct error *err)
{
    size_t patches;
    bool learned = c->side > 0 && !c->family->encoder->interpolated;

    if (height == 0 || width == 0 || !size_mul(height, width, &patches) ||
        patches > PATCHES_MAX)
        return error_set(err, ERROR_DATA,
                         "an image of %zu x %zu patches cannot be encoded", width,
                         height);
    if (height % c->block != 0 || width % c->block != 0)
        return error_set(err, ERROR_DATA,
                         "the patches of an image, %zu x %zu, must be multiples of %zu",
                         width, height, c->block);
    if (c->axes > 0 && (height > c->axes || width > c->axes))
        return error_set(err, ERROR_DATA,
                         "the encoder reads images of up to %zu x %zu patches, not %zu x "
                         "%zu",
                         c->axes, c->axes, width, height);
    if (learned && (height != c->side || width != c->side))
        return error_set(err, ERROR_DATA,
                         "the encoder reads images of %zu x %zu patches, not %zu x %zu",
                         c->side, c->side, width, height);
    return true;
}

/* The patches of a block follow each other, in raster order. */
static void add_block(const struct tower_config *c, struct tower_order *out, size_t row,
                      size_t column, size_t across)
{
    const size_t block = c->block;

    out->to[out->rows++] = (uint32_t)(row * (across / block) + column);
    for (size_t y = 0; y < block; y++)
        for (size_t x = 0; x < block; x++) {
            size_t at[2] = { row * block + y, column * block + x };

            out->at[out->count][0] = (int32_t)at[0];
            out->at[out->count][1] = (int32_t)at[1];
            out->from[out->count++] = (uint32_t)(at[0] * across + at[1]);
        }
}

bool tower_order_make(const struct tower_config *config, size_t height, size_t width,
                      struct tower_order *out, struct error *err)
{
    const bool has_class = config->family->encoder->has_class;
    const size_t down = height / config->block, across = width / config->block;
    const size_t side = config->window;
    size_t patches = height * width + 1;

    *out = (struct tower_order) { 0 };
    if (!check(config, height, width, err))
        return false;
    out->at = memory_resize(NULL, patches, sizeof(*out->at));
    out->from = memory_resize(NULL, patches, sizeof(*out->from));
    out->to = memory_resize(NULL, patches, sizeof(*out->to));
    out->window_end = memory_resize(NULL, patches, sizeof(*out->window_end));
    if (has_class) {
        out->at[0][0] = out->at[0][1] = -1;
        out->from[0] = 0;
        out->count = 1;
        if (!config->drops_class)
            out->to[out->rows++] = 0;
    }
    if (side == 0)
        for (size_t y = 0; y < down; y++)
            for (size_t x = 0; x < across; x++)
                add_block(config, out, y, x, width);
    for (size_t top = 0; side > 0 && top < down; top += side)
        for (size_t left = 0; left < across; left += side) {
            for (size_t y = top; y < size_min(top + side, down); y++)
                for (size_t x = left; x < size_min(left + side, across); x++)
                    add_block(config, out, y, x, width);
            out->window_end[out->windows++] = (int32_t)out->count;
        }
    /* the class token is the first row */
    for (size_t i = 1; has_class && !config->drops_class && i < out->rows; i++)
        out->to[i]++;
    return true;
}

void tower_order_clear(struct tower_order *order)
{
    free(order->at);
    free(order->from);
    free(order->to);
    free(order->window_end);
    *order = (struct tower_order) { 0 };
}

/* A position between two of the table's: the first of them, and the weight of the other. */
struct between {
    size_t first, second;
    float weight;
};

static struct between between(size_t at, size_t count, size_t side)
{
    const float scaled =
        (float)at * (float)(side - 1) / (float)(count > 1 ? count - 1 : 1);
    const size_t first = size_min((size_t)floorf(scaled), side - 1);

    return (struct between) { first, size_min(first + 1, side - 1),
                              scaled - (float)first };
}

/* The same between the centers of patches; the first and the last are at the border. */
static struct between between_centers(size_t at, size_t count, size_t side)
{
    const float where = ((float)at + 0.5f) * (float)side / (float)count - 0.5f;
    const int64_t first = (int64_t)floorf(where);

    return (struct between) { first < 0 ? 0 : size_min((size_t)first, side - 1),
                              size_min((size_t)(first + 1), side - 1),
                              where - (float)first };
}

static struct tower_shares interpolate(const struct tower_config *c, const int32_t at[2],
                                       const size_t size[2])
{
    struct between (*const find)(size_t, size_t, size_t) =
        c->family->encoder->centered ? between_centers : between;
    const struct between y = find((size_t)at[0], size[0], c->side);
    const struct between x = find((size_t)at[1], size[1], c->side);

    return (struct tower_shares) {
        .count = 4,
        .rows = { y.first * c->side + x.first, y.first * c->side + x.second,
                  y.second * c->side + x.first, y.second * c->side + x.second },
        .weights = { (1 - y.weight) * (1 - x.weight), (1 - y.weight) * x.weight,
                     y.weight * (1 - x.weight), y.weight * x.weight },
    };
}

/* The four positions around one, with the weights of cubic convolution (a = -0.75). */
static void cubic(size_t at, size_t count, size_t side, size_t rows[4], float weights[4])
{
    const float a = -0.75f;
    const float where = ((float)at + 0.5f) / (float)count * (float)side - 0.5f;
    const float t = where - floorf(where);
    const float far[4] = { t + 1, t, 1 - t, 2 - t };

    for (int k = 0; k < 4; k++) {
        const float x = far[k];
        const int64_t row = (int64_t)floorf(where) + k - 1;

        weights[k] = k == 1 || k == 2 ? ((a + 2) * x - (a + 3)) * x * x + 1
                                      : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
        rows[k] = row < 0 ? 0 : size_min((size_t)row, side - 1);
    }
}

static struct tower_shares interpolate_cubic(const struct tower_config *c,
                                             const int32_t at[2], const size_t size[2])
{
    struct tower_shares out = { .count = 16 };
    size_t rows[2][4];
    float weights[2][4];

    for (int axis = 0; axis < 2; axis++)
        cubic((size_t)at[axis], size[axis], c->side, rows[axis], weights[axis]);
    for (size_t i = 0; i < 16; i++) {
        out.rows[i] = rows[0][i / 4] * c->side + rows[1][i % 4];
        out.weights[i] = weights[0][i / 4] * weights[1][i % 4];
    }
    return out;
}

struct tower_shares tower_order_shares(const struct tower_config *config,
                                       const struct tower_order *order, size_t index,
                                       const size_t size[2])
{
    const int32_t *at = order->at[index];
    struct tower_shares out = { .count = 1, .weights = { 1 } };

    if (config->axes > 0)
        return (
            struct tower_shares) { .count = 2,
                                   .rows = { 2 * (size_t)at[1], 2 * (size_t)at[0] + 1 },
                                   .weights = { 1, 1 } };
    if (config->family->encoder->bicubic)
        return interpolate_cubic(config, at, size);
    if (config->family->encoder->interpolated)
        return interpolate(config, at, size);
    if (config->family->encoder->class_last)
        out.rows[0] =
            at[0] < 0 ? size[0] * size[1] : (size_t)at[0] * size[1] + (size_t)at[1];
    else if (at[0] >= 0)
        out.rows[0] =
            (size_t)at[0] * size[1] + (size_t)at[1] + config->family->encoder->has_class;
    return out;
}

/* The positions of an axis that a patch has a share of: from the first, with weights that
 * are 1 - distance / width, divided by their sum. */
struct span {
    size_t first, end;
    float center, width, sum;
};

static float share(const struct span *span, size_t at)
{
    const float weight = 1 - fabsf((float)at - span->center) / span->width;

    return weight > 0 ? weight : 0;
}

static struct span span_of(size_t at, size_t count, size_t side)
{
    const float scale = (float)side / (float)count;
    struct span out = { .center = ((float)at + 0.5f) * scale - 0.5f,
                        .width = scale > 1 ? scale : 1 };
    const float low = floorf(out.center - out.width);

    out.first = low > 0 ? (size_t)low : 0;
    out.end = size_min((size_t)ceilf(out.center + out.width) + 1, side);
    for (size_t i = out.first; i < out.end; i++)
        out.sum += share(&out, i);
    return out;
}

/* out += the weight of each position times its row of the table, or, without a table, out of
 * the position += its weight. */
static void smooth(const struct tower_config *c, const int32_t at[2],
                   const size_t size[2], const float *table, float *out)
{
    const struct span y = span_of((size_t)at[0], size[0], c->side);
    const struct span x = span_of((size_t)at[1], size[1], c->side);

    for (size_t i = y.first; i < y.end; i++)
        for (size_t k = x.first; k < x.end; k++) {
            const float weight = share(&y, i) / y.sum * (share(&x, k) / x.sum);
            const size_t row = i * c->side + k;

            for (size_t j = 0; table && j < c->width; j++)
                out[j] += weight * table[row * c->width + j];
            if (!table)
                out[row] += weight;
        }
}

void tower_order_add_shares(const struct tower_config *config,
                            const struct tower_order *order, size_t index,
                            const size_t size[2], float *shares)
{
    struct tower_shares one;

    if (config->family->encoder->smoothed) {
        smooth(config, order->at[index], size, NULL, shares);
        return;
    }
    one = tower_order_shares(config, order, index, size);
    for (size_t k = 0; k < one.count; k++)
        shares[one.rows[k]] += one.weights[k];
}

void tower_order_position(const struct tower_config *config, const float *table,
                          const struct tower_order *order, size_t index,
                          const size_t size[2], float *out)
{
    struct tower_shares shares;

    memset(out, 0, config->width * sizeof(*out));
    if (config->family->encoder->smoothed) {
        smooth(config, order->at[index], size, table, out);
        return;
    }
    shares = tower_order_shares(config, order, index, size);

    for (size_t i = 0; i < config->width; i++)
        for (size_t k = 0; k < shares.count; k++)
            out[i] += shares.weights[k] * table[shares.rows[k] * config->width + i];
}

/*
 * The frequencies are theta^(-2 i / (d / 2)) of both axes (Qwen2-VL: all of the row, then
 * all of the column; Llama 4: the other way around, and a class token does not turn), or
 * theta^(-2 i / d), even i of the row and odd i of the column (Pixtral). Products are
 * rounded to fp32, as transformers rounds them.
 */
void tower_order_angles(const struct tower_config *config, const int32_t at[2],
                        float *out)
{
    const size_t half = config->head_size / 2, quarter = half / 2;
    const bool alternating = config->family->encoder->rope == TOWER_ROPE_ALTERNATING;
    const bool pairs = config->family->encoder->rope == TOWER_ROPE_PAIRS;

    for (size_t i = 0; i < half; i++) {
        const size_t axis = i / quarter, j = i % quarter;
        const double power = alternating ? (double)(2 * j + axis) / (double)half
                                         : (double)j / (double)quarter;
        const float frequency = (float)pow(config->rope_theta, -power);
        const float angle = (float)(pairs ? at[1 - axis] + 1 : at[axis]) * frequency;

        out[i] = (float)cos(angle);
        out[half + i] = (float)sin(angle);
    }
}
