/* train/model/expert_config.c - the experts that config.json describes. */
#include "config.h"

#include "train/model/expert_config.h"

#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "kernels/ops.h"

#define SIZE_VALUE_MAX ((int64_t)1 << 30) /* of any number in a config */

struct reader {
    const json_t *root;
    const char *file;
    struct error *err;
};

/* Return a number from `least` on, or the default if it is missing or null. */
static size_t read_size(const struct reader *r, const char *key, size_t default_value,
                        int64_t least)
{
    const json_t *given = json_object_get(r->root, key);
    int64_t value = (int64_t)default_value;

    if (given && !json_is_null(given))
        value = json_get_int(r->root, key, value, r->file, r->err);
    if (value >= least && value <= SIZE_VALUE_MAX)
        return (size_t)value;
    error_set(r->err, ERROR_DATA, "%s: %s must be a number from %lld to %lld, not %lld",
              r->file, key, (long long)least, (long long)SIZE_VALUE_MAX,
              (long long)value);
    return (size_t)least;
}

/* transformers reads either name of the number of experts. */
static const char *count_key(const struct reader *r, const char *key)
{
    static const char *const names[] = { "num_experts", "num_local_experts" };

    for (size_t i = 0; i < 2 && !json_object_get(r->root, key); i++)
        if (json_object_get(r->root, names[i]))
            return names[i];
    return key;
}

/* Return the experts of a row; a list has them for each layer. */
static size_t read_chosen(const struct reader *r, const struct expert_columns *row)
{
    static const char usual[] = "num_experts_per_tok";
    const char *key = row->chosen_key && json_object_get(r->root, row->chosen_key)
                          ? row->chosen_key
                          : usual;
    const json_t *list = json_object_get(r->root, key), *first = json_array_get(list, 0);
    json_int_t value = json_integer_value(first);

    if (!row->chosen_key || !json_is_array(list))
        return read_size(r, key, row->chosen, 1);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) != value)
            value = 0;
    if (value > 0 && value <= SIZE_VALUE_MAX)
        return (size_t)value;
    error_set(r->err, ERROR_DATA,
              "%s: %s must be a number, or the same number for each layer", r->file, key);
    return 1;
}

/* Return a list of layers, or NULL if there is none.  A layer that the model does not have
 * means nothing, as in transformers. */
static const json_t *read_list(const struct reader *r, const char *key)
{
    const json_t *list = json_object_get(r->root, key);
    bool ok = json_is_array(list);

    if (!list || json_is_null(list))
        return NULL;
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok = json_is_integer(json_array_get(list, i));
    if (!ok)
        error_set(r->err, ERROR_DATA, "%s: %s must be a list of numbers of layers",
                  r->file, key);
    return ok ? list : NULL;
}

static bool is_listed(const json_t *list, size_t layer)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == (json_int_t)layer)
            return true;
    return false;
}

/* Return a list of "dense" and "sparse"; NULL: not given. */
static const json_t *read_types(const struct reader *r, const char *key, size_t layers)
{
    const json_t *types = json_object_get(r->root, key);
    bool ok = json_array_size(types) == layers;

    if (!types || json_is_null(types))
        return NULL;
    for (size_t l = 0; ok && l < layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));

        ok = type && (strcmp(type, "dense") == 0 || strcmp(type, "sparse") == 0);
    }
    if (ok)
        return types;
    error_set(r->err, ERROR_DATA,
              "%s: %s must be a list of %zu strings, dense or sparse for each layer",
              r->file, key, layers);
    return NULL;
}

/* Which blocks have experts: those in a range, or each of an interval, that are not listed;
 * or those that a list says. */
struct sparse_layers {
    size_t first, last, step;
    const json_t *dense, *types, *listed; /* NULL: there is no such list */
};

/* ERNIE 4.5: -1 is the last block. */
static void read_range(const struct reader *r, size_t layers, struct sparse_layers *out)
{
    int64_t last = json_get_int(r->root, "moe_layer_end_index", -1, r->file, r->err);

    out->first = read_size(r, "moe_layer_start_index", 1, 0);
    out->step = read_size(r, "moe_layer_interval", 1, 1);
    if (last >= 0)
        out->last = (size_t)last;
    else if (last == -1)
        out->last = layers - 1;
    else
        error_set(r->err, ERROR_DATA, "%s: moe_layer_end_index must be -1 or more",
                  r->file);
}

static struct sparse_layers read_choice(const struct reader *r,
                                        const struct expert_columns *row, size_t layers)
{
    struct sparse_layers s = { .first = row->first_dense,
                               .last = layers,
                               .step = 1,
                               .types = row->types_key
                                            ? read_types(r, row->types_key, layers)
                                            : NULL };

    if (row->first_dense_key)
        s.first = read_size(r, row->first_dense_key, row->first_dense, 0);
    if (row->layer_range)
        read_range(r, layers, &s);
    s.listed = row->listed ? read_list(r, "moe_layers") : NULL;
    if (row->listed && !s.listed)
        s.step = read_size(r, "interleave_moe_layer_step", 1, 1);
    if (!row->some_dense)
        return s;
    s.step = read_size(r, "decoder_sparse_step", 1, 1);
    s.dense = read_list(r, "mlp_only_layers");
    return s;
}

/* transformers: Qwen2MoeDecoderLayer, Glm4MoeDecoderLayer, Ernie4_5_MoeDecoderLayer,
 * Llama4TextDecoderLayer */
static bool is_sparse(const struct sparse_layers *s, size_t layer)
{
    if (s->listed)
        return is_listed(s->listed, layer);
    if (s->types)
        return strcmp(json_string_value(json_array_get(s->types, layer)), "sparse") == 0;
    return layer >= s->first && layer <= s->last && (layer + 1) % s->step == 0 &&
           !is_listed(s->dense, layer);
}

static void read_layers(const struct reader *r, const struct expert_columns *row,
                        struct arena *arena, struct model_config *out)
{
    const struct sparse_layers choice = read_choice(r, row, out->layers);
    bool *layers = arena_array(arena, out->layers, sizeof(*layers));
    size_t sparse = 0;

    for (size_t l = 0; l < out->layers; l++) {
        layers[l] = is_sparse(&choice, l);
        sparse += layers[l];
    }
    out->sparse = layers;
    out->sparse_layers = sparse;
    if (sparse == 0) { /* as transformers accepts, an ordinary model */
        out->sparse = NULL;
        out->experts = out->chosen_experts = out->expert_size = out->shared_size = 0;
    }
}

/* ERNIE 4.5 divides the weights of the chosen experts by their sum, at least this one.  The
 * sum of the largest k of n probabilities is at least k / n. */
static void check_least_sum(const struct reader *r, const struct model_config *c)
{
    double least = json_get_real(r->root, "moe_norm_min", 1e-12, r->file, r->err);

    if (c->experts > 0 && !(least * (double)c->experts <= (double)c->chosen_experts))
        error_set(r->err, ERROR_DATA,
                  "%s: moe_norm_min must be at most %g, the least sum of the weights of "
                  "%zu of %zu experts, not %g",
                  r->file, (double)c->chosen_experts / (double)c->experts,
                  c->chosen_experts, c->experts, least);
}

/* DeepSeek-V2 has two methods. */
static bool uses_groups(const struct reader *r, const struct expert_columns *row)
{
    const char *method = row->method_key ? json_get_string(r->root, row->method_key,
                                                           "greedy", r->file, r->err)
                                         : NULL;

    if (!method || strcmp(method, "group_limited_greedy") == 0)
        return true;
    if (strcmp(method, "greedy") != 0)
        error_set(r->err, ERROR_DATA,
                  "%s: %s must be greedy or group_limited_greedy, not \"%.64s\"", r->file,
                  row->method_key, method);
    return false;
}

/* Groups of all experts, or of which all are eligible, limit nothing. */
static void read_groups(const struct reader *r, struct model_config *out)
{
    const struct expert_columns *row = &out->architecture->experts;
    size_t groups = read_size(r, "n_group", row->group_count + !row->group_count, 0);
    size_t kept = read_size(r, "topk_group", row->groups_kept + !row->groups_kept, 0);

    if (groups <= 1 || kept >= groups || !uses_groups(r, row))
        return;
    if (out->experts % groups != 0 || kept == 0)
        error_set(r->err, ERROR_DATA,
                  "%s: n_group %zu must divide the number of experts %zu, and topk_group "
                  "%zu must be 1 or more",
                  r->file, groups, out->experts, kept);
    else if ((row->sigmoid || row->group_pairs) && out->experts / groups < 2)
        error_set(r->err, ERROR_DATA,
                  "%s: n_group must be at most %zu, half the number of experts, not %zu",
                  r->file, out->experts / 2, groups);
    else if (out->chosen_experts > kept * (out->experts / groups))
        error_set(
            r->err, ERROR_DATA,
            "%s: num_experts_per_tok must be at most %zu, the experts of topk_group %zu "
            "groups, not %zu",
            r->file, kept * (out->experts / groups), kept, out->chosen_experts);
    out->expert_groups = groups;
    out->expert_groups_kept = kept;
}

static double read_scale(const struct reader *r, const struct expert_columns *row)
{
    double scale = json_get_real(r->root, row->scale_key, row->scale, r->file, r->err);

    if (scale > 0 && scale < 1e6)
        return scale;
    error_set(r->err, ERROR_DATA, "%s: %s must be a number above 0 and below 1e6, not %g",
              r->file, row->scale_key, scale);
    return 1;
}

static double read_jitter(const struct reader *r, const char *key, double default_value)
{
    double jitter = json_get_real(r->root, key, default_value, r->file, r->err);

    if (jitter >= 0 && jitter < 1)
        return jitter;
    error_set(r->err, ERROR_DATA, "%s: %s must be a number from 0 to below 1, not %g",
              r->file, key, jitter);
    return 0;
}

/* transformers, sparsemixer: both experts are required. */
static void read_mixer(const struct reader *r, const struct expert_columns *row,
                       struct model_config *out)
{
    out->router_jitter = read_jitter(r, "router_jitter_noise", row->mixer_jitter);
    out->input_jitter = read_jitter(r, "input_jitter_noise", 0);
    if (out->chosen_experts != 2)
        error_set(r->err, ERROR_DATA, "%s: num_experts_per_tok must be 2, not %zu",
                  r->file, out->chosen_experts);
}

/* transformers, GptOssConfig */
static void read_clamp(const struct reader *r, const struct expert_columns *row,
                       struct model_config *out)
{
    out->clamp_alpha =
        json_get_real(r->root, "swiglu_alpha", row->alpha, r->file, r->err);
    out->clamp_limit =
        json_get_real(r->root, "swiglu_limit", row->limit, r->file, r->err);
    if (!(out->clamp_alpha > 0 && out->clamp_alpha < 1e6) ||
        !(out->clamp_limit > 0 && out->clamp_limit < 1e6))
        error_set(r->err, ERROR_DATA,
                  "%s: swiglu_alpha %g and swiglu_limit %g must be numbers above 0 and "
                  "below 1e6",
                  r->file, out->clamp_alpha, out->clamp_limit);
}

static void check(const struct reader *r, const struct model_config *c)
{
    static const char *const off[] = { "router_jitter_noise", "input_jitter_noise",
                                       "moe_jitter_eps" };
    const struct expert_columns *row = &c->architecture->experts;
    const size_t count = row->mixer_jitter > 0 ? 0 : TS_COUNT(off);

    for (size_t i = 0; i < count; i++)
        if (!(row->jitter_key && strcmp(row->jitter_key, off[i]) == 0) &&
            json_number_value(json_object_get(r->root, off[i])) > 0)
            error_set(r->err, ERROR_DATA, "%s: %s is not supported; set it to 0", r->file,
                      off[i]);
    if (c->architecture->experts.some_dense &&
        json_is_true(json_object_get(r->root, "use_sliding_window")))
        error_set(r->err, ERROR_DATA,
                  "%s: use_sliding_window is not supported for a model with experts; set "
                  "it to false, which is the same for samples that are no longer than "
                  "sliding_window",
                  r->file);
    if (c->experts > EXPERTS_MAX)
        error_set(r->err, ERROR_DATA,
                  "%s: %s must be at most %d, not %zu: more experts are not supported; "
                  "train the model with another program (trainspool: {target: external})",
                  r->file, count_key(r, c->architecture->experts.count_key), EXPERTS_MAX,
                  c->experts);
    if (c->chosen_experts > c->experts || c->chosen_experts > EXPERTS_CHOSEN_MAX)
        error_set(
            r->err, ERROR_DATA,
            "%s: num_experts_per_tok must be at most %zu, not %zu: %s", r->file,
            c->experts < EXPERTS_CHOSEN_MAX ? c->experts : (size_t)EXPERTS_CHOSEN_MAX,
            c->chosen_experts,
            c->chosen_experts > c->experts ? "there are no more experts"
                                           : "more experts of a token are not supported");
}

/* Settings of the models' own code that transformers does not read, or reads otherwise. */
static void check_routing(const struct reader *r, const struct expert_columns *row,
                          bool normalizes)
{
    const char *expected = row->sigmoid ? "sigmoid" : "softmax";
    const json_t *given = json_object_get(r->root, "scoring_func");
    const json_t *step = json_object_get(r->root, "moe_layer_freq");

    if (json_is_string(given) && strcmp(json_string_value(given), expected) != 0)
        error_set(r->err, ERROR_DATA, "%s: scoring_func must be %s", r->file, expected);
    if (json_is_integer(step) && json_integer_value(step) != 1)
        error_set(r->err, ERROR_DATA, "%s: moe_layer_freq must be 1", r->file);
    if (row->counts_uncorrected &&
        json_is_true(json_object_get(r->root, "output_router_logits")))
        error_set(
            r->err, ERROR_DATA,
            "%s: output_router_logits must be false: the load balancing loss of this "
            "model_type, which counts other experts than those chosen, is not "
            "supported",
            r->file);
    if (row->never_normalizes && normalizes)
        error_set(r->err, ERROR_DATA,
                  "%s: %s is not supported: transformers ignores it, and the model's own "
                  "code does not; set it to false",
                  r->file, row->normalize_key);
}

/* Return whether the weights of the chosen experts have the sum 1. */
static bool read_p_norm(const struct reader *r, const char *key)
{
    if (json_is_null(json_object_get(r->root, key)))
        return false;
    if (json_get_real(r->root, key, 1, r->file, r->err) != 1)
        error_set(r->err, ERROR_DATA,
                  "%s: %s must be 1 or null; other norms are not "
                  "supported",
                  r->file, key);
    return true;
}

void expert_config_read(const json_t *root, const char *file, struct arena *arena,
                        struct model_config *out, struct error *err)
{
    const struct expert_columns *row = &out->architecture->experts;
    const struct reader r = { root, file, err };

    if (!row->count_key || err->code ||
        (row->enabled_key && !json_get_bool(root, row->enabled_key, false, file, err)))
        return;
    out->experts = read_size(&r, count_key(&r, row->count_key), row->count, 1);
    out->chosen_experts = read_chosen(&r, row);
    out->expert_size = read_size(&r, row->size_key, row->size, 1);
    if (row->shared_size_key)
        out->shared_size = read_size(&r, row->shared_size_key, row->shared_size, 0);
    if (row->shared_count_key)
        out->shared_size =
            out->expert_size * read_size(&r, row->shared_count_key, row->shared_count, 0);
    read_layers(&r, row, arena, out);
    out->normalizes_experts =
        row->normalize_key
            ? json_get_flag(root, row->normalize_key, row->normalizes, file, err)
            : row->mixer_jitter == 0 && !row->scales_inputs;
    if (row->p_norm_key)
        out->normalizes_experts = read_p_norm(&r, row->p_norm_key);
    check_routing(&r, row, out->normalizes_experts);
    if (row->never_normalizes)
        out->normalizes_experts = false;
    out->expert_scale = row->scale_key ? read_scale(&r, row) : 1;
    if (row->groups && out->experts > 0)
        read_groups(&r, out);
    if (row->mixer_jitter > 0)
        read_mixer(&r, row, out);
    else if (row->jitter_key)
        out->input_jitter = read_jitter(&r, row->jitter_key, 0);
    if (row->limit > 0)
        read_clamp(&r, row, out);
    if (json_get_bool(root, "output_router_logits", false, file, err))
        out->aux_coefficient =
            json_get_real(root, row->aux_key ? row->aux_key : "router_aux_loss_coef",
                          row->aux_coefficient, file, err);
    if (row->layer_range)
        check_least_sum(&r, out);
    check(&r, out);
}

/* LLaMA-Factory: 0 leaves it to config.json (model_utils/moe.py, configure_moe). */
double expert_config_balance(const struct plan *plan, const struct model_config *config)
{
    if (config->experts == 0 || config->architecture->experts.unbalanced ||
        plan->generation.alone || plan->stage >= STAGE_DISTILL)
        return 0;
    return plan->moe_aux_loss_coef > 0 ? plan->moe_aux_loss_coef
                                       : config->aux_coefficient;
}

/* Return whether a block with cross-attention has another module in its place. */
static bool module_is_self_attention(enum module module)
{
    return (module >= MODULE_QKV && module <= MODULE_V) || module == MODULE_O;
}

bool model_config_has(const struct model_config *config, enum module module, size_t layer)
{
    bool sparse = config->sparse && config->sparse[layer];
    bool shared = module >= MODULE_SHARED_GATE_UP && module <= MODULE_SHARED_UP;

    shared = shared || module == MODULE_SHARED_DOWN || module == MODULE_SHARED_ROUTER;
    if (!config->architecture->paths[module] || (shared && config->shared_size == 0) ||
        (module_in_block(module) &&
         !module_in_mixer(module, !model_config_is_linear(config, layer),
                          model_config_is_linear(config, layer) ||
                              model_config_scans(config, layer))))
        return false;
    if (module_is_of_activation(module) && !config->learned_slopes)
        return false;
    if (model_config_crosses(config, layer)
            ? module_is_self_attention(module)
            : module_in_block(module) && module_is_of_cross(module))
        return false;
    if (module == MODULE_V_NORM && config->ssm.heads > 0 &&
        config->ssm.norm == SCAN_NORM_NONE)
        return false;
    if (module == MODULE_V && config->shares_values &&
        model_config_is_wide(config, layer))
        return false;
    if ((module == MODULE_K || module == MODULE_V || module == MODULE_K_NORM) &&
        model_config_shares_keys(config, layer))
        return false;
    return !(sparse ? module_is_dense(module) : module_is_sparse(module));
}

size_t model_config_copies(const struct model_config *config, enum module module)
{
    const char *path = config->architecture->paths[module];

    if (module_is_of_experts(module))
        return config->experts;
    if (!path || !strchr(path, '*'))
        return 1;
    return module == MODULE_Q_NORM ? config->heads : config->kv_heads;
}

size_t model_config_mlp_size(const struct model_config *config)
{
    size_t size = config->shared_size;

    for (size_t l = 0; l < config->layers; l++)
        if ((!config->sparse || !config->sparse[l]) &&
            model_config_mlp_of(config, l) > size)
            size = model_config_mlp_of(config, l);
    return size;
}

size_t model_config_active_size(const struct model_config *config)
{
    size_t all = 0;

    if (config->experts > 0)
        return config->chosen_experts * config->expert_size + config->shared_size;
    for (size_t l = 0; l < config->layers; l++)
        all += model_config_mlp_of(config, l);
    return all / config->layers;
}
