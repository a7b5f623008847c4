/* train/model/adapter_targets.c - names of modules that get an adapter, or are trained as a
 * whole, as PEFT reads them. */
#include "config.h"

#include "train/model/adapter_targets.h"

#include <math.h>
#include <string.h>

bool adapter_targets_can(const struct architecture *a, enum module module)
{
    return module_is_linear(module) &&
           !(module_is_of_experts(module) && a->experts.only_tensors);
}

static bool is_target(const struct target_list *list, enum module module)
{
    return list->architecture->paths[module] && !module_is_buffer(module) &&
           (adapter_targets_can(list->architecture, module) || !list->linear);
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

bool adapter_targets_match(const struct architecture *a, enum module module,
                           const char *name, size_t len, bool linear)
{
    return linear ? architecture_is_named(a, module, name, len)
                  : is_saved_as(a, module, name, len);
}

const char *adapter_targets_name(const struct architecture *a, const bool *marks,
                                 enum module module, bool linear)
{
    const char *leaf = architecture_leaf(a, module);

    if (a->has_towers && module == MODULE_NORM) /* norms of towers end in it, too */
        return a->paths[module];
    for (enum module i = 0; i < MODULES; i++)
        if (!marks[i] && adapter_targets_match(a, i, leaf, strlen(leaf), linear))
            return a->paths[module];
    return leaf;
}

static bool reject_target(const struct target_list *list, const char *name, size_t len,
                          struct error *err)
{
    struct text known;

    text_init(&known, 0);
    for (enum module i = 0; i < MODULES; i++)
        if (is_target(list, i)) {
            bool alone[MODULES] = { false };

            alone[i] = true;
            text_addf(&known, "%s%s", known.len ? ", " : "",
                      adapter_targets_name(list->architecture, alone, i, true));
        }
    error_set(err, list->code, "%s%s%s: there is no layer \"%.*s\"; there are %s",
              list->file ? list->file : "", list->file ? ": " : "", list->key, (int)len,
              name, known.data);
    text_clear(&known);
    return false;
}

bool adapter_targets_mark(const struct target_list *list, const char *name, size_t len,
                          bool *marks, struct error *err)
{
    bool found = false;

    for (enum module i = 0; i < MODULES; i++)
        if (is_target(list, i) &&
            adapter_targets_match(list->architecture, i, name, len, list->linear))
            marks[i] = found = true;
    return found || reject_target(list, name, len, err);
}

void adapter_targets_all(const struct architecture *a, bool *marks)
{
    for (enum module i = 0; i < MODULES; i++)
        marks[i] = a->paths[i] && adapter_targets_can(a, i);
}

bool adapter_targets_mark_names(const struct target_list *list, const char *names,
                                bool *marks, struct error *err)
{
    while (*names) {
        size_t skip = strspn(names, ", "), len = strcspn(names + skip, ", ");

        if (len > 0 && !adapter_targets_mark(list, names + skip, len, marks, err))
            return false;
        names += skip + len;
    }
    return true;
}

bool adapter_targets_finish(struct lora *out, const char *where, enum error_code code,
                            struct error *err)
{
    size_t adapted = 0;

    for (enum module i = 0; i < MODULES; i++) {
        out->adapted[i] = out->adapted[i] && !out->saved[i];
        adapted += out->adapted[i];
    }
    if (adapted == 0)
        return error_set(err, code, "%s: it must name at least one layer to adapt",
                         where);
    out->scale = out->alpha / (out->rslora ? sqrt((double)out->rank) : (double)out->rank);
    return true;
}
