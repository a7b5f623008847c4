/* train/model/quant_state.c - parses bitsandbytes' description of a 4-bit matrix. */
#include "config.h"

#include "train/model/quant_state.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "precision/nf4.h"

enum { STATE_BYTES_MAX = 4096 }; /* bitsandbytes writes about 200 */

static bool wrong(struct error *err, const char *name, const char *key, const char *read)
{
    return error_set(err, ERROR_DATA, "%s: %s must be %s", name, key, read);
}

static bool is_word(const json_t *root, const char *key, const char *word)
{
    const char *value = json_string_value(json_object_get(root, key));

    return value && strcmp(value, word) == 0;
}

static bool is_number(const json_t *root, const char *key, json_int_t number)
{
    const json_t *value = json_object_get(root, key);

    return json_is_integer(value) && json_integer_value(value) == number;
}

static size_t size_at(const json_t *list, size_t at)
{
    json_int_t value = json_integer_value(json_array_get(list, at));

    return value > 0 && value <= INT32_MAX ? (size_t)value : 0;
}

static bool read_dtype(const json_t *root, struct quant_state *out)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_FP16, FORMAT_BF16 };

    for (size_t i = 0; i < TS_COUNT(formats); i++)
        if (is_word(root, "dtype", format_info(formats[i])->torch)) {
            out->dtype = formats[i];
            return true;
        }
    return false;
}

static bool read_nested(const json_t *root, const char *name, struct quant_state *out,
                        struct error *err)
{
    const json_t *mean = json_object_get(root, "nested_offset");

    out->double_quant = mean || json_object_get(root, "nested_blocksize");
    if (!out->double_quant)
        return true;
    if (!is_number(root, "nested_blocksize", NF4_GROUP))
        return wrong(err, name, "nested_blocksize", "256");
    if (!is_word(root, "nested_dtype", "float32"))
        return wrong(err, name, "nested_dtype", "\"float32\"");
    if (!json_is_number(mean) || !(fabs(json_number_value(mean)) <= FLT_MAX))
        return wrong(err, name, "nested_offset", "a float32 number");
    out->absmax_mean = (float)json_number_value(mean);
    return true;
}

static bool read_state(const json_t *root, const char *name, struct quant_state *out,
                       struct error *err)
{
    const json_t *shape = json_object_get(root, "shape");

    if (!is_word(root, "quant_type", "nf4"))
        return wrong(err, name, "quant_type", "\"nf4\"");
    if (!is_number(root, "blocksize", NF4_BLOCK))
        return wrong(err, name, "blocksize",
                     "64; quantize the model "
                     "with that block size");
    if (!read_dtype(root, out))
        return wrong(err, name, "dtype", "\"float32\", \"float16\" or \"bfloat16\"");
    out->rows = size_at(shape, 0);
    out->cols = size_at(shape, 1);
    if (json_array_size(shape) != 2 || !out->rows || !out->cols)
        return wrong(err, name, "shape", "a list of two sizes");
    return read_nested(root, name, out, err);
}

bool quant_state_parse(const char *data, size_t len, const char *name,
                       struct quant_state *out, struct error *err)
{
    json_t *root;
    bool ok;

    *out = (struct quant_state) { 0 };
    if (len > STATE_BYTES_MAX)
        return error_set(err, ERROR_DATA, "%s has %zu bytes, but must have at most %d",
                         name, len, STATE_BYTES_MAX);
    root = json_read_text(data, len, name, 1, err);
    ok = root && read_state(root, name, out, err);
    json_decref(root);
    return ok;
}
