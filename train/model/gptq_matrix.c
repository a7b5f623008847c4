/* train/model/gptq_matrix.c - unpacks codes, zero points and scales; tensors are not trusted. */
#include "config.h"

#include "train/model/gptq_matrix.h"

#include <string.h>

#include "base/size.h"
#include "precision/affine.h"

enum { WORD_BITS = GPTQ_WORD_BITS, CODES_MAX = 32, AWQ_CODES = 8, TILE = 64 };

/* Row of the next 8 that each 4 bits of a word belong to, the lowest first. */
static const uint8_t awq_order[AWQ_CODES] = { 0, 2, 4, 6, 1, 3, 5, 7 };

/* Return a word of a tensor, which a file may have at any byte. */
static uint32_t word_at(const struct stored_tensor *t, size_t index)
{
    uint32_t word;

    memcpy(&word, (const char *)t->data + index * sizeof(word), sizeof(word));
    return word;
}

/* ---- Checks ---- */

/* Each column belongs to a group that exists. */
static bool check_columns(const struct gptq_matrix *m, struct error *err)
{
    const struct stored_tensor *t = m->tensors[GPTQ_COLUMNS];
    const size_t groups = affine_groups(m->how->affine, m->cols);

    if (!t)
        return true;
    for (size_t i = 0; i < m->cols; i++)
        if (word_at(t, i) >= groups)
            return error_set(err, ERROR_DATA,
                             "%s: %s has the group %d at %zu, but there are %zu groups; "
                             "fetch the model again",
                             t->file, t->name, (int)word_at(t, i), i, groups);
    return true;
}

/* A bias that the model does not have must be 0. */
static bool check_bias(const struct stored_tensor *t, struct error *err)
{
    const unsigned char *bytes = t ? t->data : NULL;

    for (size_t i = 0; t && i < t->bytes; i++)
        if (bytes[i] != 0)
            return error_set(err, ERROR_DATA,
                             "%s: %s is not 0, but a model with this config.json has no "
                             "such bias; use the config.json that was saved with it",
                             t->file, t->name);
    return true;
}

bool gptq_matrix_check(const struct gptq_matrix *m, struct error *err)
{
    return gptq_tensors_fit(m->how, m->tensors, m->name, m->rows, m->cols, err) &&
           check_columns(m, err) && check_bias(m->tensors[GPTQ_BIAS], err);
}

/* ---- Unpacking ---- */

/* Words that begin and end with a code, and how many codes they have. */
struct unit {
    size_t words, codes;
};

static struct unit unit_of(unsigned bits)
{
    return bits == 3 ? (struct unit) { 3, 32 } : (struct unit) { 1, WORD_BITS / bits };
}

/* Unpack the codes of a unit, whose words are `stride` apart, the first at `at`. */
static void unpack_unit(const struct gptq_matrix *m, size_t which, size_t at,
                        size_t stride, uint8_t codes[CODES_MAX])
{
    unsigned bits = m->how->bits, left = 0;
    const uint32_t mask = (1u << bits) - 1;
    uint64_t held = 0;

    for (size_t i = 0; i < unit_of(bits).codes; i++) {
        if (left < bits) {
            held |= (uint64_t)word_at(m->tensors[which], at) << left;
            left += WORD_BITS;
            at += stride;
        }
        codes[i] = (uint8_t)(held & mask);
        held >>= bits;
        left -= bits;
    }
}

/* Write codes of a row, the first of column `col`. */
static void put_codes(const struct gptq_matrix *m, size_t row, size_t col,
                      const uint8_t *codes, size_t count, uint8_t *out)
{
    size_t at = row * m->cols + col;

    for (size_t i = 0; i < count; i++, at++) {
        if (m->how->affine.bits == 8)
            out[at] = codes[i];
        else /* bytes are 0 before */
            out[at / 2] |= (uint8_t)(at % 2 ? codes[i] : codes[i] << 4);
    }
}

/* Tiles of rows, so that reads and writes both use whole lines of the cache. */
static void unpack_gptq(const struct gptq_matrix *m, uint8_t *out)
{
    struct unit unit = unit_of(m->how->bits);
    uint8_t codes[CODES_MAX];

    for (size_t first = 0; first < m->rows; first += TILE)
        for (size_t col = 0; col < m->cols; col += unit.codes) {
            size_t at = col / unit.codes * unit.words * m->rows;

            for (size_t row = first; row < size_min(first + TILE, m->rows); row++) {
                unpack_unit(m, GPTQ_WEIGHT, at + row, m->rows, codes);
                put_codes(m, row, col, codes, unit.codes, out);
            }
        }
}

/* Unpack a square of 8 rows and up to 8 columns from a word of each column. */
static void unpack_awq_square(const struct gptq_matrix *m, size_t row, size_t col,
                              uint8_t *out)
{
    size_t step = m->rows / AWQ_CODES, count = size_min(AWQ_CODES, m->cols - col);
    uint8_t codes[AWQ_CODES][AWQ_CODES];

    for (size_t i = 0; i < count; i++) {
        uint32_t word =
            word_at(m->tensors[GPTQ_WEIGHT], (col + i) * step + row / AWQ_CODES);

        for (size_t k = 0; k < AWQ_CODES; k++)
            codes[awq_order[k]][i] = word >> 4 * k & 15;
    }
    for (size_t k = 0; k < AWQ_CODES; k++)
        put_codes(m, row + k, col, codes[k], count, out);
}

static void unpack_awq(const struct gptq_matrix *m, uint8_t *out)
{
    for (size_t first = 0; first < m->rows; first += 2 * TILE)
        for (size_t col = 0; col < m->cols; col += AWQ_CODES)
            for (size_t row = first; row < size_min(first + 2 * TILE, m->rows);
                 row += AWQ_CODES)
                unpack_awq_square(m, row, col, out);
}

static void unpack_zeros(const struct gptq_matrix *m, uint8_t *zeros)
{
    const size_t groups = affine_groups(m->how->affine, m->cols);
    uint8_t codes[CODES_MAX];
    const unsigned mask = (1u << m->how->bits) - 1;
    struct unit unit = unit_of(m->how->bits);
    bool awq = m->how->by == QUANTIZER_AWQ;
    size_t at = 0;

    for (size_t g = 0; g < groups; g++)
        for (size_t row = 0; row < m->rows; row += unit.codes, at += unit.words) {
            unpack_unit(m, GPTQ_ZEROS, at, 1, codes);
            for (size_t k = 0; k < unit.codes; k++)
                zeros[(row + (awq ? awq_order[k] : k)) * groups + g] =
                    (uint8_t)((codes[k] + m->how->less_one) & mask);
        }
}

static void widen_scales(const struct gptq_matrix *m, float *scales)
{
    const struct stored_tensor *t = m->tensors[GPTQ_SCALES];
    const size_t groups = affine_groups(m->how->affine, m->cols);
    size_t bytes = format_info(t->format)->bytes;
    uint32_t scale; /* aligned */

    for (size_t g = 0; g < groups; g++)
        for (size_t row = 0; row < m->rows; row++) {
            memcpy(&scale, (const char *)t->data + (g * m->rows + row) * bytes, bytes);
            format_convert(scales + row * groups + g, FORMAT_FP32, &scale, t->format, 1);
        }
}

/* Return whether groups are not adjacent columns. */
static bool copy_columns(const struct gptq_matrix *m, uint32_t *columns)
{
    const struct stored_tensor *groups = m->tensors[GPTQ_COLUMNS];
    size_t group = m->how->affine.group ? m->how->affine.group : m->cols;
    bool sorted = false;

    for (size_t i = 0; i < m->cols; i++) {
        columns[i] = groups ? word_at(groups, i) : (uint32_t)(i / group);
        sorted = sorted || columns[i] != i / group;
    }
    return sorted;
}

bool gptq_matrix_unpack(const struct gptq_matrix *m, void *data)
{
    struct affine_layout parts = affine_layout(m->how->affine, m->rows, m->cols);
    char *bytes = data;

    if (m->how->by == QUANTIZER_AWQ)
        unpack_awq(m, data);
    else
        unpack_gptq(m, data);
    unpack_zeros(m, (uint8_t *)bytes + parts.zeros);
    widen_scales(m, (void *)(bytes + parts.scales));
    return copy_columns(m, (void *)(bytes + parts.columns));
}
