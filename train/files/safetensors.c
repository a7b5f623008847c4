/* train/files/safetensors.c - reader of the format, for untrusted files, mapped
 * read-only. */
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
#include "base/json_scan.h"
#include "base/size.h"

#define HEADER_MAX \
    ((uint64_t)100 * 1000 * 1000) /* huggingface/safetensors: MAX_HEADER_SIZE */
#define INDEX_MAX  ((size_t)64 << 20)
#define SHARDS_MAX 1000
#define RANK_MAX   8

/* Every dtype of the format, with its size; computations use the first three. */
static const struct dtype_row {
    const char *name;
    size_t bytes;
    enum format format;
} dtype_rows[] = {
    { "F32", 4, FORMAT_FP32 },      { "F16", 2, FORMAT_FP16 },
    { "BF16", 2, FORMAT_BF16 },     { "F64", 8, FORMAT_COUNT },
    { "I64", 8, FORMAT_COUNT },     { "U64", 8, FORMAT_COUNT },
    { "I32", 4, FORMAT_COUNT },     { "U32", 4, FORMAT_COUNT },
    { "I16", 2, FORMAT_COUNT },     { "U16", 2, FORMAT_COUNT },
    { "I8", 1, FORMAT_COUNT },      { "U8", 1, FORMAT_COUNT },
    { "BOOL", 1, FORMAT_COUNT },    { "F8_E4M3", 1, FORMAT_COUNT },
    { "F8_E5M2", 1, FORMAT_COUNT },
};

struct mapping {
    const char *file;
    void *data;
    size_t bytes;
};

struct safetensors {
    struct arena *arena;
    struct mapping *maps; /* one per file; data NULL with headers_only */
    size_t files;
    struct stored_tensor *tensors; /* in the order of the headers */
    size_t count, room;
    const struct stored_tensor **sorted; /* by name */
};

/* The bytes of a tensor, to check that the tensors fill the file without gap or
 * overlap. */
struct span {
    uint64_t begin, end;
    const char *name;
};

/* Of a tensor whose offsets were not read yet. */
#define UNREAD UINT64_MAX

/* One file while it is being read. */
struct header {
    const char *file; /* its name, in the set's arena */
    int fd;
    uint64_t bytes; /* of the file */
    uint64_t at;    /* offset of the data */
    const unsigned char *data;
    struct json_scan scan;
    struct span *spans; /* of its tensors */
    size_t span_count, span_room;
};

static bool broken(const struct header *h, struct error *err, const char *what,
                   const char *tensor_name)
{
    return error_set(err, ERROR_DATA, "%s: %s%s%s; the file is damaged or incomplete",
                     h->file, what, tensor_name ? ": " : "",
                     tensor_name ? tensor_name : "");
}

/* Report a value of another kind than the format has, unless it is no JSON at all. */
static bool unfit(struct header *h, struct error *err, const char *what,
                  const char *tensor_name)
{
    return json_scan_skip(&h->scan) ? broken(h, err, what, tensor_name)
                                    : json_scan_end(&h->scan, h->file, err);
}

static bool read_bytes(const struct header *h, void *to, size_t bytes, off_t at,
                       struct error *err)
{
    char *out = to;

    while (bytes > 0) {
        ssize_t got = pread(h->fd, out, bytes, at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "cannot read %s", h->file);
        if (got == 0)
            return broken(h, err, "it ends too early", NULL);
        out += got;
        bytes -= (size_t)got;
        at += got;
    }
    return true;
}

static const struct dtype_row *find_dtype(const char *name)
{
    for (size_t i = 0; name && i < TS_COUNT(dtype_rows); i++)
        if (strcmp(dtype_rows[i].name, name) == 0)
            return &dtype_rows[i];
    return NULL;
}

size_t safetensors_dtype_bytes(const char *dtype)
{
    const struct dtype_row *row = find_dtype(dtype);

    return row ? row->bytes : 0;
}

/* Read and check the shape; compute its elements. */
static bool read_shape(struct safetensors *set, struct header *h,
                       struct stored_tensor *out, struct error *err)
{
    size_t shape[RANK_MAX];
    uint64_t number;

    if (!json_scan_open(&h->scan, '['))
        return unfit(h, err, "a shape must be a list of at most 8 numbers", out->name);
    out->rank = 0;
    out->bytes = 1;
    while (json_scan_item(&h->scan)) {
        if (out->rank == RANK_MAX)
            return broken(h, err, "a shape must be a list of at most 8 numbers",
                          out->name);
        if (!json_scan_count(&h->scan, &number))
            return unfit(h, err, "a shape must contain only numbers", out->name);
        shape[out->rank++] = (size_t)number;
        if (!size_mul(out->bytes, (size_t)number, &out->bytes))
            return broken(h, err, "a shape is too large", out->name);
    }
    out->shape = memcpy(arena_array(set->arena, out->rank, sizeof(*shape)), shape,
                        out->rank * sizeof(*shape));
    return true;
}

static bool read_offsets(struct header *h, const struct stored_tensor *tensor,
                         struct span *out, struct error *err)
{
    struct json_scan *scan = &h->scan;
    bool ok = json_scan_open(scan, '[') && json_scan_item(scan) &&
              json_scan_count(scan, &out->begin) && json_scan_item(scan) &&
              json_scan_count(scan, &out->end) && !json_scan_item(scan);

    return (ok && out->begin <= out->end) || scan->why ||
           broken(h, err, "data_offsets are not two numbers in order", tensor->name);
}

/* Complete a tensor whose shape, in elements so far, and offsets were read. */
static bool place_tensor(const struct header *h, struct stored_tensor *out,
                         const struct span *span, struct error *err)
{
    const struct dtype_row *dtype = find_dtype(out->dtype);

    if (!dtype)
        return broken(h, err, "an unknown dtype", out->name);
    if (!out->shape)
        return broken(h, err, "a shape must be a list of at most 8 numbers", out->name);
    if (span->end == UNREAD)
        return broken(h, err, "data_offsets are not two numbers in order", out->name);
    out->dtype = dtype->name;
    out->format = dtype->format;
    if (!size_mul(out->bytes, dtype->bytes, &out->bytes))
        return broken(h, err, "a shape is too large", out->name);
    if (span->end > h->bytes - h->at)
        return broken(h, err, "a tensor ends after the end of the file", out->name);
    if (span->end - span->begin != out->bytes)
        return broken(h, err, "data_offsets do not fit dtype and shape", out->name);
    if (h->data)
        out->data = h->data + h->at + span->begin;
    return true;
}

/* Read the entry of a tensor. Keys that the format does not have are skipped. */
static bool read_tensor(struct safetensors *set, struct header *h, const char *name,
                        struct error *err)
{
    struct stored_tensor *out = &set->tensors[set->count];
    struct span *span = &h->spans[h->span_count];
    const char *key;
    bool ok = true;

    *out = (struct stored_tensor) { .name = arena_strdup(set->arena, name),
                                    .file = h->file };
    *span = (struct span) { .end = UNREAD, .name = out->name };
    if (!json_scan_open(&h->scan, '{'))
        return unfit(h, err, "an entry of the header must be an object", name);
    while (ok && json_scan_key(&h->scan, &key)) {
        if ((strcmp(key, "dtype") == 0 && out->dtype) ||
            (strcmp(key, "shape") == 0 && out->shape) ||
            (strcmp(key, "data_offsets") == 0 && span->end != UNREAD))
            ok = broken(h, err, "a key is given twice", out->name);
        else if (strcmp(key, "dtype") == 0)
            ok = json_scan_string(&h->scan, &out->dtype) ||
                 unfit(h, err, "an unknown dtype", out->name);
        else if (strcmp(key, "shape") == 0)
            ok = read_shape(set, h, out, err);
        else if (strcmp(key, "data_offsets") == 0)
            ok = read_offsets(h, out, span, err);
        else
            json_scan_skip(&h->scan);
    }
    if (!ok || h->scan.why)
        return false;
    set->count++;
    h->span_count++;
    return place_tensor(h, out, span, err);
}

static int span_compare(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Writers sort by offset, which is usual and takes no time. */
static bool is_sorted(const struct span *spans, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (span_compare(&spans[i - 1], &spans[i]) > 0)
            return false;
    return true;
}

/* Check that the sorted tensors fill the data from its first to its last byte. */
static bool check_spans(const struct header *h, struct error *err)
{
    uint64_t at = 0;

    if (!is_sorted(h->spans, h->span_count))
        qsort(h->spans, h->span_count, sizeof(*h->spans), span_compare);
    for (size_t i = 0; i < h->span_count; i++) {
        if (h->spans[i].begin != at)
            return broken(h, err,
                          h->spans[i].begin < at ? "tensors overlap" : "a gap before",
                          h->spans[i].name);
        at = h->spans[i].end;
    }
    if (at != h->bytes - h->at)
        return broken(h, err, "the file size does not match the header", NULL);
    return true;
}

static bool check_metadata(struct header *h, struct error *err)
{
    const char *key, *value;

    if (!json_scan_open(&h->scan, '{'))
        return unfit(h, err, "__metadata__ must be an object", NULL);
    while (json_scan_key(&h->scan, &key))
        if (!json_scan_string(&h->scan, &value))
            return unfit(h, err, "__metadata__ must contain only strings", key);
    return true;
}

static void make_room(struct safetensors *set, struct header *h)
{
    if (set->count == set->room) {
        set->room = 2 * set->room + 64;
        set->tensors = memory_resize(set->tensors, set->room, sizeof(*set->tensors));
    }
    if (h->span_count == h->span_room) {
        h->span_room = 2 * h->span_room + 64;
        h->spans = memory_resize(h->spans, h->span_room, sizeof(*h->spans));
    }
}

static bool read_entries(struct safetensors *set, struct header *h, struct error *err)
{
    const char *name;
    bool ok = true;

    if (!json_scan_open(&h->scan, '{'))
        return unfit(h, err, "its header must be a JSON object", NULL);
    while (ok && json_scan_key(&h->scan, &name)) {
        make_room(set, h);
        ok = strcmp(name, "__metadata__") == 0 ? check_metadata(h, err)
                                               : read_tensor(set, h, name, err);
    }
    return ok;
}

/* Read the header's length, which must be inside the file and within the format's
 * limit. */
static bool read_length(struct header *h, uint64_t *length, struct error *err)
{
    unsigned char bytes[8];

    if (h->bytes < sizeof(bytes))
        return broken(h, err, "it is too short for a header", NULL);
    if (!read_bytes(h, bytes, sizeof(bytes), 0, err))
        return false;
    if (memcmp(bytes, "version ", sizeof(bytes)) == 0)
        return error_set(err, ERROR_DATA,
                         "%s: the file is a Git LFS pointer, not the weights; run `git "
                         "lfs pull` in its folder",
                         h->file);
    *length = 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        *length |= (uint64_t)bytes[i] << (8 * i);
    if (*length > HEADER_MAX || *length > h->bytes - sizeof(bytes))
        return broken(h, err, "the header is longer than the file or 100 MB", NULL);
    h->at = sizeof(bytes) + *length;
    return true;
}

static bool read_header(struct safetensors *set, struct header *h, struct error *err)
{
    uint64_t length = 0;
    char *text;
    bool ok;

    if (!read_length(h, &length, err))
        return false;
    text = memory_alloc(length + 1);
    ok = read_bytes(h, text, length, 8, err);
    if (ok) {
        json_scan_init(&h->scan, text, length);
        ok = read_entries(set, h, err) || h->scan.why;
        ok = ok && json_scan_end(&h->scan, h->file, err);
    }
    free(text);
    ok = ok && check_spans(h, err);
    free(h->spans);
    return ok;
}

/* Open, map (unless headers_only) and read one file into the set. */
static bool add_file(struct safetensors *set, const char *name, bool headers_only,
                     struct error *err)
{
    struct header h = { .file = arena_strdup(set->arena, name) };
    struct mapping *map;
    struct stat st;
    bool ok = false;

    h.fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (h.fd < 0)
        return error_errno(err, "cannot open %s", name);
    if (fstat(h.fd, &st) != 0) {
        error_errno(err, "cannot stat %s", name);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(err, ERROR_DATA, "%s is not a regular file", name);
        goto out;
    }
    h.bytes = (uint64_t)st.st_size;
    set->maps = memory_resize(set->maps, set->files + 1, sizeof(*set->maps));
    map = &set->maps[set->files++];
    *map = (struct mapping) { .file = h.file };
    if (!headers_only && h.bytes > 0) {
        void *data = mmap(NULL, h.bytes, PROT_READ, MAP_PRIVATE, h.fd, 0);

        if (data == MAP_FAILED) {
            error_errno(err, "cannot map %s", name);
            goto out;
        }
        map->data = data;
        map->bytes = h.bytes;
        h.data = data;
    }
    ok = read_header(set, &h, err);
out:
    close(h.fd);
    return ok;
}

static int name_compare(const void *a, const void *b)
{
    const struct stored_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static bool sort_names(struct safetensors *set, struct error *err)
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
              sort_names(set, err) && check_index(set, index, map, err);

    json_decref(root);
    return ok;
}

static bool open_dir(struct safetensors *set, const char *dir, const char *stem,
                     bool headers_only, struct error *err)
{
    char *base = path_join(dir, stem);
    struct text whole, index;
    bool ok;

    text_init(&whole, 0);
    text_init(&index, 0);
    text_addf(&whole, "%s.safetensors", base);
    text_addf(&index, "%s.safetensors.index.json", base);
    free(base);
    if (file_exists(whole.data) || !file_exists(index.data))
        ok = add_file(set, whole.data, headers_only, err) && sort_names(set, err);
    else
        ok = open_index(set, dir, index.data, headers_only, err);
    text_clear(&whole);
    text_clear(&index);
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
        ok = add_file(set, path, headers_only, err) && sort_names(set, err);
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
