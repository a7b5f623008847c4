/* train/model/lora_config.c - reads adapter_config.json as PEFT 0.13 to 0.21 does
 * (tuners/lora/config.py, tuners/tuners_utils.py). */
#include "config.h"

#include "train/model/lora_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/model/encoder_adapters.h"
#include "train/model/adapter_targets.h"
#include "train/model/cross_layers.h"
#include "train/model/expert_adapters.h"
#include "train/model/lora_keys.h"
#include "train/model/name_matcher.h"
#include "train/model/weights.h"
#include "train/text/pattern.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

/* What is being read. */
struct reading {
    const json_t *root;
    /* what messages start with: "FILE: target_modules", or the key of a job */
    const char *targets_key;
    enum error_code code;
    const char *file;
    const struct model_config *config;
    bool all_linear; /* instead of targets */
    struct name_matcher targets, excluded;
    struct lora *out;
};

/* Return whether layers_to_transform, a number or a list, has the layer. */
static bool has_layer(const struct reading *reading, size_t layer)
{
    const json_t *layers = json_object_get(reading->root, "layers_to_transform");

    if (lora_keys_are_off(layers))
        return true;
    if (json_is_integer(layers))
        return json_integer_value(layers) == (json_int_t)layer;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_integer_value(json_array_get(layers, i)) == (json_int_t)layer)
            return true;
    return false;
}

/* Return whether a name is in a list, also as transformers 4 named a module of a model with
 * towers. */
static bool has_name(const struct reading *reading, const struct name_matcher *matcher,
                     const char *name)
{
    const struct multimodal *towers = reading->config->multimodal;
    bool has = name_matcher_has(matcher, name);
    struct text old;

    text_init(&old, 0);
    for (size_t i = 1; towers && !has && towers->names[i].base; i++) {
        weights_name(reading->config, &towers->names[i], name, &old);
        has = name_matcher_has(matcher, old.data);
    }
    text_clear(&old);
    return has;
}

static bool is_adapted(const struct reading *reading, const struct module_place *at,
                       struct text *name)
{
    const struct architecture *a = reading->config->architecture;

    architecture_name(a, at, name);
    if (module_is_of_experts(at->module) &&
        (reading->out->joined || !adapter_targets_can(a, at->module)))
        return false;
    return (reading->all_linear ? module_is_linear(at->module)
                                : has_name(reading, &reading->targets, name->data)) &&
           !has_name(reading, &reading->excluded, name->data) &&
           has_layer(reading, model_config_number(reading->config, at->layer));
}

/* Count the layers with a module, or its experts in all of them, and how many of those
 * have an adapter; *name is set to an adapted one. */
static size_t count_adapted(const struct reading *reading, enum module module,
                            size_t *adapted, struct text *name)
{
    const struct model_config *c = reading->config;
    size_t all = 0, experts = module_is_of_experts(module) ? c->experts : 1;
    struct module_place at = { .module = module };
    struct text each;

    *adapted = 0;
    text_init(&each, 0);
    for (at.layer = 0; at.layer < c->layers; at.layer++)
        for (at.expert = 0; model_config_has(c, module, at.layer) && at.expert < experts;
             at.expert++) {
            all++;
            if (!is_adapted(reading, &at, &each))
                continue;
            ++*adapted;
            text_reset(name);
            text_adds(name, each.data);
        }
    text_clear(&each);
    return all;
}

/* Return whether all layers of cross-attention have an adapter on a module, and no others. */
static bool is_only_in_cross(const struct reading *reading, enum module module)
{
    const struct model_config *c = reading->config;
    struct module_place at = { .module = module };
    struct text name;
    bool only = c->crosses != NULL;

    text_init(&name, 0);
    for (; only && at.layer < c->layers; at.layer++)
        only = !model_config_has(c, module, at.layer) ||
               is_adapted(reading, &at, &name) == model_config_crosses(c, at.layer);
    text_clear(&name);
    return only;
}

static bool fail_partial(const struct reading *reading, enum module module,
                         size_t adapted, size_t all, struct error *err)
{
    return error_set(
        err, reading->code,
        "%s: the adapter is on %s in %zu of %zu layers; only adapters in all "
        "layers are supported",
        reading->code == ERROR_JOB ? reading->targets_key : reading->file,
        architecture_leaf(reading->config->architecture, module), adapted, all);
}

/* Mark a module of the blocks if all layers that have it have an adapter on it, or those with
 * cross-attention. */
static bool mark_in_blocks(struct reading *reading, enum module module, struct text *name,
                           struct error *err)
{
    size_t adapted, all = count_adapted(reading, module, &adapted, name);

    if (adapted > 0 && !module_is_linear(module))
        return error_set(err, reading->code, "%s: %s is not a linear layer",
                         reading->targets_key, name->data);
    if (adapted > 0 && adapted < all) {
        if (!is_only_in_cross(reading, module))
            return fail_partial(reading, module, adapted, all, err);
        reading->out->only = reading->config->crosses;
        reading->out->layers = reading->config->layers;
    }
    reading->out->adapted[module] = adapted > 0;
    return true;
}

/* If one module has adapters only in the layers of cross-attention, so have all. */
static bool check_only(const struct reading *reading, struct text *name,
                       struct error *err)
{
    const struct lora *out = reading->out;

    for (enum module i = 0; out->only && i < MODULES; i++) {
        size_t adapted, all;

        if (!out->adapted[i] || !module_in_block(i) || is_only_in_cross(reading, i))
            continue;
        for (enum module k = 0; k < MODULES; k++)
            if (out->adapted[k] && module_in_block(k) && is_only_in_cross(reading, k) &&
                (all = count_adapted(reading, k, &adapted, name)) > adapted)
                return fail_partial(reading, k, adapted, all, err);
    }
    return true;
}

/* PEFT finds no layer in the name, which layers_to_transform could have. */
static bool is_adapted_outside(const struct reading *reading, enum module module,
                               struct text *name)
{
    return lora_keys_are_off(json_object_get(reading->root, "layers_to_transform")) &&
           is_adapted(reading, &(struct module_place) { .module = module }, name);
}

static void mark_encoder(struct reading *reading)
{
    const struct encoder_list *encoder = &reading->config->encoder;

    for (size_t i = 0; i < encoder->count; i++) {
        const char *path = encoder->list[i].path;

        if (path && (reading->all_linear || name_matcher_has(&reading->targets, path)) &&
            !name_matcher_has(&reading->excluded, path) &&
            lora_keys_are_off(json_object_get(reading->root, "layers_to_transform")))
            encoder_adapters_add(i, reading->out);
    }
}

/* A job leaves the projector out; an adapter of other programs may not. */
static bool pass_projector(struct reading *reading, enum module module, struct text *name,
                           struct error *err)
{
    if (!is_adapted_outside(reading, module, name))
        return true;
    reading->out->names_projector = true;
    return reading->code == ERROR_JOB ||
           error_set(err, reading->code,
                     "%s: an adapter on %s is not supported: no projector has one here, "
                     "and modules_to_save can train it whole",
                     reading->targets_key, name->data);
}

static bool mark_adapted(struct reading *reading, struct error *err)
{
    const struct architecture *a = reading->config->architecture;
    struct text name;
    bool ok = true;

    text_init(&name, 0);
    for (enum module i = 0; ok && i < MODULES; i++) {
        if (!a->paths[i])
            continue;
        if (module_in_block(i))
            ok = mark_in_blocks(reading, i, &name, err);
        else if (module_is_of_projector(i) && module_is_linear(i))
            ok = pass_projector(reading, i, &name, err);
        else if (module_is_linear(i))
            reading->out->adapted[i] = is_adapted_outside(reading, i, &name);
        else if (is_adapted(reading, &(struct module_place) { .module = i }, &name))
            ok = error_set(err, reading->code,
                           "%s: an adapter on %s is not supported; only linear layers "
                           "can have one, and %s can train it whole",
                           reading->targets_key, name.data,
                           reading->code == ERROR_JOB ? "additional_target"
                                                      : "modules_to_save");
    }
    ok = ok && check_only(reading, &name, err);
    text_clear(&name);
    mark_encoder(reading);
    return ok;
}

static bool adapts_text(const struct lora *lora)
{
    for (enum module i = 0; i < MODULES; i++)
        if (lora->adapted[i])
            return true;
    return false;
}

/* PEFT ignores listed names without a layer, unless no name has one. */
static bool check_some(const struct reading *reading, struct error *err)
{
    const struct target_list list = { .architecture = reading->config->architecture,
                                      .key = "target_modules",
                                      .linear = true,
                                      .code = ERROR_DATA,
                                      .file = reading->file };
    const char *first = json_string_value(json_array_get(reading->targets.names, 0));
    bool marks[MODULES];

    if (adapts_text(reading->out) || reading->out->encoder_count > 0)
        return true;
    if (reading->targets.pattern)
        return adapter_targets_fail_pattern(list.architecture, reading->targets_key,
                                            reading->code, err);
    return !first || adapter_targets_mark(&list, first, strlen(first), marks, err);
}

/* Its layers have no adapters, even if a pattern matches them. */
static bool check_frozen_encoder(struct reading *reading, struct error *err)
{
    const bool alone = reading->out->encoder_count > 0 && !adapts_text(reading->out);

    encoder_adapters_clear(reading->out);
    return !alone ||
           error_set(err, ERROR_JOB,
                     "%s: the pattern matches only layers of the encoder, which "
                     "is frozen; set freeze_vision_tower: false to adapt them",
                     reading->targets_key);
}

/* A list of names, or null. */
static bool read_parameters(struct reading *reading, struct error *err)
{
    const json_t *names = json_object_get(reading->root, "target_parameters");
    struct text key, joined;
    bool ok = true;

    if (lora_keys_are_off(names))
        return true;
    text_init(&key, 0);
    text_init(&joined, 0);
    text_addf(&key, "%s: target_parameters", reading->file);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        text_addf(&joined, "%s%s", i ? "," : "", name ? name : "?");
    }
    ok = json_is_array(names)
             ? expert_adapters_mark(
                   &(struct expert_targets) { reading->config, key.data, ERROR_DATA },
                   joined.data, reading->out, err)
             : error_set(err, ERROR_DATA, "%s must be a list of names", key.data);
    text_clear(&key);
    text_clear(&joined);
    return ok;
}

static bool read_targets(struct reading *reading, struct error *err)
{
    const json_t *targets = json_object_get(reading->root, "target_modules");
    bool ok;

    reading->out->joined =
        !lora_keys_are_off(json_object_get(reading->root, "target_parameters"));
    reading->all_linear =
        json_is_string(targets) && strcmp(json_string_value(targets), "all-linear") == 0;
    ok = (reading->all_linear ||
          name_matcher_open(targets, reading->file, "target_modules", &reading->targets,
                            err)) &&
         name_matcher_open(json_object_get(reading->root, "exclude_modules"),
                           reading->file, "exclude_modules", &reading->excluded, err) &&
         mark_adapted(reading, err) && read_parameters(reading, err) &&
         check_some(reading, err);
    name_matcher_clear(&reading->targets);
    name_matcher_clear(&reading->excluded);
    return ok;
}

/* Names of modules have none of these. */
bool lora_config_is_pattern(const char *targets)
{
    return strpbrk(targets, "*()[]\\|^$+?") != NULL;
}

bool lora_config_mark_pattern(const char *key, const char *pattern,
                              const struct model_config *config, bool encoder,
                              struct lora *out, struct error *err)
{
    struct reading reading = {
        .targets_key = key, .code = ERROR_JOB, .config = config, .out = out
    };
    struct error local = { 0 };
    bool ok;

    reading.targets.pattern = pattern_compile_whole(pattern, key, &local);
    if (!reading.targets.pattern)
        return error_set(err, ERROR_JOB, "%s", local.text);
    ok = mark_adapted(&reading, err);
    if (!encoder)
        ok = ok && check_frozen_encoder(&reading, err);
    ok = ok && check_some(&reading, err);
    name_matcher_clear(&reading.targets);
    return ok;
}

/* A list of names, or null. */
static bool read_saved(struct reading *reading, struct error *err)
{
    const struct target_list list = { .architecture = reading->config->architecture,
                                      .key = "modules_to_save",
                                      .code = ERROR_DATA,
                                      .file = reading->file };
    const json_t *names = json_object_get(reading->root, "modules_to_save");

    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        if (!name)
            return error_set(err, ERROR_DATA,
                             "%s: modules_to_save must be a list of names",
                             reading->file);
        if (!adapter_targets_mark(&list, name, strlen(name), reading->out->saved, err))
            return false;
    }
    return lora_keys_are_off(names) || json_is_array(names) ||
           error_set(err, ERROR_DATA, "%s: modules_to_save must be a list of names",
                     reading->file);
}

/* Return the value that rank_pattern or alpha_pattern has for a module: of the first
 * expression that matches the end of its name after a dot (PEFT's get_pattern_key). */
static double pattern_value(const json_t *patterns, const char *name, double otherwise,
                            const char *where, struct error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)patterns, key, value)
    {
        struct text regex;
        struct pattern *pattern;
        bool found;

        text_init(&regex, 0);
        text_addf(&regex, "(?:.*\\.)?(?:%s)", key);
        pattern = pattern_compile_whole(regex.data, where, err);
        found = pattern && pattern_matches(pattern, name, NULL);
        pattern_free(pattern);
        text_clear(&regex);
        if (found)
            return json_number_value(value);
    }
    return otherwise;
}

/* Patterns and the value that they have had for all modules so far, or NaN. */
struct module_pattern {
    const char *key;
    const json_t *patterns;
    struct text *name;
    double otherwise, *shared;
    struct module_place at;
};

/* Read the value for a module of one layer, or its experts. */
static bool read_layer_pattern(const struct reading *reading,
                               const struct module_pattern *p, struct error *err)
{
    const struct model_config *c = reading->config;
    const bool joined = module_is_of_experts(p->at.module) && reading->out->joined;
    const size_t experts = module_is_of_experts(p->at.module) && !joined ? c->experts : 1;
    struct module_place at = p->at;

    for (at.expert = 0; at.expert < experts; at.expert++) {
        double one;

        text_reset(p->name);
        if (joined)
            expert_adapters_parameter(c->architecture, at.module, at.layer, p->name);
        else
            architecture_name(c->architecture, &at, p->name);
        one = pattern_value(p->patterns, p->name->data, p->otherwise, reading->file, err);
        if (err->code != ERROR_NONE)
            return false;
        if (!isnan(*p->shared) && one != *p->shared)
            return error_set(err, ERROR_DATA,
                             "%s: %s gives %s %g and other modules %g; only one value "
                             "for all of them is supported",
                             reading->file, p->key, p->name->data, one, *p->shared);
        *p->shared = one;
    }
    return true;
}

/* Accept patterns that give every adapted module the same value. */
static bool read_pattern(struct reading *reading, const char *key, double *value,
                         struct error *err)
{
    const json_t *patterns = json_object_get(reading->root, key);
    double shared = NAN;
    struct text name;
    bool ok = true;

    if (lora_keys_are_off(patterns))
        return true;
    text_init(&name, 0);
    for (enum module i = 0; ok && i < MODULES; i++)
        for (size_t j = 0; ok && reading->out->adapted[i] && j < reading->config->layers;
             j++)
            ok = !model_config_has(reading->config, i, j) ||
                 read_layer_pattern(
                     reading,
                     &(struct module_pattern) {
                         key, patterns, &name, *value, &shared, { i, j, 0 } },
                     err);
    text_clear(&name);
    *value = isnan(shared) ? *value : shared;
    return ok;
}

static bool read_numbers(struct reading *reading, struct error *err)
{
    const json_t *root = reading->root;
    const char *file = reading->file;
    struct lora *out = reading->out;
    double rank;

    if (out->rotation.on)
        return true;
    rank = (double)json_get_int(root, "r", 8, file, err);
    out->alpha = json_get_real(root, "lora_alpha", 8, file, err);
    out->dropout = json_get_real(root, "lora_dropout", 0, file, err);
    out->rslora = json_get_bool(root, "use_rslora", false, file, err);
    out->dora = json_get_bool(root, "use_dora", false, file, err);
    if (err->code != ERROR_NONE || !read_pattern(reading, "rank_pattern", &rank, err) ||
        !read_pattern(reading, "alpha_pattern", &out->alpha, err))
        return false;
    if (!(rank >= 1 && rank <= LORA_RANK_MAX))
        return error_set(err, ERROR_DATA, "%s: r must be from 1 to %d", file,
                         LORA_RANK_MAX);
    if (out->joined && out->dropout != 0)
        return error_set(err, ERROR_DATA,
                         "%s: lora_dropout must be 0 with target_parameters", file);
    if (!(out->dropout >= 0 && out->dropout < 1))
        return error_set(err, ERROR_DATA, "%s: lora_dropout must be from 0 to below 1",
                         file);
    out->rank = (size_t)rank;
    return true;
}

bool lora_config_read(const char *dir, const struct model_config *config,
                      struct lora *out, struct error *err)
{
    char *file = path_join(dir, "adapter_config.json");
    struct error local = { 0 };
    json_t *root = json_read_file(file, CONFIG_BYTES_MAX, &local);
    struct reading reading = {
        .root = root, .code = ERROR_DATA, .file = file, .config = config, .out = out
    };
    struct text key;
    bool ok;

    text_init(&key, 0);
    text_addf(&key, "%s: target_modules", file);
    reading.targets_key = key.data;

    *out = (struct lora) { 0 };
    ok = root && lora_keys_read(root, file, out, &local) &&
         read_targets(&reading, &local) && read_saved(&reading, &local) &&
         read_numbers(&reading, &local) &&
         adapter_targets_finish(out, file, ERROR_DATA, &local);
    json_decref(root);
    text_clear(&key);
    free(file);
    if (ok && local.code == ERROR_NONE)
        return true;
    if (err && err->code == ERROR_NONE)
        *err = local;
    return false;
}
