/* train/files/gguf_write.c - writer of the format.  All numbers are little-endian; the data
 * of tensors begin at multiples of 32 bytes. */
#include "config.h"

#include "train/files/gguf_write.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"
#include "base/walk.h"
#include "precision/format.h"

enum { UINT32 = 4, FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };
enum { GGUF_VERSION = 3, ALIGNMENT = 32, BLOCK_BYTES = 2 + GGUF_BLOCK };

#define HEADER_MAX ((size_t)1 << 30)
#define SPAN       ((size_t)1 << 18) /* elements that are in memory, or one row */

static void put(struct gguf_values *values, uint64_t number, size_t bytes)
{
    char raw[8];

    for (size_t i = 0; i < bytes; i++)
        raw[i] = (char)(number >> (8 * i) & 0xff);
    if (!text_add(&values->bytes, raw, bytes))
        values->too_long = true;
}

static uint32_t float_bits(double value)
{
    float single = (float)value;
    uint32_t bits;

    memcpy(&bits, &single, sizeof(bits));
    return bits;
}

static void put_key(struct gguf_values *values, const char *key, uint32_t type)
{
    gguf_put_string(values, key, strlen(key));
    put(values, type, 4);
    values->count++;
}

void gguf_init(struct gguf_values *values)
{
    *values = (struct gguf_values) { .count = 0 };
    text_init(&values->bytes, HEADER_MAX);
}

void gguf_clear(struct gguf_values *values)
{
    text_clear(&values->bytes);
}

void gguf_put_int32(struct gguf_values *values, int32_t value)
{
    put(values, (uint32_t)value, 4);
}

void gguf_put_float32(struct gguf_values *values, double value)
{
    put(values, float_bits(value), 4);
}

void gguf_put_string(struct gguf_values *values, const char *string, size_t len)
{
    put(values, len, 8);
    if (!text_add(&values->bytes, string, len))
        values->too_long = true;
}

void gguf_add_string(struct gguf_values *values, const char *key, const char *string)
{
    put_key(values, key, STRING);
    gguf_put_string(values, string, strlen(string));
}

void gguf_add_uint32(struct gguf_values *values, const char *key, uint64_t value)
{
    put_key(values, key, UINT32);
    put(values, value, 4);
}

void gguf_add_float32(struct gguf_values *values, const char *key, double value)
{
    put_key(values, key, FLOAT32);
    gguf_put_float32(values, value);
}

void gguf_add_bool(struct gguf_values *values, const char *key, bool value)
{
    put_key(values, key, BOOL);
    put(values, value, 1);
}

void gguf_add_array(struct gguf_values *values, const char *key, enum gguf_element type,
                    size_t count)
{
    put_key(values, key, ARRAY);
    put(values, type, 4);
    put(values, count, 8);
}

static size_t padding(size_t bytes)
{
    return (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
}

static size_t row_bytes(const struct gguf_tensor *t)
{
    if (t->type == GGUF_Q8_0)
        return t->cols / GGUF_BLOCK * BLOCK_BYTES;
    return t->cols * (t->type == GGUF_F32 ? 4 : 2);
}

/* A block has a factor, in fp16, and 32 signed bytes, as quantize_row_q8_0_ref of ggml
 * computes them. */
static void quantize(const float *from, size_t count, uint8_t *to)
{
    for (; count > 0; count -= GGUF_BLOCK, from += GGUF_BLOCK, to += BLOCK_BYTES) {
        float largest = 0, factor, inverse;

        for (size_t i = 0; i < GGUF_BLOCK; i++)
            largest = fmaxf(largest, fabsf(from[i]));
        factor = largest / 127;
        inverse = factor != 0 ? 1 / factor : 0;
        format_convert(to, FORMAT_FP16, &factor, FORMAT_FP32, 1);
        for (size_t i = 0; i < GGUF_BLOCK; i++)
            to[2 + i] = (uint8_t)(int8_t)roundf(from[i] * inverse);
    }
}

/* Return whether fp16 has all of the values, or, in Q8_0, all of the factors. */
static bool fits(enum gguf_type type, const float *values, size_t count)
{
    const float max = type == GGUF_Q8_0 ? 65504.0f * 127 : 65504.0f;

    if (type != GGUF_F16 && type != GGUF_Q8_0)
        return true;
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(values[i]) <= max))
            return false;
    return true;
}

static bool convert(const struct gguf_tensor *t, const float *from, size_t count,
                    void *to)
{
    static const enum format formats[] = {
        [GGUF_F32] = FORMAT_FP32, [GGUF_F16] = FORMAT_FP16, [GGUF_BF16] = FORMAT_BF16
    };

    if (!fits(t->type, from, count))
        return false;
    if (t->type == GGUF_Q8_0)
        quantize(from, count, to);
    else
        format_convert(to, formats[t->type], from, FORMAT_FP32, count);
    return true;
}

static bool write_rows(int fd, const struct gguf_tensor *t, struct error *err)
{
    static const char zeros[ALIGNMENT];
    const size_t most = t->cols < SPAN ? SPAN / (t->cols ? t->cols : 1) : 1;
    float *values = malloc(most * t->cols * sizeof(*values) + 1);
    void *packed = malloc(most * row_bytes(t) + 1);
    bool ok = values && packed;

    if (!ok)
        error_set(err, ERROR_SYSTEM, "no memory for rows of %s", t->name);
    for (size_t row = 0; ok && row < t->rows; row += most) {
        const size_t rows = t->rows - row < most ? t->rows - row : most;

        for (size_t i = 0; ok && i < rows; i++)
            ok = t->read(t, row + i, values + i * t->cols, err);
        if (ok && !convert(t, values, rows * t->cols, packed))
            ok = error_set(err, ERROR_DATA,
                           "%s has values beyond the range of fp16; use bf16", t->name);
        ok = ok && file_write_all(fd, packed, rows * row_bytes(t), err);
    }
    free(values);
    free(packed);
    return ok && file_write_all(fd, zeros, padding(t->rows * row_bytes(t)), err);
}

/* Append the names, shapes and offsets of tensors.  The fastest dimension comes first. */
static void add_tensors(struct gguf_values *out, const struct gguf_tensor *tensors,
                        size_t count)
{
    uint64_t at = 0;

    for (size_t i = 0; i < count; i++) {
        const struct gguf_tensor *t = &tensors[i];
        const size_t bytes = t->rows * row_bytes(t);

        gguf_put_string(out, t->name, strlen(t->name));
        put(out, t->rank, 4);
        put(out, t->cols, 8);
        if (t->rank > 1)
            put(out, t->rows, 8);
        put(out, t->type, 4);
        put(out, at, 8);
        at += bytes + padding(bytes);
    }
}

static bool write_all(int fd, const struct gguf_values *header,
                      const struct gguf_tensor *tensors, size_t count, struct error *err)
{
    bool ok = file_write_all(fd, header->bytes.data, header->bytes.len, err);

    for (size_t i = 0; ok && i < count; i++)
        ok = write_rows(fd, &tensors[i], err);
    if (ok && fsync(fd) != 0)
        ok = error_errno(err, "cannot flush");
    return ok;
}

bool gguf_write(const char *name, const struct gguf_values *values,
                const struct gguf_tensor *tensors, size_t count, struct error *err)
{
    struct error why = { 0 };
    struct gguf_values header;
    bool ok;
    int fd;

    gguf_init(&header);
    text_adds(&header.bytes, "GGUF");
    put(&header, GGUF_VERSION, 4);
    put(&header, count, 8);
    put(&header, values->count, 8);
    if (!text_add(&header.bytes, values->bytes.data, values->bytes.len))
        header.too_long = true;
    add_tensors(&header, tensors, count);
    for (size_t i = padding(header.bytes.len); i > 0; i--)
        put(&header, 0, 1);
    fd = header.too_long || values->too_long
             ? -1
             : walk_open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0) {
        if (header.too_long || values->too_long)
            error_set(err, ERROR_DATA, "%s: the header has more than 1 GiB", name);
        else
            error_errno(err, "cannot create %s", name);
        gguf_clear(&header);
        return false;
    }
    ok = write_all(fd, &header, tensors, count, &why);
    if (close(fd) != 0 && ok)
        ok = error_errno(&why, "cannot close");
    if (!ok) {
        walk_unlink(name);
        error_set(err, why.code, "%s: %s", name, why.text);
    }
    gguf_clear(&header);
    return ok;
}
