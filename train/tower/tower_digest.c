/* train/tower/tower_digest.c - whether two folders have the same encoder. */
#include "config.h"

#include "base/size.h"
#include "train/model/model_config.h"
#include "train/tower/tower.h"
#include "train/tower/tower_parameters.h"

/* Bytes between two ticks. */
#define PIECE ((size_t)4 << 20)

static bool add_tensor(struct digest *digest, const struct stored_tensor *t,
                       struct heartbeat *heartbeat, struct error *err)
{
    for (size_t i = 0; i < t->bytes; i += PIECE) {
        if (!heartbeat_continue(heartbeat, "reading the encoder", err))
            return false;
        digest_add(digest, (const char *)t->data + i, size_min(PIECE, t->bytes - i));
    }
    return true;
}

/* Find the tensors of all parameters; add them to the digest, unless it is NULL. */
static bool add_all(struct digest *digest, const struct safetensors *files,
                    const struct tower_config *config,
                    const struct tower_parameters *list, struct heartbeat *heartbeat,
                    struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct tower_parameter *p = &list->list[i];

        for (size_t part = 0; part < p->parts; part++) {
            const struct stored_tensor *t;

            if (tower_family_names(config->family, p->layer)->made ||
                (p->bias && !tower_config_has_bias(config, p->layer, part)))
                continue;
            t = tower_parameter_stored(files, config, p, part, err);
            if (!t || (digest && !add_tensor(digest, t, heartbeat, err)))
                return false;
        }
        if (digest)
            safetensors_release(files);
    }
    return true;
}

static bool read_all(struct digest *digest, const char *model_dir, bool project,
                     struct heartbeat *heartbeat, struct error *err)
{
    struct arena *arena = arena_new();
    struct safetensors *files = NULL;
    struct tower_parameters list;
    struct tower_config config;
    struct model_config text;
    bool ok = model_config_read(model_dir, arena, &text, err) &&
              tower_config_read(model_dir, text.hidden_size, arena, &config, err);

    if (ok) {
        tower_parameters_list(&config, project, FORMAT_FP32, 1, arena, &list);
        files = safetensors_open(model_dir, "model", digest == NULL, err);
        ok = files && add_all(digest, files, &config, &list, heartbeat, err);
    }
    safetensors_close(files);
    arena_free(arena);
    return ok;
}

bool tower_digest(const char *model_dir, bool project, const struct tower_merged *merged,
                  struct heartbeat *heartbeat, char out[DIGEST_TEXT], struct error *err)
{
    struct digest *digest = digest_new();
    struct tower_merge *merge = NULL;
    bool ok = read_all(digest, model_dir, project, heartbeat, err) &&
              tower_merge_open(merged, &merge, err) &&
              (!merge || tower_merge_digest(merge, digest, err));

    tower_merge_close(merge);

    digest_end(digest, out);
    return ok;
}

bool tower_check(const char *model_dir, bool project, struct error *err)
{
    return read_all(NULL, model_dir, project, NULL, err);
}
