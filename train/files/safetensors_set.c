/* train/files/safetensors_set.c - all files of a model's weights as one set of tensors,
 * mapped read-only: safetensors, or files of torch.save where there are none. */
#include "config.h"

#include "train/files/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/files/safetensors_internal.h"

/* Of rows of features, with one entry or several for each of a million images. */
#define INDEX_MAX  ((size_t)1 << 30)
#define SHARDS_MAX 16384

struct stored_tensor *safetensors_add(struct safetensors *set)
{
    if (set->count == set->room) {
        set->room = 2 * set->room + 64;
        set->tensors = memory_resize(set->tensors, set->room, sizeof(*set->tensors));
    }
    return &set->tensors[set->count++];
}

void safetensors_keep(struct safetensors *set, void *copy)
{
    set->copies = memory_resize(set->copies, set->copy_count + 1, sizeof(*set->copies));
    set->copies[set->copy_count++] = copy;
}

bool weights_file_read(const struct weights_file *file, void *to, size_t bytes,
                       uint64_t at, struct error *err)
{
    char *out = to;

    while (bytes > 0) {
        ssize_t got = pread(file->fd, out, bytes, (off_t)at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "cannot read %s", file->name);
        if (got == 0)
            return error_set(err, ERROR_DATA,
                             "%s: it ends too early; the file is damaged or incomplete",
                             file->name);
        out += got;
        bytes -= (size_t)got;
        at += (uint64_t)got;
    }
    return true;
}

bool weights_file_is_pointer(const struct weights_file *file, const void *start,
                             struct error *err)
{
    static const char pointer[] = "version ";

    if (memcmp(start, pointer, strlen(pointer)) != 0)
        return false;
    error_set(err, ERROR_DATA,
              "%s: the file is a Git LFS pointer, not the weights; run `git lfs pull` in "
              "its folder",
              file->name);
    return true;
}

/* Map the file, unless only headers are read. */
static bool map_file(struct safetensors *set, struct weights_file *file,
                     bool headers_only, struct error *err)
{
    struct mapping *map;
    void *data;

    set->maps = memory_resize(set->maps, set->files + 1, sizeof(*set->maps));
    map = &set->maps[set->files++];
    *map = (struct mapping) { .file = file->name };
    if (headers_only || file->bytes == 0)
        return true;
    data = mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (data == MAP_FAILED)
        return error_errno(err, "cannot map %s", file->name);
    map->data = data;
    map->bytes = file->bytes;
    file->data = data;
    return true;
}

/* Open, map and read one file into the set. */
static bool add_file(struct safetensors *set, const char *name, bool headers_only,
                     struct error *err)
{
    struct weights_file file = { .name = arena_strdup(set->arena, name) };
    struct stat st;
    bool ok;

    file.fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file.fd < 0)
        return error_errno(err, "cannot open %s", name);
    if (fstat(file.fd, &st) != 0)
        ok = error_errno(err, "cannot stat %s", name);
    else if (!S_ISREG(st.st_mode))
        ok = error_set(err, ERROR_DATA, "%s is not a regular file", name);
    else {
        file.bytes = (uint64_t)st.st_size;
        ok = map_file(set, &file, headers_only, err) &&
             (text_ends(name, ".bin") ? torch_weights_read(set, &file, err)
                                      : safetensors_read_header(set, &file, err));
    }
    close(file.fd);
    return ok;
}

static int name_compare(const void *a, const void *b)
{
    const struct stored_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

bool safetensors_sort(struct safetensors *set, struct error *err)
{
    set->sorted = memory_alloc((set->count + 1) * sizeof(*set->sorted));
    for (size_t i = 0; i < set->count; i++)
        set->sorted[i] = &set->tensors[i];
    qsort(set->sorted, set->count, sizeof(*set->sorted), name_compare);
    for (size_t i = 1; i < set->count; i++)
        if (strcmp(set->sorted[i - 1]->name, set->sorted[i]->name) == 0)
            return error_set(err, ERROR_DATA, "the tensor %s is in %s and again in %s",
                             set->sorted[i]->name, set->sorted[i - 1]->file,
                             set->sorted[i]->file);
    return true;
}

bool safetensors_drop_nameless(struct safetensors *set, struct error *err)
{
    size_t count = 0;

    for (size_t i = 0; i < set->count; i++)
        if (set->tensors[i].name)
            set->tensors[count++] = set->tensors[i];
    set->count = count;
    free(set->sorted);
    set->sorted = NULL;
    return safetensors_sort(set, err);
}

/* A shard is in the folder of its index: a plain name. */
static bool is_plain_name(const char *name)
{
    return name && *name && name[0] != '.' && !strchr(name, '/');
}

static bool has_file(const struct safetensors *set, const char *name)
{
    for (size_t i = 0; i < set->files; i++)
        if (strcmp(set->maps[i].file, name) == 0)
            return true;
    return false;
}

static bool add_shards(struct safetensors *set, const char *dir, const char *index,
                       const json_t *map, bool headers_only, struct error *err)
{
    const char *tensor, *last = "";
    json_t *value;

    if (!json_is_object(map))
        return error_set(err, ERROR_DATA, "%s: there is no weight_map", index);
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *file = json_string_value(value);
        char *name;
        bool ok;

        if (!is_plain_name(file))
            return error_set(err, ERROR_DATA,
                             "%s: the file of %s must be the name of a file in the "
                             "same folder",
                             index, tensor);
        if (strcmp(file, last) == 0)
            continue;
        last = file;
        name = path_join(dir, file);
        ok = has_file(set, name) || set->files < SHARDS_MAX;
        if (ok && !has_file(set, name))
            ok = add_file(set, name, headers_only, err);
        free(name);
        if (!ok)
            return error_set(err, ERROR_DATA, "%s: too many files", index);
    }
    return true;
}

/* Check that all tensors of the index exist, in the file that it names. */
static bool check_index(const struct safetensors *set, const char *index,
                        const json_t *map, struct error *err)
{
    const char *tensor;
    json_t *value;

    json_object_foreach((json_t *)map, tensor, value)
    {
        const struct stored_tensor *found = safetensors_find(set, tensor);

        if (!found || strcmp(path_base(found->file), json_string_value(value)) != 0)
            return error_set(err, ERROR_DATA, "%s: the tensor %s is not in %s", index,
                             tensor, json_string_value(value));
    }
    return true;
}

static bool open_index(struct safetensors *set, const char *dir, const char *index,
                       bool headers_only, struct error *err)
{
    json_t *root = json_read_file(index, INDEX_MAX, err);
    const json_t *map = json_object_get(root, "weight_map");
    bool ok = root && add_shards(set, dir, index, map, headers_only, err) &&
              safetensors_sort(set, err) && check_index(set, index, map, err);

    json_decref(root);
    return ok;
}

/* Names of files after the stem, in the order in which transformers looks for them. */
static const struct {
    const char *ending;
    bool is_index;
} endings[] = {
    { ".safetensors", false },
    { ".safetensors.index.json", true },
    { ".bin", false },
    { ".bin.index.json", true },
};

/* Torch's files of a model have a stem of their own. */
static void add_name(struct text *out, const char *dir, const char *stem,
                     const char *ending)
{
    bool own = text_starts(ending, ".bin") && strcmp(stem, "model") == 0;
    char *base = path_join(dir, own ? "pytorch_model" : stem);

    text_reset(out);
    text_adds(out, base);
    text_adds(out, ending);
    free(base);
}

static size_t find_ending(const char *dir, const char *stem, struct text *name)
{
    for (size_t i = 0; i < TS_COUNT(endings); i++) {
        add_name(name, dir, stem, endings[i].ending);
        if (file_exists(name->data))
            return i;
    }
    add_name(name, dir, stem, endings[0].ending);
    return 0;
}

bool safetensors_exist(const char *dir, const char *stem)
{
    struct text name;
    bool exist;

    text_init(&name, 0);
    find_ending(dir, stem, &name);
    exist = file_exists(name.data);
    text_clear(&name);
    return exist;
}

static bool open_dir(struct safetensors *set, const char *dir, const char *stem,
                     bool headers_only, struct error *err)
{
    struct text name;
    bool ok;

    text_init(&name, 0);
    if (endings[find_ending(dir, stem, &name)].is_index)
        ok = open_index(set, dir, name.data, headers_only, err);
    else
        ok = add_file(set, name.data, headers_only, err) && safetensors_sort(set, err);
    text_clear(&name);
    return ok;
}

struct safetensors *safetensors_open(const char *path, const char *stem,
                                     bool headers_only, struct error *err)
{
    struct safetensors *set = memory_alloc(sizeof(*set));
    bool ok;

    set->arena = arena_new();
    if (file_is_dir(path))
        ok = open_dir(set, path, stem, headers_only, err);
    else
        ok = add_file(set, path, headers_only, err) && safetensors_sort(set, err);
    if (ok)
        return set;
    safetensors_close(set);
    return NULL;
}

void safetensors_close(struct safetensors *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->files; i++)
        if (set->maps[i].data)
            munmap(set->maps[i].data, set->maps[i].bytes);
    for (size_t i = 0; i < set->copy_count; i++)
        free(set->copies[i]);
    free(set->copies);
    free(set->maps);
    free(set->tensors);
    free(set->sorted);
    arena_free(set->arena);
    free(set);
}

enum format safetensors_format(const struct safetensors *set)
{
    size_t bytes[FORMAT_COUNT + 1] = { 0 };
    enum format best = FORMAT_COUNT;

    for (size_t i = 0; i < safetensors_count(set); i++)
        bytes[safetensors_at(set, i)->format] += safetensors_at(set, i)->bytes;
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (bytes[i] > (best == FORMAT_COUNT ? 0 : bytes[best]))
            best = (enum format)i;
    return best;
}

void safetensors_release(const struct safetensors *set)
{
    for (size_t i = 0; i < set->files; i++)
        if (set->maps[i].data)
            madvise(set->maps[i].data, set->maps[i].bytes, MADV_DONTNEED);
}

size_t safetensors_count(const struct safetensors *set)
{
    return set->count;
}

const struct stored_tensor *safetensors_at(const struct safetensors *set, size_t index)
{
    return &set->tensors[index];
}

const struct stored_tensor *safetensors_find(const struct safetensors *set,
                                             const char *name)
{
    struct stored_tensor expected = { .name = name };
    const struct stored_tensor *key = &expected;
    const struct stored_tensor *const *found;

    if (set->count == 0)
        return NULL;
    found = bsearch(&key, set->sorted, set->count, sizeof(*set->sorted), name_compare);
    return found ? *found : NULL;
}
