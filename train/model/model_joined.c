/* train/model/model_joined.c - merges adapters of the matrices of all experts
 * (expert_adapters.h) into those of one. */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>

#include "train/model/expert_adapters.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

/* What is read of an adapter for rows of a matrix. */
struct reading {
    const struct model *model;
    const struct lora *lora;
    const struct shape_parameter *matrix;
    const struct expert_factors *factors;
    size_t first, count; /* rows among the outputs of the layer */
};

/* Read rows of A or B that belong to the expert, from row `first` of its matrix. */
static bool read_rows(const struct reading *r, enum part part, size_t first, size_t count,
                      float *to, struct error *err)
{
    const enum module module =
        r->matrix->module == MODULE_EXPERT_UP ? MODULE_EXPERT_GATE : r->matrix->module;
    const struct expert_adapter shape =
        expert_adapter_of(r->model->config, r->lora, module, part);
    const size_t each = shape.rows / r->model->config->experts;
    const struct expert_factor at = { module, part, r->matrix->layer,
                                      r->matrix->expert * each + first, count };

    return r->factors->read(r->factors->context, &at, to, err);
}

/* Read (r, in) and (count, r): A and rows of B. */
static bool read_plain(const struct reading *r, float *in, float *out, struct error *err)
{
    return read_rows(r, PART_LORA_A, 0, r->lora->rank, in, err) &&
           read_rows(r, PART_LORA_B, r->first, r->count, out, err);
}

/* Read the same of B^T, which reads the inputs, and of columns of A. */
static bool read_swapped(const struct reading *r, float *in, float *out,
                         struct error *err)
{
    const size_t rank = r->lora->rank, cols = r->matrix->cols;
    const enum module module =
        r->matrix->module == MODULE_EXPERT_DOWN ? MODULE_EXPERT_DOWN : MODULE_EXPERT_GATE;
    const size_t outputs =
        expert_adapter_of(r->model->config, r->lora, module, PART_LORA_A).cols;
    float *b = memory_alloc((cols + outputs) * rank * sizeof(*b)), *a = b + cols * rank;
    bool ok = read_rows(r, PART_LORA_B, 0, cols, b, err) &&
              read_rows(r, PART_LORA_A, 0, rank, a, err);

    for (size_t k = 0; ok && k < rank; k++) {
        for (size_t j = 0; j < cols; j++)
            in[k * cols + j] = b[j * rank + k];
        for (size_t i = 0; i < r->count; i++)
            out[i * rank + k] = a[k * outputs + r->first + i];
    }
    free(b);
    return ok;
}

bool model_merge_joined(const struct model *m, const struct model_rows *rows,
                        const struct lora *lora, const struct expert_factors *factors,
                        struct error *err)
{
    const struct shape_parameter *p =
        &m->shapes.parameters[rows->parameter - m->parameters];
    const bool up = p->module == MODULE_EXPERT_UP; /* its rows follow those of gate */
    const struct reading reading = {
        m, lora, p, factors, rows->first + (up ? p->rows : 0), rows->count
    };
    float *in, *out;
    bool ok;

    if (!expert_adapters_in(lora, up ? MODULE_EXPERT_GATE : p->module, p->layer))
        return true;
    in = memory_alloc((p->cols + rows->count) * lora->rank * sizeof(*in));
    out = in + p->cols * lora->rank;
    ok = m->config->architecture->experts.swapped_by_peft
             ? read_swapped(&reading, in, out, err)
             : read_plain(&reading, in, out, err);
    if (ok)
        model_merge(rows, lora, (struct merged_parts) { in, out, NULL });
    free(in);
    return ok;
}
