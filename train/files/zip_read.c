/* train/files/zip_read.c - reader of the central directory of zip archives, with 64-bit
 * sizes.  Format: PKWARE, "APPNOTE.TXT - .ZIP File Format Specification", 6.3. */
#include "config.h"

#include "train/files/zip_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum signature {
    LOCAL_HEADER = 0x04034b50,
    CENTRAL_HEADER = 0x02014b50,
    END = 0x06054b50,
    END_64 = 0x06064b50,
    END_64_LOCATOR = 0x07064b50,
};

/* Bytes of each record before its names and extra fields. */
enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END_64_BYTES = 56,
};

enum { EXTRA_64 = 0x0001, ENCRYPTED = 1 };

#define COMMENT_MAX   ((uint64_t)UINT16_MAX)
#define DIRECTORY_MAX ((uint64_t)64 << 20) /* of a million files with short names */

static bool broken(const struct weights_file *file, struct error *err, const char *what)
{
    return error_set(err, ERROR_DATA, "%s: %s; the file is damaged or incomplete",
                     file->name, what);
}

static uint64_t get(const unsigned char *from, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* The extent of the directory, as the end of the archive states it. */
struct extent {
    uint64_t at, bytes, count;
};

/* Read the 64-bit end of the archive, if its locator precedes the end at `end`. */
static bool read_end_64(const struct weights_file *file, uint64_t end,
                        struct extent *extent, struct error *err)
{
    unsigned char locator[LOCATOR_BYTES], record[END_64_BYTES];
    uint64_t at;

    if (end < LOCATOR_BYTES)
        return true;
    if (!weights_file_read(file, locator, sizeof(locator), end - LOCATOR_BYTES, err))
        return false;
    if (get(locator, 4) != END_64_LOCATOR)
        return true;
    at = get(locator + 8, 8);
    if (at > end - LOCATOR_BYTES || end - LOCATOR_BYTES - at < END_64_BYTES)
        return broken(file, err, "the end of its zip archive is outside the file");
    if (!weights_file_read(file, record, sizeof(record), at, err))
        return false;
    if (get(record, 4) != END_64)
        return broken(file, err, "the end of its zip archive is missing");
    *extent = (struct extent) { .at = get(record + 48, 8),
                                .bytes = get(record + 40, 8),
                                .count = get(record + 32, 8) };
    return true;
}

/* Find the end of the archive, which only a comment may follow. */
static bool read_end(const struct weights_file *file, struct extent *extent,
                     struct error *err)
{
    uint64_t length = END_BYTES + COMMENT_MAX;
    unsigned char *tail;
    size_t at;
    bool ok;

    if (length > file->bytes)
        length = file->bytes;
    if (length < END_BYTES)
        return broken(file, err, "it is too short for a zip archive");
    tail = memory_alloc(length);
    ok = weights_file_read(file, tail, length, file->bytes - length, err);
    at = length - END_BYTES + 1;
    while (ok && at > 0 && get(tail + at - 1, 4) != END)
        at--;
    if (ok && at == 0)
        ok = broken(file, err, "the end of its zip archive is missing");
    if (ok) {
        *extent = (struct extent) { .at = get(tail + at - 1 + 16, 4),
                                    .bytes = get(tail + at - 1 + 12, 4),
                                    .count = get(tail + at - 1 + 10, 2) };
        ok = read_end_64(file, file->bytes - length + at - 1, extent, err);
    }
    free(tail);
    if (!ok)
        return false;
    if (extent->at > file->bytes || extent->bytes > file->bytes - extent->at ||
        extent->bytes > DIRECTORY_MAX || extent->count > extent->bytes / CENTRAL_BYTES)
        return broken(file, err, "the directory of its zip archive is outside the file");
    return true;
}

/* Replace the values that are all ones by those of the 64-bit extra field. */
static bool read_extra(struct zip_entry *entry, const unsigned char *extra, size_t len)
{
    uint64_t *const values[] = { &entry->bytes, NULL, &entry->header };
    bool needed[] = { entry->bytes == UINT32_MAX, false, entry->header == UINT32_MAX };

    /* packed and unpacked bytes are the same for a plain entry */
    needed[1] = needed[0];
    while (len >= 4) {
        size_t bytes = get(extra + 2, 2), at = 4;

        if (bytes > len - 4)
            return false;
        for (size_t i = 0; get(extra, 2) == EXTRA_64 && i < TS_COUNT(values); i++) {
            if (!needed[i])
                continue;
            if (at + 8 > bytes + 4)
                break;
            if (values[i])
                *values[i] = get(extra + at, 8);
            needed[i] = false;
            at += 8;
        }
        extra += 4 + bytes;
        len -= 4 + bytes;
    }
    return !needed[0] && !needed[2];
}

/* Read the entry at *at, and move to the next one. */
static bool read_entry(const struct text *bytes, size_t *at, struct arena *arena,
                       struct zip_entry *out)
{
    const unsigned char *from = (const unsigned char *)bytes->data + *at;
    size_t left = bytes->len - *at, name, extra, comment;

    if (left < CENTRAL_BYTES || get(from, 4) != CENTRAL_HEADER)
        return false;
    name = get(from + 28, 2);
    extra = get(from + 30, 2);
    comment = get(from + 32, 2);
    if (left - CENTRAL_BYTES < name + extra + comment ||
        memchr(from + CENTRAL_BYTES, 0, name))
        return false;
    *out = (struct zip_entry) {
        .name = arena_copy(arena, (const char *)from + CENTRAL_BYTES, name),
        .header = get(from + 42, 4),
        .bytes = get(from + 24, 4),
        .plain = get(from + 10, 2) == 0 && !(get(from + 8, 2) & ENCRYPTED) &&
                 get(from + 20, 4) == get(from + 24, 4),
    };
    *at += CENTRAL_BYTES + name + extra + comment;
    return read_extra(out, from + CENTRAL_BYTES + name, extra);
}

static int name_compare(const void *a, const void *b)
{
    const struct zip_entry *x = a, *y = b;

    return strcmp(x->name, y->name);
}

bool zip_directory_read(const struct weights_file *file, struct arena *arena,
                        struct zip_directory *out, struct error *err)
{
    struct extent extent = { 0 };
    struct text bytes;
    size_t at = 0;
    bool ok;

    if (!read_end(file, &extent, err))
        return false;
    bytes.len = extent.bytes;
    bytes.data = memory_alloc(extent.bytes + 1);
    ok = weights_file_read(file, bytes.data, bytes.len, extent.at, err);
    out->entries = arena_array(arena, extent.count + 1, sizeof(*out->entries));
    out->count = 0;
    while (ok && out->count < extent.count)
        ok = read_entry(&bytes, &at, arena, &out->entries[out->count++]) ||
             broken(file, err, "the directory of its zip archive is not valid");
    free(bytes.data);
    if (!ok)
        return false;
    qsort(out->entries, out->count, sizeof(*out->entries), name_compare);
    for (size_t i = 1; i < out->count; i++)
        if (strcmp(out->entries[i - 1].name, out->entries[i].name) == 0)
            return broken(file, err, "its zip archive has two files of the same name");
    return true;
}

const struct zip_entry *zip_directory_find(const struct zip_directory *directory,
                                           const char *name)
{
    const struct zip_entry key = { .name = name };

    return directory->count == 0 ? NULL
                                 : bsearch(&key, directory->entries, directory->count,
                                           sizeof(key), name_compare);
}

bool zip_entry_locate(const struct weights_file *file, const struct zip_entry *entry,
                      uint64_t *at, struct error *err)
{
    unsigned char header[LOCAL_BYTES];

    if (!entry->plain)
        return error_set(err, ERROR_DATA,
                         "%s: %s is compressed or encrypted, which torch.save never does",
                         file->name, entry->name);
    if (entry->header > file->bytes || file->bytes - entry->header < LOCAL_BYTES)
        return broken(file, err, "a file of its zip archive is outside it");
    if (!weights_file_read(file, header, sizeof(header), entry->header, err))
        return false;
    *at = entry->header + LOCAL_BYTES + get(header + 26, 2) + get(header + 28, 2);
    if (get(header, 4) != LOCAL_HEADER || *at > file->bytes ||
        entry->bytes > file->bytes - *at)
        return broken(file, err, "a file of its zip archive is outside it");
    return true;
}
