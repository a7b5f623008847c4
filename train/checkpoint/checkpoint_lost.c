/* train/checkpoint/checkpoint_lost.c - compares what a checkpoint has trained with a run. */
#include "config.h"

#include "train/checkpoint/checkpoint_lost.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "train/model/saved_tensors.h"

#define PREFIX "base_model.model."

/* ---- Adapters ---- */

/* Return whether the run saves a tensor of this name. */
static bool is_saved(const struct tensor_source *sources, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(sources[i].name, name) == 0)
            return true;
    return false;
}

static bool refuse_adapter(const struct checkpoint_lost *files, const struct model *model,
                           const char *name, struct error *err)
{
    const char *layer = text_starts(name, PREFIX) ? name + strlen(PREFIX) : name;
    const char *part = strstr(layer, ".lora_");
    const bool of_encoder = saved_is_of_frozen_tower(model, name);

    if (!part)
        part = strstr(layer, ".oft_");
    return error_set(
        err, ERROR_JOB,
        "the job of the checkpoint %s has trained %.*s, which this job would lose; name "
        "the same layers as that job in %s, or begin with its adapter in place of "
        "resuming: adapter_name_or_path: %s",
        files->dir, part ? (int)(part - layer) : (int)strlen(layer), layer,
        of_encoder ? "lora_target, with freeze_vision_tower: false"
        : part     ? "lora_target"
                   : "additional_target",
        files->dir);
}

/* Find the first tensor of the file that the run does not save. */
static bool check_names(const struct checkpoint_lost *files, const struct model *model,
                        const struct tensor_source *sources, size_t count,
                        struct error *err)
{
    size_t saved = 0;

    for (size_t i = 0; i < count; i++)
        saved += safetensors_find(files->weights, sources[i].name) != NULL;
    for (size_t i = 0; saved < safetensors_count(files->weights) &&
                       i < safetensors_count(files->weights);
         i++) {
        const char *name = safetensors_at(files->weights, i)->name;

        if (!is_saved(sources, count, name))
            return refuse_adapter(files, model, name, err);
    }
    return true;
}

static bool check_adapters(const struct checkpoint_lost *files, struct model *model,
                           struct error *err)
{
    struct tensor_source *sources =
        memory_alloc((model_parameters(model) + 1) * sizeof(*sources));
    struct arena *arena = arena_new();
    const size_t count = saved_list_adapter(model, arena, sources);
    const bool ok = check_names(files, model, sources, count, err);

    arena_free(arena);
    free(sources);
    return ok;
}

/* ---- Frozen weights ---- */

/* Return whether the elements are the same, as far as the narrower format has them; fp16 and
 * bf16 are not compared. */
static bool is_same(const struct stored_tensor *t, const struct tensor_source *ours,
                    size_t bytes, const void *values)
{
    const bool narrows = t->format == FORMAT_FP32;
    const size_t count = bytes / format_info(ours->format)->bytes;
    const enum format format = narrows ? ours->format : t->format;
    void *rounded;
    bool same;

    if (t->format == ours->format)
        return t->bytes == bytes && memcmp(t->data, values, bytes) == 0;
    if (t->packed || (t->format != FORMAT_FP32 && ours->format != FORMAT_FP32) ||
        t->bytes != count * format_info(t->format)->bytes)
        return true;
    rounded = memory_alloc(count * format_info(format)->bytes);
    format_convert(rounded, format, narrows ? t->data : values, FORMAT_FP32, count);
    same = memcmp(rounded, narrows ? values : t->data,
                  count * format_info(format)->bytes) == 0;
    free(rounded);
    return same;
}

static bool check_source(const struct checkpoint_lost *files,
                         const struct tensor_source *source, struct error *err)
{
    const struct stored_tensor *t = safetensors_find(files->weights, source->name);
    size_t bytes = 0;
    void *values;
    bool ok;

    if (!t || t->format >= FORMAT_COUNT || source->format >= FORMAT_COUNT)
        return true;
    if (!safetensors_source_bytes(source, &bytes, err))
        return false;
    values = malloc(bytes + 1);
    if (!values)
        return error_set(err, ERROR_MEMORY, "cannot allocate %zu MiB to read a tensor",
                         bytes >> 20);
    ok = source->read(source->context, source->index, values, err);
    if (ok && !is_same(t, source, bytes, values))
        ok = optimizer_file_refuse_frozen(source->name, files->dir, err);
    free(values);
    return ok;
}

/* Without moments, the checkpoint does not say what it has trained: what this run would save of
 * its frozen weights has to be what the checkpoint has. */
static bool check_frozen(const struct checkpoint_lost *files, struct model *model,
                         struct error *err)
{
    struct tensor_source *sources =
        memory_alloc((saved_count_whole(model) + 1) * sizeof(*sources));
    struct arena *arena = arena_new();
    const size_t count = saved_list_whole(model, false, arena, sources);
    bool ok = true;

    for (size_t i = 0; ok && i < count; i++)
        ok = !saved_is_frozen(&sources[i]) || check_source(files, &sources[i], err);
    arena_free(arena);
    free(sources);
    return ok;
}

bool checkpoint_lost_check(const struct checkpoint_lost *files, struct model *model,
                           struct error *err)
{
    /* loading says that a checkpoint is of another method */
    if (saved_is_adapter(model))
        return !safetensors_exist(files->dir, "adapter_model") ||
               check_adapters(files, model, err);
    return optimizer_file_check_frozen(files->kept, model, files->dir, err) &&
           (model_moments(model) > 0 || check_frozen(files, model, err));
}
