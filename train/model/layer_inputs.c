/* train/model/layer_inputs.c - the size of the inputs that each layer has. */
#include "config.h"

#include "train/model/layer_inputs.h"

#include "base/size.h"

enum { COLUMNS_MOST = 1 << 24 }; /* of all layers */

size_t layer_inputs_size(const struct architecture *row, const json_t *root,
                         const char *file, struct error *err)
{
    static const char key[] = "hidden_size_per_layer_input";
    int64_t value = (int64_t)row->layer_inputs;

    if (!json_is_null(json_object_get(root, key)))
        value = json_get_int(root, key, value, file, err);
    else if (json_object_get(root, key))
        value = 0;
    if (value >= 0 && value <= COLUMNS_MOST)
        return (size_t)value;
    error_set(err, ERROR_DATA, "%s: %s must be a number from 0 to %d, not %lld", file,
              key, COLUMNS_MOST, (long long)value);
    return 0;
}

/* The tokens of both tables are the same. */
static void check_vocabulary(const json_t *root, const char *file,
                             const struct model_config *c, struct error *err)
{
    static const char key[] = "vocab_size_per_layer_input";
    int64_t size = json_get_int(root, key, (int64_t)c->vocab_size, file, err);

    if (size != (int64_t)c->vocab_size)
        error_set(
            err, ERROR_DATA,
            "%s: %s must be vocab_size, %zu, not %lld: other sizes are not supported",
            file, key, c->vocab_size, (long long)size);
}

void layer_inputs_read(const json_t *root, const char *file, struct model_config *out,
                       struct error *err)
{
    const struct architecture *row = out->architecture;
    size_t size, all;

    if (row->layer_inputs == 0 || err->code)
        return;
    size = layer_inputs_size(row, root, file, err);
    if (size == 0)
        return;
    if (size > out->hidden_size || !size_mul(size, out->layers, &all) ||
        all > COLUMNS_MOST)
        error_set(err, ERROR_DATA,
                  "%s: hidden_size_per_layer_input must be at most hidden_size, %zu, and "
                  "in all layers together at most %d, not %zu",
                  file, out->hidden_size, COLUMNS_MOST, size);
    check_vocabulary(root, file, out, err);
    out->layer_inputs = size;
}
