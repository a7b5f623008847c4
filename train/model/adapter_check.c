/* train/model/adapter_check.c - compares an adapter's file with the layout of a run that
 * continues the adapter. */
#include "config.h"

#include "train/model/adapter_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "train/files/safetensors.h"
#include "train/model/encoder_adapters.h"
#include "train/model/shapes.h"
#include "train/model/weights.h"

/* For parameters that the base has too, the file has PEFT's prefix. */
static const struct stored_tensor *find(const struct safetensors *set,
                                        const struct model_config *config,
                                        const struct shape_parameter *p)
{
    const struct stored_tensor *found;
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s%s", p->part >= PART_LORA_A ? "" : "base_model.model.", p->name);
    found = weights_find_adapter(set, config, name.data);
    text_clear(&name);
    return found;
}

/* "[8, 64]" */
static void add_shape(struct text *out, const size_t *shape, size_t rank)
{
    for (size_t i = 0; i < rank; i++)
        text_addf(out, "%s%zu", i ? ", " : "[", shape[i]);
    text_adds(out, "]");
}

static bool check_shape(const char *dir, const struct stored_tensor *t,
                        const struct shape_parameter *p, struct error *err)
{
    size_t expected[5];
    struct text shapes;

    weights_shape(&(struct weights_expected) { p->rank, p->rows, p->cols, p->stored,
                                               p->matrices, p->tensor },
                  expected);
    if (t->rank == p->rank &&
        memcmp(t->shape, expected, p->rank * sizeof(*expected)) == 0)
        return true;
    text_init(&shapes, 0);
    add_shape(&shapes, t->shape, t->rank);
    text_adds(&shapes, ", not ");
    add_shape(&shapes, expected, p->rank);
    error_set(err, ERROR_DATA, "%s is an adapter of another model: its %s is %s", dir,
              t->name, shapes.data);
    text_clear(&shapes);
    return false;
}

static bool check_tensor(const char *dir, const struct stored_tensor *t,
                         const struct shape_parameter *p, struct error *err)
{
    if (!t)
        return error_set(err, ERROR_DATA,
                         "%s is an adapter of another model: it has no tensor %s", dir,
                         p->name);
    return check_shape(dir, t, p, err);
}

/* If the head is the embedding, PEFT stores both. */
static bool has_tied_head(const struct model_config *config,
                          const struct safetensors *set)
{
    struct text name;
    bool has;

    text_init(&name, 0);
    text_addf(&name, "base_model.model.%s.weight",
              config->architecture->paths[MODULE_HEAD]);
    has = config->tied && weights_find_adapter(set, config, name.data);
    text_clear(&name);
    return has;
}

/* Check that the file has every tensor that the run needs, and no other. */
static bool check_tensors(const char *dir, const struct model_config *config,
                          const struct shapes *shapes, struct error *err)
{
    struct safetensors *set = safetensors_open(dir, "adapter_model", true, err);
    size_t known = set ? has_tied_head(config, set) : 0;
    bool ok = set != NULL;

    for (size_t i = 0; ok && i < shapes->count; i++)
        if (shapes->parameters[i].trainable) {
            const struct shape_parameter *p = &shapes->parameters[i];

            if (p->module == MODULE_HEAD && config->scores && !find(set, config, p))
                continue; /* in a file of its own, or new */
            ok = check_tensor(dir, find(set, config, p), p, err);
            known++;
        }
    for (size_t i = 0; ok && i < safetensors_count(set); i++)
        known += encoder_adapters_unread(&config->encoder, safetensors_at(set, i)->name);
    if (ok && known != safetensors_count(set))
        ok = error_set(err, ERROR_DATA,
                       "%s is an adapter of another model: it has %zu tensors, but "
                       "only %zu of them belong to this model",
                       dir, safetensors_count(set), known);
    safetensors_close(set);
    return ok;
}

bool adapter_check_encoder(const char *dir, const struct model_config *config)
{
    struct error ignored = { 0 };
    struct safetensors *set = safetensors_open(dir, "adapter_model", true, &ignored);
    bool has = false;

    for (size_t i = 0; set && !has && i < safetensors_count(set); i++)
        has = encoder_adapters_has(&config->encoder, safetensors_at(set, i)->name);
    safetensors_close(set);
    return has;
}

bool adapter_check(const char *dir, const struct model_config *config, struct error *err)
{
    /* The smallest run that continues the adapter; its compute format does not matter. */
    const struct plan plan = { .method = METHOD_LORA,
                               .adapter_name_or_path = dir,
                               .freeze_vision_tower = !adapter_check_encoder(dir, config),
                               .precision = { .compute = FORMAT_FP32,
                                              .trainable = FORMAT_FP32,
                                              .frozen = FORMAT_FP32 },
                               .per_device_train_batch_size = 1,
                               .cutoff_len = 1 };
    struct arena *arena = arena_new();
    struct shapes shapes;
    bool ok = shapes_make(&plan, config, 0, 0, arena, &shapes, err) &&
              (!safetensors_exist(dir, "adapter_model") ||
               check_tensors(dir, config, &shapes, err));

    arena_free(arena);
    return ok;
}
