/* train/tower/tower_reader.c - values of config.json with their ranges. */
#include "config.h"

#include "train/tower/tower_reader.h"

#include "train/model/activation_name.h"

bool tower_reader_has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value && !json_is_null(value);
}

size_t tower_reader_range(const struct tower_reader *r, const char *key, int64_t value,
                          int64_t most)
{
    if (value < 1 || value > most) {
        error_set(r->err, ERROR_DATA, "%s: %s must be a number from 1 to %lld", r->file,
                  key, (long long)most);
        return 1;
    }
    return (size_t)value;
}

size_t tower_reader_size(const struct tower_reader *r, const char *key, int64_t most)
{
    return tower_reader_range(r, key, json_get_int(r->section, key, 0, r->file, r->err),
                              most);
}

size_t tower_reader_side(const struct tower_reader *r, const char *key, int64_t most)
{
    const json_t *value = json_object_get(r->section, key), *first;

    if (!json_is_array(value))
        return tower_reader_size(r, key, most);
    first = json_array_get(value, 0);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_integer(first) || !json_equal(first, json_array_get(value, i)))
            first = NULL;
    if (!first) {
        error_set(r->err, ERROR_DATA, "%s: %s must be one number, or equal ones", r->file,
                  key);
        return 1;
    }
    return tower_reader_range(r, key, json_integer_value(first), most);
}

enum activation tower_reader_activation(const struct tower_reader *r, const json_t *from,
                                        const char *key, const char *default_value)
{
    const char *name = json_get_string(from, key, default_value, r->file, r->err);
    enum activation out = ACTIVATION_GELU;

    activation_read(r->file, key, name, &out, r->err);
    return out;
}

double tower_reader_positive(const struct tower_reader *r, const json_t *from,
                             const char *key, double default_value)
{
    double value = json_get_real(from, key, default_value, r->file, r->err);

    if (!(value > 0 && value <= 1e12)) {
        error_set(r->err, ERROR_DATA, "%s: %s must be a number above 0", r->file, key);
        return 1;
    }
    return value;
}
