/* train/tower/tower_config.c - reads audio_config or vision_config, an untrusted object. */
#include "config.h"

#include "train/tower/tower_config.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "train/tower/tower_reader.h"

#define CONFIG_BYTES_MAX ((size_t)4 << 20)

/* Ranges of an encoder's sizes, far beyond those of published ones. */
enum {
    LAYERS_MAX = 512,
    MELS_MAX = 1024,
    POSITIONS_MAX = 1 << 16,
    PATCH_MAX = 128,
    PATCH_FRAMES_MAX = 16,
    SIDE_MAX = 4096, /* in patches */
    BLOCK_MAX = 64,
    WINDOW_MAX = 1 << 16,
    TILES_MAX = 16,
    NORM_MAX = 8192 /* columns of op_headnorm */
};

static_assert(TOWER_LAYERS <= 64, "tower_config.absent has a bit for each layer");

/* The spelling here, and the other one that a class accepts (attribute_map). */
static const char *const spellings[][2] = {
    { "hidden_size", "d_model" },
    { "num_hidden_layers", "encoder_layers" },
    { "num_hidden_layers", "depth" },
    { "num_hidden_layers", "num_blocks" },
    { "hidden_size", "attention_dim" },
    { "intermediate_size", "linear_units" },
    { "hidden_act", "activation" },
    { "num_attention_heads", "encoder_attention_heads" },
    { "num_attention_heads", "num_heads" },
    { "num_attention_heads", "attention_heads" },
    { "intermediate_size", "encoder_ffn_dim" },
    { "hidden_act", "activation_function" },
    { "layer_norm_eps", "rms_norm_eps" },
};

static void spell(json_t *section)
{
    for (size_t i = 0; i < TS_COUNT(spellings); i++)
        if (!tower_reader_has(section, spellings[i][0]) &&
            tower_reader_has(section, spellings[i][1]))
            json_object_set(section, spellings[i][0],
                            json_object_get(section, spellings[i][1]));
}

/* Find the row, and make a copy of the section with all values that its class has. */
static void open_section(struct tower_reader *r)
{
    const char *type = json_get_string(r->root, "model_type", "", r->file, r->err);
    const struct tower_family *row = NULL;
    const json_t *from;
    const char *tower = NULL;
    json_t *defaults;

    for (size_t i = 0; !row && tower_family_at(i); i++)
        if (strcmp(tower_family_at(i)->model_type, type) == 0)
            row = tower_family_at(i);
    if (!row) {
        error_set(r->err, ERROR_DATA,
                  "%s: encoders of models of type \"%s\" are not supported", r->file,
                  type);
        return;
    }
    from = json_object_get(r->root, row->section);
    if (json_is_object(from))
        tower = json_get_string(from, "model_type", NULL, r->file, r->err);
    row = tower_family_find(type, tower);
    if (!row) {
        error_set(r->err, ERROR_DATA,
                  "%s: an encoder of type \"%s\" is not supported in %s", r->file,
                  tower ? tower : "", type);
        return;
    }
    r->out->family = row;
    if (row->inner)
        from = json_object_get(from, row->inner);
    if (json_is_object(from))
        r->section = json_deep_copy(from);
    else
        r->section = row->absent ? json_loads(row->absent, 0, NULL) : json_object();
    spell(r->section);
    defaults = json_loads(row->encoder->defaults, 0, NULL);
    spell(defaults);
    json_object_update_missing(r->section, defaults);
    json_decref(defaults);
}

/* What published encoders of one class differ in: biases, and much of InternVL's. */
static void read_variant(const struct tower_reader *r)
{
    const struct tower_encoder *e = r->out->family->encoder;
    struct tower_config *c = r->out;
    const char *norm;

    c->rms = e->rms;
    if (e->biases_key)
        c->qkv_biases = json_get_bool(r->section, e->biases_key, false, r->file, r->err);
    if (!e->names[TOWER_QK_NORM].parts[0])
        return;
    norm = json_get_string(r->section, "norm_type", "layer_norm", r->file, r->err);
    c->rms = strcmp(norm, "rms_norm") == 0;
    if (!c->rms && strcmp(norm, "layer_norm") != 0)
        error_set(r->err, ERROR_DATA,
                  "%s: norm_type must be \"layer_norm\" or \"rms_norm\"", r->file);
    if (!json_get_bool(r->section, "use_qk_norm", false, r->file, r->err))
        c->absent |= UINT64_C(1) << TOWER_QK_NORM;
    else if (c->width > NORM_MAX)
        error_set(r->err, ERROR_DATA, "%s: use_qk_norm requires at most %d columns",
                  r->file, NORM_MAX);
    if (json_get_bool(r->section, "use_mean_pooling", true, r->file, r->err))
        c->absent |= UINT64_C(1) << TOWER_LAST_NORM;
    if (!json_get_bool(r->section, "use_absolute_position_embeddings", true, r->file,
                       r->err))
        error_set(r->err, ERROR_DATA, "%s: use_absolute_position_embeddings must be true",
                  r->file);
}

/* The blocks of Qwen2-VL have inner columns in proportion. */
static size_t read_inner(const struct tower_reader *r)
{
    const struct tower_encoder *e = r->out->family->encoder;

    if (e->inner_key)
        return tower_reader_size(r, e->inner_key, TOWER_INNER_MAX);
    return r->out->width *
           tower_reader_size(r, "mlp_ratio", TOWER_INNER_MAX / TOWER_WIDTH_MAX);
}

static void read_sizes(const struct tower_reader *r)
{
    const struct tower_encoder *e = r->out->family->encoder;
    struct tower_config *c = r->out;

    c->width = tower_reader_size(r, e->width_key, TOWER_WIDTH_MAX);
    c->eps = e->eps;
    if (!e->blocks)
        return;
    c->layers = c->local = tower_reader_size(r, "num_hidden_layers", LAYERS_MAX);
    if (e->global_blocks)
        c->layers += tower_reader_size(r, "num_global_layers", LAYERS_MAX);
    c->run = c->layers;
    c->heads = tower_reader_size(r, "num_attention_heads", TOWER_WIDTH_MAX);
    c->inner = read_inner(r);
    read_variant(r);
    c->activation = tower_reader_activation(r, r->section, "hidden_act", "gelu");
    if (e->eps == 0)
        c->eps = tower_reader_positive(r, r->section, "layer_norm_eps", 1e-6);
    if (c->width % c->heads != 0)
        error_set(r->err, ERROR_DATA, "%s: %s, %zu, must be a multiple of the %zu heads",
                  r->file, e->width_key, c->width, c->heads);
    c->head_size = c->width / c->heads;
    if (c->head_size > HEAD_SIZE_MAX || (e->rope && c->head_size % 4 != 0))
        error_set(r->err, ERROR_DATA, "%s: heads of %zu columns are not supported in %s",
                  r->file, c->head_size, r->out->family->section);
}

/* Voxtral joins as many rows as make intermediate_size columns. */
static size_t joined_rows(const struct tower_reader *r)
{
    const struct tower_config *c = r->out;

    if (c->inner % c->width == 0)
        return c->inner / c->width;
    error_set(r->err, ERROR_DATA,
              "%s: intermediate_size, %zu, must be a multiple of hidden_size, %zu",
              r->file, c->inner, c->width);
    return 1;
}

static void read_sound(const struct tower_reader *r)
{
    struct tower_config *c = r->out;

    if (c->family->encoder->conformer) {
        tower_conformer_read(r);
        return;
    }
    c->mels = tower_reader_size(r, "num_mel_bins", MELS_MAX);
    c->positions = tower_reader_size(r, "max_source_positions", POSITIONS_MAX);
    c->group = 2;
    if (c->family->rows == TOWER_ROWS_JOINED)
        c->group = joined_rows(r);
    if (c->family->rows == TOWER_ROWS_JOINED && c->positions % c->group != 0)
        error_set(r->err, ERROR_DATA,
                  "%s: max_source_positions must be a multiple of %zu", r->file,
                  c->group);
    c->row_width = c->width * (c->family->rows == TOWER_ROWS_JOINED ? c->group : 1);
}

/* Which of the layers attend to the whole image. */
static void read_windows(const struct tower_reader *r)
{
    const json_t *list = json_object_get(r->section, "fullatt_block_indexes");
    struct tower_config *c = r->out;
    bool *whole = arena_alloc(r->arena, c->layers);
    size_t window;

    c->whole = whole;
    if (!c->family->encoder->windows)
        return;
    window = tower_reader_size(r, "window_size", WINDOW_MAX);
    c->window = window / c->block / c->patch;
    if (c->window == 0)
        error_set(r->err, ERROR_DATA, "%s: window_size must be at least %zu", r->file,
                  c->block * c->patch);
    for (size_t i = 0; i < json_array_size(list); i++) {
        int64_t at = json_integer_value(json_array_get(list, i));

        if (!json_is_integer(json_array_get(list, i)) || at < 0)
            error_set(r->err, ERROR_DATA, "%s: fullatt_block_indexes must be layers",
                      r->file);
        else if ((uint64_t)at < c->layers)
            whole[at] = true;
    }
}

/* A list of layers, of which there are at most `most`: numbers below `limit`. */
static size_t read_layers(const struct tower_reader *r, const json_t *list,
                          const char *key, size_t limit, size_t *out, size_t most)
{
    size_t count = json_array_size(list);

    if (count > most) {
        error_set(r->err, ERROR_DATA, "%s: %s must have at most %zu layers", r->file, key,
                  most);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        int64_t at = json_integer_value(value);

        if (!json_is_integer(value) || at < -(int64_t)limit || at >= (int64_t)limit) {
            error_set(r->err, ERROR_DATA, "%s: %s must be layers of the encoder", r->file,
                      key);
            return 0;
        }
        out[i] = (size_t)(at < 0 ? at + (int64_t)limit : at);
    }
    return count;
}

/* The outputs of the layers before the first and after each: layers + 1 of them. */
static void read_chosen(const struct tower_reader *r)
{
    const json_t *value = json_object_get(r->root, "vision_feature_layer");
    const char *strategy = json_get_string(r->root, "vision_feature_select_strategy",
                                           "default", r->file, r->err);
    struct tower_config *c = r->out;
    json_t *list = json_is_array(value) ? json_copy((json_t *)value) : json_array();

    if (!json_is_array(value)) {
        if (value && !json_is_null(value))
            json_array_append(list, (json_t *)value);
        else
            json_array_append_new(list, json_integer(-2));
    }
    c->chosen = read_layers(r, list, "vision_feature_layer", c->layers + 1, c->chosen_at,
                            TOWER_CHOSEN_MAX);
    json_decref(list);
    if (c->chosen == 0)
        error_set(r->err, ERROR_DATA, "%s: vision_feature_layer must name a layer",
                  r->file);
    c->run = 0;
    for (size_t i = 0; i < c->chosen; i++)
        c->run = c->chosen_at[i] > c->run ? c->chosen_at[i] : c->run;
    if (strcmp(strategy, "default") != 0 && strcmp(strategy, "full") != 0)
        error_set(r->err, ERROR_DATA,
                  "%s: vision_feature_select_strategy must be \"default\" or \"full\"",
                  r->file);
    c->drops_class = strcmp(strategy, "default") == 0;
    if (c->drops_class && !c->family->encoder->has_class)
        error_set(r->err, ERROR_DATA,
                  "%s: vision_feature_select_strategy must be \"full\" for an encoder "
                  "without a class token",
                  r->file);
    c->row_width = c->width * c->chosen;
}

static void read_deep(const struct tower_reader *r)
{
    const json_t *list = json_object_get(r->section, "deepstack_visual_indexes");
    struct tower_config *c = r->out;

    if (!tower_family_names(c->family, TOWER_DEEP_1)->parts[0])
        return;
    c->deep = read_layers(r, list, "deepstack_visual_indexes", c->layers, c->deep_after,
                          TOWER_DEEP_MAX);
    for (size_t i = 0; i < c->deep; i++) {
        c->deep_after[i]++;
        for (size_t k = 0; k < i; k++)
            if (c->deep_after[k] == c->deep_after[i])
                error_set(r->err, ERROR_DATA,
                          "%s: deepstack_visual_indexes must name each layer once",
                          r->file);
    }
}

/* InternVL has one layer to read, of which it drops the class. */
static void check_last(const struct tower_reader *r)
{
    const json_t *layer = json_object_get(r->root, "vision_feature_layer");
    const char *strategy = json_get_string(r->root, "vision_feature_select_strategy",
                                           "default", r->file, r->err);

    if (layer && !json_is_null(layer) && json_integer_value(layer) != -1)
        error_set(r->err, ERROR_DATA, "%s: vision_feature_layer must be -1", r->file);
    if (strcmp(strategy, "default") != 0)
        error_set(r->err, ERROR_DATA,
                  "%s: vision_feature_select_strategy must be \"default\"", r->file);
    r->out->drops_class = true;
}

static size_t read_ratio(const struct tower_reader *r, const char *key)
{
    const json_t *from = r->out->family->merge_inside ? r->section : r->root;
    const double ratio = tower_reader_positive(r, from, key, 0.5);
    size_t side = 1;

    while (side < BLOCK_MAX && (double)side * ratio < 1)
        side *= 2;
    if ((double)side * ratio == 1)
        return side;
    error_set(r->err, ERROR_DATA, "%s: %s must be 1, 1/2, 1/4 and so on", r->file, key);
    return 1;
}

/* The side of a square of patches that becomes one row. */
static size_t read_block(const struct tower_reader *r)
{
    struct tower_config *c = r->out;
    int64_t tokens;
    size_t side;

    if (c->family->encoder->pool_key)
        return 1;
    if (c->family->ratio_key)
        return read_ratio(r, c->family->ratio_key);
    if (c->family->rows == TOWER_ROWS_JOINED) {
        const bool inside = c->family->patches_in_blocks || c->family->merge_inside;
        const json_t *from = inside ? r->section : r->root;
        const char *key =
            c->family->factor_key ? c->family->factor_key : "spatial_merge_size";

        return tower_reader_range(r, key, json_get_int(from, key, 2, r->file, r->err),
                                  BLOCK_MAX);
    }
    if (c->family->rows != TOWER_ROWS_POOLED)
        return 1;
    tokens = json_get_int(r->root, "mm_tokens_per_image", 256, r->file, r->err);
    side = (size_t)sqrt((double)(tokens > 0 ? tokens : 0));
    if (side < 1 || side > c->side || (int64_t)(side * side) != tokens ||
        c->side % side != 0) {
        error_set(r->err, ERROR_DATA,
                  "%s: mm_tokens_per_image must be the square of a divisor of the %zu "
                  "patches of a side",
                  r->file, c->side);
        return 1;
    }
    return c->side / side;
}

/* All shapes of up to `tiles` tiles, in the order of the tables. */
static bool has_all_shapes(const json_t *list, size_t tiles)
{
    size_t at = 0;

    for (size_t down = 1; down <= tiles; down++)
        for (size_t across = 1; down * across <= tiles; across++, at++) {
            const json_t *one = json_array_get(list, at);

            if (json_array_size(one) != 2 ||
                json_integer_value(json_array_get(one, 0)) != (json_int_t)down ||
                json_integer_value(json_array_get(one, 1)) != (json_int_t)across)
                return false;
        }
    return json_array_size(list) == at;
}

/* The rows of the last layer, then those of the listed layers before the global ones. */
static void read_tiles(const struct tower_reader *r)
{
    static const char key[] = "intermediate_layers_indices";
    const json_t *shapes = json_object_get(r->section, "supported_aspect_ratios");
    struct tower_config *c = r->out;

    c->tiles = tower_reader_size(r, "max_num_tiles", TILES_MAX);
    c->tile_rows = c->side * c->side + 1;
    c->tile_padding = (8 - c->tile_rows % 8) % 8; /* MllamaVisionModel.forward */
    c->chosen_at[0] = c->run;
    c->chosen = 1 + read_layers(r, json_object_get(r->section, key), key, c->local,
                                c->chosen_at + 1, TOWER_CHOSEN_MAX - 1);
    for (size_t i = 1; i < c->chosen; i++)
        c->chosen_at[i]++;
    c->row_width = c->width * c->chosen;
    if (shapes && !json_is_null(shapes) && !has_all_shapes(shapes, c->tiles))
        error_set(r->err, ERROR_DATA,
                  "%s: supported_aspect_ratios must be all shapes of up to %zu tiles",
                  r->file, c->tiles);
    if (tower_reader_positive(r, r->section, "norm_eps", c->eps) != c->eps)
        error_set(r->err, ERROR_DATA, "%s: norm_eps must be %g", r->file, c->eps);
    if (tower_reader_size(r, "vision_output_dim", TOWER_INNER_MAX) != c->row_width)
        error_set(r->err, ERROR_DATA,
                  "%s: vision_output_dim must be %zu: hidden_size, once and for each of "
                  "%s",
                  r->file, c->row_width, key);
}

static size_t square_root(const struct tower_reader *r, const char *key, size_t value)
{
    size_t side = (size_t)llround(sqrt((double)value));

    if (side * side != value)
        error_set(r->err, ERROR_DATA, "%s: %s must be a square, not %zu", r->file, key,
                  value);
    return side;
}

static void check_channels(const struct tower_reader *r, const char *key)
{
    if (json_get_int(r->section, key, 3, r->file, r->err) != 3)
        error_set(r->err, ERROR_DATA, "%s: %s must be 3", r->file, key);
}

static double read_theta(const struct tower_reader *r)
{
    const json_t *rope = json_object_get(r->section, "rope_parameters");

    return tower_reader_positive(
        r, tower_reader_has(rope, "rope_theta") ? rope : r->section, "rope_theta", 10000);
}

static void read_images(const struct tower_reader *r)
{
    const struct tower_encoder *e = r->out->family->encoder;
    struct tower_config *c = r->out;

    check_channels(r, "in_channels");
    check_channels(r, "num_channels");
    c->patch = tower_reader_side(r, "patch_size", PATCH_MAX);
    if (e->pool_key)
        c->patch = tower_reader_range(
            r, e->pool_key,
            (int64_t)(c->patch * tower_reader_size(r, e->pool_key, PATCH_MAX)),
            PATCH_MAX);
    c->frames = 1;
    /* files of PaddleOCR-VL have the key, which its class does not read */
    if (c->family->patches_in_blocks &&
        tower_reader_has(r->section, "temporal_patch_size"))
        c->frames = tower_reader_side(r, "temporal_patch_size", PATCH_FRAMES_MAX);
    c->patch_columns = 3 * c->frames * c->patch * c->patch;
    if (e->axes_key)
        c->axes = tower_reader_size(r, e->axes_key, SIDE_MAX);
    else if (e->positions_key)
        c->side = square_root(
            r, e->positions_key,
            tower_reader_size(r, e->positions_key, (int64_t)SIDE_MAX * SIDE_MAX));
    else if (e->names[TOWER_POSITIONS].parts[0])
        c->side = tower_reader_range(
            r, "image_size",
            (int64_t)(tower_reader_side(r, "image_size", PATCH_MAX * SIDE_MAX) /
                      c->patch),
            SIDE_MAX);
    c->rope_theta = e->rope ? read_theta(r) : 0;
    c->block = read_block(r);
    c->group = c->block * c->block;
    c->row_width = c->width * (c->family->rows == TOWER_ROWS_JOINED ? c->group : 1);
    read_windows(r);
    if (c->family->rows == TOWER_ROWS_CHOSEN)
        read_chosen(r);
    if (c->family->rows == TOWER_ROWS_JOINED && e->has_class)
        check_last(r);
    if (c->family->rows == TOWER_ROWS_TILES)
        read_tiles(r);
    read_deep(r);
}

bool tower_config_has(const struct tower_config *config, enum tower_layer layer)
{
    return tower_family_names(config->family, layer)->parts[0] != NULL &&
           !(config->absent >> layer & 1);
}

bool tower_config_has_bias(const struct tower_config *config, enum tower_layer layer,
                           size_t part)
{
    if (layer >= TOWER_PROJECTOR_1 && config->family->bias_key)
        return config->projector_biases;
    if (layer == TOWER_QKV && config->family->encoder->biases_key)
        return config->qkv_biases;
    if ((layer == TOWER_NORM_1 || layer == TOWER_NORM_2) && config->rms)
        return false;
    return tower_family_names(config->family, layer)->biases >> part & 1;
}

bool tower_config_parse(const json_t *root, const char *file, size_t text_width,
                        struct arena *arena, struct tower_config *out, struct error *err)
{
    struct error why = { 0 };
    struct tower_reader r = { file, root, NULL, arena, out, &why };

    *out = (struct tower_config) { 0 };
    open_section(&r);
    if (why.code == ERROR_NONE)
        read_sizes(&r);
    if (why.code == ERROR_NONE && out->family->encoder->sound)
        read_sound(&r);
    else if (why.code == ERROR_NONE)
        read_images(&r);
    if (why.code == ERROR_NONE)
        tower_projector_read(&r, text_width);
    json_decref(r.section);
    return why.code == ERROR_NONE || error_set(err, why.code, "%s", why.text);
}

bool tower_config_read(const char *model_dir, size_t text_width, struct arena *arena,
                       struct tower_config *out, struct error *err)
{
    char *name = path_join(model_dir, "config.json");
    json_t *root = json_read_loose_file(name, CONFIG_BYTES_MAX, err);
    bool ok = root && tower_config_parse(root, name, text_width, arena, out, err);

    json_decref(root);
    free(name);
    return ok;
}
