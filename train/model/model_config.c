/* train/model/model_config.c - parses config.json as transformers 4 and 5 write it. */
#include "config.h"

#include "train/model/model_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/model/activation_name.h"
#include "train/model/architecture_fit.h"
#include "train/model/config_refusals.h"
#include "train/model/cross_layers.h"
#include "train/model/expert_config.h"
#include "train/model/full_heads.h"
#include "train/model/latent_config.h"
#include "train/model/layer_inputs.h"
#include "train/model/layer_rotation.h"
#include "train/model/linear_layers.h"
#include "train/model/nested_config.h"
#include "train/model/weights.h"
#include "train/model/rope_config.h"
#include "train/model/shared_keys.h"
#include "train/model/state_space.h"
#include "train/model/window_config.h"

#define CONFIG_BYTES_MAX ((size_t)4 << 20)
#define SIZE_VALUE_MAX   ((int64_t)1 << 30) /* of any number in a config */

/* Input of the functions below. */
struct reader {
    const char *file; /* in errors */
    const json_t *root;
    const struct config_keys *keys;
    const struct bias_keys *biases;
    struct arena *arena;
    struct error *err;
};

static bool has_value(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value && !json_is_null(value);
}

/* Return a positive number, or the default if it is missing or null; without a default
 * (0) it must be present. */
static size_t read_size(const struct reader *r, const char *key, size_t default_value)
{
    int64_t value = json_get_int(r->root, key, (int64_t)default_value, r->file, r->err);

    if (value < 1 || value > SIZE_VALUE_MAX) {
        error_set(r->err, ERROR_DATA, "%s: %s must be a number from 1 to %lld", r->file,
                  key, (long long)SIZE_VALUE_MAX);
        return 1;
    }
    return (size_t)value;
}

static double read_positive(const struct reader *r, const json_t *object, const char *key,
                            double default_value)
{
    double value = json_get_real(object, key, default_value, r->file, r->err);

    if (!(value > 0) || value > 1e30) {
        error_set(r->err, ERROR_DATA, "%s: %s must be a number above 0", r->file, key);
        return 1;
    }
    return value;
}

/* Return the row of a model_type with several that config.json describes.  Falcon: blocks
 * of the new architecture have two norms by default. */
static const struct architecture *choose_row(const struct reader *r,
                                             const struct architecture *row)
{
    bool groups = row->groups_key &&
                  json_get_bool(r->root, row->groups_key, false, r->file, r->err);
    const struct architecture *other;
    size_t norms;

    if (!row->norms_key)
        return row;
    norms = read_size(r, row->norms_key, groups ? 2 : 1);
    for (size_t i = 0; (other = architecture_at(i)); i++)
        if (strcmp(other->model_type, row->model_type) == 0 && other->norms == norms)
            return other;
    error_set(r->err, ERROR_DATA, "%s: %s must be 1 or 2, not %zu", r->file,
              row->norms_key, norms);
    return row;
}

static const struct architecture *find_architecture(const struct reader *r)
{
    const char *type = json_get_string(r->root, "model_type", NULL, r->file, r->err);
    const struct architecture *found = type ? architecture_find(type) : NULL;

    if (found)
        return choose_row(r, found);
    if (type)
        error_set(r->err, ERROR_DATA,
                  "%s: model_type \"%s\" is not supported; `man trainspool-job` lists "
                  "those that are under MODELS",
                  r->file, type);
    else
        error_set(r->err, ERROR_DATA, "%s: model_type is missing", r->file);
    return NULL;
}

/* A number, a list of numbers, or null. */
static void read_eos(const struct reader *r, struct model_config *out)
{
    const json_t *eos = json_object_get(r->root, "eos_token_id");
    size_t count = json_is_array(eos) ? json_array_size(eos) : 1;

    for (size_t i = 0; i < count && !json_is_null(eos) && eos; i++) {
        const json_t *id = json_is_array(eos) ? json_array_get(eos, i) : eos;

        if (!json_is_integer(id) || out->eos_tokens == TS_COUNT(out->eos_token_ids)) {
            error_set(r->err, ERROR_DATA,
                      "%s: eos_token_id must be a number or a list of at most %zu",
                      r->file, TS_COUNT(out->eos_token_ids));
            return;
        }
        out->eos_token_ids[out->eos_tokens++] = json_integer_value(id);
    }
}

static size_t read_kv_heads(const struct reader *r, const struct architecture *row,
                            size_t heads)
{
    if (row->one_kv_head_key &&
        !(row->groups_key &&
          json_get_bool(r->root, row->groups_key, false, r->file, r->err)))
        return json_get_flag(r->root, row->one_kv_head_key, true, r->file, r->err)
                   ? 1
                   : heads;
    if (!r->keys->kv_heads)
        return heads;
    /* null means heads; a default that does not fit is that of larger models */
    if (row->kv_heads > 0 && !json_object_get(r->root, r->keys->kv_heads) &&
        heads % row->kv_heads == 0)
        return row->kv_heads;
    return read_size(r, r->keys->kv_heads, heads);
}

/* Return the name by which config.json has a key. */
static const char *name_of(const struct reader *r, const char *key)
{
    const char *const(*other)[2] = r->keys->others;

    for (; other && (*other)[0] && !json_object_get(r->root, key); other++)
        if (strcmp((*other)[0], key) == 0 && json_object_get(r->root, (*other)[1]))
            return (*other)[1];
    return key;
}

static void read_sizes(const struct reader *r, struct model_config *out)
{
    const struct config_keys *keys = r->keys;
    const struct architecture *row = out->architecture;

    out->vocab_size = read_size(r, "vocab_size", 0);
    out->hidden_size = read_size(r, name_of(r, keys->hidden_size), 0);
    out->intermediate_size =
        read_size(r, keys->intermediate_size, row->mlp_ratio * out->hidden_size);
    if (row->joined_mlp_size)
        out->intermediate_size /= 2;
    out->layers = read_size(r, name_of(r, keys->layers), 0);
    out->heads = read_size(r, name_of(r, keys->heads), 0);
    out->kv_heads = read_kv_heads(r, row, out->heads);
    out->max_positions =
        read_size(r, keys->max_positions, row->paths[MODULE_POSITIONS] ? 0 : 2048);
    if (out->layers > MODEL_LAYERS_MAX)
        error_set(r->err, ERROR_DATA, "%s: %s must be at most %d", r->file, keys->layers,
                  MODEL_LAYERS_MAX);
    if (out->heads % out->kv_heads != 0)
        error_set(r->err, ERROR_DATA, "%s: %s %zu must be a multiple of %s %zu", r->file,
                  keys->heads, out->heads, keys->kv_heads, out->kv_heads);
    if (latent_config_read(r->root, r->file, out, r->err))
        return;
    out->head_size = out->hidden_size / out->heads;
    if (row->head_size > 0 && !json_is_null(json_object_get(r->root, "head_dim")))
        out->head_size = row->head_size;
    if (keys->kv_heads && has_value(r->root, "head_dim"))
        out->head_size = read_size(r, "head_dim", 0);
    else if (out->head_size != row->head_size && out->hidden_size % out->heads != 0)
        error_set(r->err, ERROR_DATA,
                  "%s: %s %zu must be a multiple of %s %zu, unless there is a head_dim",
                  r->file, keys->hidden_size, out->hidden_size, keys->heads, out->heads);
    if (out->head_size % 2 != 0 || out->head_size == 0)
        error_set(r->err, ERROR_DATA, "%s: the head size must be an even number, not %zu",
                  r->file, out->head_size);
    if (out->head_size > HEAD_SIZE_MAX)
        error_set(r->err, ERROR_DATA,
                  "%s: a head size of %zu is not supported, only up to %d; it is "
                  "head_dim, or %s divided by %s",
                  r->file, out->head_size, HEAD_SIZE_MAX, keys->hidden_size, keys->heads);
}

static void read_dtype(const struct reader *r, struct model_config *out)
{
    const char *name = json_get_string(r->root, "torch_dtype", NULL, r->file, r->err);

    name = json_get_string(r->root, "dtype", name, r->file, r->err);
    out->dtype = FORMAT_COUNT;
    if (name && text_starts(name, "torch."))
        name += strlen("torch.");
    if (name && !format_find(name, &out->dtype))
        out->dtype = FORMAT_COUNT;
}

static void read_activation(const struct reader *r, struct model_config *out)
{
    const struct architecture *row = out->architecture;
    const char *key = r->keys->activation;
    const char *name =
        key ? json_get_string(r->root, key, row->activation, r->file, r->err)
            : row->activation;

    out->learned_slopes =
        row->paths[MODULE_ALPHA_P] && name && strcmp(name, "xielu") == 0;
    if (out->learned_slopes)
        return;
    if (activation_read(r->file, key, name, &out->activation, r->err) &&
        row->gelu_is_tanh && out->activation == ACTIVATION_GELU)
        out->activation = ACTIVATION_GELU_TANH;
}

/* Return a number above 0; null means none, and a missing key means the default. */
static double read_softcap(const struct reader *r, const char *key, double default_value)
{
    const json_t *given = json_object_get(r->root, key);

    if (!given || json_is_null(given))
        return given ? 0 : default_value;
    return read_positive(r, r->root, key, default_value);
}

/* Return the factor that config.json has for a key; 1 without a key. */
static double read_factor(const struct reader *r, const char *key)
{
    return key ? read_positive(r, r->root, key, 1) : 1;
}

static void read_scores(const struct reader *r, struct model_config *out)
{
    const struct architecture *row = out->architecture;
    double scalar = (double)out->head_size;

    if (row->score_scalar > 0)
        scalar = read_positive(r, r->root, "query_pre_attn_scalar", row->score_scalar);
    out->score_scale = 1 / sqrt(scalar);
    if (row->factors.scores)
        out->score_scale = read_factor(r, row->factors.scores);
    if (row->unscaled_scores ||
        !json_get_flag(r->root, "scale_attn_weights", true, r->file, r->err))
        out->score_scale = 1;
    out->score_by_layer =
        json_get_bool(r->root, "scale_attn_by_inverse_layer_idx", false, r->file, r->err);
    out->alibi = row->alibi;
    if (row->score_softcap > 0)
        out->score_softcap =
            read_softcap(r, "attn_logit_softcapping", row->score_softcap);
    if (row->clips_qkv)
        out->qkv_limit = read_softcap(r, "clip_qkv", 0);
    if (row->score_scalar > 0 || row->caps_logits)
        out->logit_softcap =
            read_softcap(r, "final_logit_softcapping", row->logit_softcap);
    if (row->embed_scaled)
        out->embed_scale = sqrt((double)out->hidden_size);
    if (row->factors.embed)
        out->embed_scale = read_factor(r, row->factors.embed);
    out->residual_scale = read_factor(r, row->factors.residual);
    out->logit_scale = 1 / read_factor(r, row->factors.logits);
    if (row->factors.logit_scale)
        out->logit_scale = read_positive(r, r->root, row->factors.logit_scale,
                                         row->factors.logit_default);
    if (!row->factors.by_size)
        return;
    out->residual_scale /= sqrt((double)out->layers);
    out->logit_scale = 1 / (out->logit_scale * (double)out->hidden_size);
}

static void read_blocks(const struct reader *r, struct model_config *out)
{
    const struct architecture *row = out->architecture;

    out->parallel = row->parallel;
    if (row->parallel_key)
        out->parallel =
            json_get_flag(r->root, row->parallel_key, row->parallel, r->file, r->err);
    out->one_norm = out->parallel && row->one_norm;
}

/* Return a dropout probability, from 0 to below 1. */
static double read_dropout(const struct reader *r, const char *key, double default_value)
{
    double value = key ? json_get_real(r->root, key, default_value, r->file, r->err) : 0;

    if (value >= 0 && (float)value < 1) /* operations take a float */
        return value;
    error_set(r->err, ERROR_DATA, "%s: %s must be a number from 0 to below 1, not %g",
              r->file, key, value);
    return 0;
}

static void read_dropouts(const struct reader *r, struct model_config *out)
{
    const struct dropout_keys *keys = &out->architecture->dropouts;

    out->embed_dropout = read_dropout(r, keys->embed, keys->default_value);
    out->residual_dropout = read_dropout(r, keys->residual, keys->default_value);
    out->attention_dropout = read_dropout(r, keys->attention, keys->attention_default);
}

static bool has_biases(const struct reader *r, enum biases biases, const char *key,
                       const char *default_key)
{
    bool default_value = r->biases->default_value || biases == BIASES_BY_DEFAULT;

    key = key ? key : default_key;
    return biases == BIASES_ALWAYS ||
           (biases != BIASES_NONE &&
            json_get_flag(r->root, key, default_value, r->file, r->err));
}

static void read_biases(const struct reader *r, struct model_config *out)
{
    const struct architecture *row = out->architecture;
    const struct bias_keys *keys = &row->bias_keys;

    out->qkv_bias = has_biases(r, row->qkv_bias, keys->qkv, "attention_bias");
    out->output_bias = has_biases(r, row->output_bias, keys->output, "attention_bias");
    out->mlp_bias = has_biases(r, row->mlp_bias, keys->mlp, "mlp_bias");
    out->head_bias = row->head_bias;
    if (row->head_bias_key)
        out->head_bias =
            json_get_bool(r->root, row->head_bias_key, false, r->file, r->err);
}

/* As in torch.nn.Embedding, a negative token counts from the end.  transformers rejects a
 * token after the vocabulary; here that means no padding token. */
static int64_t read_padding(const struct reader *r, const struct model_config *out)
{
    const struct architecture *row = out->architecture;
    const json_t *given = json_object_get(r->root, "pad_token_id");
    int64_t vocabulary = (int64_t)out->vocab_size, token;

    if (!row->uses_padding || json_is_null(given) || (!given && row->pad_token_id < 0))
        return -1;
    token = json_get_int(r->root, "pad_token_id", row->pad_token_id, r->file, r->err);
    if (token < 0)
        token += vocabulary;
    return token >= 0 && token < vocabulary ? token : -1;
}

/* Deviations may be null, which means the default. */
static double read_range(const struct reader *r, const char *key, double default_value)
{
    return json_is_null(json_object_get(r->root, key))
               ? default_value
               : json_get_real(r->root, key, default_value, r->file, r->err);
}

static void read_initializer(const struct reader *r, struct model_config *out)
{
    const struct architecture *row = out->architecture;
    double range = row->init_range > 0 ? row->init_range : 0.02;

    if (row->init_by_size)
        range = 2 / sqrt(5 * (double)out->hidden_size);
    out->initializer_range =
        read_range(r, row->init_key ? row->init_key : "initializer_range", range);
    out->embedding_range = out->initializer_range;
    if (row->init_by_size)
        out->embedding_range =
            read_range(r, "embedding_initializer_range", 2 * out->initializer_range);
}

static void read_all(struct reader *r, struct model_config *out)
{
    const struct architecture *row = find_architecture(r);

    read_dtype(r, out);
    if (!row)
        return;
    if (out->multimodal)
        row = multimodal_architecture(out->multimodal, row, &out->media.projector,
                                      r->arena);
    row = architecture_fit(row, r->root, r->file, r->arena, r->err);
    out->architecture = row;
    r->keys = row->keys;
    r->biases = &row->bias_keys;
    config_refuse(r->root, r->file, row, r->err);
    packed_config_read(r->root, r->file, row->experts.biased, &out->packed, r->err);
    if (!out->packed.enabled)
        quantized_config_read(r->root, r->file, r->arena, &out->quantized, r->err);
    read_sizes(r, out);
    if (out->multimodal)
        cross_layers_read(r->root, r->file, r->arena, out, r->err);
    full_heads_read(r->root, r->file, out, r->err);
    read_activation(r, out);
    read_scores(r, out);
    read_blocks(r, out);
    out->norm_eps = row->norm_eps;
    if (row->keys->norm_eps)
        out->norm_eps = read_positive(r, r->root, row->keys->norm_eps, row->norm_eps);
    read_initializer(r, out);
    out->tied = json_get_bool(r->root, "tie_word_embeddings", row->tied, r->file, r->err);
    read_biases(r, out);
    out->bos_token_id = json_get_int(r->root, "bos_token_id", -1, r->file, r->err);
    out->padding = read_padding(r, out);
    rope_config_read(r->root, r->file, r->arena, out, r->err);
    if (row->scales_queries)
        out->query_scaling =
            (struct query_scaling) { .beta = out->rope.query_beta,
                                     .interval = out->rope.original_max_positions };
    read_eos(r, out);
    latent_config_scale(r->root, r->file, out, r->err);
    layer_rotation_read(r->root, r->file, r->arena, out, r->err);
    expert_config_read(r->root, r->file, r->arena, out, r->err);
    linear_layers_read(r->root, r->file, r->arena, out, r->err);
    state_space_read(r->root, r->file, r->arena, out, r->err);
    window_config_read(r->root, r->file, r->arena, out, r->err);
    full_heads_check(r->root, r->file, out, r->err);
    layer_inputs_read(r->root, r->file, out, r->err);
    shared_keys_read(r->root, r->file, out, r->err);
    read_dropouts(r, out);
}

/* Read the config of a text model, or of the text model of one with towers. */
static void read_root(struct reader *r, json_t *root, struct model_config *out)
{
    const char *type = json_get_string(root, "model_type", NULL, r->file, r->err);
    json_t *text = NULL;

    out->multimodal = type ? multimodal_find(type) : NULL;
    if (out->multimodal) {
        text = multimodal_text(out->multimodal, root, r->file, r->err);
        media_config_read(type, root, r->file, &out->media, r->err);
        projector_config_read(
            type, root, (size_t)json_get_int(text, "hidden_size", 1, r->file, r->err),
            r->file, &out->media.projector, r->err);
    } else if (type) {
        text = nested_config_join(root, architecture_find(type));
    }
    r->root = out->multimodal || text ? text : root;
    if (r->root)
        read_all(r, out);
    json_decref(text);
}

bool model_config_parse(const char *data, size_t len, const char *file,
                        struct arena *arena, struct model_config *out, struct error *err)
{
    struct error local = { 0 };
    struct reader r = { .file = file, .arena = arena, .err = &local };
    json_t *root = json_read_loose(data, len, file, 1, &local);

    *out = (struct model_config) { .bos_token_id = -1,
                                   .padding = -1,
                                   .dtype = FORMAT_COUNT };
    if (root && !json_is_object(root)) {
        error_set(&local, ERROR_DATA, "%s: expected a JSON object", file);
    } else if (root) {
        read_root(&r, root, out);
        out->text = arena_copy(arena, data, len);
        out->text_len = len;
    }
    json_decref(root);
    if (local.code != ERROR_NONE && err && err->code == ERROR_NONE)
        *err = local;
    return local.code == ERROR_NONE;
}

bool model_config_read(const char *dir, struct arena *arena, struct model_config *out,
                       struct error *err)
{
    char *name = path_join(dir, "config.json");
    struct text text;
    bool ok;

    *out = (struct model_config) { .dtype = FORMAT_COUNT };
    text_init(&text, CONFIG_BYTES_MAX);
    ok = file_read(name, CONFIG_BYTES_MAX, &text, NULL, err) &&
         model_config_parse(text.data, text.len, name, arena, out, err);
    if (ok && !out->packed.enabled && !out->quantized.enabled)
        ok = packed_config_read_folder(dir, &out->packed, err);
    out->expert_layers = ok && weights_have_expert_layers(dir, out);
    text_clear(&text);
    free(name);
    return ok;
}

enum format model_config_weight_format(const struct model_config *config,
                                       const struct safetensors *files)
{
    if (config->packed.enabled)
        return config->dtype < FORMAT_COUNT ? config->dtype : FORMAT_BF16;
    return config->quantized.enabled ? config->dtype : safetensors_format(files);
}

size_t model_config_most_queries(const struct model_config *config)
{
    const size_t full = config->heads * config->full_head_size,
                 others = config->heads * config->head_size;

    return full > others ? full : others;
}

size_t model_config_most_keys(const struct model_config *config)
{
    const size_t full = config->full_kv_heads * config->full_head_size,
                 others = config->kv_heads * config->head_size;

    return full > others ? full : others;
}

size_t model_config_rotary(const struct model_config *config, size_t layer)
{
    return config->has_local && config->windowed && config->windowed[layer]
               ? config->rotary_local
               : config->rotary;
}

size_t model_config_positions(const struct model_config *config)
{
    bool adapts = config->rope.kind == ROPE_DYNAMIC || config->alibi > 0;

    return adapts ? SIZE_MAX : config->max_positions;
}

bool model_config_check_positions(const struct model_config *config, size_t positions,
                                  struct error *err)
{
    if (!config->architecture->paths[MODULE_POSITIONS] ||
        positions <= config->max_positions)
        return true;
    return error_set(err, ERROR_DATA,
                     "position %zu of a sample is beyond the %zu positions that this "
                     "model has learned embeddings for; lower cutoff_len to %zu",
                     positions, config->max_positions, config->max_positions);
}
