/* train/model/model_torch.c - torch's view of the trained parameters: their order and
 * their layout. */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "train/model/model_internal.h"
#include "train/model/model_stored.h"
#include "train/model/weights.h"

/* Return the position of a module of a block among the others.  Of two places, the first is that
 * in layers of cross-attention. */
static size_t position_in_block(const struct model_config *config, enum module module,
                                size_t layer)
{
    const enum module *order = config->architecture->order;
    size_t found = 0;

    while (order[found] != module && order[found] != MODULES)
        found++;
    for (size_t i = found; !model_config_crosses(config, layer) && order[i] != MODULES;
         i++)
        if (order[i] == module)
            found = i;
    return found;
}

/* Modules of transformers' models outside blocks are in the order of our enum, except for
 * the last norm of some.  A module has its weight, its bias, and, of PEFT, A and B.  The
 * matrices gate and up of all experts are one parameter there, in this order; adapters are
 * in the order of the experts. */
static size_t sort_key(const struct model *m, size_t index)
{
    const struct shape_parameter *p = &m->shapes.parameters[index];
    size_t before = 2 * (size_t)p->module, layer = 0, position = 0, of_expert = 0;
    size_t copies =
        m->config->experts + m->config->heads; /* at least those of a module */
    bool alone = m->config->architecture->experts.up_tensor != NULL;
    bool adjacent = p->module == MODULE_EXPERT_UP && !alone;

    if (p->module == MODULE_ENCODER) /* it is first */
        return 2 * p->expert + (p->part == PART_LORA_B);

    if (module_is_of_experts(p->module)) {
        of_expert = (size_t)(p->module - MODULE_EXPERT_GATE);
        adjacent = adjacent || p->part >= PART_LORA_A;
    }

    if (module_in_block(p->module)) {
        before = 2 * (size_t)MODULE_NORM1;
        layer = p->layer;
        position = position_in_block(m->config, adjacent ? MODULE_EXPERT_GATE : p->module,
                                     layer);
    }
    if (p->module == MODULE_NORM && m->config->architecture->norm_first)
        before = 2 * (size_t)MODULE_NORM1 - 1;
    before += 2 * (MODULE_PROJECTOR_LAST - MODULE_PROJECTOR_NORM + 1);
    if (module_is_of_projector(p->module) &&
        !m->config->media.projector.follows_text) /* but is before the language model */
        before = 2 * (size_t)(m->config->media.projector.bare
                                  ? MODULE_PROJECTOR_LAST - p->module
                                  : p->module - MODULE_PROJECTOR_NORM);
    position += (before * m->config->layers + layer) * (MODULES + 1);
    position = position * 2 * (copies + 1) + p->expert;
    if (module_is_of_experts(p->module) && p->part == PART_BIAS)
        position += copies + 1; /* another parameter of all experts */
    return 2 * m->config->encoder.count + (3 * position + of_expert) * PARTS + p->part;
}

void model_torch_order(const struct model *m, size_t *order)
{
    size_t count = 0;

    for (size_t i = 0; i < m->shapes.count; i++) {
        size_t at = count;

        if (!m->parameters[i].trainable)
            continue;
        /* almost sorted: the list is in the order of layers, too */
        for (; at > 0 && sort_key(m, order[at - 1]) > sort_key(m, i); at--)
            order[at] = order[at - 1];
        order[at] = i;
        count++;
    }
}

struct tensor_source model_stored_shape(const struct parameter *p)
{
    struct tensor_source out = { .rank = p->rank };
    size_t shape[5];

    weights_shape(&(struct weights_expected) { p->rank, p->rows, p->cols, p->stored,
                                               p->matrices, p->tensor },
                  shape);
    memcpy(out.shape, shape, p->rank * sizeof(*shape));
    return out;
}

bool model_rows_to_stored(const struct model *m, const struct parameter *p,
                          enum format format, void *data, struct error *err)
{
    struct matrix_layout layout = model_matrix_layout(m, p, format_info(format)->bytes);
    size_t bytes = p->rows * p->cols * layout.item;
    void *rows;

    if (layout.storage == STORED_ROWS)
        return true;
    rows = malloc(bytes);
    if (!rows)
        return error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
    memcpy(rows, data, bytes);
    matrix_layout_scatter(&layout, rows, 0, layout.rows, data);
    free(rows);
    return true;
}

bool model_read_stored_moment(struct model *model, enum moment moment,
                              const struct parameter *p, void *to, struct error *err)
{
    return model_read_moment(model, moment, p, to, err) &&
           model_rows_to_stored(model, p, p->moments[moment].format, to, err);
}
