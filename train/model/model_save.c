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
#include "train/model/model_stored.h"
#include "train/model/saved_tensors.h"
#include "train/model/score_head.h"
#include "train/model/weight_shards.h"

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

/* Write the files of weights, and the value head, with all ranks.  Return whether this rank
 * is to write the small files: rank 0, unless a file could not be written. */
static bool write_weights(const struct model *m, struct save_share *share,
                          const struct save_file *files, size_t count, bool *small,
                          struct error *err)
{
    struct save_file *all = memory_alloc((count + 1) * sizeof(*all));
    struct tensor_source head[2];
    size_t heads = saved_list_value_head(m, head);
    bool ok;

    memcpy(all, files, count * sizeof(*all));
    if (heads > 0)
        all[count++] = (struct save_file) { SCORE_HEAD_FILE ".safetensors", head, heads };
    ok = save_share_write(share, (struct model *)m, all, count, err);
    *small = ok && share->rank == 0 && share->failed.code == ERROR_NONE;
    free(all);
    return ok;
}

static bool is_low_rank(const struct model *m, size_t index)
{
    enum part part = m->shapes.parameters[index].part;

    return part == PART_LORA_A || part == PART_LORA_B;
}

/* The small files that belong to a whole model. */
static bool write_whole_rest(const struct model *m, const struct weight_shards *shards,
                             const char *dir, bool exported, struct error *err)
{
    bool merged = exported && plan_adapts(m->plan);
    enum format format = merged ? saved_base_format(m, (size_t)(m->embed - m->parameters))
                                : m->shapes.trainable;

    return (shards->count == 1 || weight_shards_write_index(shards, dir, "model", err)) &&
           write_config(m, dir, format, err) &&
           write_companions(m, dir, false, exported, err);
}

static bool save_whole(const struct model *m, struct save_share *share, bool exported,
                       struct error *err)
{
    bool merged = exported && plan_adapts(m->plan);
    struct tensor_source *sources = memory_alloc(saved_count_whole(m) * sizeof(*sources));
    struct arena *arena = arena_new();
    size_t count = saved_list_whole(m, merged, arena, sources);
    struct weight_shards shards;
    struct error why = { 0 };
    bool ok, small;

    weight_shards_divide(sources, count,
                         exported ? (uint64_t)m->plan->export_size * GIGABYTE
                                  : plan_shard_bytes(m->plan),
                         &shards);
    ok = write_weights(m, share, shards.files, shards.count, &small, err);
    if (small && !write_whole_rest(m, &shards, share->dir, exported, &why))
        save_share_fail(share, &why);
    weight_shards_clear(&shards);
    arena_free(arena);
    free(sources);
    return ok;
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
    struct tensor_source source = saved_source(m, index, name);
    bool is_b = m->shapes.parameters[index].part == PART_LORA_B;

    source.shape[is_b] *= 2;
    source.read = read_converted;
    source.read_part = NULL;
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

    lora.tied = saved_trains_tied_head(m);
    lora.saved[MODULE_HEAD] |= lora.tied;
    lora.encoder_list = &m->config->encoder;
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

static bool save_adapter(const struct model *m, struct save_share *share, bool converted,
                         struct error *err)
{
    struct tensor_source *sources =
        memory_alloc((m->shapes.count + 1) * sizeof(*sources));
    struct arena *arena = arena_new();
    struct save_file file = { "adapter_model.safetensors", sources, 0 };
    struct error why = { 0 };
    bool ok, small;

    file.count = saved_list_adapter(m, arena, sources);
    for (size_t i = 0; converted && i < file.count; i++)
        if (is_low_rank(m, sources[i].index))
            sources[i] = converted_source(m, sources[i].index, sources[i].name);
    ok = write_weights(m, share, &file, 1, &small, err);
    if (small && !(write_adapter_config(m, share->dir, converted, &why) &&
                   write_companions(m, share->dir, true, false, &why)))
        save_share_fail(share, &why);
    arena_free(arena);
    free(sources);
    return ok;
}

bool model_saves_weight(const struct model *model, const struct parameter *p)
{
    size_t index = (size_t)(p - model->parameters);

    return !saved_in_value_head(model, index) &&
           (!plan_adapts(model->plan) || !saved_is_base(model, index));
}

void model_set_saving(struct model *model, const struct template_saving *saving)
{
    model->saving = saving;
}

bool model_save_together(struct model *model, struct save_share *share, struct error *err)
{
    if (plan_adapts(model->plan))
        return save_adapter(model, share, false, err);
    return save_whole(model, share, false, err);
}

/* Return whether what is done and was written without a failure. */
static bool has_saved(bool done, const struct save_share *share, struct error *err)
{
    return done && (share->failed.code == ERROR_NONE ||
                    error_set(err, share->failed.code, "%s", share->failed.text));
}

bool model_save(struct model *model, const char *dir, struct error *err)
{
    struct save_share alone = { .dir = dir, .ranks = 1 };

    return has_saved(model_save_together(model, &alone, err), &alone, err);
}

bool model_save_converted(struct model *model, const char *dir, struct error *err)
{
    struct save_share alone = { .dir = dir, .ranks = 1 };

    return has_saved(save_adapter(model, &alone, true, err), &alone, err);
}

bool model_export(struct model *model, const char *dir, struct error *err)
{
    struct save_share alone = { .dir = dir, .ranks = 1 };
    const struct plan *plan = model->plan;
    const char *slash = strrchr(plan->model_name_or_path, '/');
    const struct model_gguf gguf = { .dir = dir,
                                     .name = slash && slash[1] ? slash + 1
                                                               : plan->model_name_or_path,
                                     .format = plan->export_gguf,
                                     .heartbeat = model->heartbeat };

    return has_saved(save_whole(model, &alone, true, err), &alone, err) &&
           (plan->export_gguf == EXPORT_GGUF_NONE || model_gguf_write(&gguf, err));
}
