/* train/model/weights.c - compares a model's files with the layout of a run that trains
 * all parameters. */
#include "config.h"

#include "train/model/weights.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "train/model/cross_layers.h"
#include "train/model/gptq_tensors.h"
#include "train/model/matrix_layout.h"
#include "train/model/shapes.h"
#include "train/model/shared_keys.h"

static void add_shape(struct text *out, const size_t *shape, size_t rank)
{
    for (size_t i = 0; i < rank; i++)
        text_addf(out, "%s%zu", i ? ", " : "", shape[i]);
}

void weights_shape(const struct weights_expected *expected, size_t *shape)
{
    const struct matrix_layout layout = {
        .storage = expected->rank == 1 ? STORED_COLUMNS : expected->stored,
        .rows = expected->rows,
        .cols = expected->cols,
        .matrices = expected->matrices,
    };

    if (expected->tensor) {
        memcpy(shape, expected->tensor->shape, sizeof(expected->tensor->shape));
        return;
    }
    matrix_layout_shape(&layout, shape);
    shape[2] = expected->cols;
    if (expected->rank == 3) /* of a convolution of each column */
        shape[1] = 1;
}

bool weights_fit(const struct stored_tensor *t, const struct weights_expected *expected,
                 struct error *err)
{
    size_t shape[5];
    struct text text;

    weights_shape(expected, shape);
    if (t->format >= FORMAT_COUNT)
        return error_set(err, ERROR_DATA,
                         "%s: %s has the dtype %s, which is "
                         "not supported, only F32, F16 and BF16%s",
                         t->file, t->name, t->dtype,
                         text_starts(t->dtype, "F8")
                             ? "; of a model in FP8, config.json must have the "
                               "quantization_config that was saved with it"
                             : "");
    if (expected->rank == 0 && t->rank == 1 && t->shape[0] == 1)
        return true; /* some files have it as a vector */
    if (t->rank == expected->rank &&
        memcmp(t->shape, shape, expected->rank * sizeof(*shape)) == 0)
        return true;
    text_init(&text, 0);
    add_shape(&text, t->shape, t->rank);
    text_adds(&text, "], config.json requires [");
    add_shape(&text, shape, expected->rank);
    error_set(err, ERROR_DATA, "%s: %s has the shape [%s]", t->file, t->name, text.data);
    text_clear(&text);
    return false;
}

static bool has_prefix(const struct safetensors *files, const char *prefix)
{
    for (size_t i = 0; i < safetensors_count(files); i++)
        if (text_starts(safetensors_at(files, i)->name, prefix))
            return true;
    return false;
}

/* What PEFT calls the layer that adapters are on. */
static const char base_layer[] = ".base_layer";

static bool has_part(const struct safetensors *files, const char *part)
{
    for (size_t i = 0; i < safetensors_count(files); i++)
        if (strstr(safetensors_at(files, i)->name, part))
            return true;
    return false;
}

struct text_names weights_names(const struct safetensors *files,
                                const struct model_config *config)
{
    const struct architecture *a = config->architecture;
    const struct text_names *names =
        config->multimodal ? config->multimodal->names : NULL;
    struct text_names own = { a->base, a->paths[MODULE_HEAD], false };

    for (size_t i = 0; names && names[i].base; i++)
        if (has_prefix(files, names[i].base) &&
            !(names[i + 1].wraps && has_part(files, base_layer)))
            return names[i];
    if (!names && !has_prefix(files, own.base))
        own.base = "";
    return own;
}

void weights_name(const struct model_config *config, const struct text_names *names,
                  const char *name, struct text *out)
{
    const struct architecture *a = config->architecture;
    const char *head = a->paths[MODULE_HEAD];

    text_reset(out);
    if (a->projector && text_starts(name, a->projector))
        text_addf(out, "%s%s",
                  multimodal_projector(config->multimodal, names, a->projector),
                  name + strlen(a->projector));
    else if (text_starts(name, a->base))
        text_addf(out, "%s%s", names->base, name + strlen(a->base));
    else if (text_starts(name, head) && name[strlen(head)] == '.')
        text_addf(out, "%s%s", names->head, name + strlen(head));
    else
        text_adds(out, name);
    if (names->wraps && text_starts(name, a->blocks) && text_ends(name, "_proj.weight")) {
        out->data[out->len -= strlen(".weight")] = '\0';
        text_addf(out, "%s.weight", base_layer);
    }
}

bool weights_are_unused_keys(const struct model_config *config,
                             const struct text_names *names, const char *name)
{
    struct text blocks;
    bool unused;

    text_init(&blocks, 0);
    weights_name(config, names, config->architecture->blocks, &blocks);
    unused = shared_keys_ignores(config, blocks.data, name);
    text_clear(&blocks);
    return unused;
}

/* A head that is untied has the weights of the embeddings, even if the files have one. */
static bool is_copied_head(const struct model_config *config, const char *name)
{
    const char *head = config->architecture->paths[MODULE_HEAD];

    return config->untied && text_starts(name, head) &&
           strcmp(name + strlen(head), ".weight") == 0;
}

const struct stored_tensor *weights_find(const struct safetensors *files,
                                         const struct text_names *names,
                                         const struct model_config *config,
                                         const char *name)
{
    const struct stored_tensor *found;
    struct text embed, stored;

    text_init(&embed, 0);
    text_init(&stored, 0);
    if (is_copied_head(config, name)) {
        text_addf(&embed, "%s.weight", config->architecture->paths[MODULE_EMBED]);
        name = embed.data;
    }
    weights_name(config, names, name, &stored);
    found = safetensors_find(files, stored.data);
    text_clear(&embed);
    text_clear(&stored);
    return found;
}

const struct stored_tensor *weights_find_adapter(const struct safetensors *files,
                                                 const struct model_config *config,
                                                 const char *name)
{
    static const char prefix[] = "base_model.model.";
    const struct text_names *names =
        config->multimodal ? config->multimodal->names : NULL;
    const struct stored_tensor *found = safetensors_find(files, name);
    struct text stored, whole;

    text_init(&stored, 0);
    text_init(&whole, 0);
    for (size_t i = 0; names && names[i].base && !found; i++) {
        text_reset(&whole);
        weights_name(config, &names[i], name + strlen(prefix), &stored);
        text_addf(&whole, "%s%s", prefix, stored.data);
        found = safetensors_find(files, whole.data);
    }
    text_clear(&stored);
    text_clear(&whole);
    return found;
}

bool weights_skip_quantization(const struct model_config *config, const char *name)
{
    const struct text_names *names =
        config->multimodal ? config->multimodal->names : NULL;
    bool skips = quantized_config_skips(&config->quantized, name);
    struct text stored;

    text_init(&stored, 0);
    for (size_t i = 0; names && names[i].base && !skips; i++) {
        weights_name(config, &names[i], name, &stored);
        skips = quantized_config_skips(&config->quantized, stored.data);
    }
    text_clear(&stored);
    return skips;
}

/* Return the module of the first matrix of a tensor; MODULES: it does not hold those of
 * experts. */
static enum module first_of(const struct model_config *config, const char *name)
{
    const struct expert_columns *row = &config->architecture->experts;
    const struct {
        const char *end;
        enum module first;
    } tensors[] = { { row->gate_up_tensor, MODULE_EXPERT_GATE },
                    { row->down_tensor, MODULE_EXPERT_DOWN },
                    { row->up_tensor, MODULE_EXPERT_UP } };

    static const char *const forms[] = { "", "_bias", "_blocks" };
    const size_t count = row->biased ? TS_COUNT(forms) : 1;

    for (size_t i = 0; i < TS_COUNT(tensors) * count; i++) {
        const char *end = tensors[i % 3].end, *form = forms[i / 3];
        size_t len = strlen(name), form_len = strlen(form);

        if (end && text_ends(name, form) && len >= form_len + strlen(end) &&
            memcmp(name + len - form_len - strlen(end), end, strlen(end)) == 0)
            return tensors[i % 3].first;
    }
    return MODULES;
}

/* Tensors that are only kept stay whole, so that they are saved under their names. */
static size_t matrices_of(const void *context, const char *name)
{
    const struct model_config *config = context;
    enum module first = first_of(config, name);

    if (model_config_keeps(config, name))
        return 0;
    return first == MODULES                                                          ? 0
           : first == MODULE_EXPERT_GATE && !config->architecture->experts.up_tensor ? 2
                                                                                     : 1;
}

static bool holds_down(const void *context, const char *name)
{
    return first_of(context, name) == MODULE_EXPERT_DOWN;
}

/* Return the end of the name of a tensor that begins with a matrix of this module. */
static const char *tensor_end(const struct expert_columns *row, enum module first)
{
    return first == MODULE_EXPERT_GATE ? row->gate_up_tensor
           : first == MODULE_EXPERT_UP ? row->up_tensor
                                       : row->down_tensor;
}

/* The path of the module replaces the end of the name. */
static void add_matrix_name(const void *context, const char *tensor, size_t index,
                            struct text *out)
{
    const struct architecture *a = ((const struct model_config *)context)->architecture;
    enum module first = first_of(context, tensor);
    bool both = first == MODULE_EXPERT_GATE && !a->experts.up_tensor;
    const char *end = tensor_end(&a->experts, first);
    const char *path = a->paths[both ? first + index % 2 : first];
    const char *star = strchr(path, '*'), *at = tensor, *next;

    while ((next = strstr(at + 1, end)))
        at = next;
    text_addf(out, "%.*s%.*s%zu%s%s", (int)(at - tensor), tensor, (int)(star - path),
              path, both ? index / 2 : index, star + 1,
              text_ends(tensor, "_bias") ? ".bias" : ".weight");
}

bool weights_have_expert_layers(const char *dir, const struct model_config *config)
{
    const struct architecture *a = config->architecture;
    struct error ignored = { 0 };
    struct safetensors *files;
    const char *path, *star;
    bool found = false;
    struct text end;

    if (config->experts == 0 || !a->experts.only_tensors)
        return false;
    path = a->paths[MODULE_EXPERT_DOWN];
    star = strchr(path, '*');
    text_init(&end, 0);
    text_addf(&end, "%.*s0%s.weight", (int)(star - path), path, star + 1);
    files = safetensors_open(dir, "model", true, &ignored);
    for (size_t i = 0; files && !found && i < safetensors_count(files); i++)
        found = text_ends(safetensors_at(files, i)->name, end.data);
    safetensors_close(files);
    text_clear(&end);
    return found;
}

/* Return whether the matrices of such a tensor are [in][out], which one of the two tensors
 * of a block shows. */
static bool is_transposed(const struct safetensors *files,
                          const struct model_config *config)
{
    enum expert_storage storage = config->architecture->experts.storage;

    for (size_t i = 0; storage == EXPERTS_IN_EITHER && i < safetensors_count(files);
         i++) {
        const struct stored_tensor *t = safetensors_at(files, i);
        const size_t matrices = matrices_of(config, t->name);
        const size_t rows = matrices == 2 ? 2 * config->expert_size : config->hidden_size;
        const size_t cols = matrices == 2 ? config->hidden_size : config->expert_size;

        if (matrices > 0 && t->rank == 3 && rows != cols)
            return t->shape[1] == cols && t->shape[2] == rows;
    }
    return storage == EXPERTS_IN_COLUMNS;
}

bool weights_split_experts(struct safetensors *files, const struct model_config *config,
                           struct expert_files *found, struct error *err)
{
    const struct safetensors_parts parts = {
        .experts = config->experts,
        .transposed = is_transposed(files, config),
        .interleaved = config->architecture->experts.interleaved,
        .turns = config->architecture->experts.up_tensor ? holds_down : NULL,
        .count = matrices_of,
        .name = add_matrix_name,
        .context = config
    };
    const struct safetensors_packing packing = {
        .format = config->dtype < FORMAT_COUNT ? config->dtype : FORMAT_BF16,
        .block_rows = config->packed.block_rows,
        .block_cols = config->packed.block_cols
    };
    size_t count = 0;
    bool ok = (!config->packed.enabled || safetensors_unpack(files, &packing, err)) &&
              (config->experts == 0 || safetensors_split(files, &parts, &count, err));

    if (found)
        *found = (struct expert_files) { count > 0, count > 0 && parts.transposed };
    return ok;
}

/* What the check of a folder's tensors reads. */
struct checked {
    const char *dir;
    const struct safetensors *files;
    const struct model_config *config;
    const struct shapes *shapes;
    struct text_names names;
};

/* Return whether the files have this matrix of another expert of the block. */
static bool other_expert_exists(const struct checked *c, const struct shape_parameter *p)
{
    for (size_t i = 0; i < c->shapes->count; i++) {
        const struct shape_parameter *other = &c->shapes->parameters[i];

        if (other->module == p->module && other->part == p->part &&
            other->layer == p->layer &&
            weights_find(c->files, &c->names, c->config, other->name))
            return true;
    }
    return false;
}

/* Name the tensor of all experts where the files have no experts apart. */
static bool report_missing(const struct checked *c, const struct shape_parameter *p,
                           struct error *err)
{
    const struct architecture *a = c->config->architecture;
    const char *dir = c->dir;

    if (!module_is_of_experts(p->module) || !a->experts.only_tensors ||
        other_expert_exists(c, p))
        return error_set(err, ERROR_DATA, "%s: the tensor %s is missing", dir, p->name);
    return error_set(err, ERROR_DATA, "%s: the tensor %s%zu.%s%s is missing", dir,
                     a->blocks, p->layer,
                     a->experts.up_tensor ? tensor_end(&a->experts, p->module)
                     : p->module == MODULE_EXPERT_DOWN ? a->experts.down_tensor
                                                       : a->experts.gate_up_tensor,
                     p->part == PART_BIAS                             ? "_bias"
                     : c->config->packed.enabled && a->experts.biased ? "_blocks"
                                                                      : "");
}

/* Compare the tensors of a matrix in the formats of GPTQ and AWQ.  A layer that the files
 * have in another format is reported when it is loaded. */
static bool check_gptq(const struct checked *c, const struct shape_parameter *p,
                       struct error *err)
{
    static const char *const endings[GPTQ_TENSORS] = GPTQ_ENDINGS;
    const struct quantized_config *how = &c->config->quantized;
    const struct stored_tensor *tensors[GPTQ_TENSORS];
    size_t stem = strlen(p->name) - strlen(".weight");
    bool ok = true;

    if (weights_find(c->files, &c->names, c->config, p->name))
        return true;
    for (size_t i = 0; ok && i < GPTQ_TENSORS; i++) {
        struct text name;

        text_init(&name, 0);
        text_addf(&name, "%.*s%s", (int)stem, p->name, endings[i]);
        tensors[i] = weights_find(c->files, &c->names, c->config, name.data);
        ok = tensors[i] || i > (how->sorts ? GPTQ_COLUMNS : GPTQ_SCALES) ||
             error_set(err, ERROR_DATA,
                       "%s: the tensor %s is missing; fetch the model again", c->dir,
                       name.data);
        text_clear(&name);
    }
    return ok && gptq_tensors_fit(how, tensors, p->name, p->rows, p->cols, err);
}

static bool check(const struct checked *c, struct error *err)
{
    const struct model_config *config = c->config;

    for (size_t i = 0; i < c->shapes->count; i++) {
        const struct shape_parameter *p = &c->shapes->parameters[i];
        bool grown =
            config->stored_vocab > 0 && p->part == PART_WEIGHT &&
            (p->module == MODULE_EMBED || (p->module == MODULE_HEAD && !config->scores));
        const struct weights_expected expected = {
            p->rank,     grown ? config->stored_vocab : p->rows,
            p->cols,     p->stored,
            p->matrices, p->tensor
        };
        const struct stored_tensor *t =
            weights_find(c->files, &c->names, config, p->name);

        if (p->quantized && !check_gptq(c, p, err))
            return false;
        if (p->quantized || p->part >= PART_LORA_A)
            continue;
        if (!t && p->module == MODULE_HEAD && config->scores)
            continue; /* in a file of its own, or new */
        if (!t)
            return report_missing(c, p, err);
        if (!weights_fit(t, &expected, err))
            return false;
    }
    return true;
}

bool weights_check(const char *dir, const struct model_config *config, struct error *err)
{
    /* The smallest run that has every parameter; its compute format does not matter. */
    const struct plan plan = { .method =
                                   config->quantized.enabled ? METHOD_LORA : METHOD_FULL,
                               .freeze_vision_tower = true,
                               .freeze_multi_modal_projector = true,
                               .lora_rank = 1,
                               .lora_alpha = 1,
                               .precision = { .compute = FORMAT_FP32,
                                              .trainable = FORMAT_FP32,
                                              .frozen = FORMAT_FP32 },
                               .per_device_train_batch_size = 1,
                               .cutoff_len = 1 };
    struct error ignored = { 0 };
    struct safetensors *files;
    struct arena *arena;
    struct shapes shapes;
    bool ok = true;

    if (config->quantized.enabled && config->quantized.by == QUANTIZER_BITSANDBYTES)
        return true;
    files = safetensors_open(dir, "model", true, &ignored);
    arena = arena_new();
    if (files && shapes_make(&plan, config, 0, 0, arena, &shapes, &ignored))
        ok = weights_split_experts(files, config, NULL, err) &&
             check(&(struct checked) { dir, files, config, &shapes,
                                       weights_names(files, config) },
                   err);
    arena_free(arena);
    safetensors_close(files);
    return ok;
}
