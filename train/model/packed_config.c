/* train/model/packed_config.c - parses quantization_config of a config.json whose weights
 * are dequantized when they are loaded.  Which layers have such weights, the dtypes of the
 * tensors say, as in the files: modules_to_not_convert and ignore are not read. */
#include "config.h"

#include "train/model/packed_config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "base/text.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)

static const char remedy[] =
    "use the model that it was made from, or a copy of it, in 16 bits";

struct source {
    const json_t *config; /* quantization_config */
    const char *file;
    struct packed_config *out;
    struct error *err;
};

/* Return whether a key that may be missing or null has one of the values. */
static bool check_value(const struct source *from, const json_t *object, const char *key,
                        const char *const *values)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    struct text list;

    if (!value || json_is_null(value))
        return true;
    for (size_t i = 0; text && values[i]; i++)
        if (strcmp(text, values[i]) == 0)
            return true;
    text_init(&list, 0);
    for (size_t i = 0; values[i]; i++)
        text_addf(&list, "%s%s", i == 0 ? "" : values[i + 1] ? ", " : " and ", values[i]);
    error_set(from->err, ERROR_DATA, "%s: %s %s%.64s%s is not supported, only %s; %s",
              from->file, key, text ? "\"" : "", text ? text : "of this type",
              text ? "\"" : "", list.data, remedy);
    text_clear(&list);
    return false;
}

/* Read [rows, columns] of a block, or "ROWSxCOLUMNS" as compressed-tensors accepts; null or
 * missing: the shapes of tensors say. */
static bool read_block(const struct source *from, const json_t *value, const char *key)
{
    struct packed_config *out = from->out;
    long long rows = json_integer_value(json_array_get(value, 0));
    long long cols = json_integer_value(json_array_get(value, 1));
    int end = 0;

    if (!value || json_is_null(value))
        return true;
    if (json_is_string(value) &&
        sscanf(json_string_value(value), "%9lldx%9lld%n", &rows, &cols, &end) == 2 &&
        json_string_value(value)[end] != 0)
        rows = 0;
    if ((json_is_array(value) && json_array_size(value) != 2) || rows < 1 || cols < 1 ||
        rows > INT32_MAX || cols > INT32_MAX)
        return error_set(from->err, ERROR_DATA,
                         "%s: %s must be a list of two sizes, 1 or more, or null",
                         from->file, key);
    if (out->block_rows > 0 &&
        (out->block_rows != (size_t)rows || out->block_cols != (size_t)cols))
        return error_set(from->err, ERROR_DATA,
                         "%s: %s [%lld, %lld] is not that of the groups before; %s",
                         from->file, key, rows, cols, remedy);
    out->block_rows = (size_t)rows;
    out->block_cols = (size_t)cols;
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
    return check_value(from, from->config, "activation_scheme", schemes) &&
           check_value(from, from->config, "scale_fmt", scales) &&
           check_value(from, from->config, "expert_dtype", experts) &&
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

/* Weights of a group may have a format of their own. */
static bool read_groups(const struct source *from, const char *const *formats)
{
    json_t *groups = json_object_get(from->config, "config_groups"), *group;
    const char *name;

    json_object_foreach(groups, name, group)
    {
        const json_t *weights = json_object_get(group, "weights");

        (void)name;
        if (!check_value(from, group, "format", formats) ||
            !read_block(from, json_object_get(weights, "block_structure"),
                        "block_structure"))
            return false;
    }
    return true;
}

/* Of naive-quantized, only FP8 is read: I8 is refused with the tensor's name. */
static bool read_compressed(const struct source *from)
{
    static const char *const formats[] = { "float-quantized",
                                           "naive-quantized",
                                           "nvfp4-pack-quantized",
                                           "mxfp4-pack-quantized",
                                           "mxfp8-quantized",
                                           "mixed-precision",
                                           NULL };

    if (!json_object_get(from->config, "format"))
        return error_set(from->err, ERROR_DATA,
                         "%s: compressed-tensors requires a format, such as %s or %s; %s",
                         from->file, formats[0], formats[2], remedy);
    return check_value(from, from->config, "format", formats) && check_sparsity(from) &&
           read_groups(from, formats);
}

static bool read_modelopt(const struct source *from)
{
    static const char *const algorithms[] = { "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "MXFP8",
                                              "NVFP4", NULL };

    return check_value(from, from->config, "quant_algo", algorithms);
}

/* Nothing says more than the tensors. */
static bool read_tensors(const struct source *from)
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
        { "mxfp8", read_fp8 },
        { "fbgemm_fp8", read_tensors },
        { "compressed-tensors", read_compressed },
        { "modelopt", read_modelopt },
        { "mxfp4", read_tensors }, /* last: of experts */
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

bool packed_config_read_folder(const char *dir, struct packed_config *out,
                               struct error *err)
{
    char *name = path_join(dir, "hf_quant_config.json");
    json_t *root = file_exists(name) ? json_read_file(name, FILE_BYTES_MAX, err) : NULL;
    const struct source from = { json_object_get(root, "quantization"), name, out, err };
    bool ok = root || !file_exists(name);

    if (json_is_object(from.config))
        ok = out->enabled = read_modelopt(&from);
    json_decref(root);
    free(name);
    return ok;
}
