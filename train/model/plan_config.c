/* train/model/plan_config.c - the configuration of a plan's model, with what the plan changes
 * of it. */
#include "config.h"

#include "train/model/plan_config.h"

#include <string.h>

#include "base/json_edit.h"
#include "train/files/safetensors.h"
#include "train/model/adapter_targets.h"
#include "train/model/cross_layers.h"
#include "train/model/lora_config.h"
#include "train/model/rope_scaling.h"
#include "train/model/score_head.h"
#include "train/model/vocabulary_growth.h"
#include "train/model/weights.h"

static const struct stored_tensor *find_copy(const struct safetensors *set,
                                             const struct model_config *config,
                                             enum module module)
{
    const struct stored_tensor *found;
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "base_model.model.%s.weight", config->architecture->paths[module]);
    found = weights_find_adapter(set, config, name.data);
    text_clear(&name);
    return found;
}

/* Return whether an adapter has a head that is not its copy of the embeddings. */
static bool adapter_has_head(const char *dir, const struct model_config *config)
{
    struct safetensors *set = safetensors_open(dir, "adapter_model", false, NULL);
    const struct stored_tensor *head, *embed;
    bool differs = false;

    if (!set)
        return false;
    head = find_copy(set, config, MODULE_HEAD);
    embed = find_copy(set, config, MODULE_EMBED);
    if (head)
        differs = !embed || embed->format != head->format ||
                  embed->bytes != head->bytes ||
                  memcmp(embed->data, head->data, head->bytes) != 0;
    safetensors_close(set);
    return differs;
}

static bool trains_head(const struct plan *plan, const struct model_config *config)
{
    const struct target_list list = { .architecture = config->architecture,
                                      .key = "additional_target",
                                      .code = ERROR_JOB };
    struct error ignored = { 0 };
    bool marks[MODULES] = { false };

    if (plan->adapter_name_or_path &&
        adapter_has_head(plan->adapter_name_or_path, config))
        return true;
    return plan->additional_target &&
           (!plan->adapter_name_or_path || plan->create_new_adapter) &&
           adapter_targets_mark_names(&list, plan->additional_target, marks, &ignored) &&
           marks[MODULE_HEAD];
}

/* Files of whole models then say that the head has weights of its own. */
static bool untie(struct arena *arena, struct model_config *config, struct error *err)
{
    json_t *no = json_false();
    struct text text;
    bool ok;

    text_init(&text, 0);
    text_add(&text, config->text, config->text_len);
    ok = json_edit_set(&text, "tie_word_embeddings", no, "config.json", err);
    if (ok) {
        config->text = arena_copy(arena, text.data, text.len);
        config->text_len = text.len;
        config->tied = false;
        config->untied = true;
    }
    text_clear(&text);
    return ok;
}

/* Return whether an adapter fits layers that are not part of the model. */
static bool adapter_has_cross_layers(const char *dir, const struct model_config *config)
{
    static const char prefix[] = "base_model.model.";
    struct safetensors *set;
    bool has = false;

    if (!dir || !config->architecture->numbers)
        return false;
    set = safetensors_open(dir, "adapter_model", false, NULL);
    for (size_t i = 0; set && i < safetensors_count(set); i++) {
        const char *name = safetensors_at(set, i)->name;

        has |=
            text_starts(name, prefix) && cross_layers_has(config, name + strlen(prefix));
    }
    safetensors_close(set);
    return has;
}

bool plan_config_read(const struct plan *plan, const char *dir, struct arena *arena,
                      struct model_config *out, struct error *err)
{
    if (!rope_scaling_read_config(plan, dir, arena, out, err))
        return false;
    if (plan->stage == STAGE_RM && !plan->external &&
        !score_head_apply(plan, dir, arena, out, err))
        return false;
    if (plan_adapts(plan) && out->tied && !out->multimodal && !plan->external &&
        trains_head(plan, out) && !untie(arena, out, err))
        return false;
    if ((plan->train_cross_attention ||
         adapter_has_cross_layers(plan->adapter_name_or_path, out)) &&
        !cross_layers_join(out, arena, err))
        return false;
    return vocabulary_grow(plan, dir, arena, out, err);
}
