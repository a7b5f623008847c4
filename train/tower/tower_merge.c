/* train/tower/tower_merge.c - adapters of a file, merged into an encoder. */
#include "config.h"

#include "train/tower/tower_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/model/adapter_check.h"
#include "train/model/encoder_adapters.h"
#include "train/model/lora_config.h"
#include "train/tower/tower_trained.h"

struct tower_merge {
    const struct model_config *config;
    struct lora lora;
    struct safetensors *files;
};

/* The names of an adapter of a text model may fit layers of the encoder, too. */
static bool is_for_encoder(const struct tower_merged *merged)
{
    return merged->adapter_dir && merged->config->encoder.count > 0 &&
           adapter_check_encoder(merged->adapter_dir, merged->config);
}

bool tower_merge_open(const struct tower_merged *merged, struct tower_merge **out,
                      struct error *err)
{
    struct tower_merge *m;

    *out = NULL;
    if (!is_for_encoder(merged))
        return true;
    m = memory_alloc(sizeof(*m));
    m->config = merged->config;
    m->files = safetensors_open(merged->adapter_dir, "adapter_model", false, err);
    if (m->files && lora_config_read(merged->adapter_dir, m->config, &m->lora, err) &&
        encoder_adapters_can_merge(&m->lora, merged->adapter_dir, err)) {
        *out = m;
        return true;
    }
    tower_merge_close(m);
    return false;
}

void tower_merge_close(struct tower_merge *merge)
{
    if (!merge)
        return;
    safetensors_close(merge->files);
    free(merge);
}

/* Return the index of a layer that has an adapter; the list's count: it has none. */
static size_t find(const struct tower_merge *m, const struct tower_config *config,
                   const struct tower_parameter *p, size_t part)
{
    const struct encoder_list *list = &m->config->encoder;
    struct text path;
    size_t at = list->count;

    text_init(&path, 0);
    if (tower_trained_path(config, p, part, &path))
        for (at = 0; at < list->count; at++)
            if (at < LORA_ENCODER_MAX && m->lora.encoder[at] &&
                strcmp(list->list[at].path, path.data) == 0)
                break;
    text_clear(&path);
    return at;
}

static float *values_of(const struct stored_tensor *t, struct error *err)
{
    const size_t count = t->shape[0] * t->shape[1];
    float *values = malloc(count * sizeof(*values));

    if (values)
        format_convert(values, FORMAT_FP32, t->data, t->format, count);
    else
        error_set(err, ERROR_SYSTEM, "no memory for %s", t->name);
    return values;
}

bool tower_merge_add(const struct tower_merge *merge, const struct tower_config *config,
                     const struct tower_parameter *parameter, size_t part, float *values,
                     struct error *err)
{
    const size_t at = find(merge, config, parameter, part);
    struct encoder_stored stored;
    float *a, *b;

    if (at == merge->config->encoder.count)
        return true;
    if (!encoder_adapters_stored(merge->files, merge->config, &merge->lora, at, &stored,
                                 err))
        return false;
    a = values_of(stored.a, err);
    b = a ? values_of(stored.b, err) : NULL;
    if (b)
        encoder_adapters_merge(&merge->config->encoder.list[at], &merge->lora, a, b,
                               values);
    free(a);
    free(b);
    return b != NULL;
}

bool tower_merge_digest(const struct tower_merge *merge, struct digest *digest,
                        struct error *err)
{
    char scale[64];

    snprintf(scale, sizeof(scale), "scale %a", merge->lora.scale);
    digest_add(digest, scale, strlen(scale));
    for (size_t i = 0; i < merge->config->encoder.count; i++) {
        const char *path = merge->config->encoder.list[i].path;
        struct encoder_stored stored;

        if (i >= LORA_ENCODER_MAX || !merge->lora.encoder[i])
            continue;
        if (!encoder_adapters_stored(merge->files, merge->config, &merge->lora, i,
                                     &stored, err))
            return false;
        digest_add(digest, path, strlen(path) + 1);
        digest_add(digest, stored.a->data, stored.a->bytes);
        digest_add(digest, stored.b->data, stored.b->bytes);
    }
    return true;
}
