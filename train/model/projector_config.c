/* train/model/projector_config.c - the layers between an encoder and the language model. */
#include "config.h"

#include "train/model/projector_config.h"

#include <string.h>

#include "base/json.h"
#include "base/size.h"

enum { MERGE_MAX = 64 };

/* Where the columns of the encoder's output are in config.json; a number is its default. */
struct columns {
    const char *encoder, *key, *other_key;
    size_t default_value;
};

/* The projectors of transformers/models/NAME/modeling_NAME.py. */
static const struct family {
    const char *model_type;
    struct projector_config layers; /* without sizes */
    struct columns columns;
    bool merges; /* merge x merge rows of the encoder are one: spatial_merge_size */
    const char *ratio, *factor; /* keys of 1 / merge, or of merge, of the whole model */
    bool norm_first;            /* the norm is over columns of the encoder */
    bool listed; /* the outputs of several layers are adjacent: vision_feature_layer */
    const char *biases, *activation; /* keys, by default true and gelu; NULL: none */
    bool unbiased;                   /* biases are false by default */
    const char *has_norm, *inner;    /* keys, by default true and 2560; NULL: none */
    bool norm_joined;                /* the norm is over all columns of a row */
} families[] = {
#define PROJECTOR "model.multi_modal_projector"
#define MERGER    "model.visual.merger"
    { .model_type = "audioflamingo3",
      .layers = { .path = PROJECTOR,
                  .first = "linear_1",
                  .last = "linear_2",
                  .follows_text = true },
      .columns = { "audio_config", "hidden_size", "d_model", 1280 },
      .biases = "projector_bias",
      .activation = "projector_hidden_act" },
    { .model_type = "gemma3",
      .layers = { .path = PROJECTOR,
                  .norm = "mm_soft_emb_norm",
                  .norm_kind = NORM_RMS_1,
                  .last = "mm_input_projection_weight",
                  .bare = true },
      .columns = { "vision_config", "hidden_size", NULL, 768 },
      .norm_first = true },
    /* reads rows that a convolution has merged */
    { .model_type = "glm4v",
      .layers = { .path = MERGER,
                  .first = "proj",
                  .middle_norm = "post_projection_norm",
                  .gate = "gate_proj",
                  .up = "up_proj",
                  .last = "down_proj" },
      .columns = { "vision_config", "out_hidden_size", NULL, 4096 } },
    { .model_type = "internvl",
      .layers = { .path = PROJECTOR,
                  .norm = "layer_norm",
                  .norm_kind = NORM_LAYER,
                  .norm_eps = 1e-5,
                  .first = "linear_1",
                  .last = "linear_2",
                  .biased = true },
      .columns = { "vision_config", "hidden_size", NULL, 1024 },
      .ratio = "downsample_ratio",
      .norm_joined = true,
      .activation = "projector_hidden_act" },
    { .model_type = "lfm2_vl",
      .layers = { .path = PROJECTOR,
                  .norm = "layer_norm",
                  .norm_kind = NORM_LAYER,
                  .norm_eps = 1e-5,
                  .first = "linear_1",
                  .last = "linear_2" },
      .columns = { "vision_config", "hidden_size", NULL, 768 },
      .factor = "downsample_factor",
      .norm_joined = true,
      .has_norm = "projector_use_layernorm",
      .inner = "projector_hidden_size",
      .biases = "projector_bias",
      .activation = "projector_hidden_act" },
    /* reads rows that two layers of the encoder have merged */
    { .model_type = "llama4",
      .layers = { .path = "multi_modal_projector", .last = "linear_1" },
      .columns = { "vision_config", "vision_output_dim", NULL, 7680 } },
    { .model_type = "llava",
      .layers = { .path = PROJECTOR, .first = "linear_1", .last = "linear_2" },
      .columns = { "vision_config", "hidden_size", NULL, 1024 },
      .listed = true,
      .biases = "multimodal_projector_bias",
      .activation = "projector_hidden_act" },
    /* the norm is that of the text model */
    { .model_type = "mistral3",
      .layers = { .path = PROJECTOR,
                  .norm = "norm",
                  .norm_kind = NORM_RMS,
                  .merge = "patch_merger.merging_layer",
                  .first = "linear_1",
                  .last = "linear_2" },
      .columns = { "vision_config", "hidden_size", NULL, 1024 },
      .factor = "spatial_merge_size",
      .norm_first = true,
      .biases = "multimodal_projector_bias",
      .unbiased = true,
      .activation = "projector_hidden_act" },
    /* is a layer itself */
    { .model_type = "mllama",
      .layers = { .path = PROJECTOR, .last = "", .biased = true, .follows_text = true },
      .columns = { "vision_config", "vision_output_dim", NULL, 7680 } },
    { .model_type = "paddleocr_vl",
      .layers = { .path = "model.projector",
                  .norm = "pre_norm",
                  .norm_kind = NORM_LAYER,
                  .norm_eps = 1e-5,
                  .first = "linear_1",
                  .last = "linear_2",
                  .biased = true,
                  .follows_text = true },
      .columns = { "vision_config", "hidden_size", NULL, 1152 },
      .merges = true,
      .norm_first = true },
    { .model_type = "qwen2_5_vl",
      .layers = { .path = MERGER,
                  .norm = "ln_q",
                  .norm_kind = NORM_RMS,
                  .norm_decays = true,
                  .first = "mlp.0",
                  .last = "mlp.2",
                  .biased = true },
      .columns = { "vision_config", "hidden_size", NULL, 3584 },
      .merges = true,
      .norm_first = true },
    { .model_type = "qwen2_audio",
      .layers = { .path = PROJECTOR, .last = "linear", .biased = true },
      .columns = { "audio_config", "d_model", "hidden_size", 1280 } },
    { .model_type = "qwen2_vl",
      .layers = { .path = MERGER,
                  .norm = "ln_q",
                  .norm_kind = NORM_LAYER,
                  .first = "mlp.0",
                  .last = "mlp.2",
                  .biased = true },
      .columns = { "vision_config", "embed_dim", NULL, 1280 },
      .merges = true,
      .norm_first = true },
#define QWEN3(name)                                                                \
    {                                                                              \
        .model_type = name,                                                        \
        .layers = { .path = MERGER,                                                \
                    .norm = "norm",                                                \
                    .norm_kind = NORM_LAYER,                                       \
                    .first = "linear_fc1",                                         \
                    .last = "linear_fc2",                                          \
                    .biased = true },                                              \
        .columns = { "vision_config", "hidden_size", NULL, 1152 }, .merges = true, \
        .norm_first = true                                                         \
    }
    QWEN3("qwen3_5"),
    QWEN3("qwen3_5_moe"),
    QWEN3("qwen3_vl"),
    QWEN3("qwen3_vl_moe"),
    { .model_type = "voxtral",
      .layers = { .path = PROJECTOR,
                  .first = "linear_1",
                  .last = "linear_2",
                  .follows_text = true },
      .columns = { "audio_config", "intermediate_size", NULL, 5120 },
      .activation = "projector_hidden_act" },
};

static const struct {
    const char *name;
    enum activation kind;
} activations[] = {
    { "gelu", ACTIVATION_GELU },
    { "gelu_pytorch_tanh", ACTIVATION_GELU_TANH },
    { "quick_gelu", ACTIVATION_QUICK_GELU },
    { "relu", ACTIVATION_RELU },
    { "silu", ACTIVATION_SILU },
};

static bool find_activation(const char *name, enum activation *out)
{
    for (size_t i = 0; i < TS_COUNT(activations); i++)
        if (strcmp(activations[i].name, name) == 0) {
            *out = activations[i].kind;
            return true;
        }
    return false;
}

static void read_activations(const struct family *row, const json_t *root,
                             const char *file, struct projector_config *out,
                             struct error *err)
{
    const json_t *vision = json_object_get(root, "vision_config");
    const char *name = "gelu", *gate = "silu";

    if (row->activation)
        name = json_get_string(root, row->activation, name, file, err);
    if (out->gate)
        gate = json_get_string(vision, "hidden_act", gate, file, err);
    if (!find_activation(name, &out->activation) ||
        !find_activation(gate, &out->gate_activation))
        out->path = NULL;
}

/* A layer with a gate has as many columns as the MLPs of the encoder. */
static size_t read_gated(const json_t *root, const char *file, struct error *err)
{
    const int64_t count = json_get_int(json_object_get(root, "vision_config"),
                                       "intermediate_size", 13696, file, err);

    if (count >= 1 && count <= INT32_MAX)
        return (size_t)count;
    error_set(err, ERROR_DATA,
              "%s: intermediate_size of vision_config must be a number from 1 to %d",
              file, INT32_MAX);
    return 1;
}

static double read_eps(const struct family *row, const json_t *root, const char *file,
                       struct error *err)
{
    const json_t *vision = json_object_get(root, "vision_config");

    if (row->layers.middle_norm)
        return 1e-5; /* the default of torch's LayerNorm */
    if (row->layers.merge)
        return json_get_real(json_object_get(root, "text_config"), "rms_norm_eps", 1e-6,
                             file, err);
    return json_get_real(row->layers.bare ? vision : NULL, "layer_norm_eps", 1e-6, file,
                         err);
}

static size_t read_columns(const struct family *row, const json_t *root, const char *file,
                           struct error *err)
{
    const struct columns *c = &row->columns;
    const json_t *encoder = json_object_get(root, c->encoder);
    int64_t count = (int64_t)c->default_value;

    if (c->other_key)
        count = json_get_int(encoder, c->other_key, count, file, err);
    count = json_get_int(encoder, c->key, count, file, err);
    if (count < 1 || count > INT32_MAX) {
        error_set(err, ERROR_DATA, "%s: %s of %s must be a number from 1 to %d", file,
                  c->key, c->encoder, INT32_MAX);
        return 1;
    }
    return (size_t)count;
}

/* Return how many rows of the encoder become one, along each side. */
static size_t read_merge(const struct family *row, const json_t *root, const char *file,
                         struct error *err)
{
    const json_t *vision = json_object_get(root, "vision_config");
    const char *key = row->factor ? row->factor : "spatial_merge_size";
    int64_t merge = 1;

    if (row->ratio) {
        double ratio = json_get_real(root, row->ratio, 0.5, file, err);

        while (merge < MERGE_MAX && (double)merge * ratio < 1)
            merge *= 2;
    } else if (row->merges || row->factor) {
        merge = json_get_int(row->factor ? root : vision, key, 2, file, err);
    }
    if (merge < 1 || merge > MERGE_MAX) {
        error_set(err, ERROR_DATA, "%s: %s must be a number from 1 to %d", file, key,
                  MERGE_MAX);
        return 1;
    }
    return (size_t)merge;
}

/* Return the columns between two linear layers. */
static size_t read_inner(const struct family *row, const json_t *root, size_t hidden,
                         size_t in, const char *file, struct error *err)
{
    int64_t inner = (int64_t)(row->merges || row->layers.gate ? in : hidden);

    if (row->inner)
        inner = json_get_int(root, row->inner, 2560, file, err);
    if (inner < 1 || inner > INT32_MAX) {
        error_set(err, ERROR_DATA, "%s: %s must be a number from 1 to %d", file,
                  row->inner ? row->inner : "hidden_size", INT32_MAX);
        return 1;
    }
    return (size_t)inner;
}

void projector_config_read(const char *model_type, const json_t *root, size_t hidden,
                           const char *file, struct projector_config *out,
                           struct error *err)
{
    const json_t *layers = json_object_get(root, "vision_feature_layer");

    *out = (struct projector_config) { .path = NULL };
    for (size_t i = 0; i < TS_COUNT(families); i++) {
        const struct family *row = &families[i];
        size_t columns, merge;

        if (strcmp(row->model_type, model_type) != 0)
            continue;
        columns = read_columns(row, root, file, err);
        *out = row->layers;
        out->in = columns;
        merge = read_merge(row, root, file, err);
        out->in *= merge * merge;
        out->patches = merge * merge;
        out->merged = out->merge ? columns : 0;
        if (row->listed && json_is_array(layers))
            out->in *= json_array_size(layers);
        out->norm_size = row->norm_first ? columns : row->norm_joined ? out->in : 0;
        if (!(out->norm_eps > 0))
            out->norm_eps = read_eps(row, root, file, err);
        if (row->has_norm && !json_get_bool(root, row->has_norm, true, file, err))
            out->norm = NULL;
        out->inner = out->first ? read_inner(row, root, hidden, out->in, file, err) : 0;
        out->gated = out->gate ? read_gated(root, file, err) : 0;
        if (row->biases)
            out->biased = json_get_bool(root, row->biases, !row->unbiased, file, err);
        read_activations(row, root, file, out, err);
    }
}

const char *projector_config_leaf(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

const char *projector_config_name(const struct projector_config *config,
                                  enum module module)
{
    if (!config->path)
        return NULL;
    switch (module) {
    case MODULE_PROJECTOR_NORM:
        return config->norm;
    case MODULE_PROJECTOR_MERGE:
        return config->merge;
    case MODULE_PROJECTOR_FIRST:
        return config->first;
    case MODULE_PROJECTOR_MIDDLE:
        return config->middle_norm;
    case MODULE_PROJECTOR_GATE:
        return config->gate;
    case MODULE_PROJECTOR_UP:
        return config->up;
    default:
        return config->last;
    }
}
