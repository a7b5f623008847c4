/*
 * patcher/rules_external.c - trained weights in float16 under another program's scaler.
 *
 * What raises where is read from torch/amp/grad_scaler.py, PEFT's tuners_utils.py,
 * Accelerate's accelerator.py and LLaMA-Factory's model/adapter.py, at the versions that
 * the rules name.
 */
#include "config.h"

#include "patcher/rules_parts.h"

#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"

#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

/* From this version from_pretrained takes the files' format where none is given. */
#define DTYPE_OF_FILES "5.0.0.dev0"
#define IN_THE_SCRIPT  "load the model with dtype=torch.float32"

/* ---- What the script is ---- */

bool rule_is_on(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const struct key *row = schema_find(key);

    return entry && !(row && value_is_off(row, entry->value, context->arena));
}

/* What trainspool starts: a text, or a list of words; or NULL. */
static const struct node *command_of(const struct rule_context *context)
{
    const struct entry *block = document_find(context->document, "trainspool");
    const struct entry *command =
        block ? node_find(node_value(block->value), "command") : NULL;

    return command && !node_is_null(command->value) ? node_value(command->value) : NULL;
}

bool rule_names_llamafactory(const struct rule_context *context)
{
    const struct node *command = command_of(context);

    if (!context->plan->external)
        return false;
    if (versions_know(context->versions, PACKAGE_LLAMAFACTORY))
        return true;
    for (size_t i = 0; command && command->kind == NODE_LIST && i < command->count; i++)
        if (strstr(node_value(command->items[i])->text, "llamafactory"))
            return true;
    return command && strstr(command->text, "llamafactory");
}

bool rule_is_llamafactory(const struct rule_context *context)
{
    static const char *const own[] = { "template", "cutoff_len", "dataset_dir" };

    if (rule_names_llamafactory(context))
        return true;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (context->plan->external && !command_of(context) &&
            rule_entry(context, own[i]))
            return true;
    return false;
}

/* A key that only a job with adapters has. */
static bool is_of_adapters(const char *key)
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

/* Says no, as use_peft: false does. */
static bool is_denied(const struct entry *entry)
{
    bool on = true;

    return scalar_bool(entry->value, &on) != SCALAR_WRONG && !on;
}

bool rule_takes_all(const struct rule_context *context)
{
    const struct node *root = context->document->root;

    if (!context->plan->external || rule_is_llamafactory(context) ||
        rule_has_4_bits(context) || rule_version_below(context, PACKAGE_PEFT, "0.12"))
        return false;
    for (size_t i = 0; i < root->count; i++)
        if (root->entries[i].key->kind == NODE_SCALAR &&
            is_of_adapters(root->entries[i].key->text) &&
            (!is_denied(&root->entries[i]) ||
             strcmp(root->entries[i].key->text, "autocast_adapter_dtype") == 0))
            return false;
    return true;
}

bool rule_may_adapt(const struct rule_context *context)
{
    return rule_takes_all(context) && versions_know(context->versions, PACKAGE_PEFT);
}

/* DeepSpeed and Accelerate's FSDP step copies in float32. */
static bool has_masters(const struct rule_context *context)
{
    return rule_is_on(context, "deepspeed") || rule_is_on(context, "fsdp");
}

/* The model would be loaded as float16. */
static bool loads_float16(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (rule_is_llamafactory(context))
        return false;
    if (request->model_dtype == DTYPE_AUTO)
        return context->checkpoint == FORMAT_FP16 && !context->plan->train_from_scratch &&
               rule_version_from(context, PACKAGE_TRANSFORMERS, DTYPE_OF_FILES);
    return request->model_dtype == DTYPE_FLOAT16;
}

bool rule_half_external(const struct rule_context *context)
{
    return context->plan->method != METHOD_LORA && !context->plan->request.pure_bf16 &&
           !has_masters(context) && loads_float16(context);
}

/* torch's AdamW in one kernel: the scaler leaves the unscaling to it, so nothing
 * raises. */
bool rule_is_fused(const struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "optim");

    if (entry)
        return strcmp(node_value(entry->value)->text, "adamw_torch_fused") == 0;
    return rule_version_from(context, PACKAGE_TRANSFORMERS, "4.54") &&
           rule_version_from(context, PACKAGE_TORCH, "2.8");
}

bool rule_fused_half(const struct rule_context *context)
{
    return context->plan->external && rule_half_trainables(context) &&
           context->plan->request.fp16 == CHOICE_YES &&
           context->plan->request.max_grad_norm == 0 && rule_is_fused(context);
}

/* ---- Telling: the format of the weights, where the script reads a key for it ---- */

static struct finding *to_float32(struct rule_context *context, struct finding finding,
                                  const char *at)
{
    if (rule_line(context, "model_dtype"))
        return rule_set(context, &finding, "model_dtype", "float32", NULL);
    finding.note = IN_THE_SCRIPT;
    return rule_tell(context, &finding, at);
}

/* ---- TS107, TS408: full training ---- */

void rule_dtype_auto(struct rule_context *context)
{
    if (context->plan->request.model_dtype != DTYPE_AUTO ||
        !rule_half_trainables(context) || context->plan->request.fp16 != CHOICE_YES ||
        rule_fused_half(context))
        return;
    to_float32(
        context,
        (struct finding) {
            .rule = "TS107",
            .severity = SEVERITY_ERROR,
            .apply = APPLY_SAFE,
            .because = "the model's files are float16",
            .message =
                "transformers 5 loads this model as float16, which the loss scaler "
                "cannot unscale",
            .note = "fp16 compute, clipping and checkpointing stay as they are",
        },
        "fp16");
}

void rule_fused_adam(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS408",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message = "with the fused AdamW and clipping off nothing raises, and float16 "
                   "weights are stepped by a float16 Adam",
        .because = rule_entry(context, "optim")
                       ? NULL
                       : "adamw_torch_fused is the preset from torch 2.8 on",
        .note = "fp16 compute and clipping stay as they are",
    };

    if (!rule_fused_half(context))
        return;
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        finding.note = "policy noscaler keeps it so";
        rule_tell(context, &finding,
                  rule_line(context, "model_dtype") ? "model_dtype" : "fp16");
        return;
    }
    to_float32(context, finding, "fp16");
}

/* ---- TS801: adapters ---- */

bool rule_casts_adapters(const struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "autocast_adapter_dtype");

    return !entry || strcasecmp(node_value(entry->value)->text, "false") != 0;
}

void rule_half_adapters(struct rule_context *context)
{
    bool old = rule_version_below(context, PACKAGE_PEFT, "0.12");
    struct finding finding = {
        .rule = "TS801",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .because = old ? rule_version(context, PACKAGE_PEFT) : NULL,
        .message =
            old ? "this PEFT gives adapters the format of the base model, float16, "
                  "which the loss scaler cannot unscale; from 0.12 on they are float32"
                : "autocast_adapter_dtype: false leaves the adapters in float16, which "
                  "the loss scaler cannot unscale",
        .note = "or upgrade PEFT, or call cast_mixed_precision_params: then the base "
                "may stay float16",
    };

    if (context->plan->method != METHOD_LORA || (!old && rule_casts_adapters(context)) ||
        context->plan->request.fp16 != CHOICE_YES || has_masters(context) ||
        !loads_float16(context))
        return;
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        rule_tell(context, &finding, "fp16");
        return;
    }
    to_float32(context, finding, "fp16");
}

/* ---- TS803, TS804: what is said to be the cause ---- */

static bool is_blamed(const struct rule_context *context)
{
    return (rule_version_from(context, PACKAGE_TORCH, "2.0") &&
            rule_version_below(context, PACKAGE_TORCH, "2.3")) ||
           (rule_version_from(context, PACKAGE_ACCELERATE, "0.20") &&
            rule_version_below(context, PACKAGE_ACCELERATE, "0.28"));
}

void rule_blamed_versions(struct rule_context *context)
{
    if (!is_blamed(context) || context->plan->request.fp16 != CHOICE_YES ||
        !rule_is_on(context, "gradient_checkpointing") ||
        !context->plan->gradient_checkpointing)
        return; /* clipped or not: to turn that off is the report's advice */
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS803",
                  .severity = SEVERITY_INFO,
                  .message =
                      "no defect of checkpointing with clipping was found in these "
                      "versions: if `Attempting to unscale FP16 gradients` comes, "
                      "trained weights are float16",
                  .note = "keep both; store what is trained in float32" },
              "gradient_checkpointing");
}

void rule_device_map_blamed(struct rule_context *context)
{
    if (!rule_entry(context, "device_map") || !rule_half_trainables(context) ||
        context->plan->request.fp16 != CHOICE_YES)
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS804",
                  .severity = SEVERITY_ERROR,
                  .message = "weights loaded as float16 are what the loss scaler cannot "
                             "unscale; device_map has no part in it",
                  .note = "it may stay" },
              "device_map");
}

/* ---- TS806 ---- */

static bool is_fsdp2(const struct rule_context *context)
{
    const struct entry *config = rule_entry(context, "fsdp_config"), *entry;
    const struct node *map = config ? node_value(config->value) : NULL;

    if (!map || map->kind != NODE_MAP)
        return false;
    entry = node_find(map, "version");
    if (!entry)
        entry = node_find(map, "fsdp_version");
    return entry && strcmp(node_value(entry->value)->text, "2") == 0;
}

void rule_fsdp_half(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool mixed = request->fp16 == CHOICE_YES || request->bf16 == CHOICE_YES;
    bool old = rule_version_below(context, PACKAGE_ACCELERATE, "0.30");

    if (!rule_is_on(context, "fsdp") || is_fsdp2(context) ||
        context->plan->method == METHOD_LORA || !loads_float16(context))
        return;
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS806",
            .severity = SEVERITY_WARNING,
            .because = old ? rule_version(context, PACKAGE_ACCELERATE) : NULL,
            .message =
                mixed && !old
                    ? "FSDP's scaler unscales float16 gradients without a word; that "
                      "training is sound rests on Accelerate, which makes trained "
                      "weights float32 from 0.30 on"
                    : "FSDP's scaler unscales float16 gradients without a word, and "
                      "nothing makes these float16 weights float32: Adam steps in "
                      "float16",
            .note = "model_dtype: float32 says what is meant" },
        rule_line(context, "model_dtype") ? "model_dtype" : "fsdp");
}
