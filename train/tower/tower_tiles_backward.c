/* train/tower/tower_tiles_backward.c - the gradients of what is added to the rows of tiles, on the
 * host: a pass adds few of the tables' rows, and the gates of these are on the host, too. */
#include "config.h"

#include "train/tower/tower_tiles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/tower/tower_layers.h"

/* The gradient of the rows; NULL: the device has failed. */
static float *download(const struct tower_pass *pass)
{
    const struct tensor dx = tower_pass_buffer(pass, TOWER_DX);
    float *out = memory_resize(NULL, dx.rows * dx.cols, sizeof(*out));
    struct error err = { 0 };

    pass->be->ops->download(pass->be, out, dx.data, tensor_bytes(dx));
    if (pass->be->ops->sync(pass->be, &err))
        return out;
    free(out);
    return NULL;
}

static float *zeros(size_t count)
{
    float *out = memory_resize(NULL, count, sizeof(*out));

    memset(out, 0, count * sizeof(*out));
    return out;
}

/* Add to a row of the gradient of a layer, or of all its rows as one, and free the values. */
static void add(const struct tower_pass *pass, enum tower_layer layer, size_t row,
                size_t count, float *values)
{
    const struct tensor all = tower_gradient_of(pass, layer, 0, false);
    const struct tensor scratch =
        tensor_of(tower_pass_buffer(pass, TOWER_X).data, FORMAT_FP32, 1, count);

    if (all.data) {
        const struct tensor to =
            tensor_of((float *)all.data + row * count, FORMAT_FP32, 1, count);

        pass->be->ops->upload(pass->be, scratch.data, values, count * sizeof(*values));
        pass->be->ops->add(pass->be,
                           &(struct op_add) { .out = to, .a = to, .b = scratch });
    }
    free(values);
}

/* sum: of the gradient times what the tanh of the gate multiplies */
static void add_gate(const struct tower_pass *pass, enum tower_layer layer, double sum)
{
    const double gate = tanhf(pass->host[layer][0]);
    float *value = zeros(1);

    *value = (float)((1 - gate * gate) * sum);
    add(pass, layer, 0, 1, value);
}

/* out += factor * x; return the dot product of x and y */
static double add_row(float *out, float factor, const float *x, const float *y,
                      size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        out[i] += factor * x[i];
        sum += (double)x[i] * y[i];
    }
    return sum;
}

/* The embedding of each tile, which all its patches have. */
static void tiles_first(const struct tower_pass *pass, const float *dx)
{
    const struct tower_config *c = pass->config;
    const size_t w = c->width, count = c->tiles * w, shape = pass->tiles->shape;
    const float *table = pass->host[TOWER_TILES_FIRST] + shape * count;
    const float gate = tanhf(pass->host[TOWER_TILES_FIRST_GATE][0]);
    float *out = zeros(count);
    double sum = 0;

    for (size_t t = 0; t < c->tiles; t++)
        for (size_t i = 1; i < c->tile_rows; i++)
            sum += add_row(out + t * w, gate,
                           dx + (tower_tiles_row(c, pass->tiles, t) + i) * w,
                           table + t * w, w);
    add(pass, TOWER_TILES_FIRST, shape, count, out);
    add_gate(pass, TOWER_TILES_FIRST_GATE, sum);
}

/* The positions of all tiles, times 1 - tanh(gate), and of each, times tanh(gate). */
static void positions(const struct tower_pass *pass, const float *dx)
{
    const struct tower_config *c = pass->config;
    const size_t w = c->width, of_tile = c->tile_rows * w, shape = pass->tiles->shape;
    const float *table = pass->host[TOWER_TILE_POSITIONS] + shape * c->tiles * of_tile;
    const float gate = tanhf(pass->host[TOWER_POSITIONS_GATE][0]);
    float *shared = zeros(of_tile), *own = zeros(c->tiles * of_tile);
    float *first = zeros(w);
    double sum = 0;

    for (size_t t = 0; t < c->tiles; t++) {
        const float *d = dx + tower_tiles_row(c, pass->tiles, t) * w;

        sum -= add_row(shared, 1 - gate, d, pass->host[TOWER_POSITIONS], of_tile);
        sum += add_row(own + t * of_tile, gate, d, table + t * of_tile, of_tile);
        add_row(first, 1, d, d, w);
    }
    add(pass, TOWER_CLASS, 0, w, first);
    add(pass, TOWER_POSITIONS, 0, of_tile, shared);
    add(pass, TOWER_TILE_POSITIONS, shape, c->tiles * of_tile, own);
    add_gate(pass, TOWER_POSITIONS_GATE, sum);
}

bool tower_tiles_backward(const struct tower_pass *pass)
{
    float *dx = download(pass);

    if (!dx)
        return false;
    positions(pass, dx);
    tiles_first(pass, dx);
    free(dx);
    return true;
}

bool tower_tiles_backward_last(const struct tower_pass *pass)
{
    const struct tower_config *c = pass->config;
    const struct tower_tiles *tiles = pass->tiles;
    const size_t w = c->width, count = c->tiles * w;
    const size_t padding = tiles->count * c->tile_rows;
    const float *table = pass->host[TOWER_TILES_LAST] + tiles->shape * count;
    const float gate = tanhf(pass->host[TOWER_TILES_LAST_GATE][0]);
    float *dx = download(pass), *out;
    double sum = 0;

    if (!dx)
        return false;
    out = zeros(count);
    for (size_t t = 0; t < c->tiles; t++) {
        const size_t first = tower_tiles_row(c, tiles, t);

        for (size_t i = 0; i < c->tile_rows; i++)
            sum += add_row(out + t * w, gate, dx + (first + i) * w, table + t * w, w);
        for (size_t i = 0; i < c->tile_padding; i++)
            sum +=
                add_row(out + t * w, gate, dx + (padding + t * c->tile_padding + i) * w,
                        table + t * w, w);
    }
    add(pass, TOWER_TILES_LAST, tiles->shape, count, out);
    add_gate(pass, TOWER_TILES_LAST_GATE, sum);
    free(dx);
    return true;
}
