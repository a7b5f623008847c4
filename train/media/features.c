/* train/media/features.c - the tensors of a safetensors file by medium, validated once. */
#include "config.h"

#include "train/media/features.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/files/safetensors.h"

/* Rows of one medium; far more than a context has. */
#define ROWS_MAX  ((size_t)1 << 24)
#define WIDTH_MAX ((size_t)1 << 20)
#define SIDE_MAX  (1 << 20) /* patches of a grid along a side */

static const char grid_suffix[] = "#grid", deep_suffix[] = "#deep";

struct features {
    struct safetensors *file;
    size_t count, width, deep, deep_width;
};

/* Return whether the name is that of a medium's grid or deep rows, and set *len to the
 * length of the medium's key. */
static bool is_part(const char *name, size_t *len)
{
    const char *mark = strrchr(name, '#');

    *len = mark ? (size_t)(mark - name) : strlen(name);
    if (!mark)
        return false;
    if (strcmp(mark, grid_suffix) == 0)
        return true;
    mark = text_starts(mark, deep_suffix) ? mark + strlen(deep_suffix) : "";
    return mark[0] >= '0' && mark[0] < '0' + FEATURE_DEEP_MAX && mark[1] == 0;
}

static const struct stored_tensor *find_part(const struct features *set, const char *key,
                                             const char *suffix, int index)
{
    const struct stored_tensor *found;
    struct text name;

    text_init(&name, 0);
    text_adds(&name, key);
    text_adds(&name, suffix);
    if (index >= 0)
        text_addf(&name, "%d", index);
    found = safetensors_find(set->file, name.data);
    text_clear(&name);
    return found;
}

static bool fail(const struct stored_tensor *tensor, struct error *err, const char *why)
{
    return error_set(err, ERROR_DATA, "%s: the tensor %s %s", tensor->file, tensor->name,
                     why);
}

static bool is_aligned(const struct stored_tensor *tensor)
{
    return (uintptr_t)tensor->data % format_info(tensor->format)->bytes == 0;
}

static bool check_rows(struct features *set, const struct stored_tensor *tensor,
                       struct error *err)
{
    if (tensor->format == FORMAT_COUNT)
        return fail(tensor, err, "must be F32, F16 or BF16");
    if (tensor->rank != 2 || tensor->shape[0] == 0 || tensor->shape[1] == 0)
        return fail(tensor, err, "must have the shape (rows, width)");
    if (tensor->shape[0] > ROWS_MAX || tensor->shape[1] > WIDTH_MAX)
        return fail(tensor, err, "is too large");
    if (!is_aligned(tensor))
        return fail(tensor, err, "does not start at a multiple of its elements' size");
    if (set->width == 0)
        set->width = tensor->shape[1];
    return set->width == tensor->shape[1] ||
           error_set(err, ERROR_DATA,
                     "%s: the rows of %s have %zu elements, those of others %zu",
                     tensor->file, tensor->name, tensor->shape[1], set->width);
}

static bool check_grid(const struct stored_tensor *tensor, struct error *err)
{
    int32_t grid[3];

    if (strcmp(tensor->dtype, "I32") != 0 || tensor->rank != 1 || tensor->shape[0] != 3)
        return fail(tensor, err, "must be I32 of shape (3)");
    memcpy(grid, tensor->data, sizeof(grid));
    for (size_t i = 0; i < 3; i++)
        if (grid[i] < 1 || grid[i] > SIDE_MAX)
            return fail(tensor, err, "must have three sizes of 1 or more");
    return true;
}

static size_t count_deep(const struct features *set, const char *key)
{
    size_t count = 0;

    while (count < FEATURE_DEEP_MAX && find_part(set, key, deep_suffix, (int)count))
        count++;
    return count;
}

static bool check_deep(struct features *set, const struct stored_tensor *rows,
                       struct error *err)
{
    for (size_t i = 0; i < set->deep; i++) {
        const struct stored_tensor *deep =
            find_part(set, rows->name, deep_suffix, (int)i);

        if (deep->format != rows->format || deep->rank != 2 ||
            deep->shape[0] != rows->shape[0] || deep->shape[1] == 0)
            return fail(deep, err,
                        "must have as many rows as the medium, of the same dtype");
        if (set->deep_width == 0)
            set->deep_width = deep->shape[1];
        if (deep->shape[1] != set->deep_width)
            return error_set(err, ERROR_DATA,
                             "%s: the rows of %s have %zu elements, those of other deep "
                             "rows %zu",
                             deep->file, deep->name, deep->shape[1], set->deep_width);
        if (!is_aligned(deep))
            return fail(deep, err, "does not start at a multiple of its elements' size");
    }
    return true;
}

static bool check_medium(struct features *set, const struct stored_tensor *tensor,
                         struct error *err)
{
    const struct stored_tensor *grid = find_part(set, tensor->name, grid_suffix, -1);
    size_t deep = count_deep(set, tensor->name);

    if (!check_rows(set, tensor, err) || (grid && !check_grid(grid, err)))
        return false;
    if (set->count == 0)
        set->deep = deep;
    if (deep != set->deep)
        return error_set(err, ERROR_DATA,
                         "%s: %s has %zu tensors of deep rows, others have %zu",
                         tensor->file, tensor->name, deep, set->deep);
    set->count++;
    return check_deep(set, tensor, err);
}

/* A grid or deep rows without a medium, or with a number left out: a misspelled name. */
static bool check_part(const struct features *set, const struct stored_tensor *tensor,
                       size_t len, struct error *err)
{
    const char *suffix = tensor->name + len;
    char *key = memory_strdup(tensor->name);
    bool found;

    key[len] = 0;
    found = safetensors_find(set->file, key);
    free(key);
    if (!found)
        return fail(tensor, err, "belongs to a medium that the file does not have");
    return strcmp(suffix, grid_suffix) == 0 ||
           (size_t)(suffix[strlen(deep_suffix)] - '0') < set->deep ||
           fail(tensor, err, "must have a number that follows on the one before, from 0");
}

static bool check_all(struct features *set, struct error *err)
{
    size_t count = safetensors_count(set->file), len;

    for (size_t i = 0; i < count; i++)
        if (!is_part(safetensors_at(set->file, i)->name, &len) &&
            !check_medium(set, safetensors_at(set->file, i), err))
            return false;
    for (size_t i = 0; i < count; i++)
        if (is_part(safetensors_at(set->file, i)->name, &len) &&
            !check_part(set, safetensors_at(set->file, i), len, err))
            return false;
    return true;
}

struct features *features_open(const char *path, struct error *err)
{
    struct features *set = memory_alloc(sizeof(*set));

    set->file = safetensors_open(path, "features", false, err);
    if (set->file && check_all(set, err))
        return set;
    features_close(set);
    return NULL;
}

void features_close(struct features *set)
{
    if (!set)
        return;
    safetensors_close(set->file);
    free(set);
}

size_t features_count(const struct features *set)
{
    return set->count;
}

size_t features_width(const struct features *set)
{
    return set->width;
}

size_t features_deep(const struct features *set)
{
    return set->deep;
}

size_t features_deep_width(const struct features *set)
{
    return set->deep_width;
}

bool features_find(const struct features *set, const char *key, struct feature *out)
{
    const struct stored_tensor *rows = safetensors_find(set->file, key), *grid;
    size_t len;

    *out = (struct feature) { 0 };
    if (!rows || is_part(key, &len))
        return false;
    *out = (struct feature) { .rows = rows->data,
                              .format = rows->format,
                              .count = rows->shape[0],
                              .width = rows->shape[1],
                              .deep_width = set->deep_width };
    grid = find_part(set, key, grid_suffix, -1);
    if (grid)
        memcpy(out->grid, grid->data, sizeof(out->grid));
    for (size_t i = 0; i < set->deep; i++)
        out->deep[i] = find_part(set, key, deep_suffix, (int)i)->data;
    return true;
}
