/* train/tower/tower_parameters.c - the list of parameters, their names and shapes. */
#include "config.h"

#include "train/tower/tower_parameters.h"

#include <string.h>

#include "base/size.h"
#include "train/tower/tower_tiles.h"

static bool is_norm(enum tower_layer layer)
{
    return layer == TOWER_PATCHES_NORM || layer == TOWER_FIRST_NORM ||
           layer == TOWER_IN_NORM || layer == TOWER_NORM_1 || layer == TOWER_QK_NORM ||
           layer == TOWER_CONV_NORM || layer == TOWER_NORM_2 ||
           layer == TOWER_BLOCK_NORM || layer == TOWER_LAST_NORM ||
           layer == TOWER_DEEP_NORM || layer == TOWER_PROJECTOR_NORM ||
           layer == TOWER_PROJECTOR_NORM_2;
}

/* A convolution of each column, whose weights are (taps, columns) here, in fp32. */
static bool is_filter(enum tower_layer layer)
{
    return layer == TOWER_FILTER_1 || layer == TOWER_FILTER_2 || layer == TOWER_TIME;
}

static bool is_of_block(enum tower_layer layer)
{
    return layer >= TOWER_IN_NORM && layer <= TOWER_BLOCK_NORM;
}

static bool is_gate(enum tower_layer layer)
{
    return layer == TOWER_POSITIONS_GATE || layer == TOWER_TILES_FIRST_GATE ||
           layer == TOWER_ATTENTION_GATE || layer == TOWER_DOWN_GATE ||
           layer == TOWER_TILES_LAST_GATE;
}

bool tower_layer_on_host(enum tower_layer layer)
{
    return layer == TOWER_POSITIONS_GATE || layer == TOWER_TILES_FIRST_GATE ||
           layer == TOWER_TILES_LAST_GATE || layer == TOWER_POSITIONS ||
           layer == TOWER_CLASS || layer == TOWER_TILE_POSITIONS ||
           layer == TOWER_TILES_FIRST || layer == TOWER_TILES_LAST ||
           layer == TOWER_MEAN || layer == TOWER_FACTOR || layer == TOWER_DISTANCES ||
           layer == TOWER_GLU_SHIFT;
}

/* (rows, columns) of the weights of a layer, as its matmul reads them: (out, in). */
static void sizes(const struct tower_config *c, enum tower_layer layer, size_t size[2])
{
    const bool conformer = c->family->encoder->conformer;
    const size_t w = c->width, gate = c->family->encoder->gated || conformer ? 2 : 1;
    const size_t bins = (c->mels + 7) / 8; /* after three convolutions */
    const size_t joined = w * (c->family->encoder->sound ? 1 : c->group);
    const size_t shapes = c->tiles > 0 ? 1 + tower_tiles_shapes(c) : 0; /* 0: no image */
    const struct {
        size_t rows, cols;
    } table[TOWER_LAYERS] = {
        [TOWER_MEAN] = { 1, c->mels },
        [TOWER_FACTOR] = { 1, c->mels },
        [TOWER_CONV_1] = { conformer ? c->channels : w, conformer ? 9 : c->mels * 3 },
        [TOWER_FILTER_1] = { 9, c->channels },
        [TOWER_POINTS_1] = { c->channels, c->channels },
        [TOWER_FILTER_2] = { 9, c->channels },
        [TOWER_POINTS_2] = { c->channels, c->channels },
        [TOWER_EMBED] = { w, c->channels * bins },
        [TOWER_DISTANCES] = { c->distances * (c->symmetric ? 1 : 2), c->heads },
        [TOWER_IN_NORM] = { 1, w },
        [TOWER_IN_UP] = { 2 * c->inner, w },
        [TOWER_IN_DOWN] = { w, c->inner },
        [TOWER_CONV_NORM] = { 1, w },
        [TOWER_GLU] = { 2 * w, w },
        [TOWER_GLU_SHIFT] = { 2, w },
        [TOWER_TIME] = { c->taps, w },
        [TOWER_POINTS] = { w, w },
        [TOWER_CONV_OUT] = { w, w },
        [TOWER_BLOCK_NORM] = { 1, w },
        [TOWER_CONV_2] = { w, w * 3 },
        [TOWER_PATCHES_NORM] = { 1, c->patch_columns },
        [TOWER_PATCHES] = { w, c->patch_columns },
        [TOWER_CLASS] = { 1, w },
        [TOWER_POSITIONS] = { c->family->encoder->sound ? c->positions
                              : c->axes > 0
                                  ? 2 * c->axes
                                  : c->side * c->side + c->family->encoder->has_class,
                              w },
        [TOWER_POSITIONS_GATE] = { 1, 1 },
        [TOWER_TILE_POSITIONS] = { shapes, c->tiles * c->tile_rows * w },
        [TOWER_TILES_FIRST] = { shapes, c->tiles * w },
        [TOWER_TILES_FIRST_GATE] = { 1, 1 },
        [TOWER_FIRST_NORM] = { 1, w },
        [TOWER_NORM_1] = { 1, w },
        [TOWER_QKV] = { 3 * w, w },
        [TOWER_QK_NORM] = { 1, 2 * w },
        [TOWER_ATTENTION_OUT] = { w, w },
        [TOWER_ATTENTION_GATE] = { 1, c->family->encoder->scaled ? w : 1 },
        [TOWER_NORM_2] = { 1, w },
        [TOWER_UP] = { gate * c->inner, w },
        [TOWER_DOWN_GATE] = { 1, c->family->encoder->scaled ? w : 1 },
        [TOWER_DOWN] = { w, c->inner },
        [TOWER_LAST_NORM] = { 1, w },
        [TOWER_TILES_LAST] = { shapes, c->tiles * w },
        [TOWER_TILES_LAST_GATE] = { 1, 1 },
        [TOWER_DEEP_NORM] = { 1, joined },
        [TOWER_DEEP_1] = { joined, joined },
        [TOWER_DEEP_2] = { c->projected, joined },
        [TOWER_PROJECTOR_NORM] = { 1, c->family->norm_joined ? c->row_width : w },
        [TOWER_PROJECTOR_MERGE] = { c->merged, c->row_width },
        [TOWER_PROJECTOR_1] = { c->middle, c->merged },
        [TOWER_PROJECTOR_NORM_2] = { 1, c->middle },
        [TOWER_PROJECTOR_UP] = { 2 * c->expanded, c->middle },
        [TOWER_PROJECTOR_2] = { c->projected, c->expanded > 0 ? c->expanded : c->middle },
    };

    size[0] = table[layer].rows;
    size[1] = table[layer].cols;
    if (layer == TOWER_PROJECTOR_1 && !tower_config_has(c, TOWER_PROJECTOR_2))
        size[0] = c->projected;
    if (layer == TOWER_PROJECTOR_1 && c->family->transposed) {
        size[0] = c->merged;
        size[1] = c->projected;
    }
}

static size_t part_count(const struct tower_names *names)
{
    size_t count = 0;

    while (count < TOWER_PARTS_MAX && names->parts[count])
        count++;
    return count;
}

/* How often the model has a layer. */
static size_t times(const struct tower_config *c, enum tower_layer layer)
{
    /* layers after the last that is read, and their norm, are not computed */
    if (layer == TOWER_LAST_NORM && c->family->rows == TOWER_ROWS_CHOSEN)
        return 0;
    if (!tower_config_has(c, layer))
        return 0;
    if (is_of_block(layer))
        return c->run;
    if (layer >= TOWER_DEEP_NORM && layer <= TOWER_DEEP_2)
        return c->deep;
    return 1;
}

/* The first block that has a layer: only global blocks have the gates of Llama 3.2 Vision. */
static size_t first_of(const struct tower_config *c, enum tower_layer layer)
{
    const bool gate = layer == TOWER_ATTENTION_GATE || layer == TOWER_DOWN_GATE;

    return gate && c->family->encoder->global_blocks ? c->local : 0;
}

static void add(struct tower_parameters *out, struct tower_parameter p, size_t alignment)
{
    p.at = TOWER_ON_HOST;
    if (!tower_layer_on_host(p.layer)) {
        p.at = out->bytes;
        out->bytes +=
            size_round(p.rows * p.cols * format_info(p.format)->bytes, alignment);
    }
    out->list[out->count++] = p;
}

/* The sizes of a config are limited, so that sums of bytes do not overflow. */
void tower_parameters_list(const struct tower_config *config, bool projector,
                           enum format compute, size_t alignment, struct arena *arena,
                           struct tower_parameters *out)
{
    size_t most =
        2 * (TOWER_LAYERS + (TOWER_BLOCK_NORM - TOWER_IN_NORM + 1) * config->run +
             3 * config->deep);

    *out = (struct tower_parameters) {
        .list = arena_array(arena, most, sizeof(*out->list)),
    };
    for (int l = 0; l < TOWER_LAYERS; l++) {
        const enum tower_layer layer = (enum tower_layer)l;
        size_t size[2];

        if (tower_family_projects(config->family, layer) && !projector)
            continue;
        sizes(config, layer, size);
        for (size_t i = first_of(config, layer); i < times(config, layer); i++) {
            struct tower_parameter p = {
                .layer = layer,
                .index = i,
                .parts = part_count(tower_family_names(config->family, layer)),
                .rows = size[0],
                .cols = size[1],
                .format = is_norm(layer) || is_filter(layer) || is_gate(layer) ||
                                  tower_layer_on_host(layer)
                              ? FORMAT_FP32
                              : compute,
            };
            size_t biases = 0;

            add(out, p, alignment);
            if (!tower_family_names(config->family, layer)->made)
                out->elements += p.rows * p.cols;
            for (size_t part = 0; part < p.parts; part++)
                biases += tower_config_has_bias(config, layer, part);
            if (biases == 0)
                continue;
            p.bias = true;
            p.cols = is_norm(layer) || is_filter(layer) ? p.cols : p.rows;
            out->elements += p.cols / p.parts * biases;
            p.rows = 1;
            p.format = FORMAT_FP32;
            add(out, p, alignment);
        }
    }
}

const struct tower_parameter *tower_parameters_find(const struct tower_parameters *list,
                                                    enum tower_layer layer, size_t index,
                                                    bool bias)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].layer == layer && list->list[i].index == index &&
            list->list[i].bias == bias)
            return &list->list[i];
    return NULL;
}

bool tower_parameter_name(const struct tower_config *config,
                          const struct tower_parameter *parameter, size_t part,
                          struct text *out)
{
    const enum tower_layer layer = parameter->layer;
    const struct tower_names *names = tower_family_names(config->family, layer);
    const char *name = names->parts[part], *number = strstr(name, "%zu");

    if (parameter->bias && !tower_config_has_bias(config, layer, part))
        return false;
    if (is_of_block(layer)) {
        const struct tower_encoder *e = config->family->encoder;
        const bool global = e->global_blocks && parameter->index >= config->local;

        text_addf(out, "%s%zu.", global ? e->global_blocks : e->blocks,
                  parameter->index - (global ? config->local : 0));
    }
    if (number) {
        text_add(out, name, (size_t)(number - name));
        text_addf(out, "%zu", parameter->index);
        name = number + strlen("%zu");
    }
    text_adds(out, name);
    if (!names->bare)
        text_adds(out, parameter->bias ? ".bias" : ".weight");
    return true;
}

/* Convolutions have the dimensions of torch's; return false for other layers. */
static bool conformer_shape(const struct tower_parameter *p, size_t *shape, size_t *rank)
{
    switch (p->layer) {
    case TOWER_FILTER_1:
    case TOWER_FILTER_2:
    case TOWER_CONV_1:
        shape[0] = p->layer == TOWER_CONV_1 ? p->rows : p->cols;
        shape[1] = 1;
        shape[2] = shape[3] = 3;
        *rank = 4;
        return true;
    case TOWER_POINTS_1:
    case TOWER_POINTS_2:
        shape[0] = p->rows;
        shape[1] = p->cols;
        shape[2] = shape[3] = 1;
        *rank = 4;
        return true;
    case TOWER_TIME:
        shape[0] = p->cols;
        shape[1] = 1;
        shape[2] = p->rows;
        *rank = 3;
        return true;
    case TOWER_GLU_SHIFT:
        shape[0] = shape[2] = 1;
        shape[1] = p->cols;
        *rank = 3;
        return true;
    case TOWER_GLU:
    case TOWER_POINTS:
    case TOWER_CONV_OUT:
        shape[0] = p->rows;
        shape[1] = p->cols;
        shape[2] = 1;
        *rank = 3;
        return true;
    default:
        return false;
    }
}

size_t tower_parameter_shape(const struct tower_config *config,
                             const struct tower_parameter *parameter, size_t *shape)
{
    const enum tower_layer layer = parameter->layer;
    size_t rank = 0;

    while (rank < tower_family_names(config->family, layer)->ones)
        shape[rank++] = 1;
    if (parameter->bias || is_norm(layer) || is_gate(layer) || layer == TOWER_CLASS ||
        layer == TOWER_MEAN || layer == TOWER_FACTOR) {
        shape[rank++] = parameter->cols / parameter->parts;
        return rank;
    }
    if (layer == TOWER_POSITIONS && config->axes > 0) {
        shape[rank++] = config->axes;
        shape[rank++] = 2;
        shape[rank++] = config->width;
        return rank;
    }
    if (config->family->encoder->conformer && conformer_shape(parameter, shape, &rank))
        return rank;
    shape[rank++] = parameter->rows / parameter->parts;
    if (layer == TOWER_CONV_1 || layer == TOWER_CONV_2) {
        shape[rank++] = parameter->cols / 3;
        shape[rank++] = 3;
    } else if (layer == TOWER_PROJECTOR_MERGE && config->family->merge_conv) {
        shape[rank++] = config->width;
        shape[rank++] = config->block;
        shape[rank++] = config->block;
    } else if (layer == TOWER_PATCHES && !config->family->encoder->flat_patches) {
        shape[rank++] = 3;
        if (config->family->patches_in_blocks)
            shape[rank++] = config->frames;
        shape[rank++] = config->patch;
        shape[rank++] = config->patch;
    } else {
        shape[rank++] = parameter->cols;
    }
    return rank;
}

static void add_shape(struct text *out, const size_t *shape, size_t rank)
{
    for (size_t i = 0; i < rank; i++)
        text_addf(out, "%s%zu", i ? " x " : "", shape[i]);
}

static bool fits(const struct stored_tensor *t, const struct tower_config *config,
                 const struct tower_parameter *parameter, struct error *err)
{
    size_t shape[5], rank = tower_parameter_shape(config, parameter, shape);
    struct text has;
    bool ok = t->rank == rank;

    if (t->format == FORMAT_COUNT || t->packed || t->pitch)
        return error_set(
            err, ERROR_DATA,
            "%s: tensor %s has dtype %s; the weights of encoders must be F32, "
            "F16 or BF16: use the 16-bit files of the model, whose text model "
            "quantization_bit: 4 quantizes",
            t->file, t->name, t->dtype);
    for (size_t i = 0; ok && i < rank; i++)
        ok = t->shape[i] == shape[i];
    if (ok)
        return true;
    text_init(&has, 0);
    add_shape(&has, t->shape, t->rank);
    text_adds(&has, ", but config.json requires ");
    add_shape(&has, shape, rank);
    error_set(err, ERROR_DATA, "%s: tensor %s has the shape %s", t->file, t->name,
              has.data);
    text_clear(&has);
    return false;
}

const struct stored_tensor *
tower_parameter_stored(const struct safetensors *files, const struct tower_config *config,
                       const struct tower_parameter *parameter, size_t part,
                       struct error *err)
{
    const char *const *prefixes = tower_layer_projects(parameter->layer)
                                      ? config->family->projector_prefixes
                                      : config->family->prefixes;
    const struct stored_tensor *found = NULL;
    struct text name;

    text_init(&name, 0);
    for (size_t i = 0; !found && prefixes[i]; i++) {
        text_reset(&name);
        text_adds(&name, prefixes[i]);
        tower_parameter_name(config, parameter, part, &name);
        found = safetensors_find(files, name.data);
    }
    if (!found) {
        text_reset(&name);
        text_adds(&name, prefixes[0]);
        tower_parameter_name(config, parameter, part, &name);
        error_set(err, ERROR_DATA,
                  "the model's files have no tensor %s: they and config.json belong to "
                  "two models, or some were not copied",
                  name.data);
    } else if (!fits(found, config, parameter, err)) {
        found = NULL;
    }
    text_clear(&name);
    return found;
}
