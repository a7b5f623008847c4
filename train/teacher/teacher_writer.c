/* train/teacher/teacher_writer.c - the file of what is kept of a teacher, made batch by batch:
 * rows go to their places as they come, what is of samples at the end. */
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
#include "base/size.h"
#include "train/files/safetensors.h"

#define DIGITS ((size_t)DIGEST_TEXT - 1)

/* In the order of the file. */
enum field {
    FIELD_IDS,
    FIELD_LOGITS,
    FIELD_STARTS,
    FIELD_SAMPLES,
    FIELD_WORDS,
    FIELD_TEACHER,
    FIELDS
};

struct teacher_writer {
    char *name, *beside; /* what it will be called, and is called until then */
    struct teacher_logits_kind kind;
    size_t samples, rows; /* that are to come */
    size_t sample, row;   /* that have */
    int64_t *starts;
    char *digests;
    size_t places[FIELDS]; /* bytes from the start of the file */
    char *packed;          /* rows of a batch that have a label */
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
        [FIELD_WORDS] = { .name = "words", .dtype = "I64", .rank = 1, .shape = { 1 } },
        [FIELD_TEACHER] = { .name = "teacher",
                            .dtype = "U8",
                            .rank = 1,
                            .shape = { DIGITS } },
    };

    memcpy(out, fields, sizeof(fields));
}

static bool put(const struct teacher_writer *w, const void *data, size_t bytes, size_t at,
                struct error *err)
{
    const char *from = data;

    while (bytes > 0) {
        ssize_t done = pwrite(w->fd, from, bytes, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return error_errno(err, "cannot write %s", w->beside);
        from += done;
        at += (size_t)done;
        bytes -= (size_t)done;
    }
    return true;
}

static bool put_header(struct teacher_writer *w, struct error *err)
{
    struct tensor_source fields[FIELDS];
    struct text header;
    bool ok;

    text_init(&header, 0);
    list_fields(w, fields);
    ok = safetensors_header(fields, FIELDS, &header, err);
    w->places[0] = header.len;
    for (size_t i = 0; i + 1 < FIELDS; i++) {
        size_t bytes = safetensors_item(fields[i].dtype) * fields[i].shape[0];

        w->places[i + 1] =
            w->places[i] + bytes * (fields[i].rank == 2 ? fields[i].shape[1] : 1);
    }
    ok = ok && put(w, header.data, header.len, 0, err);
    text_clear(&header);
    return ok;
}

/* The name until it is whole: of this process. */
static char *name_beside(const char *name)
{
    char *dir = path_dir(name), *beside, base[512];

    snprintf(base, sizeof(base), ".%s.tmp-%ld", path_base(name), (long)getpid());
    beside = path_join(dir, base);
    free(dir);
    return beside;
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
    w->beside = name_beside(name);
    w->starts = memory_resize(NULL, samples + 1, sizeof(*w->starts));
    w->starts[0] = 0;
    w->digests = memory_resize(NULL, samples + 1, DIGITS);
    w->fd = open(w->beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (w->fd < 0)
        error_errno(err, "cannot create %s", w->beside);
    else if (put_header(w, err))
        return w;
    teacher_writer_free(w);
    return NULL;
}

/* Rows with a label one behind the other; how many. */
static size_t pack_rows(struct teacher_writer *w, const struct batch *batch,
                        const void *numbers)
{
    size_t bytes = w->kind.kept * sizeof(float), count = 0;

    w->packed = memory_resize(w->packed, batch->rows, bytes);
    for (size_t n = 0; n < batch->rows; n++)
        if (batch->targets[n] >= 0)
            memcpy(w->packed + count++ * bytes, (const char *)numbers + n * bytes, bytes);
    return count;
}

static bool put_rows(struct teacher_writer *w, const struct batch *batch,
                     enum field field, const void *numbers, struct error *err)
{
    size_t bytes = w->kind.kept * sizeof(float), count = pack_rows(w, batch, numbers);

    if (w->row + count > w->rows)
        return error_set(err, ERROR_SYSTEM, "%s was begun for %zu rows", w->name,
                         w->rows);
    return put(w, w->packed, count * bytes, w->places[field] + w->row * bytes, err);
}

bool teacher_writer_add(struct teacher_writer *writer, const struct batch *batch,
                        const int32_t *ids, const float *values, struct error *err)
{
    struct teacher_writer *w = writer;

    if (w->sample + batch->sequences > w->samples)
        return error_set(err, ERROR_SYSTEM, "%s was begun for %zu samples", w->name,
                         w->samples);
    if (!put_rows(w, batch, FIELD_IDS, ids, err) ||
        !put_rows(w, batch, FIELD_LOGITS, values, err))
        return false;
    for (size_t run = 0; run < batch->sequences; run++) {
        char digest[DIGEST_TEXT];

        teacher_logits_digest(batch, run, digest);
        memcpy(w->digests + w->sample * DIGITS, digest, DIGITS);
        for (int32_t n = batch->offsets[run]; n < batch->offsets[run + 1]; n++)
            w->row += batch->targets[n] >= 0;
        w->starts[++w->sample] = (int64_t)w->row;
    }
    return true;
}

bool teacher_writer_end(struct teacher_writer *writer, struct error *err)
{
    struct teacher_writer *w = writer;
    int64_t words = (int64_t)w->kind.words;
    char *dir;
    bool ok;

    if (w->sample != w->samples || w->row != w->rows)
        return error_set(err, ERROR_SYSTEM,
                         "%s lacks samples: %zu of %zu, %zu rows of %zu", w->name,
                         w->sample, w->samples, w->row, w->rows);
    ok = put(w, w->starts, (w->samples + 1) * sizeof(*w->starts), w->places[FIELD_STARTS],
             err) &&
         put(w, w->digests, w->samples * DIGITS, w->places[FIELD_SAMPLES], err) &&
         put(w, &words, sizeof(words), w->places[FIELD_WORDS], err) &&
         put(w, w->kind.teacher, DIGITS, w->places[FIELD_TEACHER], err);
    if (ok && fsync(w->fd) != 0)
        ok = error_errno(err, "cannot flush %s", w->beside);
    if (ok && rename(w->beside, w->name) != 0)
        ok = error_errno(err, "cannot rename %s to %s", w->beside, w->name);
    if (!ok)
        return false;
    free(w->beside);
    w->beside = NULL;
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
    if (writer->fd >= 0 && writer->beside)
        unlink(writer->beside);
    free(writer->name);
    free(writer->beside);
    free(writer->starts);
    free(writer->digests);
    free(writer->packed);
    free(writer);
}
