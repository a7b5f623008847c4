/* train/dataset/dataset_cache.c - token file: written in one pass, mapped and
 * validated. */
#include "config.h"

#include "train/dataset/dataset_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/shared_files.h"
#include "base/size.h"
#include "base/walk.h"
#include "train/dataset/dataset_key.h"

enum { CACHE_FORMAT = 4, ALIGNMENT = 64, LABEL_BYTES = 16 };

#define HEADER_MAX    ((size_t)64 << 20)
#define DIGEST_DIGITS ((size_t)DIGEST_TEXT - 1)
#define PART_BYTES    ((size_t)4 << 20) /* between two ticks */
/* A file that was written less than this long before it was read may have changed
 * since. */
#define CHANGED_SECONDS 0.02

static const char label[] = "TSTOKENS";

/* ---- Writing ---- */

/* A file being written. */
struct output {
    int fd;
    struct digest *digest;
    struct heartbeat *heartbeat;
};

static bool write_bytes(struct output *output, const void *data, size_t len,
                        struct error *err)
{
    for (size_t at = 0, part; at < len; at += part) {
        const char *from = (const char *)data + at;

        part = size_min(len - at, PART_BYTES);
        digest_add(output->digest, from, part);
        if (!heartbeat_continue(output->heartbeat, "saving the tokens", err) ||
            !file_write_all(output->fd, from, part, err))
            return false;
    }
    return true;
}

static json_t *describe_parts(const struct dataset_tokens *tokens, size_t sources)
{
    json_t *parts = json_array();

    for (size_t i = 0; i < sources; i++)
        json_array_append_new(parts, json_integer((json_int_t)tokens->parts[i]));
    return parts;
}

static json_t *describe_notes(const struct dataset_tokens *tokens)
{
    json_t *notes = json_array();

    for (size_t i = 0; i < tokens->notes.count; i++)
        json_array_append_new(notes,
                              json_pack("{s s, s b}", "text", tokens->notes.list[i].text,
                                        "info", (int)tokens->notes.list[i].is_info));
    return notes;
}

/* Write the header; takes ownership of key and files. */
static bool write_header(struct output *output, const struct dataset_reading *reading,
                         const struct dataset_tokens *tokens, json_t *key, json_t *files,
                         struct error *err)
{
    const struct dataset_store *store = &tokens->store;
    json_t *header = json_pack(
        "{s:i, s:o, s:o, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I}",
        "format", CACHE_FORMAT, "key", key, "files", files, "kept",
        (json_int_t)reading->started, "parts",
        describe_parts(tokens, reading->sources.count), "notes", describe_notes(tokens),
        "samples", (json_int_t)store->count, "runs", (json_int_t)store->span_count,
        "tokens", (json_int_t)store->tokens, "token_max", (json_int_t)store->token_max,
        "weighted", store->weighted, "media", (json_int_t)store->media_count,
        "media_runs", (json_int_t)store->media_span_count, "strings",
        (json_int_t)store->string_bytes);
    struct text text;
    uint64_t len;
    bool ok;

    text_init(&text, HEADER_MAX);
    json_write(header, &text);
    json_decref(header);
    while (!text.overflow && (LABEL_BYTES + text.len) % ALIGNMENT != 0)
        text_addc(&text, ' ');
    len = text.len;
    ok = text.overflow
             ? error_set(err, ERROR_SYSTEM, "the list of files is too long")
             : write_bytes(output, label, 8, err) && write_bytes(output, &len, 8, err) &&
                   write_bytes(output, text.data, text.len, err);
    text_clear(&text);
    return ok;
}

static bool write_arrays(struct output *output, const struct dataset_store *store,
                         struct error *err)
{
    return write_bytes(output, store->samples, store->count * sizeof(*store->samples),
                       err) &&
           write_bytes(output, store->media, store->media_count * sizeof(*store->media),
                       err) &&
           write_bytes(output, store->spans, store->span_count * sizeof(*store->spans),
                       err) &&
           write_bytes(output, store->media_spans,
                       store->media_span_count * sizeof(*store->media_spans), err) &&
           write_bytes(output, store->ids, store->tokens * sizeof(*store->ids), err) &&
           write_bytes(output, store->strings, store->string_bytes, err);
}

static bool write_all(int fd, const struct dataset_reading *reading,
                      const struct dataset_tokens *tokens, json_t *key, json_t *files,
                      struct error *err)
{
    struct output output = { fd, digest_new(), tokenizer_heartbeat(reading->tokenizer) };
    char digest[DIGEST_TEXT];
    bool ok = write_header(&output, reading, tokens, key, files, err) &&
              write_arrays(&output, &tokens->store, err);

    digest_end(output.digest, digest);
    if (!ok || !file_write_all(fd, digest, DIGEST_DIGITS, err))
        return false;
    return fsync(fd) == 0 || error_errno(err, "cannot flush the tokens");
}

/* A file system that is shared may not let a machine see the locks of another one. */
static void name_temporary(const char *name, struct text *out)
{
    char *dir = path_dir(name), host[65] = "";

    text_addf(out, "%s.new", name);
    if (shared_files_at(dir) && gethostname(host, sizeof(host) - 1) == 0)
        text_addf(out, "-%s", host);
    free(dir);
}

/* Open the temporary file, which is renamed to the final name. The lock admits one writer
 * at a time. Only a file that still has the temporary name is truncated, because after
 * the rename other processes map it. Return -1 if another process holds the lock, or with
 * *err set. */
static int open_temporary(const char *temporary, struct error *err)
{
    int fd = walk_open(temporary, O_RDWR | O_CREAT, 0666);
    struct stat ours, named;

    if (fd < 0) {
        error_errno(err, "cannot create %s", temporary);
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &ours) == 0 &&
        stat(temporary, &named) == 0 && ours.st_ino == named.st_ino &&
        ours.st_dev == named.st_dev) {
        if (ftruncate(fd, 0) == 0)
            return fd;
        error_errno(err, "cannot empty %s", temporary);
    }
    close(fd);
    return -1;
}

/* Return whether none of the files was written since reading started. */
static bool are_unchanged(const struct dataset_reading *reading, const json_t *files)
{
    json_t *file;
    size_t i;

    json_array_foreach(files, i, file)
    {
        const json_t *mtime = json_object_get(file, "mtime");

        if (json_number_value(json_array_get(mtime, 0)) +
                1e-9 * json_number_value(json_array_get(mtime, 1)) >
            reading->started - CHANGED_SECONDS)
            return false;
    }
    return true;
}

static bool publish(int fd, const char *temporary, const char *name, bool written,
                    struct error *err)
{
    char *dir = path_dir(name);
    bool ok = written;

    if (ok && walk_rename(temporary, name) != 0)
        ok = error_errno(err, "cannot rename %s", temporary);
    if (!ok)
        walk_unlink(temporary);
    close(fd);
    ok = ok && file_sync_dir(dir, err);
    free(dir);
    return ok;
}

bool dataset_cache_save(const struct dataset_reading *reading, const char *name,
                        const struct dataset_tokens *tokens, struct error *err)
{
    json_t *key = dataset_key_options(reading, err);
    json_t *files = key ? dataset_key_files(reading, err) : NULL;
    struct text temporary;
    bool ok = files != NULL;
    int fd = -1;

    text_init(&temporary, 0);
    name_temporary(name, &temporary);
    if (ok && are_unchanged(reading, files)) {
        fd = open_temporary(temporary.data, err);
        ok = fd >= 0 || !err || err->code == ERROR_NONE;
    }
    if (fd >= 0) {
        ok = write_all(fd, reading, tokens, key, files, err);
        ok = publish(fd, temporary.data, name, ok, err);
    } else {
        json_decref(key);
        json_decref(files);
    }
    text_clear(&temporary);
    return ok;
}

/* ---- Reading ---- */

/* A file that is being checked. */
struct input {
    const char *data;
    size_t len;
    json_t *header;
    size_t at; /* offset of the arrays */
};

static bool map(const char *name, struct input *input, struct text *why)
{
    int fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    void *data = MAP_FAILED;

    if (fd < 0) {
        if (errno != ENOENT)
            text_addf(why, "it cannot be opened: %s", strerror(errno));
        return false;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED) {
        text_adds(why, "it is damaged");
        return false;
    }
    input->data = data;
    input->len = (size_t)st.st_size;
    return true;
}

static bool read_header(struct input *input)
{
    uint64_t len;

    if (input->len < LABEL_BYTES + DIGEST_DIGITS || memcmp(input->data, label, 8) != 0)
        return false;
    memcpy(&len, input->data + 8, sizeof(len));
    if (len > HEADER_MAX || len > input->len - LABEL_BYTES - DIGEST_DIGITS)
        return false;
    input->at = LABEL_BYTES + (size_t)len;
    input->header = json_read_text(input->data + LABEL_BYTES, (size_t)len, "", 1, NULL);
    return json_is_object(input->header);
}

/* False also if a stop ends it. */
static bool digest_fits(const struct input *input, struct heartbeat *heartbeat)
{
    size_t len = input->len - DIGEST_DIGITS;
    struct digest *digest = digest_new();
    char text[DIGEST_TEXT];
    bool ok = true;

    for (size_t at = 0; ok && at < len; at += PART_BYTES) {
        digest_add(digest, input->data + at, size_min(len - at, PART_BYTES));
        ok = heartbeat_tick(heartbeat);
    }
    digest_end(digest, text);
    return ok && memcmp(text, input->data + len, DIGEST_DIGITS) == 0;
}

/* A non-negative integer that counts elements of `size` bytes in the file. */
static size_t count_of(const struct input *input, const char *key, size_t size, bool *ok)
{
    int64_t count = json_integer_value(json_object_get(input->header, key));

    *ok = *ok && count >= 0 && (uint64_t)count <= input->len / size;
    return *ok ? (size_t)count : 0;
}

/* Set the arrays to pointers into the file; they must fill it exactly. */
static bool set_arrays(const struct input *input, struct dataset_store *out)
{
    int64_t token_max = json_integer_value(json_object_get(input->header, "token_max"));
    char *at = (char *)(uintptr_t)(input->data + input->at);
    bool ok = input->at % ALIGNMENT == 0 && token_max >= 0 && token_max <= UINT32_MAX;

    out->count = count_of(input, "samples", sizeof(*out->samples), &ok);
    out->span_count = count_of(input, "runs", sizeof(*out->spans), &ok);
    out->tokens = count_of(input, "tokens", sizeof(*out->ids), &ok);
    out->media_count = count_of(input, "media", sizeof(*out->media), &ok);
    out->media_span_count = count_of(input, "media_runs", sizeof(*out->media_spans), &ok);
    out->string_bytes = count_of(input, "strings", 1, &ok);
    out->token_max = (uint32_t)token_max;
    out->weighted = json_is_true(json_object_get(input->header, "weighted"));
    out->samples = (struct sample *)(void *)at;
    at += out->count * sizeof(*out->samples);
    out->media = (struct stored_medium *)(void *)at;
    at += out->media_count * sizeof(*out->media);
    out->spans = (struct label_span *)(void *)at;
    at += out->span_count * sizeof(*out->spans);
    out->media_spans = (struct media_span *)(void *)at;
    at += out->media_span_count * sizeof(*out->media_spans);
    out->ids = (uint32_t *)(void *)at;
    at += out->tokens * sizeof(*out->ids);
    out->strings = at;
    at += out->string_bytes;
    return ok && (size_t)(at - input->data) == input->len - DIGEST_DIGITS;
}

/* Return whether the media have texts that end. */
static bool media_are_valid(const struct dataset_store *store)
{
    for (size_t i = 0; i < store->media_count; i++) {
        const struct stored_medium *medium = &store->media[i];

        if (medium->path >= store->string_bytes || medium->key >= store->string_bytes ||
            medium->source >= store->string_bytes || medium->kind >= MEDIA_KINDS ||
            medium->rows == 0)
            return false;
    }
    return store->string_bytes == 0 || store->strings[store->string_bytes - 1] == 0;
}

/* Return whether the media of a sample follow one another, each with as many tokens as it
 * has rows. */
static bool spans_are_valid(const struct dataset_store *store, const struct sample *s)
{
    const uint32_t *ids = store->ids + s->at;
    uint32_t end = 0;

    if (s->media_at > store->media_span_count ||
        s->media > store->media_span_count - s->media_at)
        return false;
    for (uint32_t m = 0; m < s->media; m++) {
        const struct media_span *span = &store->media_spans[s->media_at + m];
        uint32_t rows = 0;

        if (span->start < end || span->start > s->len ||
            span->len > s->len - span->start || span->medium >= store->media_count)
            return false;
        end = span->start + span->len;
        for (uint32_t i = span->start; i < end; i++)
            rows += ids[i] == store->media[span->medium].token;
        if (rows != store->media[span->medium].rows)
            return false;
    }
    return true;
}

/* Return whether all samples are within the arrays; others would cause reads out of
 * bounds. */
static bool is_valid(const struct dataset_store *store)
{
    if (!media_are_valid(store))
        return false;
    for (size_t i = 0; i < store->count; i++) {
        const struct sample *s = &store->samples[i];

        if (s->at > store->tokens || s->len > store->tokens - s->at ||
            s->span_at > store->span_count || s->spans > store->span_count - s->span_at ||
            s->targets > s->len || !(s->weight >= 0) || !spans_are_valid(store, s))
            return false;
        for (uint32_t r = 0; r < s->spans; r++) {
            const struct label_span *span = &store->spans[s->span_at + r];

            if (span->start > s->len || span->len > s->len - span->start ||
                !(span->weight != 0 && isfinite(span->weight)))
                return false;
        }
    }
    return true;
}

static bool read_parts(const struct input *input, size_t sources,
                       struct dataset_tokens *out)
{
    const json_t *parts = json_object_get(input->header, "parts");
    size_t remaining = out->store.count;

    if (json_array_size(parts) != sources)
        return false;
    out->parts = memory_alloc((sources + 1) * sizeof(size_t));
    for (size_t i = 0; i < sources; i++) {
        int64_t part = json_integer_value(json_array_get(parts, i));

        if (part < 0 || (uint64_t)part > remaining)
            return false;
        out->parts[i] = (size_t)part;
        remaining -= (size_t)part;
    }
    return remaining == 0;
}

static void read_notes(const struct input *input, struct dataset_tokens *out)
{
    json_t *note;
    size_t i;

    json_array_foreach(json_object_get(input->header, "notes"), i,
                       note) if (json_object_get(note,
                                                 "text"))(
        json_is_true(json_object_get(note, "info")) ? dataset_notes_add_info
                                                    : dataset_notes_add)(
        &out->notes, json_string_value(json_object_get(note, "text")));
}

/* Name the first option that differs. */
static void explain_option(const json_t *key, const json_t *was, struct text *why)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)key, name,
                        value) if (!json_equal(value, json_object_get(was, name)))
    {
        text_addf(why, "%s differs", name);
        return;
    }
    text_adds(why, "its format differs");
}

static bool matches(const struct dataset_reading *reading, const struct input *input,
                    const json_t *key, struct text *why)
{
    const json_t *was = json_object_get(input->header, "key");
    int64_t format = json_integer_value(json_object_get(input->header, "format"));

    if (format != CACHE_FORMAT || !json_equal(key, was)) {
        explain_option(key, was, why);
        return false;
    }
    return dataset_key_matches(reading, json_object_get(input->header, "files"),
                               json_integer_value(json_object_get(input->header, "kept")),
                               why);
}

/* Return whether the files of media are those that were read. One whose time is unknown is
 * named by its content. */
static bool media_match(const struct dataset_store *store, int64_t kept,
                        struct heartbeat *heartbeat, struct text *why)
{
    for (size_t i = 0; i < store->media_count; i++) {
        const struct stored_medium *medium = &store->media[i];
        const char *path = store->strings + medium->path;

        if (medium->bytes > 0 &&
            !dataset_key_medium_matches(medium, path, kept, heartbeat)) {
            text_addf(why, "%s has changed", path);
            return false;
        }
    }
    return true;
}

/* Do the cheap checks first: most files that do not fit are intact. */
static bool load(const struct dataset_reading *reading, struct input *input,
                 const json_t *key, struct dataset_tokens *out, struct text *why)
{
    if (!read_header(input)) {
        text_adds(why, "it is damaged");
        return false;
    }
    if (!matches(reading, input, key, why))
        return false;
    if (!digest_fits(input, tokenizer_heartbeat(reading->tokenizer)) ||
        !set_arrays(input, &out->store) || !is_valid(&out->store) ||
        !read_parts(input, reading->sources.count, out)) {
        text_adds(why, "it is damaged");
        return false;
    }
    if (!media_match(&out->store,
                     json_integer_value(json_object_get(input->header, "kept")),
                     tokenizer_heartbeat(reading->tokenizer), why))
        return false;
    read_notes(input, out);
    return true;
}

bool dataset_cache_find(const struct dataset_reading *reading, const char *name,
                        struct dataset_tokens *out, bool *found, struct text *why,
                        struct error *err)
{
    json_t *key = dataset_key_options(reading, err);
    struct input input = { 0 };

    *found = false;
    if (!key)
        return false;
    if (map(name, &input, why)) {
        *found = load(reading, &input, key, out, why);
        if (*found) {
            out->store.mapping = (void *)(uintptr_t)input.data;
            out->store.mapped = input.len;
            /* the digest has read all of it; a batch needs few pages at a time */
            madvise(out->store.mapping, out->store.mapped, MADV_DONTNEED);
        } else {
            munmap((void *)(uintptr_t)input.data, input.len);
            free(out->parts);
            *out = (struct dataset_tokens) { 0 };
        }
        json_decref(input.header);
    }
    json_decref(key);
    return true;
}
