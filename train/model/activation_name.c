/* train/model/activation_name.c - activation functions by their names in config.json. */
#include "config.h"

#include "train/model/activation_name.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"

/* transformers/activations.py; gelu_fast is gelu_new with its factors in another order */
static const struct activation_row {
    const char *name;
    enum activation kind;
} activation_rows[] = {
    { "silu", ACTIVATION_SILU },
    { "swish", ACTIVATION_SILU },
    { "gelu", ACTIVATION_GELU },
    { "gelu_new", ACTIVATION_GELU_TANH },
    { "gelu_fast", ACTIVATION_GELU_TANH },
    { "gelu_pytorch_tanh", ACTIVATION_GELU_TANH },
    { "relu", ACTIVATION_RELU },
    { "relu2", ACTIVATION_RELU2 },
    { "quick_gelu", ACTIVATION_QUICK_GELU },
};

bool activation_read(const char *file, const char *key, const char *name,
                     enum activation *out, struct error *err)
{
    struct text known;

    for (size_t i = 0; name && i < TS_COUNT(activation_rows); i++)
        if (strcmp(activation_rows[i].name, name) == 0) {
            *out = activation_rows[i].kind;
            return true;
        }
    text_init(&known, 0);
    for (size_t i = 0; i < TS_COUNT(activation_rows); i++)
        text_addf(&known, "%s%s", i ? ", " : "", activation_rows[i].name);
    error_set(err, ERROR_DATA, "%s: %s \"%s\" is not supported; supported: %s", file, key,
              name ? name : "", known.data);
    text_clear(&known);
    return false;
}
