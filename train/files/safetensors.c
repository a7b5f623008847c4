/* train/files/safetensors.c - reader of a file's header; the file is not trusted. */
#include "config.h"

#include "train/files/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_scan.h"
#include "base/size.h"
#include "train/files/safetensors_internal.h"

#define HEADER_MAX \
    ((uint64_t)100 * 1000 * 1000) /* huggingface/safetensors: MAX_HEADER_SIZE */

/* Every dtype of the format, with its size; computations use the first three. */
static const struct stored_dtype dtype_rows[] = {
    { "F32", 4, FORMAT_FP32 },      { "F16", 2, FORMAT_FP16 },
    { "BF16", 2, FORMAT_BF16 },     { "F64", 8, FORMAT_COUNT },
    { "I64", 8, FORMAT_COUNT },     { "U64", 8, FORMAT_COUNT },
    { "I32", 4, FORMAT_COUNT },     { "U32", 4, FORMAT_COUNT },
    { "I16", 2, FORMAT_COUNT },     { "U16", 2, FORMAT_COUNT },
    { "I8", 1, FORMAT_COUNT },      { "U8", 1, FORMAT_COUNT },
    { "BOOL", 1, FORMAT_COUNT },    { "F8_E4M3", 1, FORMAT_COUNT },
    { "F8_E5M2", 1, FORMAT_COUNT }, { "F8_E8M0", 1, FORMAT_COUNT },
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
    const struct weights_file *file;
    uint64_t at; /* offset of the data */
    struct json_scan scan;
    struct span *spans; /* of its tensors */
    size_t span_count, span_room;
};

static bool broken(const struct header *h, struct error *err, const char *what,
                   const char *tensor_name)
{
    return error_set(err, ERROR_DATA, "%s: %s%s%s; the file is damaged or incomplete",
                     h->file->name, what, tensor_name ? ": " : "",
                     tensor_name ? tensor_name : "");
}

/* Report a value of another kind than the format has, unless it is no JSON at all. */
static bool unfit(struct header *h, struct error *err, const char *what,
                  const char *tensor_name)
{
    return json_scan_skip(&h->scan) ? broken(h, err, what, tensor_name)
                                    : json_scan_end(&h->scan, h->file->name, err);
}

const struct stored_dtype *stored_dtype_find(const char *name)
{
    for (size_t i = 0; name && i < TS_COUNT(dtype_rows); i++)
        if (strcmp(dtype_rows[i].name, name) == 0)
            return &dtype_rows[i];
    return NULL;
}

size_t safetensors_dtype_bytes(const char *dtype)
{
    const struct stored_dtype *row = stored_dtype_find(dtype);

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
    const struct stored_dtype *dtype = stored_dtype_find(out->dtype);

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
    if (span->end > h->file->bytes - h->at)
        return broken(h, err, "a tensor ends after the end of the file", out->name);
    if (span->end - span->begin != out->bytes)
        return broken(h, err, "data_offsets do not fit dtype and shape", out->name);
    if (h->file->data)
        out->data = h->file->data + h->at + span->begin;
    return true;
}

/* Read the entry of a tensor. Keys that the format does not have are skipped. */
static bool read_tensor(struct safetensors *set, struct header *h, const char *name,
                        struct error *err)
{
    struct stored_tensor *out = safetensors_add(set);
    struct span *span = &h->spans[h->span_count];
    const char *key;
    bool ok = true;

    *out = (struct stored_tensor) { .name = arena_strdup(set->arena, name),
                                    .file = h->file->name };
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
    if (at != h->file->bytes - h->at)
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

static void make_room(struct header *h)
{
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
        make_room(h);
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

    if (h->file->bytes < sizeof(bytes))
        return broken(h, err, "it is too short for a header", NULL);
    if (!weights_file_read(h->file, bytes, sizeof(bytes), 0, err))
        return false;
    if (weights_file_is_pointer(h->file, bytes, err))
        return false;
    *length = 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        *length |= (uint64_t)bytes[i] << (8 * i);
    if (*length > HEADER_MAX || *length > h->file->bytes - sizeof(bytes))
        return broken(h, err, "the header is longer than the file or 100 MB", NULL);
    h->at = sizeof(bytes) + *length;
    return true;
}

bool safetensors_read_header(struct safetensors *set, const struct weights_file *file,
                             struct error *err)
{
    struct header h = { .file = file };
    uint64_t length = 0;
    char *text;
    bool ok;

    if (!read_length(&h, &length, err))
        return false;
    text = memory_alloc(length + 1);
    ok = weights_file_read(file, text, length, 8, err);
    if (ok) {
        json_scan_init(&h.scan, text, length);
        ok = read_entries(set, &h, err) || h.scan.why;
        ok = ok && json_scan_end(&h.scan, file->name, err);
    }
    free(text);
    ok = ok && check_spans(&h, err);
    free(h.spans);
    return ok;
}
