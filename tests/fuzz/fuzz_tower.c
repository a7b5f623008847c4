/* tests/fuzz/fuzz_tower.c - the encoder that a config.json describes: it is rejected with
 * ERROR_DATA, or its parameters and the order of patches are within their limits. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "base/size.h"
#include "train/tower/tower_cost.h"
#include "train/tower/tower_order.h"
#include "train/tower/tower_parameters.h"
#include "train/tower/tower_tiles.h"

enum { TEXT_WIDTH = 64 };

static void try_parameters(const struct tower_config *c, struct arena *arena)
{
    struct tower_parameters list;
    size_t end = 0;

    tower_parameters_list(c, true, FORMAT_BF16, 64, arena, &list);
    FUZZ_HOLDS(list.count > 0 && list.bytes > 0);
    for (size_t i = 0; i < list.count; i++) {
        const struct tower_parameter *p = &list.list[i];
        size_t shape[5], rank = tower_parameter_shape(c, p, shape), elements = p->parts;

        for (size_t k = 0; k < rank; k++)
            elements *= shape[k];
        FUZZ_HOLDS(elements == p->rows * p->cols);
        FUZZ_HOLDS(p->at == TOWER_ON_HOST || (p->at >= end && p->at < list.bytes));
        end = p->at == TOWER_ON_HOST ? end : p->at + p->rows * p->cols;
    }
}

/* Each patch once, and each row. */
static void try_order(const struct tower_config *c, size_t height, size_t width)
{
    struct tower_order order;
    struct error err = { 0 };
    const size_t has_class = c->family->encoder->has_class;
    float angles[HEAD_SIZE_MAX];

    if (!tower_order_make(c, height, width, &order, &err)) {
        FUZZ_HOLDS(err.code == ERROR_DATA);
        return;
    }
    FUZZ_HOLDS(order.count == height * width + has_class);
    for (size_t i = has_class; i < order.count; i++) {
        FUZZ_HOLDS(order.from[i] < height * width);
        FUZZ_HOLDS(order.at[i][0] >= 0 && (size_t)order.at[i][0] < height);
        FUZZ_HOLDS(order.at[i][1] >= 0 && (size_t)order.at[i][1] < width);
    }
    for (size_t i = 0; i < order.rows; i++)
        FUZZ_HOLDS(order.to[i] < order.rows);
    FUZZ_HOLDS(order.windows == 0 ||
               order.window_end[order.windows - 1] == (int32_t)order.count);
    if (c->family->encoder->rope) {
        tower_order_angles(c, order.at[order.count - 1], angles);
        for (size_t i = 0; i < c->head_size; i++)
            FUZZ_HOLDS(isfinite(angles[i]));
    }
    tower_order_clear(&order);
}

/* The patches of the tiles are those of the canvas. */
static void try_tiles(const struct tower_config *c, size_t down, size_t across)
{
    const size_t height = down * c->side, width = across * c->side;
    struct tower_tiles tiles;
    struct error err = { 0 };

    if (!tower_tiles_make(c, height, width, &tiles, &err)) {
        FUZZ_HOLDS(err.code == ERROR_DATA && down * across > c->tiles);
        return;
    }
    FUZZ_HOLDS(tiles.count == down * across && tiles.count <= c->tiles);
    FUZZ_HOLDS(tiles.shape >= 1 && tiles.shape <= tower_tiles_shapes(c));
    FUZZ_HOLDS(tiles.rows >= tiles.count * c->tile_rows);
    FUZZ_HOLDS(tower_tiles_patch(c, &tiles, 0) == 0);
    FUZZ_HOLDS(tower_tiles_patch(c, &tiles, height * width - 1) == height * width - 1);
}

static void try_config(const struct tower_config *c, struct arena *arena)
{
    static const size_t sides[] = { 1, 2, 6, 24 };
    struct tower_cost cost;

    FUZZ_HOLDS(c->layers >= c->run && c->width && c->inner && c->heads);
    FUZZ_HOLDS(c->head_size * c->heads == c->width && c->head_size <= HEAD_SIZE_MAX);
    FUZZ_HOLDS(c->group && c->row_width && c->projected == TEXT_WIDTH);
    FUZZ_HOLDS(c->chosen <= TOWER_CHOSEN_MAX && c->deep <= TOWER_DEEP_MAX);
    try_parameters(c, arena);
    for (int trains = 0; trains < 2; trains++) {
        const struct tower_cost_options options = { .compute = FORMAT_BF16,
                                                    .project = !trains,
                                                    .trains = trains,
                                                    .rank = trains ? 8 : 0,
                                                    .alignment = 64 };

        tower_cost_of(c, &options, 16, &cost);
        FUZZ_HOLDS(isfinite(cost.operations));
    }
    for (size_t i = 0; !c->family->encoder->sound && i < TS_COUNT(sides); i++)
        for (size_t k = 0; k < TS_COUNT(sides); k++)
            try_order(c, sides[i], sides[k]);
    for (size_t i = 0; c->tiles > 0 && i < 2 * TS_COUNT(sides); i++)
        try_tiles(c, i / 4 + 1, i % 4 + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct arena *arena = arena_new();
    struct tower_config config;
    struct error err = { 0 };
    json_t *root = json_read_loose((const char *)data, len, "config.json", 1, &err);

    if (root &&
        tower_config_parse(root, "config.json", TEXT_WIDTH, arena, &config, &err)) {
        FUZZ_HOLDS(err.code == ERROR_NONE);
        try_config(&config, arena);
    } else {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
    }
    json_decref(root);
    arena_free(arena);
    return 0;
}
