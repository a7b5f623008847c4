/* train/model/model_load_adapter.c - loads adapters: one that is merged into the base, one
 * that stays separate, or one that is trained further. */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "train/model/encoder_adapters.h"
#include "train/model/expert_adapters.h"
#include "train/model/lora_config.h"
#include "train/model/model_load.h"
#include "train/model/model_pissa.h"
#include "train/model/model_rotation.h"
#include "train/model/model_stored.h"
#include "train/model/weights.h"

/* "model.layers.0.x.weight" -> "base_model.model.model.layers.0.x.lora_A.weight" */
static const struct stored_tensor *find_adapter(const struct model *m,
                                                const struct safetensors *set,
                                                const char *name, const char *part)
{
    size_t stem = strlen(name) - (text_ends(name, ".weight") ? strlen(".weight") : 0);
    const struct stored_tensor *found;
    struct text text;

    text_init(&text, 0);
    text_addf(&text, "base_model.model.%.*s%s", (int)stem, name, part);
    found = weights_find_adapter(set, m->config, text.data);
    text_clear(&text);
    return found;
}

static bool has_shape(const struct stored_tensor *t, size_t rows, size_t cols)
{
    return t && t->format < FORMAT_COUNT && t->rank == 2 && t->shape[0] == rows &&
           t->shape[1] == cols;
}

/* Return whether an adapter stays separate when the model only generates: with a base in
 * 4 bits it does, even in layers that the base has in 16 bits. */
static bool stays_separate(const struct model *m, enum module module)
{
    return m->plan->generation.alone && m->shapes.lora.adapted[module];
}

/* The tensors of the adapter of one layer; no magnitudes: plain LoRA. */
struct stored_adapter {
    const struct stored_tensor *a, *b, *magnitudes;
};

/* Merge the rotation of the inputs of a layer into rows of its weights. */
static bool merge_rotation(const struct model *m, const struct model_rows *rows,
                           struct error *err)
{
    const struct parameter *p = rows->parameter;
    const struct rotation *rotation = &m->merged_lora.rotation;
    const struct stored_tensor *t = find_adapter(m, m->merged, p->name, ".oft_R.weight");
    size_t size = rotation_size(rotation, p->cols), blocks = p->cols / size;
    float *packed;
    bool ok;

    if (!has_shape(t, blocks, size * (size - 1) / 2))
        return error_set(err, ERROR_DATA,
                         "the adapter for %s is missing or has another shape", p->name);
    packed = memory_alloc(t->shape[0] * t->shape[1] * sizeof(*packed));
    ok = model_read_stored(t, 0, t->shape[0] * t->shape[1], packed, err);
    if (ok)
        model_rotate_weights(rows, rotation, packed);
    free(packed);
    return ok;
}

static bool find_stored(const struct model *m, const struct parameter *p,
                        struct stored_adapter *out, struct error *err)
{
    size_t rank = m->merged_lora.rank;
    const struct stored_tensor *magnitudes =
        find_adapter(m, m->merged, p->name, ".lora_magnitude_vector");
    bool has_vector = magnitudes && magnitudes->format < FORMAT_COUNT &&
                      magnitudes->rank == 1 && magnitudes->shape[0] == p->rows;

    *out = (struct stored_adapter) {
        .a = find_adapter(m, m->merged, p->name, ".lora_A.weight"),
        .b = find_adapter(m, m->merged, p->name, ".lora_B.weight"),
        .magnitudes = m->merged_lora.dora ? magnitudes : NULL,
    };
    return (has_shape(out->a, rank, p->cols) && has_shape(out->b, p->rows, rank) &&
            (!m->merged_lora.dora || has_vector)) ||
           error_set(err, ERROR_DATA,
                     "the adapter for %s is missing or has another shape", p->name);
}

/* Read rows of a tensor that is stored as the layer's output is. */
static bool read_outputs(const struct model *m, const struct model_rows *rows,
                         const struct stored_tensor *t, float *to, struct error *err)
{
    const struct parameter *p = rows->parameter;
    struct matrix_layout layout = {
        .storage = storage_moves_rows(p->stored) ? p->stored : STORED_ROWS,
        .rows = p->rows,
        .cols = t->rank == 1 ? 1 : t->shape[1],
        .order = matrix_layout_order(m->config, p->stored, p->rows),
        .item = format_info(t->format)->bytes,
    };
    struct model_rows part = *rows;

    part.values = to;
    return model_read_rows(&layout, t, &part, err);
}

/* Merge the adapter of a layer into rows of its weights. */
static bool merge_adapter(const struct model *m, const struct model_rows *rows,
                          struct error *err)
{
    const struct parameter *p = rows->parameter;
    size_t rank = m->merged_lora.rank;
    struct stored_adapter from;
    float *a, *b, *magnitudes;
    bool ok;

    if (!find_stored(m, p, &from, err) || !model_pissa_subtract(m, rows, true, err))
        return false;
    a = memory_alloc(((p->cols + rows->count) * rank + rows->count) * sizeof(*a));
    b = a + rank * p->cols;
    magnitudes = b + rank * rows->count;
    ok = model_read_stored(from.a, 0, rank * p->cols, a, err) &&
         read_outputs(m, rows, from.b, b, err) &&
         (!from.magnitudes || read_outputs(m, rows, from.magnitudes, magnitudes, err));
    if (ok)
        model_merge(rows, &m->merged_lora,
                    (struct merged_parts) { a, b, from.magnitudes ? magnitudes : NULL });
    free(a);
    return ok;
}

/* Return the tensor of A or B of an adapter of the matrices of all experts. */
static const struct stored_tensor *find_joined(const struct model *m, enum module module,
                                               enum part part, size_t layer)
{
    const struct stored_tensor *found;
    struct text name;

    if (!expert_adapters_in(&m->merged_lora, module, layer))
        return NULL;
    text_init(&name, 0);
    expert_adapters_layer(m->config->architecture, &m->merged_lora, module, layer, &name);
    found = find_adapter(m, m->merged, name.data,
                         part == PART_LORA_A ? ".lora_A.weight" : ".lora_B.weight");
    text_clear(&name);
    return found;
}

static bool read_factor(const void *context, const struct expert_factor *at, float *to,
                        struct error *err)
{
    const struct model *m = context;
    const struct expert_adapter shape =
        expert_adapter_of(m->config, &m->merged_lora, at->module, at->part);
    const struct stored_tensor *t = find_joined(m, at->module, at->part, at->layer);
    const struct weights_expected expected = { 2,
                                               shape.rows,
                                               shape.cols,
                                               shape.stored,
                                               matrix_layout_is_stack(shape.stored)
                                                   ? m->config->experts
                                                   : 0,
                                               NULL };
    struct matrix_layout layout = { .storage = shape.stored,
                                    .rows = shape.rows,
                                    .cols = shape.cols,
                                    .matrices = expected.matrices };
    const struct model_rows rows = { .first = at->row, .count = at->rows, .values = to };

    if (!t)
        return error_set(err, ERROR_DATA, "%s: the adapter for experts is missing",
                         m->plan->adapter_name_or_path);
    if (!weights_fit(t, &expected, err))
        return false;
    layout.order = matrix_layout_order(m->config, shape.stored, shape.rows);
    layout.item = format_info(t->format)->bytes;
    return model_read_rows(&layout, t, &rows, err);
}

/* Return the ending of a parameter's name that find_adapter replaces: a bare parameter, like a
 * bias, has none. */
static const char *saved_ending(const struct shape_parameter *p)
{
    return text_ends(p->name, ".weight") ? ".weight" : "";
}

bool model_add_merged(const struct model *m, const struct model_rows *rows,
                      struct error *err)
{
    const struct parameter *p = rows->parameter;
    const struct shape_parameter *shape = &m->shapes.parameters[p - m->parameters];
    enum module module = shape->module;
    enum part part = shape->part;
    const struct stored_tensor *saved =
        find_adapter(m, m->merged, p->name, saved_ending(shape));

    if (saved && m->merged_lora.saved[module])
        return model_check_shape(saved, p, err) &&
               model_read_parameter(m, saved, rows, err);
    if (part == PART_WEIGHT && m->merged_lora.joined && module_is_of_experts(module))
        return stays_separate(m, module) ||
               model_merge_joined(m, rows, &m->merged_lora,
                                  &(struct expert_factors) { read_factor, m }, err);
    if (part != PART_WEIGHT || !lora_is_on(&m->merged_lora, module, shape->layer) ||
        stays_separate(m, module))
        return true;
    return m->merged_lora.rotation.on ? merge_rotation(m, rows, err)
                                      : merge_adapter(m, rows, err);
}

/* If the head is the embedding, PEFT trains two copies; a single matrix can only replace
 * them if they are equal.  Counts the head's copy. */
static bool check_tied_copies(const struct model *m, const struct safetensors *set,
                              size_t *heads, struct error *err)
{
    const struct architecture *a = m->config->architecture;
    const char *dir = m->plan->adapter_name_or_path;
    const struct stored_tensor *embed, *head;

    if (!m->config->tied)
        return true;
    embed = find_adapter(m, set, a->paths[MODULE_EMBED], ".weight");
    head = find_adapter(m, set, a->paths[MODULE_HEAD], ".weight");
    *heads = head != NULL;
    if ((!embed && !head) ||
        (embed && head && embed->format == head->format && embed->bytes == head->bytes &&
         memcmp(embed->data, head->data, head->bytes) == 0))
        return true;
    return error_set(err, ERROR_DATA,
                     "%s: the adapter trains %s and %s separately, but in this model "
                     "they are one matrix; merge it with PEFT into a model of "
                     "tie_word_embeddings: false, and train that",
                     dir, architecture_leaf(a, MODULE_EMBED),
                     architecture_leaf(a, MODULE_HEAD));
}

/* Return whether an adapter's tensor is read when it is merged into the model. */
static bool is_read(const struct model *m, const struct stored_tensor *t)
{
    const struct lora *lora = &m->merged_lora;

    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct shape_parameter *p = &m->shapes.parameters[i];
        bool weight = p->part == PART_WEIGHT;

        if ((weight || p->part == PART_BIAS) && lora->saved[p->module] &&
            t == find_adapter(m, m->merged, p->name, saved_ending(p)))
            return true;
        if (weight && lora->joined && module_is_of_experts(p->module)) {
            if (t == find_joined(m, p->module, PART_LORA_A, p->layer) ||
                t == find_joined(m, p->module, PART_LORA_B, p->layer))
                return true;
            continue;
        }
        if (weight && lora_is_on(lora, p->module, p->layer) &&
            (t == find_adapter(m, m->merged, p->name, ".lora_A.weight") ||
             t == find_adapter(m, m->merged, p->name, ".lora_B.weight") ||
             (lora->rotation.on &&
              t == find_adapter(m, m->merged, p->name, ".oft_R.weight")) ||
             (lora->dora &&
              t == find_adapter(m, m->merged, p->name, ".lora_magnitude_vector"))))
            return true;
    }
    return false;
}

/* The same of the encoder, which reads its own layers (train/tower/tower_merge.h). */
static bool is_read_by_encoder(const struct model *m, const struct stored_tensor *t)
{
    return encoder_adapters_unread(&m->config->encoder, t->name) ||
           encoder_adapters_reads(m->merged, m->config, &m->merged_lora, t);
}

/* A tensor that is not read would silently change what the adapter computes.  `copies`
 * of the embedding are known. */
static bool check_all_read(const struct model *m, size_t copies, struct error *err)
{
    const char *head = m->config->architecture->paths[MODULE_HEAD];
    size_t count = safetensors_count(m->merged);

    for (size_t i = 0; i < count; i++) {
        const struct stored_tensor *t = safetensors_at(m->merged, i);

        if (!is_read(m, t) && !is_read_by_encoder(m, t) &&
            !(copies > 0 && t == find_adapter(m, m->merged, head, ".weight")))
            return error_set(err, ERROR_DATA,
                             "%s: the adapter's tensor %s belongs to no layer that its "
                             "adapter_config.json names in this model",
                             m->plan->adapter_name_or_path, t->name);
    }
    return true;
}

bool model_open_merged(struct model *m, struct error *err)
{
    const char *dir = plan_merged_adapter(m->plan);
    size_t copies = 0;

    if (!dir)
        return true;
    m->merged = safetensors_open(dir, "adapter_model", false, err);
    return m->merged && lora_config_read(dir, m->config, &m->merged_lora, err) &&
           check_tied_copies(m, m->merged, &copies, err) &&
           check_all_read(m, copies, err);
}

bool model_load_separate_adapter(const struct model_loader *l, size_t index,
                                 struct error *err)
{
    const struct parameter *p = &l->model->parameters[index];
    const struct stored_tensor *t =
        weights_find_adapter(l->model->merged, l->model->config, p->name);

    if (!t)
        return error_set(err, ERROR_DATA, "%s: the adapter has no tensor for %s",
                         l->model->plan->adapter_name_or_path, p->name);
    return model_load_stored(l, t, p, err);
}

/* Return the stored tensor of a parameter that an adapter's file may have. */
static const struct stored_tensor *find_trained(const struct model *m,
                                                const struct safetensors *set,
                                                const struct shape_parameter *p)
{
    if (model_is_adapter(p))
        return weights_find_adapter(set, m->config, p->name);
    return p->trainable ? find_adapter(m, set, p->name, saved_ending(p)) : NULL;
}

/* Load an adapter that is trained further, over the initialized one. */
static bool load_adapter(const struct model_loader *l, const struct safetensors *set,
                         struct error *err)
{
    struct model *m = l->model;
    const char *dir = m->plan->adapter_name_or_path;
    size_t used = 0;

    if (!check_tied_copies(m, set, &used, err))
        return false;
    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct shape_parameter *p = &m->shapes.parameters[i];
        const struct stored_tensor *t = find_trained(m, set, p);

        if (!p->trainable)
            continue;
        if (!t && p->module == MODULE_HEAD && m->config->scores)
            continue; /* in a file of its own, or new */
        if (!t)
            return error_set(err, ERROR_DATA, "%s: the adapter has no tensor for %s", dir,
                             p->name);
        if (!model_load_stored(l, t, &m->parameters[i], err))
            return false;
        used++;
    }
    for (size_t i = 0; i < safetensors_count(set); i++)
        used +=
            encoder_adapters_unread(&m->config->encoder, safetensors_at(set, i)->name);
    if (used != safetensors_count(set))
        return error_set(
            err, ERROR_DATA,
            "%s: the adapter has %zu tensors, but %zu of them belong to this model", dir,
            safetensors_count(set), used);
    return true;
}

bool model_load_trained_adapter(const struct model_loader *l, struct error *err)
{
    const struct plan *plan = l->model->plan;
    struct safetensors *set;
    bool ok;

    if (!plan_adapts(plan) || !plan->adapter_name_or_path || plan->create_new_adapter ||
        plan->generation.alone)
        return true;
    set = safetensors_open(plan->adapter_name_or_path, "adapter_model", false, err);
    ok = set && load_adapter(l, set, err);
    safetensors_close(set);
    return ok;
}
