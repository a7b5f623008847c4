/* train/files/torch_weights.c - reader of weights that torch.save wrote: a zip archive with
 * a pickle, FOLDER/data.pkl, that describes the tensors, and their storages,
 * FOLDER/data/KEY.  Source: torch/serialization.py, _load, and torch/_utils.py, torch 1.6
 * to 2.15. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/size.h"
#include "train/files/safetensors_internal.h"
#include "train/files/unpickle.h"
#include "train/files/zip_read.h"

#define PICKLE_MAX ((uint64_t)64 << 20)

/* The end of a path in an archive. */
static const char pickle_name[] = "/data.pkl";

/* The file while it is being read. */
struct reading {
    const struct weights_file *file;
    struct safetensors *set;
    struct arena *arena; /* of the pickle's values */
    struct zip_directory directory;
    const char *folder;
    uint64_t copied; /* bytes of tensors that cannot be mapped */
};

/* The meaning of PICKLED_OBJECT. */
struct object {
    bool is_tensor;
    const struct stored_dtype *dtype;
    uint64_t at, elements; /* of the storage */
    size_t rank, elements_here;
    size_t shape[RANK_MAX], strides[RANK_MAX], offset; /* in elements */
};

static bool refuse(struct error *err, const char *what)
{
    return error_set(err, ERROR_DATA, "the pickle is not valid: %s", what);
}

static const struct pickled *object_new(struct reading *reading,
                                        const struct object *object)
{
    struct pickled *value = arena_alloc(reading->arena, sizeof(*value));
    struct object *copy = arena_alloc(reading->arena, sizeof(*copy));

    *copy = *object;
    value->kind = PICKLED_OBJECT;
    value->object = copy;
    return value;
}

static const struct object *as_object(const struct pickled *value, bool is_tensor)
{
    const struct object *object = value->kind == PICKLED_OBJECT ? value->object : NULL;

    return object && object->is_tensor == is_tensor ? object : NULL;
}

/* Return the data of the storage in the archive. */
static bool find_storage(struct reading *reading, const char *key, struct object *out,
                         struct error *err)
{
    char *name = arena_printf(reading->arena, "%s/data/%s", reading->folder, key);
    const struct zip_entry *entry = zip_directory_find(&reading->directory, name);
    size_t bytes;

    if (!entry)
        return error_set(err, ERROR_DATA, "the storage data/%.40s is missing", key);
    if (!zip_entry_locate(reading->file, entry, &out->at, err))
        return false;
    if (!size_mul(out->elements, out->dtype->bytes, &bytes) || bytes > entry->bytes)
        return error_set(err, ERROR_DATA,
                         "the storage data/%.40s is smaller than its pickle says", key);
    return true;
}

/* ("storage", class, key, location, elements) */
static const struct pickled *read_storage(const struct pickled *id, void *context,
                                          struct error *err)
{
    static const enum pickled_kind kinds[] = { PICKLED_TEXT, PICKLED_GLOBAL, PICKLED_TEXT,
                                               PICKLED_TEXT, PICKLED_INT };
    struct object storage = { 0 };
    const struct pickled **items;
    bool ok = id->kind == PICKLED_TUPLE && id->tuple.count == TS_COUNT(kinds);

    for (size_t i = 0; ok && i < TS_COUNT(kinds); i++)
        ok = id->tuple.items[i]->kind == kinds[i];
    items = id->tuple.items;
    if (!ok || strcmp(items[0]->text, "storage") != 0 || !items[1]->global->meaning ||
        items[4]->integer < 0) {
        refuse(err, "a persistent id is not that of a storage");
        return NULL;
    }
    storage.dtype = stored_dtype_find(items[1]->global->meaning);
    storage.elements = (uint64_t)items[4]->integer;
    return find_storage(context, items[2]->text, &storage, err)
               ? object_new(context, &storage)
               : NULL;
}

static bool read_sizes(const struct pickled *from, size_t *out, size_t *count,
                       struct error *err)
{
    if (from->kind != PICKLED_TUPLE || from->tuple.count > RANK_MAX)
        return refuse(err, "a shape must be a tuple of at most 8 integers");
    for (size_t i = 0; i < from->tuple.count; i++) {
        const struct pickled *item = from->tuple.items[i];

        if (item->kind != PICKLED_INT || item->integer < 0)
            return refuse(err, "a shape or its strides have a negative number");
        out[i] = (size_t)item->integer;
    }
    *count = from->tuple.count;
    return true;
}

/* Check that every element of the tensor is inside its storage. */
static bool check_extent(struct object *tensor, struct error *err)
{
    size_t last = tensor->offset, step;
    bool ok = true;

    tensor->elements_here = 1;
    for (size_t i = 0; i < tensor->rank; i++)
        ok = ok &&
             size_mul(tensor->elements_here, tensor->shape[i], &tensor->elements_here);
    for (size_t i = 0; ok && tensor->elements_here > 0 && i < tensor->rank; i++)
        ok = size_mul(tensor->shape[i] - 1, tensor->strides[i], &step) &&
             size_add(last, step, &last);
    if (!ok || (tensor->elements_here > 0 && last >= tensor->elements))
        return refuse(err, "a tensor is not inside its storage");
    if (tensor->elements_here > tensor->elements)
        return refuse(err, "a tensor repeats elements of its storage");
    if (tensor->elements_here == 0)
        tensor->offset = 0;
    return true;
}

/* _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, backward_hooks), with
 * metadata at the end in some versions. */
static const struct pickled *call_tensor(const struct pickled *arguments, void *context,
                                         struct error *err)
{
    const struct pickled **items = arguments->tuple.items;
    const struct object *storage;
    struct object tensor;
    size_t strides;

    if (arguments->tuple.count < 6 || arguments->tuple.count > 7 ||
        !(storage = as_object(items[0], false)) || items[1]->kind != PICKLED_INT ||
        items[1]->integer < 0) {
        refuse(err, "a tensor has no storage");
        return NULL;
    }
    tensor = *storage;
    tensor.is_tensor = true;
    tensor.offset = (size_t)items[1]->integer;
    if (!read_sizes(items[2], tensor.shape, &tensor.rank, err) ||
        !read_sizes(items[3], tensor.strides, &strides, err))
        return NULL;
    if (strides != tensor.rank) {
        refuse(err, "a shape has other dimensions than its strides");
        return NULL;
    }
    return check_extent(&tensor, err) ? object_new(context, &tensor) : NULL;
}

/* _rebuild_parameter(tensor, requires_grad, backward_hooks) */
static const struct pickled *call_parameter(const struct pickled *arguments,
                                            void *context, struct error *err)
{
    (void)context;
    if (arguments->tuple.count == 3 && as_object(arguments->tuple.items[0], true))
        return arguments->tuple.items[0];
    refuse(err, "a parameter has no tensor");
    return NULL;
}

static const struct pickled *call_dict(const struct pickled *arguments, void *context,
                                       struct error *err)
{
    const struct reading *reading = context;
    struct pickled *value;

    if (arguments->tuple.count != 0) {
        refuse(err, "an OrderedDict has arguments");
        return NULL;
    }
    value = arena_alloc(reading->arena, sizeof(*value));
    value->kind = PICKLED_DICT;
    return value;
}

/* Everything that the pickle of a model's weights names; storages mean a dtype. */
static const struct pickle_global globals[] = {
    { "collections", "OrderedDict", call_dict, NULL },
    { "torch._utils", "_rebuild_tensor_v2", call_tensor, NULL },
    { "torch._utils", "_rebuild_parameter", call_parameter, NULL },
    { "torch", "FloatStorage", NULL, "F32" },
    { "torch", "HalfStorage", NULL, "F16" },
    { "torch", "BFloat16Storage", NULL, "BF16" },
    { "torch", "DoubleStorage", NULL, "F64" },
    { "torch", "LongStorage", NULL, "I64" },
    { "torch", "IntStorage", NULL, "I32" },
    { "torch", "ShortStorage", NULL, "I16" },
    { "torch", "CharStorage", NULL, "I8" },
    { "torch", "ByteStorage", NULL, "U8" },
    { "torch", "BoolStorage", NULL, "BOOL" },
};

/* Return whether the elements are in the order of the shape, without gaps. */
static bool is_contiguous(const struct object *tensor)
{
    size_t stride = 1;

    for (size_t i = tensor->rank; i-- > 0;) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
            return false;
        stride *= tensor->shape[i];
    }
    return true;
}

/* Copy the elements of a view, such as a transposed matrix, in the order of its shape. */
static void copy_view(const struct object *tensor, const unsigned char *storage,
                      unsigned char *to)
{
    size_t index[RANK_MAX] = { 0 }, bytes = tensor->dtype->bytes, at = tensor->offset;

    for (size_t n = 0; n < tensor->elements_here; n++) {
        memcpy(to + n * bytes, storage + at * bytes, bytes);
        for (size_t i = tensor->rank; i-- > 0;) {
            at += tensor->strides[i];
            if (++index[i] < tensor->shape[i])
                break;
            at -= tensor->shape[i] * tensor->strides[i];
            index[i] = 0;
        }
    }
}

/* Let the tensor have its data: mapped, or a copy if the order or the alignment is another.
 * The copies of a file take no more than the file, whatever its views are. */
static bool find_data(struct reading *reading, const struct object *tensor,
                      struct stored_tensor *out, struct error *err)
{
    const unsigned char *storage = reading->file->data + tensor->at;
    const unsigned char *data = storage + tensor->offset * tensor->dtype->bytes;
    void *copy;

    if (out->bytes == 0 ||
        (is_contiguous(tensor) && (uintptr_t)data % tensor->dtype->bytes == 0)) {
        out->data = out->bytes == 0 ? storage : data;
        return true;
    }
    if (out->bytes > reading->file->bytes - reading->copied)
        return error_set(err, ERROR_DATA,
                         "the tensor %.80s and others are views that are larger than the "
                         "file",
                         out->name);
    reading->copied += out->bytes;
    copy = malloc(out->bytes);
    if (!copy)
        return error_set(err, ERROR_SYSTEM, "no memory for a tensor of %zu bytes",
                         out->bytes);
    safetensors_keep(reading->set, copy);
    copy_view(tensor, storage, copy);
    out->data = copy;
    return true;
}

static bool add_tensor(struct reading *reading, const struct pickled_pair *pair,
                       struct error *err)
{
    const struct object *tensor = as_object(pair->value, true);
    struct arena *arena = reading->set->arena;
    struct stored_tensor *out;
    size_t *shape;

    if (pair->key->kind != PICKLED_TEXT)
        return refuse(err, "the name of a tensor is not a string");
    /* some files have a number or None among the tensors, which no model needs */
    if (pair->value->kind <= PICKLED_TEXT)
        return true;
    if (!tensor)
        return error_set(err, ERROR_DATA,
                         "\"%.80s\" is not a tensor: the file must have the weights of a "
                         "model and nothing else",
                         pair->key->text);
    shape = arena_array(arena, tensor->rank, sizeof(*shape));
    memcpy(shape, tensor->shape, tensor->rank * sizeof(*shape));
    out = safetensors_add(reading->set);
    *out = (struct stored_tensor) {
        .name = arena_strdup(arena, pair->key->text),
        .format = tensor->dtype->format,
        .dtype = tensor->dtype->name,
        .rank = tensor->rank,
        .shape = shape,
        .bytes = tensor->elements_here * tensor->dtype->bytes,
        .file = reading->file->name,
    };
    return !reading->file->data || find_data(reading, tensor, out, err);
}

/* Add the tensors of a dict, whose pairs are linked from the last to the first. */
static bool add_tensors(struct reading *reading, const struct pickled *root,
                        struct error *err)
{
    const struct pickled_pair **pairs;
    size_t count = 0;

    if (root->kind != PICKLED_DICT)
        return refuse(err, "it is not a dict of names and tensors");
    for (const struct pickled_pair *pair = root->pairs; pair; pair = pair->before)
        count++;
    pairs = arena_array(reading->arena, count + 1, sizeof(const struct pickled_pair *));
    for (const struct pickled_pair *pair = root->pairs; pair; pair = pair->before)
        pairs[--count] = pair;
    for (; pairs[count]; count++)
        if (!add_tensor(reading, pairs[count], err))
            return false;
    return true;
}

/* Read a file of the archive.  *text is set in any case. */
static bool read_record(const struct reading *reading, const struct zip_entry *entry,
                        struct text *text, struct error *err)
{
    uint64_t at;

    text_init(text, 0);
    if (entry->bytes > PICKLE_MAX)
        return error_set(err, ERROR_DATA, "%s is larger than 64 MiB", entry->name);
    if (!zip_entry_locate(reading->file, entry, &at, err))
        return false;
    text->data = memory_alloc(entry->bytes + 1);
    text->len = entry->bytes;
    text->room = entry->bytes + 1;
    return weights_file_read(reading->file, text->data, entry->bytes, at, err);
}

/* Files of torch before 2.1 do not have it; they were written on such machines, too. */
static bool check_byte_order(const struct reading *reading, struct error *err)
{
    const char *name = arena_printf(reading->arena, "%s/byteorder", reading->folder);
    const struct zip_entry *entry = zip_directory_find(&reading->directory, name);
    struct text text;
    bool ok;

    if (!entry)
        return true;
    ok = read_record(reading, entry, &text, err);
    if (ok && strcmp(text.data, "little") != 0)
        ok = error_set(err, ERROR_DATA,
                       "the file was written on a big-endian machine, "
                       "which is not supported");
    text_clear(&text);
    return ok;
}

/* Find the pickle, which is in the archive's only folder. */
static const struct zip_entry *find_pickle(struct reading *reading, struct error *err)
{
    for (size_t i = 0; i < reading->directory.count; i++) {
        const struct zip_entry *entry = &reading->directory.entries[i];
        size_t len = strlen(entry->name), end = strlen(pickle_name);

        if (!text_ends(entry->name, pickle_name) ||
            strchr(entry->name, '/') != entry->name + len - end)
            continue;
        reading->folder = arena_copy(reading->arena, entry->name, len - end);
        return entry;
    }
    error_set(err, ERROR_DATA,
              "the zip archive has no data.pkl, so torch.save did not "
              "write it");
    return NULL;
}

static bool read_archive(struct reading *reading, struct error *err)
{
    const struct pickle_rules rules = { globals, TS_COUNT(globals), read_storage,
                                        reading };
    const struct zip_entry *entry;
    const struct pickled *root = NULL;
    struct text text;

    if (!zip_directory_read(reading->file, reading->arena, &reading->directory, err) ||
        !(entry = find_pickle(reading, err)) || !check_byte_order(reading, err))
        return false;
    if (read_record(reading, entry, &text, err))
        root = unpickle(text.data, text.len, &rules, reading->arena, err);
    text_clear(&text);
    return root && add_tensors(reading, root, err);
}

/* The name of a file for a command of the shell.  An index names files, too, and may come
 * from elsewhere: a name that the shell or Python could read otherwise is left out. */
static const char *shell_name(const char *path)
{
    const char *base = path_base(path);
    size_t len = strspn(base, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                              "0123456789._-");

    return base[len] || len > 80 ? "FILE" : base;
}

/* Report another format than torch's of today.  In the format before it, a pickle was at
 * the start, with its opcode for protocol 2. */
static bool check_start(const struct weights_file *file, struct error *err)
{
    unsigned char start[8];

    if (file->bytes < sizeof(start))
        return error_set(err, ERROR_DATA,
                         "%s: it is too short for weights; the file is damaged or "
                         "incomplete",
                         file->name);
    if (!weights_file_read(file, start, sizeof(start), 0, err) ||
        weights_file_is_pointer(file, start, err))
        return false;
    if (memcmp(start, "PK\x03\x04", 4) == 0)
        return true;
    if (start[0] == 0x80 && start[1] == 2)
        return error_set(
            err, ERROR_DATA,
            "%s: the format of torch before 1.6 is not supported; convert the file in its "
            "folder with: python3 -c \"import torch; f = '%s'; torch.save(torch.load(f, "
            "map_location='cpu', weights_only=True), f)\"",
            file->name, shell_name(file->name));
    return error_set(err, ERROR_DATA, "%s: it is not a file of torch.save", file->name);
}

bool torch_weights_read(struct safetensors *set, const struct weights_file *file,
                        struct error *err)
{
    struct reading reading = { .file = file, .set = set };
    struct error cause = { 0 };
    bool ok;

    if (!check_start(file, err))
        return false;
    reading.arena = arena_new();
    ok = read_archive(&reading, &cause) ||
         error_set(err, cause.code, "%s%s%s",
                   text_starts(cause.text, file->name) ? "" : file->name,
                   text_starts(cause.text, file->name) ? "" : ": ", cause.text);
    arena_free(reading.arena);
    return ok;
}
