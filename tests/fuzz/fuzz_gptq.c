/*
 * tests/fuzz/fuzz_gptq.c - the tensors of a matrix in the formats of GPTQ and AWQ are
 * rejected with ERROR_DATA, or unpacked to codes of their bits and to groups that exist.
 * An input has 5 bytes for the settings and the shape, and then a safetensors file.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/fuzz_tensors.h"
#include "train/model/gptq_matrix.h"

enum { SETTINGS = 5 };

static void check_codes(const struct gptq_matrix *m, const uint8_t *data)
{
    const struct affine_layout parts = affine_layout(m->how->affine, m->rows, m->cols);
    const size_t groups = affine_groups(m->how->affine, m->cols);

    for (size_t i = 0; i < m->rows * m->cols; i++) {
        const unsigned code = m->how->affine.bits == 8 ? data[i]
                              : i % 2                  ? data[i / 2] & 15
                                                       : data[i / 2] >> 4;

        FUZZ_HOLDS(code < 1u << m->how->bits);
    }
    for (size_t i = 0; i < m->rows * groups; i++)
        FUZZ_HOLDS(data[parts.zeros + i] < 1u << m->how->bits);
    for (size_t i = 0; i < m->cols; i++) {
        uint32_t group;

        memcpy(&group, data + parts.columns + i * sizeof(group), sizeof(group));
        FUZZ_HOLDS(group < groups);
    }
}

static void unpack(const struct safetensors *set, const uint8_t *settings)
{
    static const char *const endings[GPTQ_TENSORS] = GPTQ_ENDINGS;
    static const unsigned all_bits[] = { 2, 3, 4, 8 };
    const bool awq = settings[0] & 1;
    const unsigned bits = awq ? 4 : all_bits[settings[1] % 4];
    const struct quantized_config how = {
        .enabled = true,
        .by = awq ? QUANTIZER_AWQ : QUANTIZER_GPTQ,
        .bits = bits,
        .affine = { bits > 4 ? 8 : 4, settings[2] },
        .less_one = !awq && settings[0] & 2,
    };
    struct gptq_matrix m = { "a.weight", &how, { 0 }, settings[3], settings[4] };
    struct error err = { 0 };
    uint8_t *data;

    if (m.rows == 0 || m.cols == 0)
        return;
    for (size_t i = 0; i < GPTQ_TENSORS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "a%s", endings[i]);
        m.tensors[i] = safetensors_find(set, name);
        if (!m.tensors[i] && i <= GPTQ_SCALES)
            return;
    }
    if (!gptq_matrix_check(&m, &err)) {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
        return;
    }
    data = calloc(1, affine_layout(how.affine, m.rows, m.cols).total);
    if (!data)
        abort();
    gptq_matrix_unpack(&m, data);
    check_codes(&m, data);
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = { 0 };
    struct safetensors *set =
        len > SETTINGS ? fuzz_open_tensors(data + SETTINGS, len - SETTINGS, &err) : NULL;

    if (set)
        unpack(set, data);
    safetensors_close(set);
    return 0;
}
