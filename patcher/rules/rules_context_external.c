/* patcher/rules/rules_context_external.c - properties of an external job: its program,
 * versions and launcher, and how they decide the format of the weights. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "patcher/rules/fp16_need.h"
#include "patcher/profiles/trainer_view.h"
#include "patcher/rules/stored_weights.h"
#include "patcher/rules/trl_quantized.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"

static const struct version *known_version(const struct rule_context *context,
                                           enum package package)
{
    const struct package_version *known = &context->versions->packages[package];

    return context->plan->external && (known->given || known->found) ? &known->version
                                                                     : NULL;
}

static int compare_with(const struct version *version, const char *bound)
{
    struct version other;
    bool read = version_read(bound, &other);

    assert(read);
    (void)read;
    return version_compare(version, &other);
}

bool rule_version_at_least(const struct rule_context *context, enum package package,
                           const char *least)
{
    const struct version *version = known_version(context, package);

    return version && compare_with(version, least) >= 0;
}

bool rule_version_below(const struct rule_context *context, enum package package,
                        const char *bound)
{
    const struct version *version = known_version(context, package);

    return version && compare_with(version, bound) < 0;
}

const char *rule_version_text(const struct rule_context *context, enum package package)
{
    const struct package_version *known = &context->versions->packages[package];

    if (!known_version(context, package))
        return NULL;
    return arena_printf(context->arena, "%s %s, %s", package_names[package],
                        known->given ? known->given : known->found,
                        known->given ? "given in trainspool.versions"
                                     : "installed in the environment of trainspool.env");
}

const struct entry *rule_version_entry(const struct rule_context *context,
                                       enum package package)
{
    const struct entry *block = document_find(context->document, "trainspool");
    const struct entry *versions =
        block ? node_find(node_value(block->value), "versions") : NULL;
    const struct node *map = versions ? node_value(versions->value) : NULL;

    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++)
        if (package_find(map->entries[i].key->text) == package)
            return &map->entries[i];
    return context->versions->where;
}

bool rule_torch_cuda(const struct rule_context *context, struct version *out)
{
    const struct versions *versions = context->versions;
    const char *local = versions->packages[PACKAGE_TORCH].version.local;
    size_t digits = strncmp(local, "cu", 2) == 0 ? strspn(local + 2, "0123456789") : 0;

    if (versions_know(versions, PACKAGE_CUDA)) {
        *out = versions->packages[PACKAGE_CUDA].version;
        return true;
    }
    if (!versions_know(versions, PACKAGE_TORCH) || digits != 3)
        return false;
    return version_read(arena_printf(context->arena, "%.2s.%c", local + 2, local[4]),
                        out);
}

const struct entry *rule_env_variable(const struct rule_context *context,
                                      const char *name)
{
    const struct entry *env = rule_block_entry(context, "env");

    return env ? node_find(node_value(env->value), name) : NULL;
}

bool rule_is_set(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const struct key *row = schema_find(key);

    return entry && !(row && value_is_off(row, entry->value, context->arena));
}

static const struct node *command_of(const struct rule_context *context)
{
    struct trainer_words words;

    trainer_words_init(context->document, &words);
    return words.command;
}

bool rule_is_trl(const struct rule_context *context)
{
    return context->view->trainer == TRAINER_TRL;
}

bool rule_lacks_defaults(const struct rule_context *context)
{
    return rule_is_trl(context) && context->view->own == PROFILE_ANY_VERSION;
}

bool rule_command_has(const struct rule_context *context, const char *text)
{
    const struct node *command = command_of(context);

    if (!context->plan->external || !command)
        return false;
    for (size_t i = 0; command->kind == NODE_LIST && i < command->count; i++)
        if (strstr(node_value(command->items[i])->text, text))
            return true;
    return strstr(command->text, text) != NULL;
}

bool rule_is_llamafactory(const struct rule_context *context)
{
    return context->view->trainer == TRAINER_LLAMAFACTORY;
}

bool rule_uses_trl_parser(const struct rule_context *context)
{
    return rule_is_trl(context) && !context->document->script &&
           (!command_of(context) || rule_command_has(context, "--config") ||
            rule_command_has(context, "trl")) &&
           !rule_version_below(context, PACKAGE_TRL, "0.9.6.dev0");
}

bool rule_runs_trl(const struct rule_context *context, const char *script)
{
    /* SFTConfig, DPOConfig, GRPOConfig and GKDConfig of TRL 0.9.6 to 1.16 */
    static const struct {
        const char *script, *key;
    } own[] = {
        { "sft", "packing" },
        { "sft", "assistant_only_loss" },
        { "sft", "eval_packing" },
        { "sft", "dataset_text_field" },
        { "sft", "packing_strategy" },
        { "sft", "completion_only_loss" },
        { "dpo", "precompute_ref_log_probs" },
        { "dpo", "sync_ref_model" },
        { "dpo", "f_divergence_type" },
        { "dpo", "loss_weights" },
        { "grpo", "num_iterations" },
        { "grpo", "scale_rewards" },
        { "grpo", "epsilon_high" },
        { "grpo", "reward_weights" },
        { "gkd", "lmbda" },
    };

    if (context->document->script)
        return rule_is_trl(context) && profile_runs(context->view, script);
    if (command_of(context))
        return rule_is_trl(context) && rule_command_has(context, script);
    for (size_t i = 0; i < TS_COUNT(own); i++)
        if (strcmp(own[i].script, script) == 0 && rule_is_trl(context) &&
            rule_line(context, own[i].key))
            return true;
    return false;
}

/* Return whether only a job with adapters has the key. */
static bool configures_adapters(const char *key)
{
    static const char *const own[] = {
        "finetuning_type", "additional_target", "target_modules", "modules_to_save",
        "use_dora",        "pissa_init",        "load_in_4bit",   "load_in_8bit",
    };
    static const char *const parts[] = { "lora", "peft", "adapter", "quantization",
                                         "bnb_" };

    for (size_t i = 0; i < TS_COUNT(own); i++)
        if (strcasecmp(key, own[i]) == 0)
            return true;
    for (size_t i = 0; i < TS_COUNT(parts); i++)
        if (strcasestr(key, parts[i]))
            return true;
    return false;
}

/* Return whether the value is false, as in use_peft: false. */
static bool is_false(const struct entry *entry)
{
    bool on = true;

    return scalar_bool(entry->value, &on) != SCALAR_WRONG && !on;
}

bool rule_trains_all(const struct rule_context *context)
{
    const struct node *root = context->document->root;

    if (!context->plan->external || rule_is_llamafactory(context))
        return false;
    if (rule_is_trl(context)) /* get_peft_config */
        return !rule_is_true(context, "use_peft");
    if (rule_model_is_prequantized(context) ||
        rule_version_below(context, PACKAGE_PEFT, "0.12"))
        return false;
    for (size_t i = 0; i < root->count; i++)
        if (root->entries[i].key->kind == NODE_SCALAR &&
            configures_adapters(root->entries[i].key->text) &&
            (!is_false(&root->entries[i]) ||
             strcmp(root->entries[i].key->text, "autocast_adapter_dtype") == 0))
            return false;
    return true;
}

bool rule_may_use_adapters(const struct rule_context *context)
{
    return rule_trains_all(context) && !rule_is_trl(context) &&
           versions_know(context->versions, PACKAGE_PEFT);
}

/* Return whether the launcher asks for an engine: `accelerate launch --use_fsdp`, or its
 * variable. */
static bool is_launched_with(const struct rule_context *context, const char *flag,
                             const char *variable)
{
    const struct entry *entry = rule_env_variable(context, variable);
    bool on = false;

    return rule_command_has(context, flag) ||
           (entry && scalar_bool(entry->value, &on) != SCALAR_WRONG && on);
}

/* `--deepspeed ds.json` is an argument of the script; the launcher of that name alone
 * starts processes only. */
bool rule_uses_deepspeed(const struct rule_context *context)
{
    return rule_is_set(context, "deepspeed") ||
           rule_command_has(context, "--deepspeed") ||
           is_launched_with(context, "--use_deepspeed", "ACCELERATE_USE_DEEPSPEED");
}

bool rule_uses_fsdp(const struct rule_context *context)
{
    return rule_is_set(context, "fsdp") || rule_command_has(context, "--fsdp") ||
           is_launched_with(context, "--use_fsdp", "ACCELERATE_USE_FSDP");
}

/* DeepSpeed, and FSDP as configured by Accelerate, update float32 copies. */
bool rule_has_float32_masters(const struct rule_context *context)
{
    return rule_uses_deepspeed(context) || rule_uses_fsdp(context);
}

bool rule_external_trains_float16(const struct rule_context *context)
{
    const struct stored_weights weights = stored_weights_now(context);

    return weights.known && weights.parts[WEIGHTS_ALL] == FORMAT_FP16 &&
           !rule_has_float32_masters(context); /* for FSDP see TS806 */
}

/* PyTorch's fused AdamW unscales gradients in its kernel, so the scaler raises no
 * error. */
bool rule_uses_fused_adamw(const struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "optim");

    if (entry)
        return strcmp(node_value(entry->value)->text, "adamw_torch_fused") == 0;
    return rule_version_at_least(context, PACKAGE_TRANSFORMERS, "4.54") &&
           rule_version_at_least(context, PACKAGE_TORCH, "2.8");
}

bool rule_fused_adamw_float16(const struct rule_context *context)
{
    return context->plan->external && rule_trains_float16(context) &&
           context->plan->request.fp16 == CHOICE_YES &&
           context->plan->request.max_grad_norm == 0 && rule_uses_fused_adamw(context);
}

bool rule_casts_adapters(const struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "autocast_adapter_dtype");

    return !entry || strcasecmp(node_value(entry->value)->text, "false") != 0;
}

bool rule_has_quantized_weights(const struct rule_context *context)
{
    const struct entry *map = rule_entry(context, "quantization_config");

    return rule_is_quantized(context) ||
           (map && node_value(map->value)->kind == NODE_MAP);
}

bool rule_casts_quantized(const struct rule_context *context)
{
    bool known = true;

    return trl_quantized_casts(context, &known) && known;
}

/* TRL's programs give their dtype to bitsandbytes as the compute format of 4-bit weights
 * (trainer/utils.py, get_quantization_config); LLM.int8() computes in float16. */
bool rule_dtype_computes(const struct rule_context *context)
{
    return rule_is_trl(context) && !context->document->script &&
           rule_has_quantized_weights(context);
}

bool rule_takes_fp16(const struct rule_context *context)
{
    const struct fp16_need need = fp16_need_of(context);

    return need.possible && need.dtype == DTYPE_AUTO;
}

bool rule_surely_takes_fp16(const struct rule_context *context)
{
    return rule_takes_fp16(context) && fp16_need_of(context).sure;
}

bool rule_version_loads(const struct rule_context *context)
{
    return context->plan->external && context->plan->request.model_dtype == DTYPE_AUTO &&
           (!rule_entry(context, "model_dtype") ||
            rule_version_at_least(context, PACKAGE_TRANSFORMERS, "5.0.0.dev0"));
}

bool rule_removes_scaler(const struct rule_context *context)
{
    return rule_is_policy(context, POLICY_NOSCALER) &&
           (!context->plan->external ||
            (context->plan->request.fp16 == CHOICE_YES &&
             !propose_keeps(context->document, "fp16", rule_line(context, "fp16"))));
}

/* `accelerate launch --mixed_precision fp16 train.py` sets the variable. */
static const char *launched_precision(const struct rule_context *context)
{
    const char *const flags[] = { "--mixed_precision", "--mixed-precision" };
    struct trainer_words words;
    const char *word;

    trainer_words_init(context->document, &words);
    if (!(word = trainer_next_word(&words)) || !text_ends(word, "accelerate") ||
        !(word = trainer_next_word(&words)) || strcmp(word, "launch") != 0)
        return NULL;
    while ((word = trainer_next_word(&words)) && !text_ends(word, ".py") &&
           strcmp(word, "-m") != 0)
        for (size_t i = 0; i < TS_COUNT(flags); i++)
            if (strcmp(word, flags[i]) == 0)
                return (word = trainer_next_word(&words))
                           ? arena_strdup(context->arena, word)
                           : NULL;
            else if (text_starts(word, flags[i]) && word[strlen(flags[i])] == '=')
                return arena_strdup(context->arena, word + strlen(flags[i]) + 1);
    return NULL;
}

const char *rule_launcher_precision(const struct rule_context *context,
                                    const struct entry **where)
{
    const struct entry *block = document_find(context->document, "trainspool");
    const char *says = NULL;

    *where = block ? node_find(node_value(block->value), "command") : NULL;
    if (*where)
        says = launched_precision(context);
    if (says)
        return says;
    *where = rule_env_variable(context, "ACCELERATE_MIXED_PRECISION");
    return *where && !node_is_null((*where)->value) ? node_value((*where)->value)->text
                                                    : NULL;
}
