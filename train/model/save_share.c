/*
 * train/model/save_share.c - what the ranks write, in rounds.
 *
 * In a round each writer gets the next chunk of its file.  All chunks are read first, for
 * which ranks may have to send parts of them, in the same order everywhere; then all writers
 * write theirs.  So they hash and write at the same time, and none waits for the disk of
 * another while it reads.
 */
#include "config.h"

#include "train/model/save_share.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/walk.h"
#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"

#define CHUNK_BYTES ((size_t)32 << 20)

/* Where a writer is in the list of files. */
struct writer_place {
    size_t file, end;  /* those of this writer, from the next one on */
    size_t source, at; /* of the next chunk: its tensor, and bytes in it */
};

struct chunk {
    const struct tensor_source *source; /* NULL: a file without tensors */
    size_t file, at, bytes;
    bool starts, ends; /* the file */
};

/* The file that this rank is writing. */
struct own_file {
    struct safetensors_writer *writer; /* NULL: none, or it failed */
    char *temporary;
    void *buffer;
    size_t room;
};

struct sharing {
    struct save_share *share;
    const struct save_file *files;
    struct writer_place *places; /* by writer */
    size_t *ranks;               /* by writer */
    size_t writers;
    struct own_file own;
};

void save_share_fail(struct save_share *share, const struct error *err)
{
    if (share->failed.code == ERROR_NONE)
        share->failed = *err;
}

/* ---- Chunks ---- */

static size_t bytes_of(const struct tensor_source *source)
{
    size_t bytes = 0;

    safetensors_source_bytes(source, &bytes, NULL);
    return bytes;
}

static size_t chunk_length(const struct tensor_source *source, size_t at)
{
    size_t rest = bytes_of(source) - at, most;

    if (!source->read_part)
        return rest;
    most = CHUNK_BYTES > source->part ? CHUNK_BYTES / source->part * source->part
                                      : source->part;
    return rest < most ? rest : most;
}

/* Return the next chunk of a writer; false: it has none. */
static bool next_chunk(const struct sharing *s, struct writer_place *place,
                       struct chunk *out)
{
    const struct save_file *file;

    if (place->file == place->end)
        return false;
    file = &s->files[place->file];
    *out = (struct chunk) { .file = place->file,
                            .at = place->at,
                            .starts = place->source == 0 && place->at == 0 };
    if (place->source < file->count) {
        out->source = &file->sources[place->source];
        out->bytes = chunk_length(out->source, place->at);
        place->at += out->bytes;
        if (place->at == bytes_of(out->source)) {
            place->source++;
            place->at = 0;
        }
    }
    out->ends = place->source == file->count;
    if (out->ends) {
        place->file++;
        place->source = 0;
    }
    return true;
}

/* ---- The own file ---- */

static void give_up(struct sharing *s, const struct error *err)
{
    safetensors_abandon(s->own.writer);
    s->own.writer = NULL;
    save_share_fail(s->share, err);
}

static bool has_failed(const struct sharing *s)
{
    return s->share->failed.code != ERROR_NONE;
}

/* The old file may be mapped, or be the last good one. */
static void start_file(struct sharing *s, const struct chunk *chunk)
{
    const struct save_file *file = &s->files[chunk->file];
    struct error why = { 0 };
    struct text text;

    text_init(&text, 0);
    text_addf(&text, "%s/.%s.tmp", s->share->dir, file->name);
    s->own.temporary = text_detach(&text, NULL);
    walk_unlink(s->own.temporary);
    s->own.writer =
        safetensors_create(s->own.temporary, file->sources, file->count, &why);
    if (!s->own.writer)
        save_share_fail(s->share, &why);
}

static void end_file(struct sharing *s, const struct chunk *chunk)
{
    const char *base = s->files[chunk->file].name;
    char *name = path_join(s->share->dir, base);
    struct manifest_file written;
    struct error why = { 0 };
    bool ok = safetensors_finish(s->own.writer, &written, &why);

    s->own.writer = NULL;
    if (ok && walk_rename(s->own.temporary, name) != 0) {
        ok = error_errno(&why, "cannot rename %s", s->own.temporary);
        walk_unlink(s->own.temporary);
    }
    if (ok)
        manifest_note(s->share->known, base, &written);
    else
        save_share_fail(s->share, &why);
    free(name);
}

static void write_chunk(struct sharing *s, const struct chunk *chunk)
{
    struct error why = { 0 };

    if (chunk->starts && !has_failed(s))
        start_file(s, chunk);
    if (s->own.writer &&
        !safetensors_append(s->own.writer, s->own.buffer, chunk->bytes, &why))
        give_up(s, &why);
    if (chunk->ends && s->own.writer)
        end_file(s, chunk);
    if (chunk->ends) {
        free(s->own.temporary);
        s->own.temporary = NULL;
    }
}

/* ---- Rounds ---- */

static bool read_chunk(const struct chunk *chunk, void *to, struct error *err)
{
    const struct tensor_source *source = chunk->source;

    if (source->read_part)
        return source->read_part(source->context, source->index, chunk->at, chunk->bytes,
                                 to, err);
    return source->read(source->context, source->index, to, err);
}

static bool make_room(struct own_file *own, size_t bytes, const char *name,
                      struct error *err)
{
    if (own->buffer && bytes <= own->room)
        return true;
    free(own->buffer);
    own->room = bytes;
    own->buffer = malloc(bytes + 1);
    return own->buffer ||
           error_set(err, ERROR_SYSTEM, "%s: no memory for %zu bytes", name, bytes);
}

/* Read a chunk of this rank.  What others take part in must not fail in one of them. */
static bool read_own(struct sharing *s, const struct chunk *chunk, struct error *err)
{
    struct error why = { 0 };
    bool together = chunk->source->shared && s->share->ranks > 1;

    if (has_failed(s) && !together)
        return true;
    if (make_room(&s->own, chunk->bytes, chunk->source->name, &why) &&
        read_chunk(chunk, s->own.buffer, &why))
        return true;
    if (together)
        return error_set(err, why.code, "%s", why.text);
    give_up(s, &why);
    return true;
}

/* Read the chunks of all writers; *own is that of this rank. */
static bool read_round(struct sharing *s, struct model *model, struct chunk *own,
                       bool *writes, bool *ended, struct error *err)
{
    bool ok = true;

    *writes = false;
    *ended = true;
    for (size_t i = 0; ok && i < s->writers; i++) {
        struct chunk chunk;

        if (!next_chunk(s, &s->places[i], &chunk))
            continue;
        *ended = false;
        if (s->share->ranks > 1)
            model_set_writer(model, s->ranks[i]);
        if (s->ranks[i] == s->share->rank) {
            *writes = true;
            *own = chunk;
            ok = !chunk.source || read_own(s, &chunk, err);
        } else if (chunk.source && chunk.source->shared) {
            ok = read_chunk(&chunk, NULL, err);
        }
    }
    if (s->share->ranks > 1)
        model_set_writer(model, SIZE_MAX);
    return ok;
}

/* Give each writer the same number of files, up to one. */
static void assign(struct sharing *s, size_t count)
{
    const struct save_share *share = s->share;

    s->places = memory_alloc(share->ranks * sizeof(*s->places));
    s->ranks = memory_alloc(share->ranks * sizeof(*s->ranks));
    for (size_t r = 0; r < share->ranks; r++)
        if (share->ranks == 1 || !share->absent || !share->absent[r])
            s->ranks[s->writers++] = share->ranks == 1 ? share->rank : r;
    for (size_t i = 0; i < s->writers; i++) {
        /* file f is that of writer f * writers / count, rounded down */
        s->places[i].file = (i * count + s->writers - 1) / s->writers;
        s->places[i].end = ((i + 1) * count + s->writers - 1) / s->writers;
    }
}

bool save_share_write(struct save_share *share, struct model *model,
                      const struct save_file *files, size_t count, struct error *err)
{
    struct sharing s = { .share = share, .files = files };
    bool ok = true, ended = false;

    assign(&s, count);
    while (ok && !ended) {
        struct chunk own;
        bool writes;

        ok = read_round(&s, model, &own, &writes, &ended, err);
        if (ok && writes)
            write_chunk(&s, &own);
    }
    ok = ok && (share->ranks == 1 || model->be->ops->sync(model->be, err));
    safetensors_abandon(s.own.writer);
    free(s.own.temporary);
    free(s.own.buffer);
    free(s.places);
    free(s.ranks);
    return ok;
}

void save_share_write_own(struct save_share *share, const struct save_file *file)
{
    struct save_share alone = *share;
    struct sharing s = { .share = &alone, .files = file };
    struct error why = { 0 };
    struct chunk chunk;

    alone.ranks = 1;
    assign(&s, 1);
    while (next_chunk(&s, &s.places[0], &chunk)) {
        if (chunk.source && !read_own(&s, &chunk, &why))
            give_up(&s, &why);
        write_chunk(&s, &chunk);
    }
    share->failed = alone.failed;
    free(s.own.buffer);
    free(s.places);
    free(s.ranks);
}
