/* train/model/packed_config.c - parses quantization_config of a config.json whose weights
 * are dequantized when they are loaded.  Which layers have such weights, the dtypes of the
 * tensors say, as in the files: modules_to_not_convert and ignore are not read. */
#include "config.h"

#include "train/model/packed_config.h"

#include <stdint.h>
#include <string.h>

#include "base/size.h"

static const char remedy[] =
    "use the model that it was made from, or a copy of it, in 16 bits";

struct source {
    const json_t *config; /* quantization_config */
    const char *file;
    struct packed_config *out;
    struct error *err;
};

/* Return whether a key that may be missing or null has one of the values. */
static bool check_value(const struct source *from, const char *key,
                        const char *const *values)
{
    const json_t *value = json_object_get(from->config, key);
    const char *text = json_string_value(value);

    if (!value || json_is_null(value))
        return true;
    for (size_t i = 0; text && values[i]; i++)
        if (strcmp(text, values[i]) == 0)
            return true;
    return error_set(
        from->err, ERROR_DATA, "%s: %s %s%.64s%s is not supported, only %s%s%s; %s",
        from->file, key, text ? "\"" : "", text ? text : "of this type", text ? "\"" : "",
        values[0], values[1] ? " and " : "", values[1] ? values[1] : "", remedy);
}

/* Read [rows, columns] of a block; null or missing: the shapes of tensors say. */
static bool read_block(const struct source *from, const json_t *list, const char *key)
{
    json_int_t rows = json_integer_value(json_array_get(list, 0));
    json_int_t cols = json_integer_value(json_array_get(list, 1));

    if (!list || json_is_null(list))
        return true;
    if (json_array_size(list) != 2 || rows < 1 || cols < 1 || rows > INT32_MAX ||
        cols > INT32_MAX)
        return error_set(from->err, ERROR_DATA,
                         "%s: %s must be a list of two sizes, 1 or more, or null",
                         from->file, key);
    from->out->block_rows = (size_t)rows;
    from->out->block_cols = (size_t)cols;
    return true;
}

/* transformers: FineGrainedFP8Config.  Blocks are 128 x 128 if the key is missing. */
static bool read_fp8(const struct source *from)
{
    static const char *const schemes[] = { "dynamic", "static", NULL };
    static const char *const scales[] = { "float", "ue8m0", NULL };
    static const char *const experts[] = { "fp8", NULL };
    static const char key[] = "weight_block_size";

    if (!json_object_get(from->config, key))
        from->out->block_rows = from->out->block_cols = 128;
    return check_value(from, "activation_scheme", schemes) &&
           check_value(from, "scale_fmt", scales) &&
           check_value(from, "expert_dtype", experts) &&
           read_block(from, json_object_get(from->config, key), key);
}

/* Sparse tensors have other names. */
static bool check_sparsity(const struct source *from)
{
    const json_t *sparsity = json_object_get(from->config, "sparsity_config");
    const char *format = json_string_value(json_object_get(sparsity, "format"));

    return !format || strcmp(format, "dense") == 0 ||
           error_set(from->err, ERROR_DATA,
                     "%s: sparsity_config %.64s is not supported, only dense; %s",
                     from->file, format, remedy);
}

/* The groups may have blocks of different shapes only if the shapes of tensors say so. */
static bool read_groups(const struct source *from)
{
    json_t *groups = json_object_get(from->config, "config_groups"), *group;
    const char *name;

    json_object_foreach(groups, name, group)
    {
        const json_t *weights = json_object_get(group, "weights");
        const json_t *block = json_object_get(weights, "block_structure");

        (void)name;
        if (json_is_array(block) && !read_block(from, block, "block_structure"))
            return false;
    }
    return true;
}

static bool read_compressed(const struct source *from)
{
    static const char *const formats[] = { "float-quantized", "nvfp4-pack-quantized",
                                           NULL };

    if (!json_object_get(from->config, "format"))
        return error_set(from->err, ERROR_DATA,
                         "%s: compressed-tensors requires a format: %s or %s; %s",
                         from->file, formats[0], formats[1], remedy);
    return check_value(from, "format", formats) && check_sparsity(from) &&
           read_groups(from);
}

static bool read_modelopt(const struct source *from)
{
    static const char *const algorithms[] = { "FP8", "NVFP4", NULL };

    return check_value(from, "quant_algo", algorithms);
}

static bool read_mxfp4(const struct source *from)
{
    (void)from;
    return true;
}

bool packed_config_read(const json_t *root, const char *file, bool mxfp4,
                        struct packed_config *out, struct error *err)
{
    static const struct method {
        const char *name;
        bool (*read)(const struct source *from);
    } methods[] = {
        { "fp8", read_fp8 },
        { "compressed-tensors", read_compressed },
        { "modelopt", read_modelopt },
        { "mxfp4", read_mxfp4 }, /* last: of experts */
    };
    struct error local = { 0 };
    const struct source from = { json_object_get(root, "quantization_config"), file, out,
                                 &local };
    const char *method = json_string_value(json_object_get(from.config, "quant_method"));

    *out = (struct packed_config) { 0 };
    for (size_t i = 0; method && i < TS_COUNT(methods) - !mxfp4; i++)
        if (strcmp(method, methods[i].name) == 0)
            out->enabled = methods[i].read(&from);
    return local.code == ERROR_NONE || error_set(err, local.code, "%s", local.text);
}
