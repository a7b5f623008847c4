/* train/teacher/teacher_writer.c - writes a file of a teacher's logits batch by batch:
 * rows go to their final position, the data of samples is written at the end. */
#include "config.h"

#include "train/teacher/teacher_logits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/leftovers.h"
#include "base/size.h"
#include "base/walk.h"
#include "train/files/safetensors.h"

#define DIGITS ((size_t)DIGEST_TEXT - 1)

/* In the order of the file. */
enum field {
    FIELD_IDS,
    FIELD_LOGITS,
    FIELD_STARTS,
    FIELD_SAMPLES,
    FIELD_VOCABULARY,
    FIELD_TEACHER,
    FIELDS
};

struct teacher_writer {
    char *name, *temp_name; /* final name, and name while it is written */
    struct teacher_logits_kind kind;
    size_t samples, rows; /* expected */
    size_t sample, row;   /* written so far */
    int64_t *starts;
    char *digests;
    size_t offsets[FIELDS]; /* bytes from the start of the file */
    char *packed;           /* rows of a batch that have a label */
    int fd;
};

static void list_fields(const struct teacher_writer *w, struct tensor_source out[FIELDS])
{
    const struct tensor_source fields[FIELDS] = {
        [FIELD_IDS] = { .name = "ids",
                        .dtype = "I32",
                        .rank = 2,
                        .shape = { w->rows, w->kind.kept } },
        [FIELD_LOGITS] = { .name = "logits",
                           .dtype = "F32",
                           .rank = 2,
                           .shape = { w->rows, w->kind.kept } },
        [FIELD_STARTS] = { .name = "starts",
                           .dtype = "I64",
                           .rank = 1,
                           .shape = { w->samples + 1 } },
        [FIELD_SAMPLES] = { .name = "samples",
                            .dtype = "U8",
                            .rank = 2,
                            .shape = { w->samples, DIGITS } },
        [FIELD_VOCABULARY] = { .name = "words",
                               .dtype = "I64",
                               .rank = 1,
                               .shape = { 1 } },
        [FIELD_TEACHER] = { .name = "teacher",
                            .dtype = "U8",
                            .rank = 1,
                            .shape = { DIGITS } },
    };

    memcpy(out, fields, sizeof(fields));
}

static bool write_at(const struct teacher_writer *w, const void *data, size_t bytes,
                     size_t at, struct error *err)
{
    const char *from = data;

    while (bytes > 0) {
        ssize_t done = pwrite(w->fd, from, bytes, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return error_errno(err, "cannot write %s", w->temp_name);
        from += done;
        at += (size_t)done;
        bytes -= (size_t)done;
    }
    return true;
}

static bool write_header(struct teacher_writer *w, struct error *err)
{
    struct tensor_source fields[FIELDS];
    struct text header;
    bool ok;

    text_init(&header, 0);
    list_fields(w, fields);
    ok = safetensors_header(fields, FIELDS, &header, err);
    w->offsets[0] = header.len;
    for (size_t i = 0; i + 1 < FIELDS; i++) {
        size_t bytes = safetensors_dtype_bytes(fields[i].dtype) * fields[i].shape[0];

        w->offsets[i + 1] =
            w->offsets[i] + bytes * (fields[i].rank == 2 ? fields[i].shape[1] : 1);
    }
    ok = ok && write_at(w, header.data, header.len, 0, err);
    text_clear(&header);
    return ok;
}

static void remove_leftovers(const char *name)
{
    char *dir = path_dir(name);

    leftovers_remove(dir, path_base(name));
    free(dir);
}

struct teacher_writer *teacher_writer_new(const char *name,
                                          const struct teacher_logits_kind *kind,
                                          size_t samples, size_t rows, struct error *err)
{
    struct teacher_writer *w = memory_alloc(sizeof(*w));

    w->kind = *kind;
    w->samples = samples;
    w->rows = rows;
    w->name = memory_strdup(name);
    remove_leftovers(name);
    w->temp_name = leftover_name(name);
    w->starts = memory_resize(NULL, samples + 1, sizeof(*w->starts));
    w->starts[0] = 0;
    w->digests = memory_resize(NULL, samples + 1, DIGITS);
    w->fd = walk_open(w->temp_name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (w->fd < 0)
        error_errno(err, "cannot create %s", w->temp_name);
    else if (write_header(w, err))
        return w;
    teacher_writer_free(w);
    return NULL;
}

/* Pack the rows that have a label; return their number. */
static size_t pack_rows(struct teacher_writer *w, const struct batch *batch,
                        const void *rows)
{
    size_t bytes = w->kind.kept * sizeof(float), count = 0;

    w->packed = memory_resize(w->packed, batch->rows, bytes);
    for (size_t n = 0; n < batch->rows; n++)
        if (batch->targets[n] >= 0)
            memcpy(w->packed + count++ * bytes, (const char *)rows + n * bytes, bytes);
    return count;
}

static bool write_rows(struct teacher_writer *w, const struct batch *batch,
                       enum field field, const void *rows, struct error *err)
{
    size_t bytes = w->kind.kept * sizeof(float), count = pack_rows(w, batch, rows);

    if (w->row + count > w->rows)
        return error_set(err, ERROR_SYSTEM, "%s was created for %zu rows, not more",
                         w->name, w->rows);
    return write_at(w, w->packed, count * bytes, w->offsets[field] + w->row * bytes, err);
}

bool teacher_writer_add(struct teacher_writer *writer, const struct batch *batch,
                        const int32_t *ids, const float *values, struct error *err)
{
    struct teacher_writer *w = writer;

    if (w->sample + batch->sequences > w->samples)
        return error_set(err, ERROR_SYSTEM, "%s was created for %zu samples, not more",
                         w->name, w->samples);
    if (!write_rows(w, batch, FIELD_IDS, ids, err) ||
        !write_rows(w, batch, FIELD_LOGITS, values, err))
        return false;
    for (size_t sequence = 0; sequence < batch->sequences; sequence++) {
        char digest[DIGEST_TEXT];

        teacher_logits_digest(batch, sequence, digest);
        memcpy(w->digests + w->sample * DIGITS, digest, DIGITS);
        for (int32_t n = batch->offsets[sequence]; n < batch->offsets[sequence + 1]; n++)
            w->row += batch->targets[n] >= 0;
        w->starts[++w->sample] = (int64_t)w->row;
    }
    return true;
}

bool teacher_writer_finish(struct teacher_writer *writer, struct error *err)
{
    struct teacher_writer *w = writer;
    int64_t vocabulary = (int64_t)w->kind.vocabulary;
    char *dir;
    bool ok;

    if (w->sample != w->samples || w->row != w->rows)
        return error_set(err, ERROR_SYSTEM,
                         "%s lacks samples: it has %zu of %zu, and %zu of %zu rows",
                         w->name, w->sample, w->samples, w->row, w->rows);
    ok =
        write_at(w, w->starts, (w->samples + 1) * sizeof(*w->starts),
                 w->offsets[FIELD_STARTS], err) &&
        write_at(w, w->digests, w->samples * DIGITS, w->offsets[FIELD_SAMPLES], err) &&
        write_at(w, &vocabulary, sizeof(vocabulary), w->offsets[FIELD_VOCABULARY], err) &&
        write_at(w, w->kind.teacher, DIGITS, w->offsets[FIELD_TEACHER], err);
    if (ok && fsync(w->fd) != 0)
        ok = error_errno(err, "cannot flush %s", w->temp_name);
    if (ok && walk_rename(w->temp_name, w->name) != 0)
        ok = error_errno(err, "cannot rename %s to %s", w->temp_name, w->name);
    if (!ok)
        return false;
    free(w->temp_name);
    w->temp_name = NULL;
    dir = path_dir(w->name);
    ok = file_sync_dir(dir, err);
    free(dir);
    return ok;
}

void teacher_writer_free(struct teacher_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->fd >= 0 && writer->temp_name)
        walk_unlink(writer->temp_name);
    free(writer->name);
    free(writer->temp_name);
    free(writer->starts);
    free(writer->digests);
    free(writer->packed);
    free(writer);
}
