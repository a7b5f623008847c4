/* train/media/image_source.c - values of a JSON file of a model. */
#include "config.h"

#include "train/media/image_source.h"

bool image_source_has(const struct image_source *from, const char *key)
{
    const json_t *value = json_object_get(from->json, key);

    return value && !json_is_null(value);
}

int64_t image_source_int(const struct image_source *from, const char *key,
                         int64_t missing, int64_t min, int64_t max)
{
    int64_t value = json_get_int(from->json, key, missing, from->file, from->err);

    if (value >= min && value <= max)
        return value;
    error_set(from->err, ERROR_DATA, "%s: %s must be from %lld to %lld, not %lld",
              from->file, key, (long long)min, (long long)max, (long long)value);
    return min;
}

bool image_source_bool(const struct image_source *from, const char *key, bool missing)
{
    return json_get_bool(from->json, key, missing, from->file, from->err);
}

bool image_source_refuse(const struct image_source *from, const char *key,
                         const char *why)
{
    return error_set(from->err, ERROR_DATA, "%s: %s %s", from->file, key, why);
}

struct image_source image_source_inside(const struct image_source *from, const char *key)
{
    const json_t *value = json_object_get(from->json, key);

    if (value && !json_is_null(value) && !json_is_object(value))
        image_source_refuse(from, key, "must be an object");
    return (struct image_source) { json_is_object(value) ? value : NULL, from->file,
                                   from->err };
}

uint32_t image_source_side(const struct image_source *from, const char *key,
                           int64_t missing, int64_t max)
{
    const json_t *value = json_object_get(from->json, key);
    const json_t *first = json_array_get(value, 0);

    if (!json_is_array(value))
        return (uint32_t)image_source_int(from, key, missing, 1, max);
    if (json_array_size(value) != 2 || !json_is_integer(first) ||
        !json_equal(first, json_array_get(value, 1)) || json_integer_value(first) < 1 ||
        json_integer_value(first) > max) {
        image_source_refuse(from, key,
                            "must be a number, or a list of two equal ones, in range");
        return 1;
    }
    return (uint32_t)json_integer_value(first);
}

struct image_size image_source_size(const struct image_source *from, const char *key,
                                    struct image_size missing, int64_t max)
{
    const json_t *value = json_object_get(from->json, key);
    struct image_source in = { value, from->file, from->err };

    if (!value || json_is_null(value))
        return missing;
    if (json_is_object(value))
        return (
            struct image_size) { (uint32_t)image_source_int(&in, "width", 0, 1, max),
                                 (uint32_t)image_source_int(&in, "height", 0, 1, max) };
    if (json_array_size(value) == 2 && json_is_integer(json_array_get(value, 0)) &&
        json_is_integer(json_array_get(value, 1))) {
        json_int_t height = json_integer_value(json_array_get(value, 0));
        json_int_t width = json_integer_value(json_array_get(value, 1));

        if (height >= 1 && height <= max && width >= 1 && width <= max)
            return (struct image_size) { (uint32_t)width, (uint32_t)height };
    } else if (json_is_integer(value)) {
        uint32_t side = (uint32_t)image_source_int(from, key, 0, 1, max);

        return (struct image_size) { side, side };
    }
    image_source_refuse(from, key, "must be an object of height and width in range");
    return (struct image_size) { 1, 1 };
}
