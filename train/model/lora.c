/* train/model/lora.c - reads which layers are adapted from a job or from a PEFT
 * adapter_config.json. */
#include "config.h"

#include "train/model/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define RANK_MAX         4096

/* A list of target names, and the context of its error messages. */
struct target_list {
    const struct architecture *architecture;
    const char *key; /* of the list */
    bool linear;     /* accept only linear layers */
    enum error_code code;
    const char *file; /* of the list; NULL: the job */
};

static bool is_target(const struct target_list *list, enum module module)
{
    return list->architecture->paths[module] &&
           (module_is_linear(module) || !list->linear);
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

/* Return whether a name matches the module. */
static bool is_named(const struct architecture *a, enum module module, const char *name,
                     size_t len, bool linear)
{
    return linear ? architecture_is_named(a, module, name, len)
                  : is_saved_as(a, module, name, len);
}

/* Return the last part of a module's path, or the whole path if the last part would also
 * match a module that is not meant ("c_proj"). */
static const char *name_of(const struct architecture *a, const bool *marks,
                           enum module module, bool linear)
{
    const char *leaf = architecture_leaf(a, module);

    for (enum module i = 0; i < MODULES; i++)
        if (!marks[i] && is_named(a, i, leaf, strlen(leaf), linear))
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
                      name_of(list->architecture, alone, i, true));
        }
    error_set(err, list->code, "%s%s%s: there is no layer \"%.*s\"; there are %s",
              list->file ? list->file : "", list->file ? ": " : "", list->key, (int)len,
              name, known.data);
    text_clear(&known);
    return false;
}

/* One name may match several modules: "c_proj", "norm". */
static bool mark_modules(const struct target_list *list, const char *name, size_t len,
                         bool *marks, struct error *err)
{
    bool found = false;

    for (enum module i = 0; i < MODULES; i++)
        if (is_target(list, i) &&
            is_named(list->architecture, i, name, len, list->linear))
            marks[i] = found = true;
    return found || reject_target(list, name, len, err);
}

static void mark_all_linear(const struct architecture *a, bool *marks)
{
    for (enum module i = 0; i < MODULES; i++)
        marks[i] = a->paths[i] && module_is_linear(i);
}

/* Names separated by commas. */
static bool mark_names(const struct target_list *list, const char *names, bool *marks,
                       struct error *err)
{
    while (*names) {
        size_t skip = strspn(names, ", "), len = strcspn(names + skip, ", ");

        if (len > 0 && !mark_modules(list, names + skip, len, marks, err))
            return false;
        names += skip + len;
    }
    return true;
}

static bool reject_list(const struct target_list *list, struct error *err)
{
    return error_set(err, list->code, "%s: %s must be a list of names", list->file,
                     list->key);
}

/* A list of names, null, or PEFT's name for all of them. */
static bool mark_json(const struct target_list *list, const json_t *names, bool *marks,
                      struct error *err)
{
    size_t count = json_array_size(names);

    if (json_is_string(names) && list->linear &&
        strcmp(json_string_value(names), "all-linear") == 0) {
        mark_all_linear(list->architecture, marks);
        return true;
    }
    if (names && !json_is_null(names) && !json_is_array(names))
        return reject_list(list, err);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));

        if (!name)
            return reject_list(list, err);
        if (!mark_modules(list, name, strlen(name), marks, err))
            return false;
    }
    return true;
}

static bool finish(struct lora *out, const char *where, enum error_code code,
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

static bool read_plan(const struct plan *plan, const struct architecture *a,
                      struct lora *out, struct error *err)
{
    const struct target_list adapted = { a, "lora_target", true, ERROR_JOB, NULL };
    const struct target_list saved = { a, "additional_target", false, ERROR_JOB, NULL };
    const char *names = plan->lora_target ? plan->lora_target : "all";

    if (plan->lora_rank < 1 || plan->lora_rank > RANK_MAX)
        return error_set(err, ERROR_JOB, "lora_rank must be from 1 to %d", RANK_MAX);
    out->rank = (size_t)plan->lora_rank;
    out->alpha = plan->lora_alpha > 0 ? plan->lora_alpha : 2 * (double)out->rank;
    out->dropout = plan->lora_dropout;
    out->rslora = plan->use_rslora;
    if (strcmp(names, "all") == 0)
        mark_all_linear(a, out->adapted);
    else if (!mark_names(&adapted, names, out->adapted, err))
        return false;
    if (plan->additional_target &&
        !mark_names(&saved, plan->additional_target, out->saved, err))
        return false;
    return finish(out, "lora_target", ERROR_JOB, err);
}

/* Reject kinds of adapters that compute something else. */
static bool refuse_unsupported(const json_t *root, const char *file, struct error *err)
{
    static const char *const off[] = { "use_dora", "lora_bias" };
    static const char *const empty[] = { "rank_pattern", "alpha_pattern" };
    const char *type = json_get_string(root, "peft_type", "LORA", file, err);
    const char *bias = json_get_string(root, "bias", "none", file, err);
    const json_t *layers = json_object_get(root, "layers_to_transform");

    if (type && strcmp(type, "LORA") != 0)
        return error_set(err, ERROR_DATA, "%s: peft_type %s is not supported, only LORA",
                         file, type);
    if (bias && strcmp(bias, "none") != 0)
        return error_set(err, ERROR_DATA, "%s: bias \"%s\" is not supported, only none",
                         file, bias);
    for (size_t i = 0; i < TS_COUNT(off); i++)
        if (json_is_true(json_object_get(root, off[i])))
            return error_set(err, ERROR_DATA, "%s: %s is not supported", file, off[i]);
    for (size_t i = 0; i < TS_COUNT(empty); i++)
        if (json_object_size(json_object_get(root, empty[i])) > 0)
            return error_set(err, ERROR_DATA, "%s: %s is not supported", file, empty[i]);
    if (layers && !json_is_null(layers))
        return error_set(err, ERROR_DATA, "%s: layers_to_transform is not supported",
                         file);
    return true;
}

static bool read_json(const json_t *root, const struct architecture *a, const char *file,
                      struct lora *out, struct error *err)
{
    const struct target_list adapted = { a, "target_modules", true, ERROR_DATA, file };
    const struct target_list saved = { a, "modules_to_save", false, ERROR_DATA, file };
    struct error local = { 0 };
    int64_t rank;

    rank = json_get_int(root, "r", 0, file, &local);
    out->alpha = json_get_real(root, "lora_alpha", 8, file, &local);
    out->dropout = json_get_real(root, "lora_dropout", 0, file, &local);
    out->rslora = json_get_bool(root, "use_rslora", false, file, &local);
    if (rank < 1 || rank > RANK_MAX)
        error_set(&local, ERROR_DATA, "%s: r must be from 1 to %d", file, RANK_MAX);
    if (!(out->dropout >= 0 && out->dropout < 1))
        error_set(&local, ERROR_DATA, "%s: lora_dropout must be from 0 to below 1", file);
    out->rank = (size_t)rank;
    if (local.code == ERROR_NONE && refuse_unsupported(root, file, &local) &&
        mark_json(&adapted, json_object_get(root, "target_modules"), out->adapted,
                  &local) &&
        mark_json(&saved, json_object_get(root, "modules_to_save"), out->saved, &local) &&
        finish(out, file, ERROR_DATA, &local))
        return true;
    return error_set(err, local.code, "%s", local.text);
}

bool lora_read_config(const char *dir, const struct architecture *architecture,
                      struct lora *out, struct error *err)
{
    char *file = path_join(dir, "adapter_config.json");
    json_t *root = json_read_file(file, CONFIG_BYTES_MAX, err);
    bool ok;

    *out = (struct lora) { 0 };
    ok = root && read_json(root, architecture, file, out, err);
    json_decref(root);
    free(file);
    return ok;
}

bool lora_read(const struct plan *plan, const struct architecture *architecture,
               struct lora *out, struct error *err)
{
    *out = (struct lora) { 0 };
    if (plan->method != METHOD_LORA)
        return true;
    if (plan->adapter_name_or_path && !plan->create_new_adapter)
        return lora_read_config(plan->adapter_name_or_path, architecture, out, err);
    return read_plan(plan, architecture, out, err);
}

/* Return whether a name in the list already covers the module. */
static bool is_listed(const json_t *list, const struct architecture *a,
                      enum module module, bool linear)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (is_named(a, module, name, strlen(name), linear))
            return true;
    }
    return false;
}

static json_t *names_of(const struct architecture *a, const bool *marks, bool linear)
{
    json_t *list = json_array();

    for (enum module i = 0; i < MODULES; i++)
        if (marks[i] && !is_listed(list, a, i, linear))
            json_array_append_new(list, json_string(name_of(a, marks, i, linear)));
    if (json_array_size(list) > 0)
        return list;
    json_decref(list);
    return json_null();
}

/* PEFT ties embedding and head, and warns unless it is asked to, if one of them has a
 * name that it knows (EMBEDDING_LAYER_NAMES): GPT-NeoX's have other names. */
static bool peft_ties(const struct lora *lora, const struct architecture *a)
{
    return lora->tied && strcmp(architecture_leaf(a, MODULE_HEAD), "lm_head") == 0;
}

/* Write the keys that peft 0.13 writes, so that it reads the file without a warning; and
 * ensure_weight_tying, which 0.18 introduced, if head and embedding are tied. */
bool lora_write_config(const struct lora *lora, const struct architecture *architecture,
                       const char *base, struct text *out)
{
    bool whole = floor(lora->alpha) == lora->alpha && fabs(lora->alpha) < 0x1p53;
    json_t *alpha =
        whole ? json_integer((json_int_t)lora->alpha) : json_real(lora->alpha);
    json_t *root = json_pack(
        "{s:{}, s:n, s:s, s:s, s:b, s:b, s:b, s:n, s:n, s:o, s:f, s:o, s:s, s:I, s:{}, "
        "s:n, s:o, s:s, s:b, s:b}",
        "alpha_pattern", "auto_mapping", "base_model_name_or_path", base, "bias", "none",
        "fan_in_fan_out", architecture->linear == STORED_COLUMNS, "inference_mode", 1,
        "init_lora_weights", 1, "layers_pattern", "layers_to_transform", "lora_alpha",
        alpha, "lora_dropout", lora->dropout, "modules_to_save",
        names_of(architecture, lora->saved, false), "peft_type", "LORA", "r",
        (json_int_t)lora->rank, "rank_pattern", "revision", "target_modules",
        names_of(architecture, lora->adapted, true), "task_type", "CAUSAL_LM", "use_dora",
        0, "use_rslora", lora->rslora);
    bool ok =
        root && (!peft_ties(lora, architecture) ||
                 json_object_set_new(root, "ensure_weight_tying", json_true()) == 0);

    ok = ok && json_write_pretty(root, out);
    json_decref(root);
    return ok;
}
