/* train/tower/tower_tiles.c - the rows of tiles, and their positions (MllamaVisionModel). */
#include "config.h"

#include "train/tower/tower_tiles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

size_t tower_tiles_shapes(const struct tower_config *config)
{
    size_t count = 0;

    for (size_t down = 1; down <= config->tiles; down++)
        count += config->tiles / down;
    return count;
}

bool tower_tiles_make(const struct tower_config *c, size_t height, size_t width,
                      struct tower_tiles *out, struct error *err)
{
    const size_t down = height / c->side, across = width / c->side;

    if (down == 0 || across == 0 || height % c->side != 0 || width % c->side != 0 ||
        down > c->tiles || across > c->tiles / down)
        return error_set(err, ERROR_DATA,
                         "the encoder reads up to %zu tiles of %zu x %zu patches, not an "
                         "image of %zu x %zu patches",
                         c->tiles, c->side, c->side, width, height);
    *out = (struct tower_tiles) { .down = down,
                                  .across = across,
                                  .count = down * across,
                                  .shape = across,
                                  .rows = c->tiles * (c->tile_rows + c->tile_padding) };
    for (size_t i = 1; i < down; i++)
        out->shape += c->tiles / i;
    return true;
}

size_t tower_tiles_patch(const struct tower_config *c, const struct tower_tiles *tiles,
                         size_t index)
{
    const size_t side = c->side, tile = index / (side * side), at = index % (side * side);
    const size_t y = tile / tiles->across * side + at / side;
    const size_t x = tile % tiles->across * side + at % side;

    return y * tiles->across * side + x;
}

void tower_tiles_order(const struct tower_config *c, void *rows, size_t count,
                       size_t item, bool to_pass)
{
    const size_t others = c->chosen - 1, bytes = others * c->width * item;
    char *row = memory_resize(NULL, bytes + 1, 1), *to = (char *)rows + c->width * item;

    for (size_t i = 0; i < count; i++, to += bytes + c->width * item) {
        memcpy(row, to, bytes);
        for (size_t k = 0; k < others; k++)
            for (size_t j = 0; j < c->width; j++) {
                const size_t whole = k * c->width + j, stacked = j * others + k;

                memcpy(to + (to_pass ? whole : stacked) * item,
                       row + (to_pass ? stacked : whole) * item, item);
            }
    }
    free(row);
}

size_t tower_tiles_row(const struct tower_config *c, const struct tower_tiles *tiles,
                       size_t tile)
{
    return tile * c->tile_rows + (tile < tiles->count ? 0 : c->tiles * c->tile_padding);
}

static void add(float *out, const float *from, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] += factor * from[i];
}

void tower_tiles_places(const struct tower_config *c, const struct tower_tiles *tiles,
                        const float *const *host, float *out)
{
    const size_t w = c->width, per = c->tile_rows;
    const float gate = tanhf(host[TOWER_POSITIONS_GATE][0]);
    const float first = tanhf(host[TOWER_TILES_FIRST_GATE][0]);
    const float *positions =
        host[TOWER_TILE_POSITIONS] + tiles->shape * c->tiles * per * w;
    const float *of_tiles = host[TOWER_TILES_FIRST] + tiles->shape * c->tiles * w;

    memset(out, 0, tiles->rows * w * sizeof(*out));
    for (size_t t = 0; t < c->tiles; t++) {
        float *to = out + tower_tiles_row(c, tiles, t) * w;

        add(to, host[TOWER_CLASS], 1, w);
        for (size_t i = 1; i < per; i++)
            add(to + i * w, of_tiles + t * w, first, w);
        add(to, host[TOWER_POSITIONS], 1 - gate, per * w);
        add(to, positions + t * per * w, gate, per * w);
    }
}

void tower_tiles_places_last(const struct tower_config *c,
                             const struct tower_tiles *tiles, const float *const *host,
                             float *out)
{
    const size_t w = c->width, padding = tiles->count * c->tile_rows;
    const float gate = tanhf(host[TOWER_TILES_LAST_GATE][0]);
    const float *of_tiles = host[TOWER_TILES_LAST] + tiles->shape * c->tiles * w;

    memset(out, 0, tiles->rows * w * sizeof(*out));
    for (size_t t = 0; t < c->tiles; t++) {
        for (size_t i = 0; i < c->tile_rows; i++)
            add(out + (tower_tiles_row(c, tiles, t) + i) * w, of_tiles + t * w, gate, w);
        for (size_t i = 0; i < c->tile_padding; i++)
            add(out + (padding + t * c->tile_padding + i) * w, of_tiles + t * w, gate, w);
    }
}
