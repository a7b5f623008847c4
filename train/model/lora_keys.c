/* train/model/lora_keys.c - which keys of adapter_config.json are supported: those of PEFT 0.13 to
 * 0.21 (tuners/lora/config.py, tuners/oft/config.py). */
#include "config.h"

#include "train/model/lora_keys.h"

#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "train/model/rotation_config.h"

/* The keys of PEFT's LoraConfig.  Every other key, and every key of newer versions, must
 * have a value that turns it off. */
static const char *const read_keys[] = {
    "alpha_pattern",
    "bias",
    "exclude_modules",
    "init_lora_weights",
    "layers_pattern",
    "lora_alpha",
    "lora_dropout",
    "modules_to_save",
    "layers_to_transform",
    "peft_type",
    "r",
    "rank_pattern",
    "target_modules",
    "target_parameters",
    "use_dora",
    "use_rslora",
};

/* Keys that do not change what a saved adapter computes: its origin, settings of the
 * initialization and of kinds that are off. */
static const char *const ignored_keys[] = {
    "auto_mapping",      "base_model_name_or_path",
    "corda_config",      "ensure_weight_tying",
    "eva_config",        "fan_in_fan_out",
    "inference_mode",    "loftq_config",
    "lora_ga_config",    "megatron_config",
    "megatron_core",     "peft_version",
    "revision",          "runtime_config",
    "qalora_group_size", "task_type",
};

/* How init_lora_weights prepared the adapter, but for "pissa".  Some methods subtract the
 * initial adapter from the base weights, or replace them, and PEFT does so again when it
 * loads the adapter (tuners/lora/layer.py, update_layer). */
static const struct {
    const char *prefix;
    bool changes_base;
} initializations[] = {
    { "gaussian", false }, { "eva", false },    { "orthogonal", false },
    { "olora", true },     { "pissa", true },   { "corda", true },
    { "loftq", true },     { "lora_ga", true },
};

static bool is_in(const char *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

bool lora_keys_are_off(const json_t *value)
{
    const char *string = json_string_value(value);

    return !value || json_is_null(value) || json_is_false(value) ||
           (string && (!string[0] || strcmp(string, "none") == 0)) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

/* The keys that both kinds of adapters have. */
static const char *const shared_keys[] = {
    "auto_mapping",   "base_model_name_or_path", "bias",           "ensure_weight_tying",
    "fan_in_fan_out", "exclude_modules",         "inference_mode", "layers_pattern",
    "peft_version",   "layers_to_transform",     "peft_type",      "modules_to_save",
    "revision",       "runtime_config",          "task_type",      "target_modules",
};

static bool is_known(const char *key, bool rotates)
{
    if (rotates)
        return is_in(shared_keys, TS_COUNT(shared_keys), key) ||
               rotation_config_knows(key);
    return is_in(read_keys, TS_COUNT(read_keys), key) ||
           is_in(ignored_keys, TS_COUNT(ignored_keys), key);
}

static bool check_keys(const json_t *root, const char *file, bool rotates,
                       struct error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(
        (json_t *)root, key,
        value) if (!is_known(key, rotates) &&
                   !lora_keys_are_off(value)) return error_set(err, ERROR_DATA,
                                                               "%s: %s is not supported",
                                                               file, key);
    return true;
}

static bool read_initialization(const json_t *value, const char *file, struct lora *out,
                                struct error *err)
{
    const char *name = json_string_value(value);

    if (!name) /* true or false: A is random, B is 0 or random */
        return true;
    out->pissa = strcmp(name, "pissa") == 0; /* exact, other than pissa_niter_N */
    if (out->pissa)
        return true;
    for (size_t i = 0; i < TS_COUNT(initializations); i++) {
        if (!text_starts(name, initializations[i].prefix))
            continue;
        if (!initializations[i].changes_base)
            return true;
        return error_set(
            err, ERROR_DATA,
            "%s: init_lora_weights %s is not supported: the adapter belongs "
            "to base weights that this method changed; convert it into a "
            "plain one (path_initial_model_for_weight_conversion in PEFT), or "
            "merge it with PEFT",
            file, name);
    }
    return error_set(err, ERROR_DATA, "%s: init_lora_weights %s is not supported", file,
                     name);
}

bool lora_keys_read(const json_t *root, const char *file, struct lora *out,
                    struct error *err)
{
    const char *type = json_get_string(root, "peft_type", "LORA", file, err);
    const char *bias = json_get_string(root, "bias", "none", file, err);
    bool rotates;

    if (!json_is_object(root))
        return error_set(err, ERROR_DATA, "%s: expected a JSON object", file);
    if (!type || !bias)
        return false;
    rotates = strcmp(type, "OFT") == 0;
    if (strcmp(type, "LORA") != 0 && !rotates)
        return error_set(err, ERROR_DATA,
                         "%s: peft_type %s is not supported, only LORA and OFT", file,
                         type);
    if (strcmp(bias, "none") != 0)
        return error_set(err, ERROR_DATA, "%s: bias \"%s\" is not supported, only none",
                         file, bias);
    if (rotates)
        return check_keys(root, file, true, err) &&
               rotation_config_read(root, file, &out->rotation, err);
    return check_keys(root, file, false, err) &&
           read_initialization(json_object_get(root, "init_lora_weights"), file, out,
                               err);
}
