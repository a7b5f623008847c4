/*
 * patcher/rules/rules_external_float16.c - float16 weights under another program's loss
 * scaler.
 *
 * The conditions come from torch/amp/grad_scaler.py, PEFT's tuners_utils.py,
 * Accelerate's accelerator.py and LLaMA-Factory's model/adapter.py, at the versions that
 * the rules name.
 */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"
#include "patcher/rules/trl_quantized.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/schema_value.h"

#define IN_THE_SCRIPT "load the model with dtype=torch.float32"

static struct finding *propose_float32(struct rule_context *context,
                                       struct finding finding, const char *at)
{
    if (rule_line(context, "model_dtype"))
        return rule_propose(context, &finding, "model_dtype", "float32", NULL);
    finding.note = IN_THE_SCRIPT;
    return rule_report(context, &finding, at);
}

/* Weights whose format the version of transformers decides; TS105 reports others. */
static void rule_files_refused(struct rule_context *context)
{
    const struct stored_weights weights = stored_weights_now(context);
    enum format format = weights.parts[WEIGHTS_ALL];
    struct finding finding = {
        .rule = "TS107",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .note = "fp16 compute, clipping and checkpointing stay unchanged",
    };

    if (!stored_weights_stop_scaler(&weights, WEIGHTS_ALL) ||
        !rule_version_loads(context) || rule_fused_adamw_float16(context))
        return;
    finding.because =
        arena_printf(context->arena, "the model's files are %s", format_dtype(format));
    finding.message =
        arena_printf(context->arena, "transformers 5 loads this model as %s, %s",
                     format_dtype(format), stored_weights_refusal(format));
    if (rule_removes_scaler(context)) {
        finding.severity = SEVERITY_WARNING;
        finding.note = "policy noscaler keeps them";
        rule_report(context, &finding, "fp16");
        return;
    }
    propose_float32(context, finding, "fp16");
}

static void rule_fused_adamw(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS408",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message = "with the fused AdamW and without clipping no error is raised, and "
                   "Adam updates float16 weights in float16",
        .because = rule_entry(context, "optim")
                       ? NULL
                       : "adamw_torch_fused is the default since torch 2.8",
        .note = "fp16 compute and clipping stay unchanged",
    };

    if (!rule_fused_adamw_float16(context))
        return;
    if (rule_removes_scaler(context)) {
        finding.severity = SEVERITY_WARNING;
        finding.note = "policy noscaler keeps them";
        rule_report(context, &finding,
                    rule_line(context, "model_dtype") ? "model_dtype" : "fp16");
        return;
    }
    propose_float32(context, finding, "fp16");
}

/* Name the cause of adapters in 16 bits: TRL, an old PEFT, or the job. */
static const char *adapters_message(const struct rule_context *context,
                                    enum format format)
{
    const char *name = format_dtype(format), *refusal = stored_weights_refusal(format);

    if (rule_casts_quantized(context))
        return arena_printf(context->arena,
                            "TRL later than %s always casts the adapters of a "
                            "quantized model to %s, %s",
                            trl_quantized_last(context), name, refusal);
    if (rule_version_below(context, PACKAGE_PEFT, "0.12"))
        return arena_printf(context->arena,
                            "PEFT before 0.12 creates adapters in the format of the base "
                            "model, %s, %s",
                            name, refusal);
    return arena_printf(context->arena,
                        "autocast_adapter_dtype: false leaves the adapters in %s, %s",
                        name, refusal);
}

static void report_adapters(struct rule_context *context, const struct finding *base)
{
    struct finding finding = *base;

    if (rule_removes_scaler(context)) {
        finding.severity = SEVERITY_WARNING;
        rule_report(context, &finding, "fp16");
    } else if (rule_casts_quantized(context)) {
        finding.note = arena_printf(context->arena,
                                    "use TRL %s or earlier, set bf16: true on a GPU with "
                                    "bf16, or set fp16: false",
                                    trl_quantized_last(context));
        rule_report(context, &finding, "fp16");
    } else if (rule_is_quantized(
                   context)) { /* their storage decides, or dtype computes */
        finding.note = "upgrade PEFT to 0.12 or later, or call "
                       "cast_mixed_precision_params";
        rule_report(context, &finding, "fp16");
    } else {
        propose_float32(context, finding, "fp16");
    }
}

/* A script shows its base and its scaler, but not the PEFT that decides about the adapters. */
static void remark_unknown_peft(struct rule_context *context,
                                const struct stored_weights *weights)
{
    if (!context->document->script || !plan_adapts(context->plan) ||
        versions_know(context->versions, PACKAGE_PEFT) || !weights->scaler ||
        !weights->base_known || weights->base != FORMAT_FP16 ||
        rule_has_quantized_weights(context))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS801",
                    .severity = SEVERITY_INFO,
                    .message =
                        "the adapters are float32 with PEFT 0.12 or later; earlier "
                        "versions make them float16 like the base, which the loss scaler "
                        "cannot unscale",
                    .note = "give the version with --versions peft=.." },
                "fp16");
}

static void rule_refused_adapters(struct rule_context *context)
{
    const struct stored_weights weights = stored_weights_now(context);
    bool old = rule_version_below(context, PACKAGE_PEFT, "0.12");

    if (!stored_weights_stop_scaler(&weights, WEIGHTS_ADAPTERS)) {
        remark_unknown_peft(context, &weights);
        return;
    }
    report_adapters(
        context,
        &(struct finding) {
            .rule = "TS801",
            .severity = SEVERITY_ERROR,
            .apply = APPLY_SAFE,
            .because = rule_casts_quantized(context)
                           ? rule_version_text(context, PACKAGE_TRL)
                       : old ? rule_version_text(context, PACKAGE_PEFT)
                             : NULL,
            .message = adapters_message(context, weights.parts[WEIGHTS_ADAPTERS]),
            .note = "or upgrade PEFT, or call cast_mixed_precision_params: the base may "
                    "then stay in 16 bits" });
}

static bool has_blamed_version(const struct rule_context *context)
{
    return (rule_version_at_least(context, PACKAGE_TORCH, "2.0") &&
            rule_version_below(context, PACKAGE_TORCH, "2.3")) ||
           (rule_version_at_least(context, PACKAGE_ACCELERATE, "0.20") &&
            rule_version_below(context, PACKAGE_ACCELERATE, "0.28"));
}

static void rule_blamed_versions(struct rule_context *context)
{
    if (!has_blamed_version(context) || context->plan->request.fp16 != CHOICE_YES ||
        !rule_is_set(context, "gradient_checkpointing") ||
        !context->plan->gradient_checkpointing)
        return; /* with or without clipping: the report recommends turning it off */
    rule_report(context,
                &(struct finding) {
                    .rule = "TS803",
                    .severity = SEVERITY_INFO,
                    .message =
                        "no defect of checkpointing with clipping was found in these "
                        "versions: if `Attempting to unscale FP16 gradients` occurs, "
                        "trained weights are float16",
                    .note = "keep both; store trained weights in float32" },
                "gradient_checkpointing");
}

static void rule_device_map_blamed(struct rule_context *context)
{
    if (!rule_entry(context, "device_map") || !rule_trains_float16(context) ||
        context->plan->request.fp16 != CHOICE_YES)
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS804",
                    .severity = SEVERITY_ERROR,
                    .message =
                        "the loss scaler cannot unscale weights loaded as float16; "
                        "device_map is not the cause",
                    .note = "device_map may stay" },
                "device_map");
}

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

static void rule_fsdp_float16(struct rule_context *context)
{
    const struct stored_weights weights = stored_weights_now(context);
    bool mixed = weights.autocast != FORMAT_FP32;
    bool old = rule_version_below(context, PACKAGE_ACCELERATE, "0.30");

    if (!rule_is_set(context, "fsdp") || is_fsdp2(context) ||
        plan_adapts(context->plan) || !weights.base_known ||
        weights.base != FORMAT_FP16 || rule_is_llamafactory(context))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS806",
            .severity = SEVERITY_WARNING,
            .because = old ? rule_version_text(context, PACKAGE_ACCELERATE) : NULL,
            .message =
                mixed && !old
                    ? "FSDP's scaler unscales float16 gradients without an error; "
                      "training is sound only because Accelerate casts trained weights "
                      "to float32 since 0.30"
                    : "FSDP's scaler unscales float16 gradients without an error, and "
                      "nothing casts these float16 weights to float32: Adam steps in "
                      "float16",
            .note = "set model_dtype: float32" },
        rule_line(context, "model_dtype") ? "model_dtype" : "fsdp");
}

static const struct rule rows[] = {
    { .id = "TS107",
      .title = "transformers 5 loads a 16-bit checkpoint in 16 bits",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_files_refused,
      .target = RULE_EXTERNAL,
      .explain =
          "Since version 5, from_pretrained uses the format of the files unless a dtype "
          "is given. A float16 or bfloat16 checkpoint then has weights in that format to "
          "train, and an unchanged script with fp16: true fails as in TS105.\n\n"
          "If the job has a line model_dtype, the script is assumed to read it, and the "
          "patch sets it to float32. Otherwise change the call yourself: "
          "dtype=torch.float32. It costs 2 more bytes per trained weight. The rule "
          "applies only if the installed version is known to be 5 or later "
          "(trainspool.env or trainspool.versions). `dtype: auto` does the same in every "
          "version: TS105.",
      .source = "transformers PR #42805; modeling_utils.py, v5.0.0rc1" },
    { .id = "TS408",
      .title = "fused AdamW over float16 weights, without clipping",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .target = RULE_EXTERNAL,
      .run = rule_fused_adamw,
      .explain =
          "The loss scaler unscales gradients itself and refuses float16 ones. "
          "PyTorch's fused AdamW unscales in its own kernel: if nothing else needs "
          "unscaled gradients, as clipping does, no check is made and no error is "
          "raised. The run then uses Adam in float16: its second moment underflows "
          "below a gradient of about 0.005, and updates below half an ulp of a weight "
          "are lost. The Trainer defaults to adamw_torch_fused from transformers 4.54 "
          "with torch 2.8 on, so the same script fails with one version of torch and "
          "trains badly with the next.\n\n"
          "The patch stores the weights in float32: 4 bytes each instead of 2, and as "
          "fast on tensor cores.",
      .source = "torch/amp/grad_scaler.py, step; transformers training_args.py, "
                "default_optim; docs/precision.md" },
    { .id = "TS801",
      .title = "adapters trained in 16 bits under a loss scaler",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .target = RULE_EXTERNAL,
      .run = rule_refused_adapters,
      .explain =
          "PEFT before 0.12 stores an adapter in the format of its base layer; later "
          "versions cast float16 and bfloat16 adapters to float32, unless "
          "autocast_adapter_dtype is false. Adapters in 16 bits are trained 16-bit "
          "weights: the loss scaler refuses their gradients (TS105). Next to quantized "
          "weights adapters are float32, but TRL 0.26 and later cast all trained weights "
          "there to bfloat16 (DPO since 0.29, KTO since 1.4), so fp16 fails.\n\n"
          "If the script reads model_dtype, the patch sets it to float32, which costs 2 "
          "more bytes for each weight of the base model. It is cheaper to upgrade PEFT, "
          "or to call cast_mixed_precision_params(model, torch.float16) after "
          "get_peft_model: the base stays float16 and only the adapters, a few MB, "
          "become float32.\n\n"
          "In a Python script with a float16 base, an info says that the version of PEFT "
          "decides, if it is unknown.",
      .source = "PEFT 0.12.0, PR 1706; its troubleshooting page; TRL 0.26.0 "
                "trainer/sft_trainer.py; trl#4901" },
    { .id = "TS803",
      .title = "versions blamed for the loss scaler's error",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_blamed_versions,
      .explain =
          "A report claims that PyTorch 2.0 to 2.2 and Accelerate 0.20 to 0.27 cannot "
          "clip gradients of checkpointed float16 models. No such defect was found in "
          "their histories, and the issues that the report names could not be found "
          "under those titles. The error `Attempting to unscale FP16 gradients` occurs "
          "in every version, if and only if a trained weight is stored in float16.\n\n"
          "Nothing is edited: keep clipping and checkpointing, and see TS105 and TS801 "
          "for the format of the trained weights. Policy noclip (TS404) does what that "
          "report recommends.",
      .source = "torch/amp/grad_scaler.py; Accelerate's history 0.20 to 0.28; "
                "docs/precision.md" },
    { .id = "TS804",
      .title = "device_map blamed for the loss scaler's error",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_device_map_blamed,
      .explain =
          "Reports of the error often show device_map=\"auto\" next to float16 weights. "
          "It decides where weights are, not which format they have: without it the "
          "error stays. The cause is the format of the weights, and TS105 or TS107 "
          "fixes it. device_map stays unchanged.",
      .source = "torch/amp/grad_scaler.py; PEFT tests/test_gpu_examples.py, which "
                "raises without any device_map" },
    { .id = "TS806",
      .title = "FSDP over float16 weights",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_fsdp_float16,
      .explain =
          "FSDP1 has its own scaler, ShardedGradScaler, which allows float16 gradients: "
          "no error is raised. Accelerate casts trained weights to float32 since 0.30, "
          "unless mixed precision is off; otherwise Adam steps in float16, which stalls "
          "and may divide by zero.\n\n"
          "Set model_dtype: float32.",
      .source =
          "torch/distributed/fsdp/sharded_grad_scaler.py; Accelerate accelerator.py, "
          "v0.29 and v0.30" },
};

const struct rules rules_external_float16 = { rows, TS_COUNT(rows) };
