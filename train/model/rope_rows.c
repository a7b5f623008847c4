/* train/model/rope_rows.c - rotary positions of three numbers. */
#include "config.h"

#include "train/model/rope_rows.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "kernels/ops.h"

/* Sections that a class has if config.json names none; the layout of the pairs depends on
 * the class alone (transformers/models/NAME/modeling_NAME.py). */
static const struct family {
    const char *model_type;
    struct rope_axes axes;
} families[] = {
    { "glm4v", { { 8, 12, 12 }, false } },
    { "paddleocr_vl", { { 16, 24, 24 }, false } },
    { "qwen2_vl", { { 16, 24, 24 }, false } },
    { "qwen2_5_vl", { { 16, 24, 24 }, false } },
    { "qwen3_vl", { { 24, 20, 20 }, true } },
    { "qwen3_vl_moe", { { 24, 20, 20 }, true } },
    { "qwen3_5", { { 11, 11, 10 }, true } },
    { "qwen3_5_moe", { { 11, 11, 10 }, true } },
};

static void read_sections(const json_t *list, const char *file, struct rope_axes *out,
                          struct error *err)
{
    if (!json_is_array(list) || json_array_size(list) != ROPE_AXES) {
        error_set(err, ERROR_DATA, "%s: mrope_section must be a list of %d numbers", file,
                  ROPE_AXES);
        return;
    }
    for (size_t i = 0; i < ROPE_AXES; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t pairs = json_integer_value(item);

        if (!json_is_integer(item) || pairs < 0 || pairs > HEAD_SIZE_MAX) {
            error_set(err, ERROR_DATA, "%s: mrope_section must have numbers from 0 to %d",
                      file, HEAD_SIZE_MAX);
            return;
        }
        out->sections[i] = (size_t)pairs;
    }
}

void rope_axes_read(const char *model_type, const json_t *rope, size_t columns,
                    const char *file, struct rope_axes *out, struct error *err)
{
    const json_t *list = json_object_get(rope, "mrope_section");
    size_t pairs = 0;

    *out = (struct rope_axes) { .interleaved = false };
    for (size_t i = 0; model_type && i < TS_COUNT(families); i++) {
        if (strcmp(families[i].model_type, model_type) != 0)
            continue;
        *out = families[i].axes;
        if (list && !json_is_null(list))
            read_sections(list, file, out, err);
        for (size_t axis = 0; axis < ROPE_AXES; axis++)
            pairs += out->sections[axis];
        if (!out->interleaved && pairs != columns / 2)
            error_set(err, ERROR_DATA,
                      "%s: the sum of mrope_section must be %zu, the rotated pairs of "
                      "columns, not %zu",
                      file, columns / 2, pairs);
    }
}

size_t rope_axis(const struct rope_axes *axes, size_t pair)
{
    if (axes->interleaved)
        return pair % ROPE_AXES > 0 && pair / ROPE_AXES < axes->sections[pair % ROPE_AXES]
                   ? pair % ROPE_AXES
                   : 0;
    for (size_t axis = 0; axis + 1 < ROPE_AXES; axis++) {
        if (pair < axes->sections[axis])
            return axis;
        pair -= axes->sections[axis];
    }
    return ROPE_AXES - 1;
}

void rope_fill_rows(const struct rope_axes *axes, const struct rope_table *table,
                    const int32_t (*positions)[ROPE_AXES], const struct rope_table *to)
{
    size_t half = to->columns / 2, axis[HEAD_SIZE_MAX / 2];

    assert(to->columns == table->columns && half <= TS_COUNT(axis));
    for (size_t i = 0; i < half; i++)
        axis[i] = rope_axis(axes, i);
    for (size_t n = 0; n < to->rows; n++) {
        float *row = to->data + n * to->columns;
        const float *from[ROPE_AXES];

        for (size_t a = 0; a < ROPE_AXES; a++) {
            assert(positions[n][a] >= 0 && (size_t)positions[n][a] < table->rows);
            from[a] = table->data + (size_t)positions[n][a] * table->columns;
        }
        for (size_t i = 0; i < half; i++) {
            row[i] = from[axis[i]][i];
            row[half + i] = from[axis[i]][half + i];
        }
    }
}
