/* train/model/model_add_adapter.c - adds a run's adapters to rows of its base, to save both
 * as one model. */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "train/model/model_internal.h"
#include "train/model/model_rotation.h"
#include "train/model/model_stored.h"

float *model_read_values(const struct model *m, size_t index, size_t row, size_t rows,
                         struct error *err)
{
    struct tensor weight = tensor_rows(m->parameters[index].weight, row, rows);
    size_t count = weight.rows * weight.cols;
    float *values = malloc(count * sizeof(*values));
    void *raw = malloc(tensor_bytes(weight));
    bool ok = false;

    if (values && raw)
        ok = model_read_weight(m, &m->parameters[index], row, rows, raw, err);
    else
        error_set(err, ERROR_SYSTEM, "no memory for %s", m->parameters[index].name);
    if (ok)
        format_convert(values, FORMAT_FP32, raw, weight.format, count);
    free(raw);
    if (ok)
        return values;
    free(values);
    return NULL;
}

/* Return the index of a part of the same layer; SIZE_MAX: it has none. */
static size_t part_of(const struct model *m, const struct shape_parameter *p,
                      enum part part)
{
    const struct shape_parameter *all = m->shapes.parameters;
    const struct parameter *first = m->slots[model_slot(p->module, part, p->layer)];

    for (size_t i = first ? (size_t)(first - m->parameters) : m->shapes.count;
         i < m->shapes.count && all[i].layer == p->layer; i++)
        if (all[i].module == p->module && all[i].part == part &&
            all[i].expert == p->expert)
            return i;
    return SIZE_MAX;
}

static bool add_rotation(const struct model *m, const struct model_rows *rows,
                         size_t index, struct error *err)
{
    float *packed = model_read_values(m, index, 0, m->parameters[index].rows, err);

    if (packed)
        model_rotate_weights(rows, &m->shapes.lora.rotation, packed);
    free(packed);
    return packed != NULL;
}

static bool read_factor(const void *context, const struct expert_factor *at, float *to,
                        struct error *err)
{
    const struct model *m = context;
    const struct parameter *p = model_find(m, at->module, at->part, at->layer);
    float *values =
        model_read_values(m, (size_t)(p - m->parameters), at->row, at->rows, err);

    if (values)
        memcpy(to, values, at->rows * p->cols * sizeof(*to));
    free(values);
    return values != NULL;
}

bool model_add_adapter(const struct model *m, const struct model_rows *rows,
                       struct error *err)
{
    const struct shape_parameter *p =
        &m->shapes.parameters[rows->parameter - m->parameters];
    size_t a = part_of(m, p, PART_LORA_A), b = part_of(m, p, PART_LORA_B);
    size_t magnitude = part_of(m, p, PART_LORA_MAGNITUDE);
    size_t rotation = part_of(m, p, PART_OFT_R);
    const struct lora *lora = &m->shapes.lora;
    float *lora_a, *lora_b = NULL, *magnitudes = NULL;
    bool ok;

    if (p->part == PART_WEIGHT && rotation != SIZE_MAX)
        return add_rotation(m, rows, rotation, err);
    if (lora->joined && p->part == PART_WEIGHT && module_is_of_experts(p->module))
        return model_merge_joined(m, rows, lora,
                                  &(struct expert_factors) { read_factor, m }, err);
    if (p->part != PART_WEIGHT || a == SIZE_MAX)
        return true;
    lora_a = model_read_values(m, a, 0, lora->rank, err);
    if (lora_a)
        lora_b = model_read_values(m, b, rows->first, rows->count, err);
    if (lora_b && magnitude != SIZE_MAX)
        magnitudes = model_read_values(m, magnitude, 0, 1, err);
    ok = lora_b && (magnitudes || magnitude == SIZE_MAX);
    if (ok)
        model_merge(rows, lora,
                    (struct merged_parts) {
                        lora_a, lora_b, magnitudes ? magnitudes + rows->first : NULL });
    free(lora_a);
    free(lora_b);
    free(magnitudes);
    return ok;
}
