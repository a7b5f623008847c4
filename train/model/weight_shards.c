/* train/model/weight_shards.c - the files of a large model, and their index. */
#include "config.h"

#include "train/model/weight_shards.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "base/walk.h"

/* The old file may be mapped, or be the last good one. */
bool weight_file_write(const char *dir, const char *name,
                       const struct tensor_source *sources, size_t count,
                       struct error *err)
{
    char *target = path_join(dir, name), *temporary;
    struct text text;
    bool ok;

    text_init(&text, 0);
    text_addf(&text, "%s/.%s.tmp", dir, name);
    temporary = text_detach(&text, NULL);
    walk_unlink(temporary);
    ok = safetensors_write(temporary, sources, count, err);
    if (ok && walk_rename(temporary, target) != 0) {
        ok = error_errno(err, "cannot rename %s", temporary);
        walk_unlink(temporary);
    }
    free(temporary);
    free(target);
    return ok;
}

enum { NAME_MAX_BYTES = 64 };

struct shards {
    const struct tensor_source *sources;
    size_t count;
    size_t *starts; /* first tensor of each file, and `count` at the end */
    size_t files;
    uint64_t bytes; /* of all tensors */
};

static uint64_t bytes_of(const struct tensor_source *source)
{
    uint64_t bytes = source->dtype ? safetensors_dtype_bytes(source->dtype)
                                   : format_info(source->format)->bytes;

    for (size_t i = 0; i < source->rank; i++)
        bytes *= source->shape[i];
    return bytes;
}

static void divide(struct shards *shards, uint64_t limit)
{
    uint64_t in_file = 0;

    shards->starts = memory_alloc((shards->count + 2) * sizeof(*shards->starts));
    shards->files = 1;
    for (size_t i = 0; i < shards->count; i++) {
        uint64_t bytes = bytes_of(&shards->sources[i]);

        if (limit > 0 && in_file > 0 && in_file + bytes > limit) {
            shards->starts[shards->files++] = i;
            in_file = 0;
        }
        in_file += bytes;
        shards->bytes += bytes;
    }
    shards->starts[shards->files] = shards->count;
}

static void name_file(const struct shards *shards, size_t file, char name[NAME_MAX_BYTES])
{
    if (shards->files == 1)
        snprintf(name, NAME_MAX_BYTES, "model.safetensors");
    else
        snprintf(name, NAME_MAX_BYTES, "model-%05zu-of-%05zu.safetensors", file + 1,
                 shards->files);
}

static bool write_file(const struct shards *shards, size_t file, const char *dir,
                       struct error *err)
{
    size_t first = shards->starts[file], end = shards->starts[file + 1];
    char name[NAME_MAX_BYTES];

    name_file(shards, file, name);
    return weight_file_write(dir, name, shards->sources + first, end - first, err);
}

static bool write_index(const struct shards *shards, const char *dir, struct error *err)
{
    json_t *map = json_object(), *index;
    char name[NAME_MAX_BYTES];
    struct text text;
    char *path = path_join(dir, "model.safetensors.index.json");
    bool ok;

    for (size_t file = 0; file < shards->files; file++) {
        name_file(shards, file, name);
        for (size_t i = shards->starts[file]; i < shards->starts[file + 1]; i++)
            json_object_set_new(map, shards->sources[i].name, json_string(name));
    }
    index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size",
                      (json_int_t)shards->bytes, "weight_map", map);
    text_init(&text, 0);
    json_write(index, &text);
    text_addc(&text, '\n');
    ok = file_replace(path, text.data, text.len, 0666, err);
    text_clear(&text);
    json_decref(index);
    free(path);
    return ok;
}

bool weight_shards_write(const char *dir, const struct tensor_source *sources,
                         size_t count, uint64_t limit, struct error *err)
{
    struct shards shards = { .sources = sources, .count = count };
    bool ok = true;

    divide(&shards, limit);
    for (size_t file = 0; ok && file < shards.files; file++)
        ok = write_file(&shards, file, dir, err);
    ok = ok && (shards.files == 1 || write_index(&shards, dir, err));
    free(shards.starts);
    return ok;
}
