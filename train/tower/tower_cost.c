/* train/tower/tower_cost.c - what an encoder takes, from the shapes of its pass. */
#include "config.h"

#include "train/tower/tower_cost.h"

#include "base/arena.h"
#include "base/size.h"
#include "train/tower/tower_adapters.h"
#include "train/tower/tower_conformer.h"

/* Return the pass over an item, or over a window of a sound that has several. */
static struct tower_size pass_of(const struct tower_config *c, size_t rows,
                                 const struct tower_cost_options *options)
{
    const bool fixed = c->side > 0 && !c->family->encoder->interpolated;
    const size_t most = c->family->encoder->sound ? c->positions
                        : fixed                   ? c->side * c->side
                                                  : SIZE_MAX;
    size_t n = rows > most / c->group ? most : rows * c->group;
    struct tower_size size = { .trains = options->trains,
                               .rank = options->rank,
                               .drops = options->drops };

    if (c->tiles > 0) {
        size.rows = c->tiles * (c->tile_rows + c->tile_padding);
        size.read = size_min(rows, c->tiles * c->tile_rows);
        return size;
    }
    if (c->family->encoder->conformer)
        return conformer_piece_at(CONFORMER_REDUCTION * rows, 0).size;
    if (c->family->encoder->sound) {
        n = c->family->masked ? n : most;
        size.frames = 2 * n;
    } else {
        n = fixed ? most : n;
    }
    size.rows = n + c->family->encoder->has_class;
    size.read = (c->drops_class ? n : size.rows) / c->group;
    if (c->window > 0) {
        const size_t side = c->window * c->block;

        size.windows = (n + side * side - 1) / (side * side);
    }
    return size;
}

static size_t passes_of(const struct tower_config *c, const struct tower_size *size,
                        size_t rows)
{
    const bool fixed = c->side > 0 && !c->family->encoder->interpolated;
    const bool several = c->family->encoder->sound || (fixed && c->tiles == 0);

    return several && size->read > 0 ? (rows + size->read - 1) / size->read : 1;
}

/* Return how many rows a layer multiplies. */
static size_t rows_of(const struct tower_config *c, const struct tower_size *size,
                      enum tower_layer layer)
{
    const size_t stage = layer == TOWER_CONV_1 ? 1 : layer <= TOWER_POINTS_1 ? 2 : 3;

    if (tower_layer_on_host(layer))
        return 0;
    if (c->family->encoder->conformer && layer <= TOWER_POINTS_2)
        return size->stages[stage] * conformer_bins(c->mels, stage);
    if (layer == TOWER_CONV_1)
        return size->frames;
    if (layer >= TOWER_DEEP_NORM)
        return size->read;
    return size->rows;
}

/* How often an item passes through the matmul of a layer: tower_run is one; tower_backward runs
 * the encoder again, computes within a block what the gradients read (tower_backward.c), and has
 * a matmul for the gradient of the weights and one for that of the input.  Those of adapters are
 * small and not counted. */
static double times_of(const struct tower_config *c, enum tower_layer layer,
                       const struct tower_cost_options *options)
{
    const bool adapts = options->rank > 0;

    if (!options->trains)
        return 1;
    switch (layer) {
    case TOWER_DOWN:
    case TOWER_DEEP_2:
        return adapts ? 3 : 4;
    case TOWER_CONV_1: /* there is no gradient of the input */
        return adapts ? 2 : 4;
    case TOWER_CONV_2:
        return adapts ? 2 : 5;
    case TOWER_PATCHES:
        return adapts ? 2 : tower_config_has(c, TOWER_FIRST_NORM) ? 4 : 3;
    default:
        return adapts ? 4 : 5;
    }
}

/* The backward pass of attention has five matmuls, the forward pass two. */
static double attention(const struct tower_config *c, const struct tower_size *size)
{
    const double n = (double)size->rows, passes = size->trains ? 3 + 2.5 : 1;
    const double window = (double)(c->window * c->block * c->window * c->block);
    const double image = (double)size->read;
    double operations = 0;

    for (size_t l = 0; l < c->run; l++) {
        const bool whole = c->window == 0 || !c->whole || c->whole[l] || window > n;

        if (c->tiles > 0) /* the two parts of tower_attention */
            operations += 4 * (2 * n - image) * image * (double)c->width;
        else
            operations += 4 * n * (whole ? n : window) * (double)c->width;
    }
    return passes * operations;
}

/* The encoder, or an adapter of each part of its layers. */
static uint64_t trained_of(const struct tower_parameters *list, size_t rank)
{
    uint64_t elements = 0;

    if (rank == 0)
        return list->elements;
    for (size_t i = 0; i < list->count; i++) {
        const struct tower_parameter *p = &list->list[i];

        if (!p->bias && tower_layer_adapts(p->layer))
            elements += rank * (p->rows + p->parts * p->cols);
    }
    return elements;
}

void tower_cost_of(const struct tower_config *config,
                   const struct tower_cost_options *options, size_t rows,
                   struct tower_cost *out)
{
    const enum format compute = options->compute;
    const bool project = options->project;
    const struct tower_size size = pass_of(config, rows, options);
    const double passes = (double)passes_of(config, &size, rows);
    struct arena *arena = arena_new();
    struct tower_parameters list;

    tower_parameters_list(config, project, compute, options->alignment, arena, &list);
    *out = (struct tower_cost) { .sound = config->family->encoder->sound,
                                 .weights = list.bytes,
                                 .operations = passes * attention(config, &size) };
    if (options->trains)
        out->trained = trained_of(&list, options->rank);
    for (size_t i = 0; i < list.count; i++) {
        const struct tower_parameter *p = &list.list[i];

        if (!p->bias)
            out->operations += passes * times_of(config, p->layer, options) * 2 *
                               (double)rows_of(config, &size, p->layer) *
                               (double)p->rows * (double)p->cols;
    }
    for (int i = 0; i < TOWER_BUFFERS; i++)
        out->buffers +=
            size_round(tensor_bytes(tower_buffer_shape(config, compute, project, &size,
                                                       (enum tower_buffer)i)),
                       options->alignment);
    arena_free(arena);
}
