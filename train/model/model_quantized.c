/* train/model/model_quantized.c - quantizes frozen matrices of the base's files to 4
 * bits, and dequantizes them for each matmul. */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "precision/nf4.h"
#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

void model_dequantize(const struct model *model, const struct parameter *p)
{
    const struct op_dequantize op = {
        .out = p->copy,
        .x = p->quantized,
        .through = p->dequantized_format,
        .order = matrix_layout_order(model->config, p->stored, p->rows),
    };

    model->be->ops->dequantize(model->be, &op);
}

/* A quantized matrix on the host, before it is uploaded. */
struct host_matrix {
    struct nf4_layout layout;
    size_t elements;
    char *data;
    float *absmax; /* one per block */
};

static bool host_matrix_open(struct host_matrix *matrix, const struct parameter *p,
                             bool double_quant, struct error *err)
{
    *matrix = (struct host_matrix) { .elements = p->rows * p->cols };
    matrix->layout = nf4_layout(matrix->elements, double_quant);
    matrix->data = calloc(1, matrix->layout.total);
    matrix->absmax = malloc(nf4_blocks(matrix->elements) * sizeof(float));
    return (matrix->data && matrix->absmax) ||
           error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
}

static void host_matrix_close(struct host_matrix *matrix)
{
    free(matrix->data);
    free(matrix->absmax);
}

/* Make codes and absmax in the order of the file's rows, because blocks continue across
 * rows. */
static bool make_codes(const struct model *m, const struct parameter *p,
                       struct host_matrix *matrix, float *values, void *packed,
                       struct error *err)
{
    struct parameter as_stored = *p;
    size_t step = model_span_rows(p);

    if (storage_moves_rows(p->stored))
        as_stored.stored = STORED_ROWS;
    for (size_t row = 0; row < p->rows; row += step) {
        size_t rows = p->rows - row < step ? p->rows - row : step;
        size_t first = row * p->cols, count = rows * p->cols;

        if (!model_read(m, &(struct model_rows) { &as_stored, row, rows, values }, err))
            return false;
        model_round_frozen(m, values, packed, count);
        nf4_quantize(values, count, (uint8_t *)matrix->data + first / 2,
                     matrix->absmax + first / NF4_BLOCK);
    }
    return true;
}

static void make_factors(const struct host_matrix *matrix, bool double_quant)
{
    const struct nf4_layout *parts = &matrix->layout;
    float *absmax = (void *)(matrix->data + parts->absmax), *map;
    size_t blocks = nf4_blocks(matrix->elements);

    if (!double_quant) {
        memcpy(absmax, matrix->absmax, blocks * sizeof(*absmax));
        return;
    }
    map = (void *)(matrix->data + parts->map);
    nf4_map(map);
    map[NF4_MAP] = nf4_compress(matrix->absmax, blocks,
                                (uint8_t *)matrix->data + parts->bytes, absmax);
}

bool model_quantize(struct model *model, struct parameter *p, float *values, void *packed,
                    struct error *err)
{
    bool double_quant = model->shapes.double_quant;
    struct host_matrix matrix;
    bool ok;

    p->dequantized_format = model->plan->precision.frozen;
    if (!model_keeps(model, p))
        return true;
    ok = host_matrix_open(&matrix, p, double_quant, err) &&
         make_codes(model, p, &matrix, values, packed, err);

    if (ok) {
        make_factors(&matrix, double_quant);
        model_upload_frozen(model, p, (void *)p->quantized.codes, matrix.data,
                            matrix.layout.total);
    }
    host_matrix_close(&matrix);
    return ok;
}
