/* train/files/torch_file.c - writer of the files of torch.save. */
#include "config.h"

#include "train/files/torch_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"
#include "base/walk.h"
#include "train/files/zip_write.h"

#define SERIALIZATION_VERSION "3\n" /* kProducedFileFormatVersion, caffe2/serialize */

struct torch_file {
    struct text pickle;
    struct tensor_source *sources; /* malloc'ed */
    size_t count, room;
};

static const char *const storages[FORMAT_COUNT] = {
    [FORMAT_FP32] = "FloatStorage",
    [FORMAT_FP16] = "HalfStorage",
    [FORMAT_BF16] = "BFloat16Storage",
};

static size_t elements_of(const struct tensor_source *source)
{
    size_t elements = 1;

    for (size_t i = 0; i < source->rank; i++)
        elements *= source->shape[i];
    return elements;
}

static size_t bytes_of(const struct tensor_source *source)
{
    return elements_of(source) * format_info(source->format)->bytes;
}

struct torch_file *torch_file_new(void)
{
    struct torch_file *file = memory_alloc(sizeof(*file));

    *file = (struct torch_file) { 0 };
    text_init(&file->pickle, 0);
    pickle_begin(&file->pickle);
    return file;
}

void torch_file_free(struct torch_file *file)
{
    if (!file)
        return;
    text_clear(&file->pickle);
    free(file->sources);
    free(file);
}

struct text *torch_file_pickle(struct torch_file *file)
{
    return &file->pickle;
}

/* ("storage", class, key, location, elements), which the reader replaces by data/KEY */
static void add_storage(struct text *out, const struct tensor_source *source, size_t key)
{
    char text[32];

    snprintf(text, sizeof(text), "%zu", key);
    pickle_open(out, PICKLE_TUPLE);
    pickle_text(out, "storage");
    pickle_global(out, "torch", storages[source->format]);
    pickle_text(out, text);
    pickle_text(out, "cpu");
    pickle_int(out, (int64_t)elements_of(source));
    pickle_close(out, PICKLE_TUPLE);
    pickle_persistent(out);
}

static void add_shape_and_strides(struct text *out, const struct tensor_source *source)
{
    size_t stride = elements_of(source);

    pickle_open(out, PICKLE_TUPLE);
    for (size_t i = 0; i < source->rank; i++)
        pickle_int(out, (int64_t)source->shape[i]);
    pickle_close(out, PICKLE_TUPLE);
    pickle_open(out, PICKLE_TUPLE);
    for (size_t i = 0; i < source->rank; i++) {
        stride /= source->shape[i] > 0 ? source->shape[i] : 1;
        pickle_int(out, (int64_t)stride);
    }
    pickle_close(out, PICKLE_TUPLE);
}

/* _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, backward_hooks) */
void torch_file_add_tensor(struct torch_file *file, const struct tensor_source *source)
{
    struct text *out = &file->pickle;

    pickle_global(out, "torch._utils", "_rebuild_tensor_v2");
    pickle_open(out, PICKLE_TUPLE);
    add_storage(out, source, file->count);
    pickle_int(out, 0);
    add_shape_and_strides(out, source);
    pickle_bool(out, false);
    pickle_global(out, "collections", "OrderedDict");
    pickle_open(out, PICKLE_TUPLE);
    pickle_close(out, PICKLE_TUPLE);
    pickle_call(out);
    pickle_close(out, PICKLE_TUPLE);
    pickle_call(out);
    if (file->count == file->room) {
        file->room = file->room > 0 ? 2 * file->room : 64;
        file->sources = memory_resize(file->sources, file->room, sizeof(*file->sources));
    }
    file->sources[file->count++] = *source;
}

/* Records are in a folder with the name of the file. */
static bool add_record(struct zip *zip, const char *folder, const char *base,
                       const struct text *data, struct error *err)
{
    char *name = path_join(folder, base);
    bool ok = zip_add(zip, name, data->data, data->len, err);

    free(name);
    return ok;
}

static bool add_tensors(const struct torch_file *file, struct zip *zip,
                        const char *folder, struct error *err)
{
    size_t largest = 1;
    struct text data = { 0 };
    bool ok = true;

    for (size_t i = 0; i < file->count; i++)
        if (bytes_of(&file->sources[i]) > largest)
            largest = bytes_of(&file->sources[i]);
    data.data = malloc(largest);
    if (!data.data)
        return error_set(err, ERROR_SYSTEM, "no memory for a tensor of %zu bytes",
                         largest);
    for (size_t i = 0; ok && i < file->count; i++) {
        const struct tensor_source *source = &file->sources[i];
        char base[32];

        snprintf(base, sizeof(base), "data/%zu", i);
        data.len = bytes_of(source);
        ok = source->read(source->context, source->index, data.data, err) &&
             add_record(zip, folder, base, &data, err);
    }
    free(data.data);
    return ok;
}

static bool write_archive(struct torch_file *file, int fd, const char *folder,
                          struct error *err)
{
    struct text order = { .data = (char[]) { "little" }, .len = strlen("little") };
    struct text version = { .data = (char[]) { SERIALIZATION_VERSION },
                            .len = strlen(SERIALIZATION_VERSION) };
    struct zip zip;
    bool ok;

    zip_init(&zip, fd);
    ok = add_record(&zip, folder, "data.pkl", &file->pickle, err) &&
         add_record(&zip, folder, "byteorder", &order, err) &&
         add_tensors(file, &zip, folder, err) &&
         add_record(&zip, folder, "version", &version, err) && zip_finish(&zip, err);
    zip_clear(&zip);
    return ok;
}

/* Return the base name without its suffix, malloc'ed. */
static char *folder_of(const char *name)
{
    const char *base = path_base(name), *dot = strrchr(base, '.');
    char *folder = memory_strdup(base);

    if (dot && dot > base)
        folder[dot - base] = '\0';
    return folder;
}

bool torch_file_write(struct torch_file *file, const char *name, struct error *err)
{
    struct error why = { 0 };
    char *folder;
    bool ok;
    int fd = walk_open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);

    if (fd < 0)
        return error_errno(err, "cannot create %s", name);
    folder = folder_of(name);
    pickle_end(&file->pickle);
    ok = write_archive(file, fd, folder, &why);
    if (ok && fsync(fd) != 0)
        ok = error_errno(&why, "cannot flush");
    if (close(fd) != 0 && ok)
        ok = error_errno(&why, "cannot close");
    if (!ok) {
        walk_unlink(name);
        error_set(err, why.code, "%s: %s", name, why.text);
    }
    free(folder);
    return ok;
}
