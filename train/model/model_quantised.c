/* train/model/model_quantised.c - frozen matrices in 4 bits: made of the base's files, and
 * widened for each product. */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "precision/nf4.h"
#include "train/model/model_parts.h"

void model_widen(const struct model *model, const struct parameter *p)
{
    const struct op_dequantize op = {
        .out = p->copy,
        .x = p->quantised,
        .through = p->through,
        .heads = p->stored == STORED_HEADS ? model->config->heads : 0,
    };

    model->be->ops->dequantize(model->be, &op);
}

/* A matrix on the host on its way to the device. */
struct piece {
    struct nf4_layout parts;
    size_t numbers;
    char *data;
    float *absmax; /* of the blocks */
};

static bool piece_open(struct piece *piece, const struct parameter *p, bool twice,
                       struct error *err)
{
    *piece = (struct piece) { .numbers = p->rows * p->cols };
    piece->parts = nf4_layout(piece->numbers, twice);
    piece->data = calloc(1, piece->parts.total);
    piece->absmax = malloc(nf4_blocks(piece->numbers) * sizeof(float));
    return (piece->data && piece->absmax) ||
           error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
}

static void piece_close(struct piece *piece)
{
    free(piece->data);
    free(piece->absmax);
}

/* Codes and absmax, in the order of the file's rows: blocks go from one to the next. */
static bool make_codes(const struct model *m, const struct parameter *p,
                       struct piece *piece, float *values, void *packed,
                       struct error *err)
{
    struct parameter as_stored = *p;
    size_t step = model_span_rows(p);

    if (p->stored == STORED_HEADS)
        as_stored.stored = STORED_ROWS;
    for (size_t row = 0; row < p->rows; row += step) {
        size_t rows = p->rows - row < step ? p->rows - row : step;
        size_t first = row * p->cols, count = rows * p->cols;

        if (!model_read(m, &as_stored, row, rows, values, err))
            return false;
        model_round(m, values, packed, count);
        nf4_quantize(values, count, (uint8_t *)piece->data + first / 2,
                     piece->absmax + first / NF4_BLOCK);
    }
    return true;
}

static void make_factors(const struct piece *piece, bool twice)
{
    const struct nf4_layout *parts = &piece->parts;
    float *absmax = (void *)(piece->data + parts->absmax), *map;
    size_t blocks = nf4_blocks(piece->numbers);

    if (!twice) {
        memcpy(absmax, piece->absmax, blocks * sizeof(*absmax));
        return;
    }
    map = (void *)(piece->data + parts->map);
    nf4_map(map);
    map[NF4_MAP] = nf4_compress(piece->absmax, blocks,
                                (uint8_t *)piece->data + parts->bytes, absmax);
}

bool model_quantise(struct model *model, struct parameter *p, float *values, void *packed,
                    struct error *err)
{
    bool twice = model->shapes.twice;
    struct piece piece;
    bool ok = piece_open(&piece, p, twice, err) &&
              make_codes(model, p, &piece, values, packed, err);

    if (ok) {
        p->through = model->plan->precision.frozen;
        make_factors(&piece, twice);
        model->be->ops->upload(model->be, (void *)p->quantised.codes, piece.data,
                               piece.parts.total);
    }
    piece_close(&piece);
    return ok;
}
