/* train/model/lora.c - reads which layers a job adapts, and writes the
 * adapter_config.json of PEFT. */
#include "config.h"

#include "train/model/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "train/model/lora_config.h"
#include "train/model/adapter_targets.h"
#include "train/model/encoder_adapters.h"
#include "train/model/expert_adapters.h"
#include "train/model/rotation_config.h"

/* Read the settings of LoRA. */
static bool read_low_rank(const struct plan *plan, struct lora *out, struct error *err)
{
    if (plan->lora_rank < 1 || plan->lora_rank > LORA_RANK_MAX)
        return error_set(err, ERROR_JOB, "lora_rank must be from 1 to %d", LORA_RANK_MAX);
    out->rank = (size_t)plan->lora_rank;
    out->alpha = plan->lora_alpha > 0 ? plan->lora_alpha : 2 * (double)out->rank;
    out->dropout = plan->lora_dropout;
    out->rslora = plan->use_rslora;
    out->dora = plan->use_dora;
    out->pissa = plan->pissa_init;
    return true;
}

/* PEFT has no other adapters of parameters. */
static bool read_parameters(const struct plan *plan, const struct model_config *config,
                            struct lora *out, struct error *err)
{
    static const char key[] = "lora_target_parameters";
    const struct expert_targets targets = { config, key, ERROR_JOB };

    if (plan->method == METHOD_OFT)
        return error_set(err, ERROR_JOB, "%s requires finetuning_type: lora, not oft",
                         key);
    if (plan->lora_dropout > 0)
        return error_set(err, ERROR_JOB,
                         "%s requires lora_dropout: 0, not %g, as PEFT does: dropout "
                         "cannot be applied to a parameter",
                         key, plan->lora_dropout);
    return expert_adapters_mark(&targets, plan->lora_target_parameters, out, err);
}

static void mark_encoder(const struct encoder_list *encoder, const char *names,
                         struct lora *out)
{
    if (strcmp(names, "all") == 0)
        encoder_adapters_all(encoder, out);
    else if (!lora_config_is_pattern(names))
        encoder_adapters_mark(encoder, names, out);
}

/* LLaMA-Factory adapts nothing but the encoder of a model whose text model is frozen.  The job may
 * have the layers of cross-attention adapted, too. */
static bool is_frozen(const struct plan *plan, const struct lora *lora)
{
    return plan->freeze_language_model && lora->encoder_count > 0 &&
           !plan->train_cross_attention;
}

/* A pattern may match layers of both, of which the text model's are frozen. */
static bool mark_pattern(const char *key, const char *pattern, const struct plan *plan,
                         const struct model_config *config, struct lora *out,
                         struct error *err)
{
    if (!lora_config_mark_pattern(key, pattern, config, plan_trains_encoder(plan), out,
                                  err))
        return false;
    if (is_frozen(plan, out))
        memset(out->adapted, 0, sizeof(out->adapted));
    return true;
}

static bool read_plan(const struct plan *plan, const struct model_config *config,
                      struct lora *out, struct error *err)
{
    const struct architecture *a = config->architecture;
    const char *key, *names = adapter_targets_names(plan, &key);
    struct target_list adapted = adapter_targets_of_job(a, plan, key);
    const struct target_list saved = adapter_targets_of_saved(config);

    if (plan->method == METHOD_OFT ? !rotation_config_of_job(plan, &out->rotation, err)
                                   : !read_low_rank(plan, out, err))
        return false;
    if (plan_trains_encoder(plan))
        mark_encoder(&config->encoder, names, out);
    adapted.matched = out->encoder_count > 0;
    if (is_frozen(plan, out))
        ;
    else if (strcmp(names, "all") == 0)
        adapter_targets_all(&adapted, out->adapted);
    else if (lora_config_is_pattern(names)
                 ? !mark_pattern(key, names, plan, config, out, err)
                 : !adapter_targets_mark_names(&adapted, names, out->adapted, err))
        return false;
    if (plan->freeze_language_model && plan->train_cross_attention) {
        out->only = config->crosses;
        out->layers = config->layers;
    }
    if (plan->lora_target_parameters && *plan->lora_target_parameters &&
        !read_parameters(plan, config, out, err))
        return false;
    if (plan_grows_vocabulary(plan) && !plan->additional_target) {
        out->saved[MODULE_EMBED] = true; /* as LLaMA-Factory: model/adapter.py */
        out->saved[MODULE_HEAD] = a->paths[MODULE_HEAD] && !config->tied;
    }
    if (plan->additional_target &&
        !adapter_targets_mark_names(&saved, plan->additional_target, out->saved, err))
        return false;
    return adapter_targets_finish(out, key, ERROR_JOB, err);
}

/* A continued adapter has its own layers.  Of a job that trains only layers of cross-attention, it
 * cannot have others. */
static bool check_layers(const struct plan *plan, const struct model_config *config,
                         const struct lora *lora, struct error *err)
{
    if (!plan->freeze_language_model || !plan->train_cross_attention)
        return true;
    for (size_t l = 0; l < config->layers; l++)
        for (enum module i = 0; !model_config_crosses(config, l) && i < MODULES; i++)
            if (module_in_block(i) && lora_is_on(lora, i, l) &&
                model_config_has(config, i, l))
                return error_set(
                    err, ERROR_JOB,
                    "adapter_name_or_path: the adapter is also on %s of layers without "
                    "cross-attention, but the job has train_cross_attention; remove "
                    "that key and freeze_language_model to train all its layers, or set "
                    "create_new_adapter: true",
                    architecture_leaf(config->architecture, i));
    return true;
}

bool lora_read(const struct plan *plan, const struct model_config *config,
               struct lora *out, struct error *err)
{
    *out = (struct lora) { 0 };
    if (!plan_adapts(plan))
        return true;
    if (plan->adapter_name_or_path && !plan->create_new_adapter
            ? !lora_config_read(plan->adapter_name_or_path, config, out, err) ||
                  !check_layers(plan, config, out, err)
            : !read_plan(plan, config, out, err))
        return false;
    if (!plan_trains_encoder(plan))
        encoder_adapters_clear(out);
    out->saved[MODULE_HEAD] |= config->scores != SCORE_NONE;
    return true;
}

/* Return whether a name in the list already covers the module. */
static bool is_listed(const json_t *list, const struct architecture *a,
                      enum module module, bool linear)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (adapter_targets_match(a, module, name, strlen(name), linear))
            return true;
    }
    return false;
}

static json_t *names_of(const struct architecture *a, const struct lora *lora,
                        const bool *marks, bool linear)
{
    json_t *list = json_array();
    bool covered[MODULES];

    for (enum module i = 0; i < MODULES; i++)
        covered[i] = marks[i] || lora->absent[i];
    for (enum module i = 0; i < MODULES; i++)
        if (marks[i] && !is_listed(list, a, i, linear))
            json_array_append_new(
                list, json_string(adapter_targets_name(a, covered, i, linear)));
    if (json_array_size(list) > 0)
        return list;
    json_decref(list);
    return json_null();
}

/* A star is the number of an expert. */
static void add_escaped(struct text *out, const char *string)
{
    for (; *string; string++)
        if (*string == '.')
            text_adds(out, "\\.");
        else if (*string == '*')
            text_adds(out, "\\d+");
        else
            text_addc(out, *string);
}

/* Any layer, or those that are not between the others (train/model/cross_layers.h), or only
 * these. */
static void add_numbers(struct text *out, const struct architecture *a,
                        const struct lora *lora)
{
    const char *separator = "(?:";

    if (!a->numbers && !lora->only) {
        text_adds(out, "\\d+");
        return;
    }
    for (size_t l = 0; !a->numbers && l < lora->layers; l++)
        if (lora->only[l]) {
            text_addf(out, "%s%zu", separator, l);
            separator = "|";
        }
    for (size_t number = 0, l = 0; a->numbers && number < a->numbered; number++)
        if (a->numbers[l] == number) {
            text_addf(out, "%s%zu", separator, number);
            separator = "|";
            l++;
        }
    text_adds(out, ")");
}

/* A regular expression for the whole names of layers: towers, and other layers that are not
 * used, have the same last parts of names, which a list would adapt, too. */
static json_t *pattern_of(const struct architecture *a, const struct lora *lora,
                          const bool *marks)
{
    const char *separator = "";
    struct text pattern;
    json_t *out;

    text_init(&pattern, 0);
    for (enum module i = 0; i < MODULES; i++) {
        if (!marks[i] || !module_in_block(i))
            continue;
        if (pattern.len == 0) {
            add_escaped(&pattern, a->blocks);
            add_numbers(&pattern, a, lora);
            text_adds(&pattern, "\\.(?:");
        }
        text_adds(&pattern, separator);
        add_escaped(&pattern, a->paths[i]);
        separator = "|";
    }
    if (pattern.len > 0)
        text_adds(&pattern, ")");
    for (enum module i = 0; i < MODULES; i++) {
        if (!marks[i] || module_in_block(i))
            continue;
        text_adds(&pattern, pattern.len > 0 ? "|" : "");
        add_escaped(&pattern, a->paths[i]);
    }
    if (lora->encoder_count > 0)
        encoder_adapters_pattern(lora->encoder_list, lora, pattern.len > 0 ? "|" : "",
                                 &pattern);
    out = json_string(pattern.data);
    text_clear(&pattern);
    return out;
}

static json_t *targets_of(const struct lora *lora, const struct architecture *a)
{
    struct lora layers = *lora;
    bool numbered = false; /* names of experts whose ends dense layers have, too */
    json_t *names;

    for (enum module i = 0; lora->joined && i < MODULES; i++)
        if (module_is_of_experts(i)) { /* no layers, but parameters */
            layers.adapted[i] = false;
            layers.absent[i] = true;
        }
    names = names_of(a, &layers, layers.adapted, true);
    if (lora->joined && json_is_null(names) && lora->encoder_count == 0)
        return json_array(); /* null would adapt some by default */
    for (size_t i = 0; i < json_array_size(names); i++)
        numbered |= strchr(json_string_value(json_array_get(names, i)), '*') != NULL;
    if (!numbered && !a->has_towers && !architecture_has_kept(a))
        return names;
    json_decref(names);
    return pattern_of(a, lora, layers.adapted);
}

/* PEFT ties embedding and head, and warns unless it is asked to, if one of them has a
 * name that it knows (EMBEDDING_LAYER_NAMES): GPT-NeoX's have other names. */
static bool peft_ties(const struct lora *lora, const struct architecture *a)
{
    return lora->tied && strcmp(architecture_leaf(a, MODULE_HEAD), "lm_head") == 0;
}

/* PEFT takes the initial adapter out of the base when it loads the file.  Not
 * "pissa_niter_16": with that it approximates another one each time. */
static json_t *initialization_of(const struct lora *lora)
{
    return lora->pissa ? json_string("pissa") : json_true();
}

/* The keys of LoraConfig. */
static json_t *low_rank_keys(const struct lora *lora)
{
    bool whole = floor(lora->alpha) == lora->alpha && fabs(lora->alpha) < 0x1p53;
    json_t *alpha =
        whole ? json_integer((json_int_t)lora->alpha) : json_real(lora->alpha);

    return json_pack("{s:{}, s:o, s:o, s:f, s:I, s:{}, s:b, s:b}", "alpha_pattern",
                     "init_lora_weights", initialization_of(lora), "lora_alpha", alpha,
                     "lora_dropout", lora->dropout, "r", (json_int_t)lora->rank,
                     "rank_pattern", "use_dora", lora->dora, "use_rslora", lora->rslora);
}

/* Write the keys that peft 0.13 writes, so that it reads the file without a warning; and
 * ensure_weight_tying, which 0.18 introduced, if head and embedding are tied, and
 * target_parameters, of 0.17, if there are some.  Of orthogonal
 * adapters, those of 0.18. */
bool lora_write_config(const struct lora *lora, const struct architecture *architecture,
                       const char *base, struct text *out)
{
    const bool rotates = lora->rotation.on;
    json_t *keys = rotates ? rotation_config_write(&lora->rotation) : low_rank_keys(lora);
    json_t *root =
        json_pack("{s:n, s:s, s:s, s:b, s:b, s:n, s:n, s:o, s:s, s:n, s:o, s:s}",
                  "auto_mapping", "base_model_name_or_path", base, "bias", "none",
                  "fan_in_fan_out", architecture->linear == STORED_COLUMNS,
                  "inference_mode", 1, "layers_pattern", "layers_to_transform",
                  "modules_to_save", names_of(architecture, lora, lora->saved, false),
                  "peft_type", rotates ? "OFT" : "LORA", "revision", "target_modules",
                  targets_of(lora, architecture), "task_type",
                  lora->classifies ? "SEQ_CLS" : "CAUSAL_LM");
    bool ok = root && json_object_update(root, keys) == 0 &&
              (!peft_ties(lora, architecture) || rotates ||
               json_object_set_new(root, "ensure_weight_tying", json_true()) == 0);

    ok = ok && (!lora->joined ||
                json_object_set_new(root, "target_parameters",
                                    expert_adapters_names(architecture, lora)) == 0);
    ok = ok && json_write_pretty(root, out);
    json_decref(keys);
    json_decref(root);
    return ok;
}
