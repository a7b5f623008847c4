/* train/files/zip_write.c - writer of zip archives without compression.
 *
 * Format: PKWARE, "APPNOTE.TXT - .ZIP File Format Specification", 6.3.  Every record has
 * the 64-bit form, because an optimizer's state can exceed 4 GiB.  Sizes and offsets of
 * the 32-bit form are then all ones. */
#include "config.h"

#include "train/files/zip_write.h"

#include <string.h>
#include <zlib.h>

#include "base/file.h"

enum signature {
    LOCAL_HEADER = 0x04034b50,
    CENTRAL_HEADER = 0x02014b50,
    END = 0x06054b50,
    END_64 = 0x06064b50,
    END_64_LOCATOR = 0x07064b50,
};

enum { ZIP_VERSION = 45, EXTRA_64 = 0x0001, EXTRA_PADDING = 0x4246 /* torch's "FB" */ };

#define LOCAL_BYTES ((size_t)30) /* before the name */
#define EXTRA_BYTES ((size_t)4)  /* identifier and length of an extra field */
#define END_64_REST ((uint64_t)44)
#define IN_64       UINT32_MAX /* the value is in the 64-bit form */
#define DATE        0x21       /* 1980-01-01: the same state gives the same bytes */

static void add(struct text *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        text_addc(out, (char)(value >> (8 * i) & 0xff));
}

/* Add the fields that local and central headers share, from version to name length. */
static void add_common(struct text *out, const char *name, uint32_t crc)
{
    add(out, ZIP_VERSION, 2); /* required to read it */
    add(out, 0, 2);           /* flags */
    add(out, 0, 2);           /* method: stored */
    add(out, 0, 2);           /* time */
    add(out, DATE, 2);
    add(out, crc, 4);
    add(out, IN_64, 4); /* compressed bytes */
    add(out, IN_64, 4);
    add(out, strlen(name), 2);
}

static void add_sizes(struct text *out, size_t fields, uint64_t bytes)
{
    add(out, EXTRA_64, 2);
    add(out, 8 * fields, 2);
    add(out, bytes, 8);
    add(out, bytes, 8);
}

static void add_local(struct text *out, const struct zip *zip, const char *name,
                      uint32_t crc, size_t len)
{
    size_t sizes = EXTRA_BYTES + 16;
    size_t end = zip->at + LOCAL_BYTES + strlen(name) + sizes + EXTRA_BYTES;
    size_t padding = (ZIP_ALIGNMENT - end % ZIP_ALIGNMENT) % ZIP_ALIGNMENT;

    add(out, LOCAL_HEADER, 4);
    add_common(out, name, crc);
    add(out, sizes + EXTRA_BYTES + padding, 2);
    text_adds(out, name);
    add_sizes(out, 2, len);
    add(out, EXTRA_PADDING, 2);
    add(out, padding, 2);
    for (size_t i = 0; i < padding; i++)
        text_addc(out, 'Z');
}

static void add_central(struct zip *zip, const char *name, uint32_t crc, size_t len)
{
    struct text *out = &zip->directory;

    add(out, CENTRAL_HEADER, 4);
    add(out, ZIP_VERSION, 2); /* made by */
    add_common(out, name, crc);
    add(out, EXTRA_BYTES + 24, 2);
    add(out, 0, 2);     /* comment */
    add(out, 0, 2);     /* disk */
    add(out, 0, 2);     /* internal attributes */
    add(out, 0, 4);     /* external attributes */
    add(out, IN_64, 4); /* offset */
    text_adds(out, name);
    add_sizes(out, 3, len);
    add(out, zip->at, 8);
}

void zip_init(struct zip *zip, int fd)
{
    *zip = (struct zip) { .fd = fd };
    text_init(&zip->directory, 0);
}

void zip_clear(struct zip *zip)
{
    text_clear(&zip->directory);
}

static bool write_all(struct zip *zip, const void *data, size_t len, struct error *err)
{
    zip->at += len;
    return file_write_all(zip->fd, data, len, err);
}

bool zip_add(struct zip *zip, const char *name, const void *data, size_t len,
             struct error *err)
{
    uint32_t crc = (uint32_t)crc32_z(0, data, len);
    struct text header;
    bool ok;

    text_init(&header, 0);
    add_local(&header, zip, name, crc, len);
    add_central(zip, name, crc, len);
    zip->files++;
    ok = write_all(zip, header.data, header.len, err) && write_all(zip, data, len, err);
    text_clear(&header);
    return ok;
}

bool zip_finish(struct zip *zip, struct error *err)
{
    struct text *out = &zip->directory;
    uint64_t start = zip->at, bytes = out->len;

    add(out, END_64, 4);
    add(out, END_64_REST, 8);
    add(out, ZIP_VERSION, 2);
    add(out, ZIP_VERSION, 2);
    add(out, 0, 4); /* this disk */
    add(out, 0, 4); /* disk of the directory */
    add(out, zip->files, 8);
    add(out, zip->files, 8);
    add(out, bytes, 8);
    add(out, start, 8);

    add(out, END_64_LOCATOR, 4);
    add(out, 0, 4);
    add(out, start + bytes, 8);
    add(out, 1, 4); /* disks */

    add(out, END, 4);
    add(out, 0, 2);
    add(out, 0, 2);
    add(out, UINT16_MAX, 2);
    add(out, UINT16_MAX, 2);
    add(out, IN_64, 4);
    add(out, IN_64, 4);
    add(out, 0, 2); /* comment */
    return write_all(zip, out->data, out->len, err);
}
