/*
 * train/model/model_gptq.c - loads matrices that the base's files have in the formats of
 * GPTQ and AWQ, without changing a value.
 *
 * For a layer NAME with `in` columns and `out` rows, and codes of `bits` bits, a file has
 *
 *     NAME.qweight  int32 words of codes.  GPTQ: (in bits / 32, out), each column of words
 *                   the codes of a row, one after another, the first in the lowest bits;
 *                   AWQ: (in, out / 8), each word the codes of 8 rows, in AWQ_ORDER
 *     NAME.qzeros   zero points of the groups, packed along the rows of the layer:
 *                   (groups, out bits / 32)
 *     NAME.scales   (groups, out), of 16 or 32 bits
 *     NAME.g_idx    GPTQ: int32 (in), the group of each column; if it is missing, groups
 *                   are adjacent columns
 *     NAME.bias     zeros, if the model has none: optimum gave one to each layer
 *
 * Checkpoints in the format gptq have zero points less 1, modulo 2^bits.  Sources:
 * AutoGPTQ 0.7.1, qlinear_cuda.py; gptqmodel 7.7.0, utils/model_dequant.py; AutoAWQ 0.2.9,
 * utils/packing_utils.py.
 */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "precision/affine.h"
#include "train/model/gptq_tensors.h"
#include "train/model/model_internal.h"

enum { WORD_BITS = GPTQ_WORD_BITS, CODES_MAX = 32, AWQ_CODES = 8, TILE = 64 };

/* Row of the next 8 that each 4 bits of a word belong to, the lowest first. */
static const uint8_t awq_order[AWQ_CODES] = { 0, 2, 4, 6, 1, 3, 5, 7 };

/* A matrix while it is loaded. */
struct packed_matrix {
    const struct parameter *p;
    const struct quantized_config *how;
    const struct stored_tensor *tensors[QUANT_TENSORS];
    struct affine_layout parts;
    size_t rows, cols, groups;
    char *data;
};

/* Return a word of a tensor, which a file may have at any byte. */
static uint32_t word_at(const struct stored_tensor *t, size_t index)
{
    uint32_t word;

    memcpy(&word, (const char *)t->data + index * sizeof(word), sizeof(word));
    return word;
}

/* ---- Checks ---- */

/* Each column belongs to a group that exists. */
static bool check_columns(const struct packed_matrix *m, struct error *err)
{
    const struct stored_tensor *t = m->tensors[GPTQ_COLUMNS];

    if (!t)
        return true;
    for (size_t i = 0; i < m->cols; i++)
        if (word_at(t, i) >= m->groups)
            return error_set(err, ERROR_DATA,
                             "%s: %s has the group %d at %zu, but there are %zu groups; "
                             "fetch the model again",
                             t->file, t->name, (int)word_at(t, i), i, m->groups);
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

static bool check(const struct packed_matrix *m, struct error *err)
{
    return gptq_tensors_fit(m->how, m->tensors, m->p->name, m->rows, m->cols, err) &&
           check_columns(m, err) && check_bias(m->tensors[GPTQ_BIAS], err);
}

static bool report_missing(const struct model *model, const struct packed_matrix *m,
                           size_t which, struct error *err)
{
    const struct stored_tensor *whole = model_find_tensor(model, m->p->name);
    struct text name;

    if (whole && !m->tensors[GPTQ_WEIGHT])
        return error_set(
            err, ERROR_DATA,
            "%s: %s is %s, but config.json has it in the format of %s; exclude its layer "
            "there (%s)",
            whole->file, whole->name, whole->dtype, quantizer_name(m->how->by),
            m->how->by == QUANTIZER_GPTQ ? "modules_in_block_to_quantize"
                                         : "modules_to_not_convert");
    text_init(&name, 0);
    model_add_quant_name(model, m->p, which, &name);
    error_set(err, ERROR_DATA, "%s: the tensor %s is missing; fetch the model again",
              model->plan->model_name_or_path, name.data);
    text_clear(&name);
    return false;
}

static bool find_all(const struct model *model, struct packed_matrix *m,
                     struct error *err)
{
    for (size_t i = 0; i < QUANT_TENSORS; i++)
        m->tensors[i] = model_find_quant_tensor(model, m->p, i);
    for (size_t i = 0; i <= (m->how->sorts ? GPTQ_COLUMNS : GPTQ_SCALES); i++)
        if (!m->tensors[i])
            return report_missing(model, m, i, err);
    return true;
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
static void unpack_unit(const struct packed_matrix *m, size_t which, size_t at,
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
static void put_codes(const struct packed_matrix *m, size_t row, size_t col,
                      const uint8_t *codes, size_t count)
{
    uint8_t *out = (uint8_t *)m->data;
    size_t at = row * m->cols + col;

    for (size_t i = 0; i < count; i++, at++) {
        if (m->how->affine.bits == 8)
            out[at] = codes[i];
        else /* bytes are 0 before */
            out[at / 2] |= (uint8_t)(at % 2 ? codes[i] : codes[i] << 4);
    }
}

/* Tiles of rows, so that reads and writes both use whole lines of the cache. */
static void unpack_gptq(const struct packed_matrix *m)
{
    struct unit unit = unit_of(m->how->bits);
    uint8_t codes[CODES_MAX];

    for (size_t first = 0; first < m->rows; first += TILE)
        for (size_t col = 0; col < m->cols; col += unit.codes) {
            size_t at = col / unit.codes * unit.words * m->rows;

            for (size_t row = first; row < size_min(first + TILE, m->rows); row++) {
                unpack_unit(m, GPTQ_WEIGHT, at + row, m->rows, codes);
                put_codes(m, row, col, codes, unit.codes);
            }
        }
}

/* Unpack a square of 8 rows and up to 8 columns from a word of each column. */
static void unpack_awq_square(const struct packed_matrix *m, size_t row, size_t col)
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
        put_codes(m, row + k, col, codes[k], count);
}

static void unpack_awq(const struct packed_matrix *m)
{
    for (size_t first = 0; first < m->rows; first += 2 * TILE)
        for (size_t col = 0; col < m->cols; col += AWQ_CODES)
            for (size_t row = first; row < size_min(first + 2 * TILE, m->rows);
                 row += AWQ_CODES)
                unpack_awq_square(m, row, col);
}

static void unpack_zeros(const struct packed_matrix *m)
{
    uint8_t *zeros = (uint8_t *)m->data + m->parts.zeros, codes[CODES_MAX];
    const unsigned mask = (1u << m->how->bits) - 1;
    struct unit unit = unit_of(m->how->bits);
    bool awq = m->how->by == QUANTIZER_AWQ;
    size_t at = 0;

    for (size_t g = 0; g < m->groups; g++)
        for (size_t row = 0; row < m->rows; row += unit.codes, at += unit.words) {
            unpack_unit(m, GPTQ_ZEROS, at, 1, codes);
            for (size_t k = 0; k < unit.codes; k++)
                zeros[(row + (awq ? awq_order[k] : k)) * m->groups + g] =
                    (uint8_t)((codes[k] + m->how->less_one) & mask);
        }
}

static void widen_scales(const struct packed_matrix *m)
{
    const struct stored_tensor *t = m->tensors[GPTQ_SCALES];
    size_t bytes = format_info(t->format)->bytes;
    float *scales = (void *)(m->data + m->parts.scales);

    for (size_t g = 0; g < m->groups; g++)
        for (size_t row = 0; row < m->rows; row++)
            format_convert(scales + row * m->groups + g, FORMAT_FP32,
                           (const char *)t->data + (g * m->rows + row) * bytes, t->format,
                           1);
}

/* Return whether groups are not adjacent columns. */
static bool copy_columns(const struct packed_matrix *m)
{
    const struct stored_tensor *groups = m->tensors[GPTQ_COLUMNS];
    uint32_t *columns = (void *)(m->data + m->parts.columns);
    size_t group = m->p->quantized.group;
    bool sorted = false;

    for (size_t i = 0; i < m->cols; i++) {
        columns[i] = groups ? word_at(groups, i) : (uint32_t)(i / group);
        sorted = sorted || columns[i] != i / group;
    }
    return sorted;
}

static void unpack(const struct packed_matrix *m)
{
    if (m->how->by == QUANTIZER_AWQ)
        unpack_awq(m);
    else
        unpack_gptq(m);
    unpack_zeros(m);
    widen_scales(m);
}

bool model_load_gptq(struct model *model, struct parameter *p, struct error *err)
{
    const struct quantized_config *how = &model->config->quantized;
    struct packed_matrix m = { .p = p,
                               .how = how,
                               .parts = affine_layout(how->affine, p->rows, p->cols),
                               .rows = p->rows,
                               .cols = p->cols,
                               .groups = affine_groups(how->affine, p->cols) };

    if (!find_all(model, &m, err) || !check(&m, err))
        return false;
    m.data = calloc(1, m.parts.total);
    if (!m.data)
        return error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
    unpack(&m);
    if (!copy_columns(&m))
        p->quantized.columns = NULL;
    p->dequantized_format = FORMAT_FP32; /* exact: rounded once, to the compute format */
    model_upload_frozen(model, p, (void *)p->quantized.codes, m.data, m.parts.total);
    free(m.data);
    return true;
}
