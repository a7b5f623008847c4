/*
 * tests/unit/unit_media.h - batches with rows of features in place of media tokens, as
 * tests/golden/media_rows.py makes them.
 */
#ifndef TESTS_UNIT_UNIT_MEDIA_H
#define TESTS_UNIT_UNIT_MEDIA_H

#include "tests/unit/unit_architectures.h"
#include "train/model/cross_layers.h"

enum { MEDIA_MAX = 3, DEEP_MAX = FEATURE_DEEP_MAX };

/* The media of a case, and their features. */
struct unit_media {
    struct media_item items[MEDIA_MAX];
    struct feature features[MEDIA_MAX];
    float *values[MEDIA_MAX][1 + DEEP_MAX];
    size_t count, rows;
    struct model_media source;
};

static inline bool unit_media_feature(const void *context, const struct media_item *item,
                                      struct feature *out, struct error *err)
{
    const struct unit_media *media = context;

    (void)err;
    *out = media->features[item - media->items];
    return true;
}

static inline float *hashed_rows(const char *name, size_t count)
{
    float *out = memory_alloc(count * sizeof(*out));

    for (size_t i = 0; i < count; i++)
        out[i] = (float)(0.35 * hashed(name, i));
    return out;
}

static inline void unit_media_add(struct unit_media *media, const json_t *one,
                                  const json_t *row, size_t width)
{
    const char *key = json_string_value(json_array_get(row, 0));
    const size_t i = media->count++, rows = shape_of(row, 1);
    const json_t *encoder = json_object_get(one, "encoder");
    const json_t *grid = json_object_get(json_object_get(one, "grids"), key);
    char name[32];

    assert_true(i < MEDIA_MAX);
    media->items[i] = (struct media_item) { .key = key, .rows = (uint32_t)rows };
    media->features[i] =
        (struct feature) { .format = FORMAT_FP32, .count = rows, .width = width };
    snprintf(name, sizeof(name), "rows.%s", key);
    if (encoder) { /* rows that a projector reads */
        media->features[i].count = rows * shape_of(encoder, 1);
        media->features[i].width = shape_of(encoder, 0);
        snprintf(name, sizeof(name), "encoder.%s", key);
    }
    media->features[i].rows = media->values[i][0] =
        hashed_rows(name, media->features[i].count * media->features[i].width);
    for (size_t k = 0; k < 3; k++)
        media->items[i].grid[k] = media->features[i].grid[k] =
            (int32_t)json_integer_value(json_array_get(grid, k));
    for (size_t k = 0; k < (size_t)real(one, "deep"); k++) {
        snprintf(name, sizeof(name), "rows.%s.deep%zu", key, k);
        media->values[i][1 + k] = hashed_rows(name, rows * width);
        media->features[i].deep[k] = media->values[i][1 + k];
        media->features[i].deep_width = width;
    }
    media->rows += rows;
}

/* Whether layers of cross-attention read the rows, next to the text. */
static inline bool unit_media_crosses(const json_t *one)
{
    return json_is_integer(json_object_get(one, "image"));
}

static inline void unit_media_join(const json_t *one, struct unit_model *u)
{
    struct error err = { 0 };

    if (unit_media_crosses(one))
        unit_must(cross_layers_join(&u->config, u->arena, &err), &err);
}

/* The token of an image is no label then: it has no logits. */
static inline void unit_media_hide(const json_t *one, struct batch *to)
{
    for (size_t i = 0; unit_media_crosses(one) && i < to->rows; i++)
        if (to->targets[i] == (int32_t)real(one, "image")) {
            to->targets[i] = LABEL_NONE;
            to->trained--;
            to->weight--;
        }
}

/* Make the batch of a case, whose model has rows of this width. */
static inline void unit_media_batch(const json_t *one, size_t width,
                                    struct unit_media *media, struct batch *to)
{
    const json_t *made = json_object_get(one, "batch"), *list, *row;
    size_t i, first = 0;

    *media = (struct unit_media) { .source = { unit_media_feature, media } };
    list = json_object_get(made, "tokens");
    json_array_foreach((json_t *)list, i, row) unit_batch_json(to, row);
    list = json_object_get(made, "media");
    to->media = memory_alloc(json_array_size(list) * sizeof(*to->media));
    json_array_foreach((json_t *)list, i, row)
    {
        unit_media_add(media, one, row, width);
        to->media[i] =
            (struct batch_medium) { .item = &media->items[i], .first = (uint32_t)first };
        first += media->items[i].rows;
    }
    to->media_count = media->count;
    list = json_object_get(made, "at");
    to->media_rows = json_array_size(list);
    assert_int_equal(to->media_rows, first);
    to->media_at = memory_alloc(first * sizeof(*to->media_at));
    for (i = 0; i < first; i++)
        to->media_at[i] = (int32_t)json_integer_value(json_array_get(list, i));
    unit_media_hide(one, to);
    for (i = 0; i < to->media_count; i++)
        while (to->offsets[to->media[i].sequence + 1] <= to->media_at[to->media[i].first])
            to->media[i].sequence++;
}

static inline void unit_media_free(struct unit_media *media)
{
    for (size_t i = 0; i < media->count; i++)
        for (size_t k = 0; k <= DEEP_MAX; k++)
            free(media->values[i][k]);
    *media = (struct unit_media) { 0 };
}

#endif
