/* train/tables/table_unpack.c - the compression codecs of Parquet pages and Arrow
 * buffers, by their libraries. */
#include "config.h"

#include <stdlib.h>
#include <zlib.h>

#include "train/tables/table_internal.h"

#ifdef HAVE_SNAPPY
#include <snappy-c.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef HAVE_LZ4
#include <lz4.h>
#include <lz4frame.h>
#endif

/* Text has a ratio of 2 to 100; a smaller piece is not checked. */
#define RATIO_MAX  1000
#define FREE_BYTES ((uint64_t)1 << 20)

typedef bool unpack(struct table_bytes packed, uint8_t *out, size_t size);

static bool unpack_gzip(struct table_bytes packed, uint8_t *out, size_t size)
{
    z_stream stream = { .next_in = (uint8_t *)packed.data,
                        .avail_in = (unsigned)packed.len,
                        .next_out = out,
                        .avail_out = (unsigned)size };
    int end;

    if (inflateInit2(&stream, 15 + 32) != Z_OK) /* gzip or zlib, by its header */
        return false;
    end = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    return end == Z_STREAM_END && stream.avail_out == 0;
}

#ifdef HAVE_SNAPPY
static bool unpack_snappy(struct table_bytes packed, uint8_t *out, size_t size)
{
    size_t len = size, found;

    return snappy_uncompressed_length((const char *)packed.data, packed.len, &found) ==
               SNAPPY_OK &&
           found == size &&
           snappy_uncompress((const char *)packed.data, packed.len, (char *)out, &len) ==
               SNAPPY_OK &&
           len == size;
}
#else
#define unpack_snappy NULL
#endif

#ifdef HAVE_ZSTD
static bool unpack_zstd(struct table_bytes packed, uint8_t *out, size_t size)
{
    return ZSTD_decompress(out, size, packed.data, packed.len) == size;
}
#else
#define unpack_zstd NULL
#endif

#ifdef HAVE_LZ4
static bool unpack_lz4(struct table_bytes packed, uint8_t *out, size_t size)
{
    return LZ4_decompress_safe((const char *)packed.data, (char *)out, (int)packed.len,
                               (int)size) == (int)size;
}

static bool unpack_lz4_frame(struct table_bytes packed, uint8_t *out, size_t size)
{
    LZ4F_dctx *context;
    size_t made = 0, used = 0, left = 1;

    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        return false;
    while (left > 0 && used < packed.len) {
        size_t room = size - made, read = packed.len - used;

        left =
            LZ4F_decompress(context, out + made, &room, packed.data + used, &read, NULL);
        if (LZ4F_isError(left) || (room == 0 && read == 0))
            break;
        made += room;
        used += read;
    }
    LZ4F_freeDecompressionContext(context);
    return left == 0 && made == size;
}
#else
#define unpack_lz4       NULL
#define unpack_lz4_frame NULL
#endif

static const struct {
    const char *name, *package;
    unpack *unpack; /* NULL: not in this build */
} codecs[TABLE_CODECS] = {
    [TABLE_GZIP] = { "gzip", "zlib1g-dev", unpack_gzip },
    [TABLE_SNAPPY] = { "snappy", "libsnappy-dev", unpack_snappy },
    [TABLE_ZSTD] = { "zstd", "libzstd-dev", unpack_zstd },
    [TABLE_LZ4] = { "lz4", "liblz4-dev", unpack_lz4 },
    [TABLE_LZ4_FRAME] = { "lz4", "liblz4-dev", unpack_lz4_frame },
};

uint8_t *table_unpack(const struct table_packed *packed, const char *name,
                      struct error *err)
{
    enum table_codec codec = packed->codec;
    uint64_t size = packed->size, len = packed->bytes.len;
    uint8_t *out;

    if (!codecs[codec].unpack) {
        error_set(err, ERROR_DATA,
                  "%s is compressed with %s, which this build of trainspool cannot "
                  "unpack: install %s and build again",
                  name, codecs[codec].name, codecs[codec].package);
        return NULL;
    }
    out = size <= TABLE_UNPACKED_MAX && len <= TABLE_UNPACKED_MAX &&
                  size <= FREE_BYTES + RATIO_MAX * len
              ? malloc(size + 1)
              : NULL;
    if (!out) {
        error_set(err, ERROR_DATA,
                  "%s: a part of %llu bytes is too large; write smaller "
                  "row groups",
                  name, (unsigned long long)size);
        return NULL;
    }
    if (codecs[codec].unpack(packed->bytes, out, (size_t)size))
        return out;
    free(out);
    error_set(err, ERROR_DATA, "%s is damaged: a part cannot be unpacked with %s", name,
              codecs[codec].name);
    return NULL;
}
