/* train/files/safetensors_write.c - writer of the format, with one tensor in memory at a
 * time. */
#include "config.h"

#include "train/files/safetensors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "base/walk.h"

static const char *dtype_of(const struct tensor_source *source)
{
    return source->dtype ? source->dtype : format_info(source->format)->safetensors;
}

static bool source_bytes(const struct tensor_source *source, size_t *bytes,
                         struct error *err)
{
    *bytes = safetensors_dtype_bytes(dtype_of(source));
    for (size_t i = 0; i < source->rank; i++)
        if (!size_mul(*bytes, source->shape[i], bytes))
            return error_set(err, ERROR_DATA, "the tensor %s is too large", source->name);
    return true;
}

static json_t *entry_new(const struct tensor_source *source, size_t begin, size_t bytes)
{
    json_t *shape = json_array();

    for (size_t i = 0; i < source->rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)source->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_of(source), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + bytes));
}

/* Length, JSON, and blanks up to a multiple of 8, which aligns the data. */
bool safetensors_header(const struct tensor_source *sources, size_t count,
                        struct text *out, struct error *err)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    size_t at = 0, bytes;
    bool ok = true;
    uint64_t length;

    for (size_t i = 0; ok && i < count; i++) {
        ok = source_bytes(&sources[i], &bytes, err);
        if (!ok)
            break;
        json_object_set_new(root, sources[i].name, entry_new(&sources[i], at, bytes));
        at += bytes;
    }
    text_add(out, "\0\0\0\0\0\0\0", 8);
    ok = ok && json_write(root, out);
    json_decref(root);
    while (out->len % 8 != 0)
        text_addc(out, ' ');
    length = out->len - 8;
    for (size_t i = 0; i < 8; i++)
        out->data[i] = (char)(length >> (8 * i) & 0xff);
    if (!ok)
        error_set(err, ERROR_SYSTEM, "cannot make the header of a safetensors file");
    return ok;
}

static bool write_tensors(int fd, const struct tensor_source *sources, size_t count,
                          struct error *err)
{
    size_t bytes, largest = 1;
    void *buffer;
    bool ok = true;

    for (size_t i = 0; i < count; i++)
        if (source_bytes(&sources[i], &bytes, err) && bytes > largest)
            largest = bytes;
    buffer = malloc(largest);
    if (!buffer)
        return error_set(err, ERROR_SYSTEM, "no memory for a tensor of %zu bytes",
                         largest);
    for (size_t i = 0; ok && i < count; i++)
        ok = source_bytes(&sources[i], &bytes, err) &&
             sources[i].read(sources[i].context, sources[i].index, buffer, err) &&
             file_write_all(fd, buffer, bytes, err);
    free(buffer);
    return ok;
}

bool safetensors_write(const char *name, const struct tensor_source *sources,
                       size_t count, struct error *err)
{
    struct error why = { 0 };
    struct text header;
    bool ok = false;
    int fd;

    text_init(&header, 0);
    if (!safetensors_header(sources, count, &header, err)) {
        text_clear(&header);
        return false;
    }
    fd = walk_open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0) {
        error_errno(err, "cannot create %s", name);
        text_clear(&header);
        return false;
    }
    ok = file_write_all(fd, header.data, header.len, &why) &&
         write_tensors(fd, sources, count, &why);
    if (ok && fsync(fd) != 0)
        ok = error_errno(&why, "cannot flush");
    if (close(fd) != 0 && ok)
        ok = error_errno(&why, "cannot close");
    if (!ok) {
        walk_unlink(name);
        error_set(err, why.code, "%s: %s", name, why.text);
    }
    text_clear(&header);
    return ok;
}
