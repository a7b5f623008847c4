/* train/model/model_save.c - writes models and adapters in the format of Hugging Face's
 * libraries. */
#include "config.h"

#include "train/model/model.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_edit.h"
#include "base/walk.h"
#include "train/model/companion_files.h"
#include "train/model/model_gguf.h"
#include "train/model/model_internal.h"
#include "train/model/model_pissa.h"
#include "train/model/score_head.h"
#include "train/model/weight_shards.h"
#include "train/model/weights.h"

#define GIGABYTE UINT64_C(1000000000) /* as transformers counts max_shard_size */

static bool write_text(const char *dir, const char *name, const char *data, size_t len,
                       struct error *err)
{
    char *path = path_join(dir, name);
    bool ok = file_replace(path, data, len, 0666, err);

    free(path);
    return ok;
}

/* Set the dtype of the saved weights in the text of a config.json. */
static bool set_dtype(struct text *config, enum format format, struct error *err)
{
    json_t *root = json_read_loose(config->data, config->len, "config.json", 1, err);
    bool has_new = json_object_get(root, "dtype") != NULL;
    bool has_old = json_object_get(root, "torch_dtype") || !has_new;
    json_t *name = json_string(format_info(format)->torch);
    bool ok =
        root && (!has_new || json_edit_set(config, "dtype", name, "config.json", err)) &&
        (!has_old || json_edit_set(config, "torch_dtype", name, "config.json", err));

    json_decref(name);
    json_decref(root);
    return ok;
}

/* Write the original config.json, with the dtype of the saved weights and the tokens that
 * the tokenizer now has. */
static bool write_config(const struct model *m, const char *dir, enum format format,
                         struct error *err)
{
    const struct model_config *c = m->config;
    enum format config_dtype = c->dtype == FORMAT_COUNT ? FORMAT_FP32 : c->dtype;
    struct text text;
    bool ok;

    text_init(&text, 0);
    text_add(&text, c->text, c->text_len);
    ok = (!c->packed.enabled || companion_files_drop_quantization(&text, err)) &&
         (config_dtype == format || set_dtype(&text, format, err)) &&
         companion_files_edit_config(m->saving, &text, err) &&
         score_head_edit_config(c, &text, err) &&
         write_text(dir, "config.json", text.data, text.len, err);
    text_clear(&text);
    return ok;
}

static bool write_companions(const struct model *m, const char *dir, bool adapter,
                             bool exported, struct error *err)
{
    const struct companion_files files = { .from = m->plan->model_name_or_path,
                                           .saving = m->saving,
                                           .adapter = adapter,
                                           .modelfile = exported && !m->config->scores };

    return companion_files_write(&files, dir, err);
}

static bool is_base(const struct model *m, size_t index)
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

    if (is_transposed(m, index) && is_base(m, index) &&
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
    if (layout.storage != STORED_ROWS)
        rows = malloc(p->rows * p->cols * layout.item);
    ok = rows ? model_read_weight(m, p, 0, p->rows, rows, err)
              : error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
    if (ok && rows != to)
        matrix_layout_scatter(&layout, rows, 0, layout.rows, to);
    if (rows != to)
        free(rows);
    return ok;
}

/* Return the format in which a parameter of the base is saved if it is merged or not
 * trained.  transformers keeps buffers of routers in fp32, as files have them. */
static enum format base_format(const struct model *m, size_t index)
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
    enum format format = base_format(m, index);
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

static struct tensor_source source_of(const struct model *m, size_t index,
                                      const char *name)
{
    const struct parameter *p = &m->parameters[index];
    struct tensor_source source = model_stored_shape(p);

    source.name = name;
    source.format = p->weight.format;
    source.read = read_trained;
    source.context = m;
    source.index = index;
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

static bool is_kept(const struct model *m, const char *name)
{
    if (m->config->scores == SCORE_VALUE && score_head_replaces(m->config, name))
        return true;
    return m->config->multimodal ? multimodal_is_tower(m->config->multimodal, name)
                                 : architecture_keeps(m->config->architecture, name);
}

/* Add the tensors that are not part of the text model, as the files have them; returns how
 * many. */
static size_t add_towers(const struct model *m, struct tensor_source *sources)
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
        count++;
    }
    return count;
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
        if (!f->one.read(f->one.context, f->first + i * f->step, (char *)to + at * item,
                         err))
            return false;
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
    source->name =
        arena_printf(arena, "%s%zu.%s%s", a->blocks, p->layer,
                     p->module == MODULE_EXPERT_GATE ? a->experts.gate_up_tensor
                     : p->module == MODULE_EXPERT_UP ? a->experts.up_tensor
                                                     : a->experts.down_tensor,
                     p->part == PART_BIAS ? "_bias" : "");
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
}

/* Return whether it is in TRL's file of a head. */
static bool is_of_value_head(const struct model *m, size_t index)
{
    return m->config->scores == SCORE_VALUE &&
           m->shapes.parameters[index].module == MODULE_HEAD;
}

static bool write_value_head(const struct model *m, const char *dir, struct error *err)
{
    struct tensor_source sources[2];
    size_t count = 0;

    for (size_t i = 0; i < m->shapes.count; i++) {
        if (!is_of_value_head(m, i))
            continue;
        sources[count] = source_of(m, i, m->parameters[i].name);
        if (!m->parameters[i].trainable) {
            sources[count].format = base_format(m, i);
            sources[count].read = read_merged;
        }
        count++;
    }
    return count == 0 ||
           weight_file_write(dir, SCORE_HEAD_FILE ".safetensors", sources, count, err);
}

static bool is_low_rank(const struct model *m, size_t index)
{
    enum part part = m->shapes.parameters[index].part;

    return part == PART_LORA_A || part == PART_LORA_B;
}

/* Save the whole base: trained parameters as they are (exact, for a resume), the rest
 * from its files. */
static bool save_whole(const struct model *m, const char *dir, bool exported,
                       struct error *err)
{
    bool merged = exported && plan_adapts(m->plan);
    bool keeps = m->config->multimodal || m->config->scores == SCORE_VALUE ||
                 architecture_has_kept(m->config->architecture);
    size_t stored = keeps && m->base_files ? safetensors_count(m->base_files) : 0;
    struct tensor_source *sources =
        memory_alloc((m->shapes.count + stored) * sizeof(*sources));
    struct arena *arena = arena_new();
    enum format format = m->shapes.trainable;
    size_t count = 0;
    bool ok;

    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct parameter *p = &m->parameters[i];
        const size_t parts = fused_count(m, i);

        if (!is_base(m, i) || parts == 0 || is_of_value_head(m, i))
            continue;
        sources[count] = source_of(m, i, name_in_files(m, p->name, arena));
        if (merged || !p->trainable) {
            sources[count].format = base_format(m, i);
            sources[count].read = read_merged;
        }
        if (parts > 1)
            fuse(m, parts, &sources[count], arena);
        count++;
    }
    if (stored > 0)
        count += add_towers(m, sources + count);
    if (merged)
        format = base_format(m, (size_t)(m->embed - m->parameters));
    ok = (exported ? weight_shards_write(dir, sources, count,
                                         (uint64_t)m->plan->export_size * GIGABYTE, err)
                   : weight_file_write(dir, "model.safetensors", sources, count, err)) &&
         write_value_head(m, dir, err) && write_config(m, dir, format, err) &&
         write_companions(m, dir, false, exported, err);
    arena_free(arena);
    free(sources);
    return ok;
}

/* Return whether the head is trained because it is the embedding. */
static bool trains_tied_head(const struct model *m)
{
    return m->config->tied && m->shapes.lora.saved[MODULE_EMBED];
}

/* A plain adapter of twice the rank that is the difference from the initial one, as PEFT's
 * subtract_mutated_init makes it: scale (B A - B0 A0). */
static void convert_settings(struct lora *lora)
{
    lora->pissa = false;
    lora->rank *= 2;
    lora->alpha *= lora->rslora ? sqrt(2) : 2;
}

/* Write [B, -B0] for PART_LORA_B, or A above A0. */
static bool read_converted(const void *context, size_t index, void *to, struct error *err)
{
    const struct model *m = context;
    const struct parameter *p = &m->parameters[index];
    const struct pissa *start = model_pissa_start(m, index);
    bool is_b = m->shapes.parameters[index].part == PART_LORA_B;
    size_t cols = is_b ? 2 * p->cols : p->cols, half = p->rows * p->cols;
    struct parameter whole = *p;
    float *values = model_read_values(m, index, 0, p->rows, err), *both;

    if (!values)
        return false;
    both = memory_alloc(2 * half * sizeof(*both));
    for (size_t i = 0; i < half; i++) {
        size_t at = is_b ? i / p->cols * cols + i % p->cols : i;

        both[at] = values[i];
        both[at + (is_b ? p->cols : half)] = is_b ? -start->b[i] : start->a[i];
    }
    format_convert(to, p->weight.format, both, FORMAT_FP32, 2 * half);
    free(values);
    free(both);
    whole.cols = cols;
    return !is_b || model_rows_to_stored(m, &whole, p->weight.format, to, err);
}

static struct tensor_source converted_source(const struct model *m, size_t index,
                                             const char *name)
{
    struct tensor_source source = source_of(m, index, name);
    bool is_b = m->shapes.parameters[index].part == PART_LORA_B;

    source.shape[is_b] *= 2;
    source.read = read_converted;
    return source;
}

static bool write_adapter_config(const struct model *m, const char *dir, bool converted,
                                 struct error *err)
{
    const char *base = m->plan->model_name_or_path;
    char *whole = realpath(base, NULL);
    struct lora lora = m->shapes.lora;
    struct text text;
    bool ok;

    lora.tied = trains_tied_head(m);
    lora.saved[MODULE_HEAD] |= lora.tied;
    lora.classifies = m->config->scores == SCORE_LINEAR;
    if (m->config->scores == SCORE_VALUE)
        lora.saved[MODULE_HEAD] = false; /* in a file of its own */
    for (enum module i = 0; i < MODULES; i++) {
        lora.absent[i] = true;
        for (size_t l = 0; l < m->config->layers; l++)
            lora.absent[i] &= !model_config_has(m->config, i, l);
    }
    if (converted)
        convert_settings(&lora);
    text_init(&text, 0);
    ok = lora_write_config(&lora, m->config->architecture, whole ? whole : base, &text) ||
         error_set(err, ERROR_SYSTEM, "cannot make adapter_config.json");
    ok = ok && write_text(dir, "adapter_config.json", text.data, text.len, err);
    text_clear(&text);
    free(whole);
    return ok;
}

static bool save_adapter(const struct model *m, const char *dir, bool converted,
                         struct error *err)
{
    struct tensor_source *sources =
        memory_alloc((m->shapes.count + 1) * sizeof(*sources));
    struct arena *arena = arena_new();
    size_t count = 0;
    bool ok;

    for (size_t i = 0; i < m->shapes.count; i++) {
        const struct parameter *p = &m->parameters[i];
        const char *name = p->name;

        if (!p->trainable || is_of_value_head(m, i))
            continue;
        if (is_base(m, i)) /* trained as a whole: modules_to_save */
            name = arena_printf(arena, "base_model.model.%s", p->name);
        sources[count++] = converted && is_low_rank(m, i) ? converted_source(m, i, name)
                                                          : source_of(m, i, name);
        if (p == m->embed && trains_tied_head(m)) /* PEFT stores two copies of it */
            sources[count++] =
                source_of(m, i,
                          arena_printf(arena, "base_model.model.%s.weight",
                                       m->config->architecture->paths[MODULE_HEAD]));
    }
    ok = weight_file_write(dir, "adapter_model.safetensors", sources, count, err) &&
         write_value_head(m, dir, err) && write_adapter_config(m, dir, converted, err) &&
         write_companions(m, dir, true, false, err);
    arena_free(arena);
    free(sources);
    return ok;
}

void model_set_saving(struct model *model, const struct template_saving *saving)
{
    model->saving = saving;
}

bool model_save(struct model *model, const char *dir, struct error *err)
{
    if (plan_adapts(model->plan))
        return save_adapter(model, dir, false, err);
    return save_whole(model, dir, false, err);
}

bool model_save_converted(struct model *model, const char *dir, struct error *err)
{
    return save_adapter(model, dir, true, err);
}

bool model_export(struct model *model, const char *dir, struct error *err)
{
    const struct plan *plan = model->plan;
    const char *slash = strrchr(plan->model_name_or_path, '/');
    const struct model_gguf gguf = { .dir = dir,
                                     .name = slash && slash[1] ? slash + 1
                                                               : plan->model_name_or_path,
                                     .format = plan->export_gguf,
                                     .heartbeat = model->heartbeat };

    return save_whole(model, dir, true, err) &&
           (plan->export_gguf == EXPORT_GGUF_NONE || model_gguf_write(&gguf, err));
}
