/* train/files/safetensors_write.c - writer of the format, with at most one tensor in memory
 * at a time. */
#include "config.h"

#include "train/files/safetensors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "base/walk.h"

static const char *dtype_of(const struct tensor_source *source)
{
    return source->dtype ? source->dtype : format_info(source->format)->safetensors;
}

bool safetensors_source_bytes(const struct tensor_source *source, size_t *bytes,
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
        ok = safetensors_source_bytes(&sources[i], &bytes, err);
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

/* A file that is being written. */
struct safetensors_writer {
    char *name;
    int fd;
    struct digest *digest;
    uint64_t bytes, expected; /* written, and in all */
};

static void writer_free(struct safetensors_writer *writer)
{
    char ignored[DIGEST_TEXT];

    if (writer->digest)
        digest_end(writer->digest, ignored);
    free(writer->name);
    free(writer);
}

void safetensors_abandon(struct safetensors_writer *writer)
{
    if (!writer)
        return;
    close(writer->fd);
    walk_unlink(writer->name);
    writer_free(writer);
}

/* The data are written once, in order, so the digest needs no second look at the file. */
static bool add(struct safetensors_writer *writer, const void *data, size_t bytes,
                struct error *err)
{
    struct error why = { 0 };

    if (!file_write_all(writer->fd, data, bytes, &why))
        return error_set(err, why.code, "%s: %s", writer->name, why.text);
    digest_add(writer->digest, data, bytes);
    writer->bytes += bytes;
    return true;
}

bool safetensors_append(struct safetensors_writer *writer, const void *data, size_t bytes,
                        struct error *err)
{
    return add(writer, data, bytes, err);
}

static bool sum_bytes(const struct tensor_source *sources, size_t count, uint64_t *sum,
                      struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t bytes;

        if (!safetensors_source_bytes(&sources[i], &bytes, err))
            return false;
        *sum += bytes;
    }
    return true;
}

struct safetensors_writer *safetensors_create(const char *name,
                                              const struct tensor_source *sources,
                                              size_t count, struct error *err)
{
    struct safetensors_writer *writer = NULL;
    struct text header;
    uint64_t data = 0;
    int fd;

    text_init(&header, 0);
    if (!safetensors_header(sources, count, &header, err) ||
        !sum_bytes(sources, count, &data, err))
        goto out;
    fd = walk_open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0) {
        error_errno(err, "cannot create %s", name);
        goto out;
    }
    writer = memory_alloc(sizeof(*writer));
    *writer = (struct safetensors_writer) { .name = memory_strdup(name),
                                            .fd = fd,
                                            .digest = digest_new(),
                                            .expected = header.len + data };
    if (!add(writer, header.data, header.len, err)) {
        safetensors_abandon(writer);
        writer = NULL;
    }
out:
    text_clear(&header);
    return writer;
}

bool safetensors_finish(struct safetensors_writer *writer, struct manifest_file *out,
                        struct error *err)
{
    bool ok = writer->bytes == writer->expected ||
              error_set(err, ERROR_SYSTEM, "%s: wrote %llu of %llu bytes", writer->name,
                        (unsigned long long)writer->bytes,
                        (unsigned long long)writer->expected);
    bool flushed = !ok || fsync(writer->fd) == 0 ||
                   error_errno(err, "%s: cannot flush", writer->name);

    if (close(writer->fd) != 0 && ok && flushed)
        flushed = error_errno(err, "%s: cannot close", writer->name);
    ok = ok && flushed;
    if (!ok)
        walk_unlink(writer->name);
    if (ok && out) {
        out->bytes = writer->bytes;
        digest_end(writer->digest, out->digest);
        writer->digest = NULL;
    }
    writer_free(writer);
    return ok;
}

static bool write_tensors(struct safetensors_writer *writer,
                          const struct tensor_source *sources, size_t count,
                          struct error *err)
{
    size_t bytes, largest = 1;
    void *buffer;
    bool ok = true;

    for (size_t i = 0; i < count; i++)
        if (safetensors_source_bytes(&sources[i], &bytes, err) && bytes > largest)
            largest = bytes;
    buffer = malloc(largest);
    if (!buffer)
        return error_set(err, ERROR_SYSTEM, "%s: no memory for a tensor of %zu bytes",
                         writer->name, largest);
    for (size_t i = 0; ok && i < count; i++) {
        struct error why = { 0 };

        ok = safetensors_source_bytes(&sources[i], &bytes, err) &&
             (sources[i].read(sources[i].context, sources[i].index, buffer, &why) ||
              error_set(err, why.code, "%s: %s", writer->name, why.text)) &&
             add(writer, buffer, bytes, err);
    }
    free(buffer);
    return ok;
}

bool safetensors_write(const char *name, const struct tensor_source *sources,
                       size_t count, struct error *err)
{
    struct safetensors_writer *writer = safetensors_create(name, sources, count, err);

    if (!writer)
        return false;
    if (write_tensors(writer, sources, count, err))
        return safetensors_finish(writer, NULL, err);
    safetensors_abandon(writer);
    return false;
}
