/* train/model/weight_shards.c - the files of a large model, and their index. */
#include "config.h"

#include "train/model/weight_shards.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"

static uint64_t bytes_of(const struct tensor_source *source)
{
    size_t bytes = 0;

    safetensors_source_bytes(source, &bytes, NULL);
    return bytes;
}

static char *name_of(size_t file, size_t files)
{
    struct text name;

    text_init(&name, 0);
    if (files == 1)
        text_adds(&name, "model.safetensors");
    else
        text_addf(&name, "model-%05zu-of-%05zu.safetensors", file + 1, files);
    return text_detach(&name, NULL);
}

void weight_shards_divide(const struct tensor_source *sources, size_t count,
                          uint64_t limit, struct weight_shards *out)
{
    struct save_file *files = memory_alloc((count + 1) * sizeof(*files));
    uint64_t in_file = 0;

    *out = (struct weight_shards) { .files = files, .count = 1 };
    files[0].sources = sources;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = bytes_of(&sources[i]);

        if (limit > 0 && in_file > 0 && in_file + bytes > limit) {
            files[out->count++] = (struct save_file) { .sources = sources + i };
            in_file = 0;
        }
        files[out->count - 1].count++;
        in_file += bytes;
        out->bytes += bytes;
    }
    for (size_t i = 0; i < out->count; i++)
        files[i].name = name_of(i, out->count);
}

void weight_shards_clear(struct weight_shards *shards)
{
    for (size_t i = 0; i < shards->count; i++)
        free((char *)shards->files[i].name);
    free(shards->files);
    *shards = (struct weight_shards) { 0 };
}

bool weight_shards_write_index(const struct weight_shards *shards, const char *dir,
                               const char *stem, struct error *err)
{
    json_t *map = json_object(), *index;
    struct text text;
    char *path;
    bool ok;

    for (size_t i = 0; i < shards->count; i++)
        for (size_t j = 0; j < shards->files[i].count; j++)
            json_object_set_new(map, shards->files[i].sources[j].name,
                                json_string(shards->files[i].name));
    index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size",
                      (json_int_t)shards->bytes, "weight_map", map);
    text_init(&text, 0);
    text_addf(&text, "%s.safetensors.index.json", stem);
    path = path_join(dir, text.data);
    text_reset(&text);
    json_write(index, &text);
    text_addc(&text, '\n');
    ok = file_replace(path, text.data, text.len, 0666, err);
    text_clear(&text);
    json_decref(index);
    free(path);
    return ok;
}
