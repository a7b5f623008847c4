/* train/model/adapter_targets.c - names of modules that get an adapter, or are trained as a
 * whole, as PEFT reads them. */
#include "config.h"

#include "train/model/adapter_targets.h"

#include <math.h>
#include <string.h>

#include "train/model/projector_config.h"

const char *adapter_targets_names(const struct plan *plan, const char **key)
{
    const char *names = plan->method == METHOD_OFT ? plan->oft_target : NULL;

    *key = "oft_target";
    if (names && strcmp(names, "all") != 0)
        return names;
    *key = "lora_target";
    return plan->lora_target ? plan->lora_target : "all";
}

struct target_list adapter_targets_of_job(const struct architecture *a,
                                          const struct plan *plan, const char *key)
{
    return (struct target_list) { .architecture = a,
                                  .key = key,
                                  .linear = true,
                                  .code = ERROR_JOB,
                                  .skips = true,
                                  .low_rank = plan->method != METHOD_OFT };
}

struct target_list adapter_targets_of_saved(const struct model_config *config)
{
    return (struct target_list) { .architecture = config->architecture,
                                  .key = "additional_target",
                                  .code = ERROR_JOB,
                                  .unread = config->scores ? config->token_head : NULL };
}

bool adapter_targets_can(const struct architecture *a, enum module module)
{
    return module_is_linear(module) &&
           !(module_is_of_experts(module) && a->experts.only_tensors);
}

static bool is_refused(const struct target_list *list, enum module module)
{
    return list->low_rank && module == MODULE_SCAN_OUT &&
           list->architecture->ssm.refused_by_peft;
}

static bool is_target(const struct target_list *list, enum module module)
{
    return list->architecture->paths[module] && !module_is_buffer(module) &&
           !(list->linear && module_is_of_projector(module)) &&
           (adapter_targets_can(list->architecture, module) || !list->linear) &&
           !is_refused(list, module);
}

/* PEFT compares modules_to_save with the end of names, not of paths: "norm" matches
 * input_layernorm and q_norm too (peft/utils/other.py, _set_trainable).  A name that
 * starts with the number of a layer would match that layer only, which is not
 * supported. */
static bool is_saved_as(const struct architecture *a, enum module module,
                        const char *name, size_t len)
{
    const char *path = a->paths[module];
    size_t all = path ? strlen(path) : 0;

    if (all == 0 || len == 0)
        return false;
    if (len <= all)
        return memcmp(path + all - len, name, len) == 0;
    return !module_in_block(module) && architecture_is_named(a, module, name, len);
}

/* A projector is trained as a whole: "multi_modal_projector". */
static bool is_projector(const struct architecture *a, const char *name, size_t len)
{
    size_t all = a->projector ? strlen(a->projector) : 0;

    return len > 0 && len <= all && memcmp(a->projector + all - len, name, len) == 0;
}

bool adapter_targets_match(const struct architecture *a, enum module module,
                           const char *name, size_t len, bool linear)
{
    if (module_is_of_projector(module))
        return !linear && a->paths[module] && is_projector(a, name, len);
    return linear ? architecture_is_named(a, module, name, len)
                  : is_saved_as(a, module, name, len);
}

const char *adapter_targets_name(const struct architecture *a, const bool *marks,
                                 enum module module, bool linear)
{
    const char *leaf = architecture_leaf(a, module);

    if (module_is_of_projector(module))
        return projector_config_leaf(a->projector);
    if (a->has_towers && module == MODULE_NORM) /* norms of towers end in it, too */
        return a->paths[module];
    for (enum module i = 0; i < MODULES; i++)
        if (!marks[i] && adapter_targets_match(a, i, leaf, strlen(leaf), linear))
            return a->paths[module];
    return leaf;
}

static void add_name(struct text *out, const char *name, size_t len)
{
    text_addf(out, "%s%.*s", out->len ? ", " : "", (int)len, name);
}

void adapter_targets_add_known(const struct target_list *list, struct text *out)
{
    for (enum module i = 0; i < MODULES; i++)
        if (is_target(list, i) && !(list->unread && i == MODULE_HEAD)) {
            bool alone[MODULES] = { false };
            const char *name;

            alone[i] = true;
            name = adapter_targets_name(list->architecture, alone, i, true);
            add_name(out, name, strlen(name));
        }
}

static bool reject_target(const struct target_list *list, const char *name, size_t len,
                          struct error *err)
{
    struct text known;

    text_init(&known, 0);
    adapter_targets_add_known(list, &known);
    error_set(err, list->code, "%s%s%s: there is no layer \"%.*s\"; there are %s",
              list->file ? list->file : "", list->file ? ": " : "", list->key, (int)len,
              name, known.data);
    text_clear(&known);
    return false;
}

/* Return whether no module has the name, nor is a part of one that has it. */
static bool is_unknown(const struct architecture *a, const char *name, size_t len)
{
    for (enum module i = 0; i < MODULES; i++)
        if ((architecture_is_named(a, i, name, len) &&
             (!module_is_of_experts(i) || adapter_targets_can(a, i))) ||
            architecture_is_under(a, i, name, len))
            return false;
    return true;
}

static bool is_unread(const struct target_list *list, const char *name, size_t len)
{
    size_t all = list->unread ? strlen(list->unread) : 0;

    return len > 0 && len <= all && memcmp(list->unread + all - len, name, len) == 0;
}

bool adapter_targets_mark(const struct target_list *list, const char *name, size_t len,
                          bool *marks, struct error *err)
{
    bool found = false;

    for (enum module i = 0; i < MODULES; i++) {
        if (!adapter_targets_match(list->architecture, i, name, len, list->linear))
            continue;
        if (is_refused(list, i))
            return error_set(err, list->code,
                             "%s: PEFT refuses LoRA on %.*s of %s; remove it", list->key,
                             (int)len, name, list->architecture->model_type);
        if (is_target(list, i))
            marks[i] = found = true;
    }
    return found || is_unread(list, name, len) || reject_target(list, name, len, err);
}

void adapter_targets_all(const struct target_list *list, bool *marks)
{
    for (enum module i = 0; i < MODULES; i++)
        marks[i] = is_target(list, i);
}

/* Return the next of names separated by commas, and move on; *len is 0 after the last. */
static const char *next_name(const char **names, size_t *len)
{
    const char *name = *names + strspn(*names, ", ");

    *len = strcspn(name, ", ");
    *names = name + *len;
    return name;
}

/* Return whether the last part of a module's name contains one of these: LLaMA-Factory would adapt
 * it, too. */
static bool is_part(const struct target_list *list, const char *names)
{
    const char *name;
    size_t len;

    while ((name = next_name(&names, &len)), len > 0)
        for (enum module i = 0; i < MODULES; i++) {
            const char *leaf =
                is_target(list, i) ? architecture_leaf(list->architecture, i) : "";

            if (memmem(leaf, strlen(leaf), name, len))
                return true;
        }
    return false;
}

bool adapter_targets_mark_names(const struct target_list *list, const char *names,
                                bool *marks, struct error *err)
{
    const char *all = names, *first = NULL, *name;
    size_t len, first_len = 0, marked = 0;

    while ((name = next_name(&names, &len)), len > 0) {
        if (list->skips && is_unknown(list->architecture, name, len)) {
            first_len = first ? first_len : len;
            first = first ? first : name;
            continue;
        }
        if (!adapter_targets_mark(list, name, len, marks, err))
            return false;
        marked++;
    }
    return !first || marked > 0 || (list->matched && !is_part(list, all)) ||
           reject_target(list, first, first_len, err);
}

void adapter_targets_add_skipped(const struct target_list *list, const char *names,
                                 struct text *out)
{
    const char *name;
    size_t len;

    while ((name = next_name(&names, &len)), len > 0)
        if (list->skips && is_unknown(list->architecture, name, len))
            add_name(out, name, len);
}

void adapter_targets_add_unread(const struct target_list *list, const char *names,
                                struct text *out)
{
    const char *name;
    size_t len;

    while ((name = next_name(&names, &len)), len > 0)
        if (is_unread(list, name, len))
            add_name(out, name, len);
}

bool adapter_targets_fail_pattern(const struct architecture *a, const char *key,
                                  enum error_code code, struct error *err)
{
    struct module_place at = { .module = 0 };
    struct text name;

    while (at.module + 1 < MODULES &&
           !(a->paths[at.module] && module_in_block(at.module) &&
             module_is_linear(at.module)))
        at.module++;
    text_init(&name, 0);
    architecture_name(a, &at, &name);
    error_set(err, code,
              "%s: the pattern matches no layer; whole names, such as %s, are compared "
              "with it, and the ends of names with a list, such as %s",
              key, name.data, architecture_leaf(a, at.module));
    text_clear(&name);
    return false;
}

bool adapter_targets_finish(struct lora *out, const char *where, enum error_code code,
                            struct error *err)
{
    size_t adapted = out->encoder_count;

    for (enum module i = 0; i < MODULES; i++) {
        out->adapted[i] = out->adapted[i] && !out->saved[i];
        adapted += out->adapted[i];
    }
    if (adapted == 0)
        return error_set(err, code, "%s: it must name at least one layer to adapt",
                         where);
    if (out->rotation.on) {
        out->scale = 1;
        return true;
    }
    out->scale = out->alpha / (out->rslora ? sqrt((double)out->rank) : (double)out->rank);
    return true;
}
