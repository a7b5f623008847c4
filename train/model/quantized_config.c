/* train/model/quantized_config.c - parses quantization_config of a config.json. */
#include "config.h"

#include "train/model/quantized_config.h"

#include <string.h>

#include "base/size.h"
#include "precision/nf4.h"

static const char remedy[] =
    "use the model that it was made from, or a copy of it, in 16 bits";

/* transformers uses load_in_8bit and load_in_4bit before the name of the method. */
static bool check_method(const json_t *from, const char *file, struct error *err)
{
    bool load_8bit = json_get_bool(from, "load_in_8bit", false, file, err);
    bool load_4bit = json_get_bool(from, "load_in_4bit", false, file, err);
    const char *method = json_get_string(from, "quant_method", NULL, file, err);

    if (load_8bit)
        return error_set(err, ERROR_DATA,
                         "%s: load_in_8bit is not supported, only models in 4 bits; %s",
                         file, remedy);
    if (load_4bit && (!method || strcmp(method, "bitsandbytes") == 0))
        return true;
    return error_set(
        err, ERROR_DATA,
        "%s: quant_method %s%.64s%s is not supported, only bitsandbytes in 4 bits "
        "(load_in_4bit); %s",
        file, method ? "\"" : "", method ? method : "(none)", method ? "\"" : "", remedy);
}

/* The config.json of an nf4 model may, but need not contain the block size. */
static bool check_blocks(const json_t *from, const char *file, struct error *err)
{
    static const char *const keys[] = { "bnb_4bit_blocksize", "blocksize" };

    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        int64_t size = json_get_int(from, keys[i], NF4_BLOCK, file, err);

        if (size != NF4_BLOCK)
            return error_set(
                err, ERROR_DATA,
                "%s: %s %lld is not supported, only blocks of %d elements; quantize "
                "the model with these, or %s",
                file, keys[i], (long long)size, NF4_BLOCK, remedy);
    }
    return true;
}

static bool check_type(const json_t *from, const char *file, struct error *err)
{
    const char *type = json_get_string(from, "bnb_4bit_quant_type", "fp4", file, err);

    return strcmp(type, "nf4") == 0 ||
           error_set(err, ERROR_DATA,
                     "%s: bnb_4bit_quant_type \"%.64s\" is not supported, only nf4; "
                     "quantize the model with that, or %s",
                     file, type, remedy);
}

/* A string that is not empty and contains no NUL. */
static bool is_text(const json_t *name)
{
    return json_string_length(name) > 0 &&
           strlen(json_string_value(name)) == json_string_length(name);
}

static bool read_skipped(const json_t *from, const char *file, struct arena *arena,
                         struct quantized_config *out, struct error *err)
{
    const json_t *list = json_object_get(from, "llm_int8_skip_modules");
    size_t count = json_array_size(list);
    const char **names = arena_array(arena, count + 1, sizeof(*names));

    for (size_t i = 0; i < count; i++) {
        const json_t *name = json_array_get(list, i);

        if (is_text(name))
            names[out->skipped_count++] = arena_strdup(arena, json_string_value(name));
    }
    out->skipped = names;
    return !list || json_is_null(list) ||
           (json_is_array(list) && out->skipped_count == count) ||
           error_set(err, ERROR_DATA,
                     "%s: llm_int8_skip_modules must be a list of names, or null", file);
}

bool quantized_config_read(const json_t *root, const char *file, struct arena *arena,
                           struct quantized_config *out, struct error *err)
{
    const json_t *from = json_object_get(root, "quantization_config");
    struct error local = { 0 };

    *out = (struct quantized_config) { 0 };
    if (!json_is_object(from))
        return true;
    out->enabled = check_method(from, file, &local) && check_type(from, file, &local) &&
                   check_blocks(from, file, &local) &&
                   read_skipped(from, file, arena, out, &local);
    out->double_quant =
        json_get_bool(from, "bnb_4bit_use_double_quant", false, file, &local);
    return local.code == ERROR_NONE || error_set(err, local.code, "%s", local.text);
}

bool quantized_config_skips(const struct quantized_config *config, const char *weight)
{
    for (size_t i = 0; i < config->skipped_count; i++) {
        size_t len = strlen(config->skipped[i]);

        for (const char *at = weight; (at = strstr(at, config->skipped[i])); at++)
            if (at[len] == '.' || at[len] == 0)
                return true;
    }
    return false;
}
