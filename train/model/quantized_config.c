/* train/model/quantized_config.c - parses quantization_config of a config.json. */
#include "config.h"

#include "train/model/quantized_config.h"

#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "base/text.h"
#include "precision/nf4.h"

static const char remedy[] =
    "use the model that it was made from, or a copy of it, in 16 bits";

static const struct method {
    const char *key, *name;
} methods[QUANTIZERS] = {
    [QUANTIZER_BITSANDBYTES] = { "bitsandbytes", "bitsandbytes" },
    [QUANTIZER_GPTQ] = { "gptq", "GPTQ" },
    [QUANTIZER_AWQ] = { "awq", "AWQ" },
};

const char *quantizer_name(enum quantizer by)
{
    return methods[by].name;
}

unsigned quantized_config_bits(const struct quantized_config *config)
{
    return config->bits ? config->bits : 4;
}

/* transformers uses load_in_8bit and load_in_4bit before the name of the method. */
static bool read_method(const json_t *from, const char *file, enum quantizer *by,
                        struct error *err)
{
    bool load_8bit = json_get_bool(from, "load_in_8bit", false, file, err);
    bool load_4bit = json_get_bool(from, "load_in_4bit", false, file, err);
    const char *method = json_get_string(from, "quant_method", NULL, file, err);

    if (load_8bit)
        return error_set(err, ERROR_DATA,
                         "%s: load_in_8bit is not supported, only models in 4 bits; %s",
                         file, remedy);
    *by = QUANTIZER_BITSANDBYTES;
    if (load_4bit && (!method || strcmp(method, methods[*by].key) == 0))
        return true;
    for (*by = QUANTIZER_GPTQ; method && !load_4bit && *by < QUANTIZERS; (*by)++)
        if (strcmp(method, methods[*by].key) == 0)
            return true;
    return error_set(
        err, ERROR_DATA,
        "%s: quant_method %s%.64s%s is not supported, only gptq, awq, fp8, "
        "mxfp8, fbgemm_fp8, compressed-tensors, modelopt, and bitsandbytes in 4 bits "
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

/* Append the strings of a list. */
static bool add_names(const json_t *list, struct arena *arena, const char **names,
                      size_t *count)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *name = json_array_get(list, i);

        if (!is_text(name))
            return false;
        names[(*count)++] = arena_strdup(arena, json_string_value(name));
    }
    return json_is_array(list);
}

/* Read the layers that are not quantized. */
static bool read_skipped(const json_t *from, const char *key, const char *file,
                         struct arena *arena, struct quantized_config *out,
                         struct error *err)
{
    const json_t *list = json_object_get(from, key);
    const char **names = arena_array(arena, json_array_size(list) + 1, sizeof(*names));

    out->skipped = names;
    return !list || json_is_null(list) ||
           add_names(list, arena, names, &out->skipped_count) ||
           error_set(err, ERROR_DATA, "%s: %s must be a list of names, or null", file,
                     key);
}

static bool read_bitsandbytes(const json_t *from, const char *file, struct arena *arena,
                              struct quantized_config *out, struct error *err)
{
    out->double_quant =
        json_get_bool(from, "bnb_4bit_use_double_quant", false, file, err);
    return check_type(from, file, err) && check_blocks(from, file, err) &&
           read_skipped(from, "llm_int8_skip_modules", file, arena, out, err);
}

/* ---- GPTQ and AWQ ---- */

/* Read `group_size`; -1: one group of all columns. */
static bool read_group(const json_t *from, const char *file, struct quantized_config *out,
                       struct error *err)
{
    int64_t size = json_get_int(from, "group_size", 128, file, err);

    out->affine.group = size > 0 ? (size_t)size : 0;
    return size == -1 || (size >= 1 && size <= INT32_MAX) ||
           error_set(err, ERROR_DATA, "%s: group_size must be -1, or 1 or more, not %lld",
                     file, (long long)size);
}

static bool read_bits(const json_t *from, const char *file, const char *allowed,
                      struct quantized_config *out, struct error *err)
{
    int64_t bits = json_get_int(from, "bits", 4, file, err);

    if (bits < 0 || bits > 9 || !strchr(allowed, '0' + (int)bits))
        return error_set(err, ERROR_DATA, "%s: bits %lld is not supported, only %s; %s",
                         file, (long long)bits, allowed, remedy);
    out->bits = (unsigned)bits;
    out->affine.bits = bits > 4 ? 8 : 4;
    return true;
}

/* Read a list of lists of names: the layers of each step of the quantization. */
static bool read_only(const json_t *from, const char *file, struct arena *arena,
                      struct quantized_config *out, struct error *err)
{
    static const char key[] = "modules_in_block_to_quantize";
    const json_t *steps = json_object_get(from, key);
    size_t most = 1;
    const char **names;
    bool ok = true;

    for (size_t i = 0; i < json_array_size(steps); i++)
        most += json_array_size(json_array_get(steps, i));
    out->only = names = arena_array(arena, most, sizeof(*names));
    for (size_t i = 0; ok && i < json_array_size(steps); i++)
        ok = add_names(json_array_get(steps, i), arena, names, &out->only_count);
    return !steps || json_is_null(steps) || (ok && json_is_array(steps)) ||
           error_set(err, ERROR_DATA, "%s: %s must be a list of lists of names, or null",
                     file, key);
}

/* AutoGPTQ, and gptqmodel by default, store zero points less 1; gptq_v2 does not.  Layers
 * with settings of their own (`dynamic`) and a quantized head are not supported. */
static bool read_gptq(const json_t *from, const char *file, struct arena *arena,
                      struct quantized_config *out, struct error *err)
{
    const json_t *dynamic = json_object_get(from, "dynamic");
    const char *format = json_get_string(from, "checkpoint_format", NULL, file, err);
    const char *packed = json_get_string(from, "pack_dtype", "int32", file, err);

    if (!format)
        format = json_get_string(from, "format", "gptq", file, err);
    out->less_one = strcmp(format, "gptq") == 0;
    out->sorts = json_get_bool(from, "desc_act", false, file, err);
    if ((!out->less_one && strcmp(format, "gptq_v2") != 0) ||
        json_get_bool(from, "is_marlin_format", false, file, err))
        return error_set(err, ERROR_DATA,
                         "%s: checkpoint_format %.64s is not supported, only gptq and "
                         "gptq_v2; %s",
                         file, out->less_one ? "marlin" : format, remedy);
    if (strcmp(packed, "int32") != 0)
        return error_set(err, ERROR_DATA,
                         "%s: pack_dtype \"%.64s\" is not supported, only int32; %s",
                         file, packed, remedy);
    if (json_object_size(dynamic) > 0)
        return error_set(err, ERROR_DATA,
                         "%s: dynamic is not supported: layers with settings of their "
                         "own; %s",
                         file, remedy);
    if (json_get_bool(from, "lm_head", false, file, err))
        return error_set(err, ERROR_DATA, "%s: lm_head must not be quantized; %s", file,
                         remedy);
    return read_bits(from, file, "2, 3, 4 and 8", out, err) &&
           read_group(from, file, out, err) && read_only(from, file, arena, out, err);
}

static bool read_awq(const json_t *from, const char *file, struct arena *arena,
                     struct quantized_config *out, struct error *err)
{
    const char *version = json_get_string(from, "version", NULL, file, err);
    const char *backend = json_get_string(from, "backend", "", file, err);

    if (!version)
        version = json_get_string(from, "format", "gemm", file, err);
    if (strcasecmp(version, "gemm") != 0 || strcmp(backend, "llm-awq") == 0)
        return error_set(err, ERROR_DATA,
                         "%s: version \"%.64s\" is not supported, only gemm; %s", file,
                         strcasecmp(version, "gemm") != 0 ? version : backend, remedy);
    if (!json_get_bool(from, "zero_point", true, file, err))
        return error_set(err, ERROR_DATA, "%s: zero_point must be true; %s", file,
                         remedy);
    return read_bits(from, file, "4", out, err) && read_group(from, file, out, err) &&
           read_skipped(from, "modules_to_not_convert", file, arena, out, err);
}

static bool (*const read_by[QUANTIZERS])(const json_t *from, const char *file,
                                         struct arena *arena,
                                         struct quantized_config *out,
                                         struct error *err) = {
    [QUANTIZER_BITSANDBYTES] = read_bitsandbytes,
    [QUANTIZER_GPTQ] = read_gptq,
    [QUANTIZER_AWQ] = read_awq,
};

bool quantized_config_read(const json_t *root, const char *file, struct arena *arena,
                           struct quantized_config *out, struct error *err)
{
    const json_t *from = json_object_get(root, "quantization_config");
    struct error local = { 0 };

    *out = (struct quantized_config) { 0 };
    if (!json_is_object(from))
        return true;
    out->enabled = read_method(from, file, &out->by, &local) &&
                   read_by[out->by](from, file, arena, out, &local);
    return local.code == ERROR_NONE || error_set(err, local.code, "%s", local.text);
}

/* Return whether the name ends with one of those of the list, at a dot. */
static bool is_listed(const struct quantized_config *config, const char *weight)
{
    size_t len = strlen(weight), end = text_ends(weight, ".weight") ? 7 : 0;

    for (size_t i = 0; i < config->only_count; i++) {
        size_t size = strlen(config->only[i]);

        if (size <= len - end &&
            memcmp(weight + len - end - size, config->only[i], size) == 0 &&
            (size == len - end || weight[len - end - size - 1] == '.'))
            return true;
    }
    return config->only_count == 0;
}

bool quantized_config_skips(const struct quantized_config *config, const char *weight)
{
    for (size_t i = 0; i < config->skipped_count; i++) {
        size_t len = strlen(config->skipped[i]);

        for (const char *at = weight; (at = strstr(at, config->skipped[i])); at++)
            if (at[len] == '.' || at[len] == 0)
                return true;
    }
    return !is_listed(config, weight);
}
