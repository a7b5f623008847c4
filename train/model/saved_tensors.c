/* train/model/saved_tensors.c - how the tensors of a saved model are read: from the weights
 * in memory, or from the files of the base. */
#include "config.h"

#include "train/model/saved_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "train/model/cross_layers.h"
#include "train/model/encoder_adapters.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"
#include "train/model/score_head.h"
#include "train/model/weights.h"

bool saved_is_base(const struct model *m, size_t index)
{
    enum part part = m->shapes.parameters[index].part;

    return part == PART_WEIGHT || part == PART_BIAS;
}

/* Return how many matrices of an expert a tensor holds that has those of all. */
static size_t matrices_of(const struct model *m, size_t index)
{
    return m->shapes.parameters[index].module == MODULE_EXPERT_DOWN ||
                   m->config->architecture->experts.up_tensor
               ? 1
               : 2;
}

/* Return whether the model's files have the matrices of this module as [in][out]. */
static bool is_transposed(const struct model *m, size_t index)
{
    return m->config->architecture->experts.up_tensor
               ? m->expert_files.fused &&
                     m->shapes.parameters[index].module == MODULE_EXPERT_DOWN
               : m->expert_files.transposed;
}

/* Return how the model's files store a parameter. */
static struct matrix_layout layout_in_files(const struct model *m, size_t index,
                                            enum format format)
{
    const struct parameter *p = &m->parameters[index];
    struct matrix_layout layout = model_matrix_layout(m, p, format_info(format)->bytes);

    if (is_transposed(m, index) && saved_is_base(m, index) &&
        module_is_of_experts(m->shapes.parameters[index].module)) {
        layout.storage = STORED_COLUMNS;
        layout.pitch = matrices_of(m, index) * layout.rows;
        layout.step =
            m->config->architecture->experts.interleaved ? matrices_of(m, index) : 1;
    }
    return layout;
}

/* Download a parameter of the base in the layout of its files. */
static bool read_trained(const void *context, size_t index, void *to, struct error *err)
{
    const struct model *m = context;
    const struct parameter *p = &m->parameters[index];
    struct matrix_layout layout = layout_in_files(m, index, p->weight.format);
    void *rows = to;
    bool ok;

    heartbeat_tick(m->heartbeat);
    if (to && layout.storage != STORED_ROWS)
        rows = malloc(p->rows * p->cols * layout.item);
    ok = rows || !to ? model_read_weight(m, p, 0, p->rows, rows, err)
                     : error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
    if (ok && rows != to)
        matrix_layout_scatter(&layout, rows, 0, layout.rows, to);
    if (rows != to)
        free(rows);
    return ok;
}

/* The same of some of its rows, if that is their layout. */
static bool read_trained_rows(const void *context, size_t index, size_t at, size_t bytes,
                              void *to, struct error *err)
{
    const struct model *m = context;
    const struct parameter *p = &m->parameters[index];
    size_t row = p->cols * format_info(p->weight.format)->bytes;

    heartbeat_tick(m->heartbeat);
    return model_read_weight(m, p, at / row, bytes / row, to, err);
}

/* Return the format in which a parameter of the base is saved if it is merged or not
 * trained.  transformers keeps buffers of routers in fp32, as files have them. */
enum format saved_base_format(const struct model *m, size_t index)
{
    static const enum format requested[] = { [INFER_FLOAT16] = FORMAT_FP16,
                                             [INFER_BFLOAT16] = FORMAT_BF16,
                                             [INFER_FLOAT32] = FORMAT_FP32 };
    enum format frozen = m->plan->precision.frozen;
    const struct stored_tensor *t =
        m->base_files ? model_find_tensor(m, m->parameters[index].name) : NULL;

    if (module_is_buffer(m->shapes.parameters[index].module))
        return t ? t->format : FORMAT_FP32;
    if (plan_merges(m->plan) && m->plan->infer_dtype != INFER_AUTO)
        return requested[m->plan->infer_dtype];
    if (plan_adapts(m->plan))
        return t ? t->format : FORMAT_FP32;
    return frozen == FORMAT_FP16 || frozen == FORMAT_BF16 ? frozen : FORMAT_FP32;
}

/* Return rows of a parameter of the base with its adapter merged; of a trained parameter,
 * the current rows. */
static bool merge_rows(const struct model *m, const struct model_rows *rows,
                       struct error *err)
{
    const struct parameter *p = rows->parameter;
    float *trained;

    if (!p->trainable)
        return model_read_original(m, rows, err) && model_add_adapter(m, rows, err);
    trained =
        model_read_values(m, (size_t)(p - m->parameters), rows->first, rows->count, err);
    if (trained)
        memcpy(rows->values, trained, rows->count * p->cols * sizeof(*trained));
    free(trained);
    return trained != NULL;
}

static bool read_merged(const void *context, size_t index, void *to, struct error *err)
{
    const struct model *m = context;
    const struct parameter *p = &m->parameters[index];
    enum format format = saved_base_format(m, index);
    struct matrix_layout layout = layout_in_files(m, index, format);
    size_t step = model_span_rows(p);
    float *values = malloc(step * p->cols * sizeof(*values));
    void *packed = malloc(step * p->cols * layout.item);
    bool ok = values && packed;

    if (!ok)
        error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
    for (size_t row = 0; ok && row < p->rows; row += step) {
        size_t rows = p->rows - row < step ? p->rows - row : step;
        size_t count = rows * p->cols;

        heartbeat_tick(m->heartbeat);
        ok = merge_rows(m, &(struct model_rows) { p, row, rows, values }, err);
        if (!ok)
            break;
        format_convert(packed, format, values, FORMAT_FP32, count);
        matrix_layout_scatter(&layout, packed, row, count / layout.cols, to);
    }
    free(values);
    free(packed);
    if (m->base_files)
        safetensors_release(m->base_files);
    return ok;
}

struct tensor_source saved_source(const struct model *m, size_t index, const char *name)
{
    const struct parameter *p = &m->parameters[index];
    struct tensor_source source = model_stored_shape(p);

    source.name = name;
    source.format = p->weight.format;
    source.read = read_trained;
    source.context = m;
    source.index = index;
    source.shared = p->sharded;
    if (layout_in_files(m, index, source.format).storage == STORED_ROWS) {
        source.read_part = read_trained_rows;
        source.part = p->cols * format_info(source.format)->bytes;
    }
    return source;
}

/* The same of one that is merged or not trained. */
static struct tensor_source merged_source(const struct model *m, size_t index,
                                          const char *name)
{
    struct tensor_source source = saved_source(m, index, name);

    source.format = saved_base_format(m, index);
    source.read = read_merged;
    source.read_part = NULL;
    source.shared = false;
    return source;
}

/* Return the name of a parameter in a whole model: of one with towers, the name that the
 * files have which it was loaded from. */
static const char *name_in_files(const struct model *m, const char *name,
                                 struct arena *arena)
{
    struct text text;
    const char *out;

    if (!m->config->multimodal)
        return name;
    text_init(&text, 0);
    weights_name(m->config, &m->names, name, &text);
    out = arena_strdup(arena, text.data);
    text_clear(&text);
    return out;
}

static bool read_tower(const void *context, size_t index, void *to, struct error *err)
{
    const struct model *m = context;
    const struct stored_tensor *t = safetensors_at(m->base_files, index);
    bool ok = true;

    heartbeat_tick(m->heartbeat);
    if (t->packed)
        ok = model_unpack(t, to, err);
    else
        memcpy(to, t->data, t->bytes);
    safetensors_release(m->base_files);
    return ok;
}

/* Add the adapter that a run has on a layer of the encoder. */
static bool add_own(const struct model *m, size_t layer, float *values, struct error *err)
{
    float *factors[2] = { NULL, NULL };
    bool ok = true;

    for (size_t i = 0; ok && i < m->shapes.count; i++) {
        const struct shape_parameter *p = &m->shapes.parameters[i];
        const size_t at = p->part == PART_LORA_B;

        if (p->module != MODULE_ENCODER || p->expert != layer)
            continue;
        factors[at] = model_read_values(m, i, 0, p->rows, err);
        ok = factors[at] != NULL;
    }
    if (factors[0] && factors[1])
        encoder_adapters_merge(&m->config->encoder.list[layer], &m->shapes.lora,
                               factors[0], factors[1], values);
    free(factors[0]);
    free(factors[1]);
    return ok;
}

/* Add the one of the adapter that was merged before. */
static bool add_merged(const struct model *m, size_t layer, float *values,
                       struct error *err)
{
    const struct encoder_tensor *t = &m->config->encoder.list[layer];
    const size_t rank = m->merged_lora.rank;
    struct encoder_stored stored;
    float *a, *b;

    if (!m->merged || layer >= LORA_ENCODER_MAX || !m->merged_lora.encoder[layer])
        return true;
    if (!encoder_adapters_stored(m->merged, m->config, &m->merged_lora, layer, &stored,
                                 err))
        return false;
    a = memory_alloc((t->rows + t->cols) * rank * sizeof(*a));
    b = a + t->cols * rank;
    format_convert(a, FORMAT_FP32, stored.a->data, stored.a->format, t->cols * rank);
    format_convert(b, FORMAT_FP32, stored.b->data, stored.b->format, t->rows * rank);
    encoder_adapters_merge(t, &m->merged_lora, a, b, values);
    free(a);
    return true;
}

/* Return the layer of the encoder that a tensor of the files is the matrix of, if it can have
 * adapters; SIZE_MAX: it is none. */
static size_t encoder_layer(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->config->encoder.count; i++)
        if (m->config->encoder.list[i].path &&
            strcmp(m->config->encoder.list[i].name, name) == 0)
            return i;
    return SIZE_MAX;
}

/* Return whether such a matrix has an adapter. */
static bool is_adapted(const struct model *m, size_t layer)
{
    return layer < LORA_ENCODER_MAX && plan_adapts(m->plan) &&
           (m->shapes.lora.encoder[layer] ||
            (m->merged && m->merged_lora.encoder[layer]));
}

/* A matrix of the encoder with its adapters, as the files have it otherwise. */
static bool read_adapted(const void *context, size_t index, void *to, struct error *err)
{
    const struct model *m = context;
    const struct stored_tensor *t = safetensors_at(m->base_files, index);
    const size_t layer = encoder_layer(m, t->name);
    const struct encoder_tensor *matrix = &m->config->encoder.list[layer];
    const size_t count = matrix->rows * matrix->cols;
    float *values = malloc(count * sizeof(*values));
    bool ok = values || error_set(err, ERROR_SYSTEM, "no memory for %s", t->name);

    heartbeat_tick(m->heartbeat);
    if (ok)
        format_convert(values, FORMAT_FP32, t->data, t->format, count);
    ok = ok && add_merged(m, layer, values, err) && add_own(m, layer, values, err);
    if (ok)
        format_convert(to, t->format, values, FORMAT_FP32, count);
    free(values);
    safetensors_release(m->base_files);
    return ok;
}

/* Return whether it is a parameter of the encoder. */
static bool is_of_encoder(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->shapes.count; i++)
        if (m->shapes.parameters[i].tensor &&
            strcmp(m->shapes.parameters[i].name, name) == 0)
            return true;
    return false;
}

bool saved_is_tower(const struct model *m, const char *name)
{
    const struct multimodal *row = m->config->multimodal;
    const char *projector = m->config->architecture->projector;

    if (!row || !model_config_keeps(m->config, name) || is_of_encoder(m, name))
        return false;
    return !m->shapes.projects ||
           !text_starts(name, multimodal_projector(row, &m->names, projector));
}

/* Return whether it is a parameter of this model. */
static bool is_parameter(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->shapes.count; i++)
        if (strcmp(m->shapes.parameters[i].name, name) == 0)
            return true;
    return false;
}

/* The base's files may have other names for the parameters of a projector. */
bool saved_is_of_frozen_tower(const struct model *m, const char *name)
{
    return !is_parameter(m, name) &&
           (saved_is_tower(m, name) || encoder_adapters_has(&m->config->encoder, name));
}

static bool is_kept(const struct model *m, const char *name)
{
    if (m->config->scores == SCORE_VALUE && score_head_replaces(m->config, name))
        return true;
    return m->config->multimodal ? saved_is_tower(m, name)
                                 : architecture_keeps(m->config->architecture, name);
}

/* Add the tensors that are not part of the text model, as the files have them, but with the
 * adapters of an encoder; returns how many. */
static size_t add_towers(const struct model *m, bool merged,
                         struct tensor_source *sources)
{
    size_t count = 0;

    for (size_t i = 0; i < safetensors_count(m->base_files); i++) {
        const struct stored_tensor *t = safetensors_at(m->base_files, i);

        if (!is_kept(m, t->name))
            continue;
        sources[count] = (struct tensor_source) { .name = t->name,
                                                  .format = t->format,
                                                  .dtype = t->dtype,
                                                  .rank = t->rank,
                                                  .read = read_tower,
                                                  .context = m,
                                                  .index = i };
        memcpy(sources[count].shape, t->shape, t->rank * sizeof(*t->shape));
        if (merged && is_adapted(m, encoder_layer(m, t->name)))
            sources[count].read = read_adapted;
        count++;
    }
    return count;
}

static bool has_towers(const struct model *m)
{
    bool keeps = m->config->multimodal || m->config->scores == SCORE_VALUE ||
                 architecture_has_kept(m->config->architecture);

    return keeps && m->base_files;
}

/* A tensor with the matrices of all experts, as read_trained or read_merged reads each. */
struct fused {
    const struct model *model;
    size_t first, count; /* parameters */
    size_t step;         /* from one to the next */
    struct tensor_source one;
};

static bool read_fused(const void *context, size_t index, void *to, struct error *err)
{
    const struct fused *f = context;
    const struct parameter *p = &f->model->parameters[f->first];
    const size_t each = matrices_of(f->model, f->first);
    const size_t apart =
        f->model->config->architecture->experts.interleaved ? 1 : p->rows;
    size_t item = format_info(f->one.format)->bytes;

    (void)index;
    for (size_t i = 0; i < f->count; i++) {
        size_t at = i * p->rows * p->cols;

        if (is_transposed(f->model, f->first)) /* rows are adjacent, or alternate */
            at = i / each * each * p->rows * p->cols + i % each * apart;
        if (!f->one.read(f->one.context, f->first + i * f->step,
                         to ? (char *)to + at * item : NULL, err))
            return false;
    }
    return true;
}

/* The same of some of the matrices, if they follow each other. */
static bool read_fused_some(const void *context, size_t index, size_t at, size_t bytes,
                            void *to, struct error *err)
{
    const struct fused *f = context;
    const struct parameter *p = &f->model->parameters[f->first];
    size_t each = p->rows * p->cols * format_info(f->one.format)->bytes;
    char *data = to;

    (void)index;
    for (size_t i = at / each; i < (at + bytes) / each; i++) {
        if (!f->one.read(f->one.context, f->first + i * f->step, data, err))
            return false;
        data += data ? each : 0;
    }
    return true;
}

/* Return how many parameters are in one tensor of a file, from this one on; 0: it is in
 * the tensor of an earlier one. */
static size_t fused_count(const struct model *m, size_t index)
{
    const struct shape_parameter *p = &m->shapes.parameters[index];

    if (!m->expert_files.fused || !module_is_of_experts(p->module))
        return 1;
    if (p->expert > 0 ||
        (p->module == MODULE_EXPERT_UP && !m->config->architecture->experts.up_tensor))
        return 0;
    return m->config->experts * matrices_of(m, index);
}

/* Make the source of one matrix that of all. */
static void fuse(const struct model *m, size_t count, struct tensor_source *source,
                 struct arena *arena)
{
    const struct shape_parameter *p = &m->shapes.parameters[source->index];
    const struct architecture *a = m->config->architecture;
    struct fused *f = arena_alloc(arena, sizeof(*f));

    bool alone = a->experts.up_tensor != NULL;
    size_t step = alone && p->module != MODULE_EXPERT_DOWN ? 2 : 1;

    *f = (struct fused) { m, source->index, count, step, *source };
    source->name = name_in_files(
        m,
        arena_printf(arena, "%s%zu.%s%s", a->blocks, p->layer,
                     p->module == MODULE_EXPERT_GATE ? a->experts.gate_up_tensor
                     : p->module == MODULE_EXPERT_UP ? a->experts.up_tensor
                                                     : a->experts.down_tensor,
                     p->part == PART_BIAS ? "_bias" : ""),
        arena);
    source->rank = p->part == PART_BIAS ? 2 : 3;
    source->shape[0] = m->config->experts;
    source->shape[is_transposed(m, source->index) ? 2 : 1] =
        p->rows * (count / m->config->experts);
    source->shape[is_transposed(m, source->index) ? 1 : 2] = p->cols;
    if (alone) { /* two dimensions */
        source->rank = 2;
        source->shape[0] *= source->shape[1];
        source->shape[1] = source->shape[2];
    }
    if (p->part == PART_BIAS)
        source->shape[1] = p->cols * (count / m->config->experts);
    source->read = read_fused;
    source->context = f;
    source->read_part = NULL;
    if (!is_transposed(m, source->index)) {
        source->read_part = read_fused_some;
        source->part = m->parameters[source->index].rows *
                       m->parameters[source->index].cols *
                       format_info(source->format)->bytes;
    }
}

/* Return whether it is in TRL's file of a head. */
bool saved_in_value_head(const struct model *m, size_t index)
{
    return m->config->scores == SCORE_VALUE &&
           m->shapes.parameters[index].module == MODULE_HEAD;
}

/* List the tensors of that file; returns how many. */
size_t saved_list_value_head(const struct model *m, struct tensor_source *sources)
{
    size_t count = 0;

    for (size_t i = 0; i < m->shapes.count; i++)
        if (saved_in_value_head(m, i))
            sources[count++] = m->parameters[i].trainable
                                   ? saved_source(m, i, m->parameters[i].name)
                                   : merged_source(m, i, m->parameters[i].name);
    return count;
}

size_t saved_list_whole(const struct model *m, bool merged, struct arena *arena,
                        struct tensor_source *sources)
{
    size_t count = 0;

    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct parameter *p = &m->parameters[i];
        const size_t parts = fused_count(m, i);
        const char *name;

        if (!saved_is_base(m, i) || parts == 0 || saved_in_value_head(m, i))
            continue;
        name = name_in_files(m, p->name, arena);
        sources[count] = merged || !p->trainable ? merged_source(m, i, name)
                                                 : saved_source(m, i, name);
        if (parts > 1)
            fuse(m, parts, &sources[count], arena);
        count++;
    }
    return has_towers(m) ? count + add_towers(m, merged, sources + count) : count;
}

bool saved_is_frozen(const struct tensor_source *source)
{
    const struct fused *fused = source->context;

    return (source->read == read_fused ? fused->one.read : source->read) != read_trained;
}

size_t saved_count_whole(const struct model *m)
{
    return m->shapes.count + (has_towers(m) ? safetensors_count(m->base_files) : 0);
}

/* ---- Adapters ---- */

bool saved_is_adapter(const struct model *m)
{
    return plan_adapts(m->plan);
}

bool saved_trains_tied_head(const struct model *m)
{
    return m->config->tied && m->shapes.lora.saved[MODULE_EMBED];
}

size_t saved_list_adapter(const struct model *m, struct arena *arena,
                          struct tensor_source *sources)
{
    size_t count = 0;

    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct parameter *p = &m->parameters[i];
        const char *name = p->name;

        if (!p->trainable || saved_in_value_head(m, i))
            continue;
        if (saved_is_base(m, i)) /* trained as a whole: modules_to_save */
            name = arena_printf(arena, "base_model.model.%s", p->name);
        sources[count++] = saved_source(m, i, name);
        if (p == m->embed && saved_trains_tied_head(m)) /* PEFT stores two copies of it */
            sources[count++] =
                saved_source(m, i,
                             arena_printf(arena, "base_model.model.%s.weight",
                                          m->config->architecture->paths[MODULE_HEAD]));
    }
    return count;
}
