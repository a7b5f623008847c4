/* train/model/model_load.c - loads weights from files. */
#include "config.h"

#include "train/model/model_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "precision/nf4.h"
#include "train/model/model_dora.h"
#include "train/model/model_exchange.h"
#include "train/model/model_growth.h"
#include "train/model/model_pissa.h"
#include "train/model/model_stored.h"
#include "train/model/saved_tensors.h"
#include "train/model/score_head.h"
#include "train/model/weights.h"

size_t model_span_rows(const struct parameter *p)
{
    size_t rows = MODEL_SPAN / p->cols;

    if (p->quantized.codes)
        rows = rows > NF4_BLOCK ? rows / NF4_BLOCK * NF4_BLOCK : NF4_BLOCK;
    return rows == 0 ? 1 : rows < p->rows ? rows : p->rows;
}

size_t model_span_elements(const struct model *model)
{
    size_t largest = 1;

    for (size_t i = 0; i < model->shapes.count; i++) {
        const struct parameter *p = &model->parameters[i];
        size_t elements = model_span_rows(p) * p->cols;

        largest = elements > largest ? elements : largest;
    }
    return largest;
}

struct matrix_layout model_matrix_layout(const struct model *model,
                                         const struct parameter *p, size_t item)
{
    bool vector = p->rank == 1;

    return (struct matrix_layout) { .storage = p->stored,
                                    .rows = vector ? p->cols : p->rows,
                                    .cols = vector ? 1 : p->cols,
                                    .matrices = p->matrices,
                                    .order =
                                        matrix_layout_order(model->config, p->stored,
                                                            vector ? p->cols : p->rows),
                                    .item = item };
}

/* Return how a tensor of a file stores a parameter. */
static struct matrix_layout layout_of_stored(const struct model *model,
                                             const struct parameter *p,
                                             const struct stored_tensor *t)
{
    struct matrix_layout layout =
        model_matrix_layout(model, p, format_info(t->format)->bytes);

    if (t->pitch > 0) {
        layout.storage = STORED_COLUMNS;
        layout.pitch = t->pitch;
        layout.step = t->step;
    }
    return layout;
}

const struct stored_tensor *model_find_tensor(const struct model *model, const char *name)
{
    if (model->config->scores == SCORE_VALUE &&
        text_starts(name, model->config->architecture->paths[MODULE_HEAD]))
        return model->value_head ? safetensors_find(model->value_head, name) : NULL;
    return weights_find(model->base_files, &model->names, model->config, name);
}

struct safetensors *model_open_saved(const struct model *model, const char *dir,
                                     const char *stem, struct error *err)
{
    struct safetensors *set = safetensors_open(dir, stem, false, err);

    if (set && !weights_split_experts(set, model->config, NULL, err)) {
        safetensors_close(set);
        set = NULL;
    }
    return set;
}

const struct stored_tensor *model_find_saved(const struct model *model,
                                             const struct safetensors *set,
                                             const struct parameter *p)
{
    const struct stored_tensor *found = safetensors_find(set, p->name);
    struct text_names names;

    if (found || !model->config->multimodal)
        return found;
    names = weights_names(set, model->config);
    return weights_find(set, &names, model->config, p->name);
}

bool model_check_shape(const struct stored_tensor *t, const struct parameter *p,
                       struct error *err)
{
    return weights_fit(t,
                       &(struct weights_expected) { p->rank, p->rows, p->cols, p->stored,
                                                    p->matrices, p->tensor },
                       err);
}

/* In a file whose header is not padded, elements are at odd addresses. */
bool model_read_stored(const struct stored_tensor *t, size_t first, size_t count,
                       float *out, struct error *err)
{
    size_t item = format_info(t->format)->bytes;
    const char *from = (const char *)t->data + first * item;
    void *copy = NULL;

    if ((uintptr_t)from % item != 0) {
        copy = malloc(count * item);
        if (!copy)
            return error_set(err, ERROR_SYSTEM, "no memory for %zu elements", count);
        memcpy(copy, from, count * item);
    }
    format_convert(out, FORMAT_FP32, copy ? copy : from, t->format, count);
    free(copy);
    return true;
}

/* Decode rows of a matrix that the file has in few bits. */
static bool read_packed(const struct matrix_layout *layout, const struct stored_tensor *t,
                        const struct model_rows *rows, struct error *err)
{
    if (layout->storage == STORED_COLUMNS)
        return error_set(err, ERROR_DATA,
                         "%s: %s is transposed, which is not supported in FP8 and NVFP4",
                         t->file, t->name);
    for (size_t i = 0; i < rows->count; i++)
        packed_read(t->packed, row_order_in_file(&layout->order, rows->first + i),
                    rows->values + i * layout->cols);
    return true;
}

bool model_unpack(const struct stored_tensor *t, void *to, struct error *err)
{
    size_t cols = t->packed->cols, bytes = cols * format_info(t->format)->bytes;
    size_t rows = t->bytes / bytes;
    float *values = malloc(cols * sizeof(*values));

    if (!values)
        return error_set(err, ERROR_SYSTEM, "no memory for %zu elements", cols);
    for (size_t i = 0; i < rows; i++) {
        packed_read(t->packed, i, values);
        format_convert((char *)to + i * bytes, t->format, values, FORMAT_FP32, cols);
    }
    free(values);
    return true;
}

bool model_read_rows(const struct matrix_layout *layout, const struct stored_tensor *t,
                     const struct model_rows *rows, struct error *err)
{
    size_t count = rows->count * layout->cols;
    void *packed;

    if (t->packed)
        return read_packed(layout, t, rows, err);
    if (layout->storage == STORED_ROWS)
        return model_read_stored(t, rows->first * layout->cols, count, rows->values, err);
    packed = malloc(count * layout->item);
    if (!packed)
        return error_set(err, ERROR_SYSTEM, "no memory for %zu elements", count);
    matrix_layout_gather(layout, t->data, rows->first, rows->count, packed);
    format_convert(rows->values, FORMAT_FP32, packed, t->format, count);
    free(packed);
    return true;
}

bool model_read_parameter(const struct model *m, const struct stored_tensor *t,
                          const struct model_rows *rows, struct error *err)
{
    const struct parameter *p = rows->parameter;
    struct matrix_layout layout = layout_of_stored(m, p, t);
    struct model_rows stored = *rows;

    stored.count = rows->count * p->cols / layout.cols;
    return model_read_rows(&layout, t, &stored, err);
}

/* Give each row the norm that its magnitude says. */
static void set_norms(const struct model_rows *rows, const float *magnitudes)
{
    size_t cols = rows->parameter->cols;

    for (size_t i = 0; i < rows->count; i++) {
        double squares = 0;
        float factor;

        for (size_t j = 0; j < cols; j++)
            squares += (double)rows->values[i * cols + j] * rows->values[i * cols + j];
        factor = (float)(magnitudes[i] / sqrt(squares));
        for (size_t j = 0; j < cols; j++)
            rows->values[i * cols + j] *= factor;
    }
}

void model_merge(const struct model_rows *rows, const struct lora *lora,
                 struct merged_parts parts)
{
    size_t cols = rows->parameter->cols, rank = lora->rank;

    for (size_t i = 0; i < rows->count; i++)
        for (size_t k = 0; k < rank; k++) {
            float factor = (float)(lora->scale * parts.b[i * rank + k]);

            for (size_t j = 0; j < cols; j++)
                rows->values[i * cols + j] += factor * parts.a[k * cols + j];
        }
    if (parts.magnitudes)
        set_norms(rows, parts.magnitudes);
}

bool model_read(const struct model *model, const struct model_rows *rows,
                struct error *err)
{
    const struct parameter *p = rows->parameter;
    const struct stored_tensor *t = model_find_tensor(model, p->name);

    if (!t)
        return error_set(err, ERROR_DATA, "%s: the tensor %s is missing",
                         model->plan->model_name_or_path, p->name);
    if (model_grows(model, p))
        return model_read_grown(model, t, rows, err);
    return model_check_shape(t, p, err) && model_read_parameter(model, t, rows, err);
}

/* Return whether it is the head of a reward model, which the files do not have. */
static bool is_new_head(const struct model *m, const struct parameter *p)
{
    return m->config->scores && !m->plan->train_from_scratch &&
           m->shapes.parameters[p - m->parameters].module == MODULE_HEAD &&
           !model_find_tensor(m, p->name);
}

bool model_read_original(const struct model *model, const struct model_rows *rows,
                         struct error *err)
{
    const struct parameter *p = rows->parameter;

    const bool is_new = is_new_head(model, p);

    if (model->plan->train_from_scratch || is_new)
        model_init_weights(model, (size_t)(p - model->parameters), rows->first * p->cols,
                           rows->count * p->cols, rows->values);
    if (model->plan->train_from_scratch)
        return true;
    return (is_new || model_read(model, rows, err)) &&
           (!model->merged || model_add_merged(model, rows, err)) &&
           model_pissa_subtract(model, rows, false, err);
}

void model_round_frozen(const struct model *model, float *values, void *packed,
                        size_t count)
{
    enum format frozen = model->plan->precision.frozen;

    if (frozen != FORMAT_FP16 && frozen != FORMAT_BF16)
        return;
    format_convert(packed, frozen, values, FORMAT_FP32, count);
    format_convert(values, FORMAT_FP32, packed, frozen, count);
}

/* Return whether a parameter is not trained, neither now nor when an adapter was made. */
static bool is_frozen(const struct model *m, const struct parameter *p)
{
    const struct shape_parameter *shape = &m->shapes.parameters[p - m->parameters];

    return !p->trainable && !model_is_adapter(shape) &&
           !m->shapes.lora.saved[shape->module];
}

/* Write the values to their rows of the parameter. */
static void upload_rows(const struct model_loader *l, const struct model_rows *rows)
{
    const struct parameter *p = rows->parameter;
    struct tensor to = tensor_rows(p->weight, rows->first, rows->count);
    size_t count = rows->count * p->cols;
    const void *from = rows->values;

    if (is_frozen(l->model, p))
        model_round_frozen(l->model, rows->values, l->packed, count);
    if (to.format != FORMAT_FP32) {
        format_convert(l->packed, to.format, rows->values, FORMAT_FP32, count);
        from = l->packed;
    }
    if (p->trainable)
        model_write_weight(l->model, p, rows->first, rows->count, from);
    else
        model_upload_frozen(l->model, p, to.data, from, tensor_bytes(to));
}

static void update_copy(struct backend *be, const struct parameter *p)
{
    if (p->copy.data && !p->sharded && !p->gathered)
        be->ops->convert(be, &(struct op_convert) { .out = p->copy, .x = p->weight });
}

bool model_load_tensor(struct model *model, const struct parameter *p,
                       const struct stored_tensor *from, struct error *err)
{
    struct matrix_layout layout = layout_of_stored(model, p, from);
    void *rows = NULL;

    if (layout.storage != STORED_ROWS) {
        rows = malloc(from->bytes);
        if (!rows)
            return error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
        matrix_layout_gather(&layout, from->data, 0, layout.rows, rows);
    }
    model_write_weight(model, p, 0, p->rows, rows ? rows : from->data);
    free(rows);
    update_copy(model->be, p);
    return true;
}

/*
 * Upload a stored tensor without converting it, if it has the format of the weight, or
 * that of its working copy and the copy widens to the weight without loss.  Returns false
 * if it must be converted.
 */
static bool upload_stored(const struct model_loader *l, const struct stored_tensor *t,
                          const struct parameter *p)
{
    const struct backend_ops *ops = l->model->be->ops;
    enum format frozen = l->model->plan->precision.frozen;
    bool rounds = is_frozen(l->model, p) && frozen != t->format &&
                  (frozen == FORMAT_FP16 || frozen == FORMAT_BF16);

    if (p->stored != STORED_ROWS || t->pitch > 0 || t->packed)
        return false;
    if (!rounds && t->format == p->weight.format) {
        if (p->sharded)
            model_write_weight(l->model, p, 0, p->rows, t->data);
        else
            model_upload_frozen(l->model, p, p->weight.data, t->data, t->bytes);
        update_copy(l->model->be, p);
        return true;
    }
    if (rounds || !p->copy.data || t->format != p->copy.format ||
        p->weight.format != FORMAT_FP32)
        return false;
    ops->upload(l->model->be, p->copy.data, t->data, t->bytes);
    if (p->sharded)
        model_widen_copy(l->model, p);
    else
        ops->convert(l->model->be,
                     &(struct op_convert) { .out = p->weight, .x = p->copy });
    return true;
}

static bool is_weight_of(const char *name, const char *path)
{
    return text_starts(name, path) && strcmp(name + strlen(path), ".weight") == 0;
}

/* Return whether a tensor is stored with the weights but not needed. */
static bool is_ignored(const struct model *m, const char *name)
{
    const struct architecture *architecture = m->config->architecture;

    if (saved_is_tower(m, name) || architecture_keeps(architecture, name) ||
        weights_are_unused_keys(m->config, &m->names, name))
        return true;
    for (size_t i = 0; architecture->ignored[i]; i++)
        if (text_ends(name, architecture->ignored[i]))
            return true;
    if (score_head_replaces(m->config, name))
        return true;
    return (m->config->tied || m->config->untied) && is_weight_of(name, m->names.head);
}

/* transformers 5 may write tie_word_embeddings in the config.json of a model with towers
 * although the files have a head of their own.  It does not tie a head that differs, which
 * training would lose. */
static bool check_tied_head(const struct model *m, struct error *err)
{
    const struct stored_tensor *embed, *head;
    struct text name;

    if (!m->config->tied && !m->config->untied)
        return true;
    text_init(&name, 0);
    text_addf(&name, "%s.weight", m->names.head);
    head = safetensors_find(m->base_files, name.data);
    text_reset(&name);
    text_addf(&name, "%s.weight", m->config->architecture->paths[MODULE_EMBED]);
    embed = model_find_tensor(m, name.data);
    text_clear(&name);
    if (!head || !embed ||
        (!head->packed && !embed->packed && head->bytes == embed->bytes &&
         memcmp(head->data, embed->data, head->bytes) == 0))
        return true;
    return error_set(err, ERROR_DATA,
                     "%s: %s differs from the embeddings, but config.json says "
                     "tie_word_embeddings; set it to false there%s to use this head, as "
                     "transformers 5 does, or remove the tensor, which transformers 4 "
                     "ignores",
                     head->file, head->name,
                     m->config->multimodal ? " and in text_config" : "");
}

static bool is_parameter(const struct model *m, const struct stored_tensor *t)
{
    for (size_t i = 0; i < m->shapes.count; i++)
        if (model_find_tensor(m, m->shapes.parameters[i].name) == t ||
            model_is_quant_tensor(m, &m->parameters[i], t))
            return true;
    return false;
}

/* Compare the counts first; compare names only to find the unexpected one. */
static bool check_extra_tensors(const struct model *m, struct error *err)
{
    size_t stored = safetensors_count(m->base_files), known = 0;

    for (size_t i = 0; i < m->shapes.count; i++) {
        if (m->config->scores == SCORE_VALUE &&
            m->shapes.parameters[i].module == MODULE_HEAD)
            continue; /* in a file of its own */
        if (m->config->untied && m->shapes.parameters[i].module == MODULE_HEAD)
            continue; /* it is that of the embeddings */
        known += model_find_tensor(m, m->shapes.parameters[i].name) != NULL;
        known += m->config->quantized.enabled
                     ? model_count_quant_tensors(m, &m->parameters[i])
                     : 0;
    }
    for (size_t i = 0; i < stored; i++)
        known += is_ignored(m, safetensors_at(m->base_files, i)->name);
    for (size_t i = 0; known < stored && i < stored; i++) {
        const struct stored_tensor *t = safetensors_at(m->base_files, i);

        if (!is_parameter(m, t) && !is_ignored(m, t->name))
            return model_check_quant_tensor(m, t, err) &&
                   error_set(err, ERROR_DATA,
                             "%s: the tensor %s is not part of "
                             "a %s model with this config.json",
                             t->file, t->name, m->config->architecture->model_type);
    }
    return true;
}

/* As LLaMA-Factory, which looks for it next to the adapter if there is one
 * (model/loader.py). */
static bool open_value_head(struct model *m, struct error *err)
{
    const struct plan *plan = m->plan;
    const char *dir = plan->adapter_name_or_path ? plan->adapter_name_or_path
                                                 : plan->model_name_or_path;

    if (m->config->scores != SCORE_VALUE || !safetensors_exist(dir, SCORE_HEAD_FILE))
        return true;
    m->value_head = safetensors_open(dir, SCORE_HEAD_FILE, false, err);
    return m->value_head != NULL;
}

static bool open_base(struct model *m, struct error *err)
{
    if (m->plan->train_from_scratch && m->config->multimodal)
        return error_set(err, ERROR_JOB,
                         "train_from_scratch: %s has towers, which would have no weights",
                         m->config->multimodal->model_type);
    m->expert_files.fused = m->config->architecture->experts.only_tensors;
    m->expert_files.transposed =
        m->expert_files.fused &&
        m->config->architecture->experts.storage == EXPERTS_IN_COLUMNS;
    if (m->plan->train_from_scratch)
        return true;
    m->base_files = safetensors_open(m->plan->model_name_or_path, "model", false, err);
    if (!m->base_files)
        return false;
    if (!weights_split_experts(m->base_files, m->config, &m->expert_files, err))
        return false;
    m->names = weights_names(m->base_files, m->config);
    return open_value_head(m, err) && check_extra_tensors(m, err) &&
           check_tied_head(m, err);
}

/* Return the next rows of a parameter that fit into the loader's room. */
static struct model_rows span_of(const struct model_loader *l, const struct parameter *p,
                                 size_t first)
{
    size_t step = model_span_rows(p), left = p->rows - first;

    return (struct model_rows) { p, first, left < step ? left : step, l->values };
}

bool model_load_stored(const struct model_loader *l, const struct stored_tensor *t,
                       const struct parameter *p, struct error *err)
{
    if (!model_check_shape(t, p, err))
        return false;
    if (upload_stored(l, t, p))
        return true;
    for (size_t row = 0; row < p->rows;) {
        struct model_rows rows = span_of(l, p, row);

        if (!model_read_parameter(l->model, t, &rows, err))
            return false;
        upload_rows(l, &rows);
        row += rows.count;
    }
    update_copy(l->model->be, p);
    return true;
}

static bool load_parameter(const struct model_loader *l, size_t index, struct error *err)
{
    struct model *m = l->model;
    struct parameter *p = &m->parameters[index];
    const struct stored_tensor *t = NULL;

    if (p->quantized.codes && m->config->quantized.enabled)
        return (m->config->quantized.by == QUANTIZER_BITSANDBYTES
                    ? model_load_prequantized
                    : model_load_gptq)(m, p, err);
    if (p->quantized.codes)
        return model_quantize(m, p, l->values, l->packed, err);
    if (model_is_adapter(&m->shapes.parameters[index]) && m->plan->generation.alone)
        return model_load_separate_adapter(l, index, err);
    if (!model_is_adapter(&m->shapes.parameters[index]) && m->base_files && !m->merged &&
        !model_pissa_changes(m, p, false) && !model_grows(m, p))
        t = model_find_tensor(m, p->name);
    if (t && model_check_shape(t, p, NULL) && upload_stored(l, t, p))
        return true;
    if (!model_keeps(m, p))
        return true;
    for (size_t row = 0; row < p->rows;) {
        struct model_rows rows = span_of(l, p, row);

        if (model_is_adapter(&m->shapes.parameters[index]))
            model_init_adapter(m, index, row * p->cols, rows.count * p->cols,
                               rows.values);
        else if (!model_read_original(m, &rows, err))
            return false;
        upload_rows(l, &rows);
        row += rows.count;
    }
    update_copy(l->model->be, p);
    return true;
}

static bool load_base(const struct model_loader *l, struct error *err)
{
    struct model *m = l->model;

    for (size_t i = 0; i < m->shapes.count; i++) {
        if (!heartbeat_continue(m->heartbeat, "loading the model", err) ||
            !load_parameter(l, i, err))
            return false;
        if (m->base_files)
            safetensors_release(m->base_files);
    }
    return true;
}

/* Return whether something that is not trained is read from the files when the model is
 * saved. */
static bool reads_again(const struct model *m)
{
    const struct architecture *a = m->config->architecture;

    return m->plan->method != METHOD_FULL || m->config->multimodal ||
           m->config->scores == SCORE_VALUE || architecture_has_kept(a) ||
           a->paths[MODULE_ROUTER_BIAS] || a->paths[MODULE_FACTOR] ||
           a->paths[MODULE_BETA];
}

bool model_load(struct model *model, struct error *err)
{
    struct model_loader l = { .model = model };
    size_t elements = model_span_elements(model);
    bool ok;

    for (size_t i = 0; i < TS_COUNT(model->pissa); i++)
        model->pissa[i] =
            arena_array(model->arena, model->shapes.count, sizeof(struct pissa));
    l.values = malloc(elements * sizeof(float));
    l.packed = malloc(elements * sizeof(uint16_t));
    ok = l.values && l.packed;
    if (!ok)
        error_set(err, ERROR_SYSTEM, "no memory to convert %zu elements", elements);
    ok = ok && open_base(model, err) && model_open_merged(model, err) &&
         load_base(&l, err);
    if (ok)
        model_init_magnitudes(model);
    ok =
        ok && model_load_trained_adapter(&l, err) && model->be->ops->sync(model->be, err);
    free(l.values);
    free(l.packed);
    if (!reads_again(model)) {
        safetensors_close(model->base_files);
        model->base_files = NULL;
    }
    return ok;
}
