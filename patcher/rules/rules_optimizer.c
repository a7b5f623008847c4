/* patcher/rules/rules_optimizer.c - learning rate, warmup, Adam moments, optimizers that
 * step in the backward pass, and guards against inf and NaN. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "train/model/optimizer_table.h"

static const char *text_of(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);

    return entry ? node_value(entry->value)->text : NULL;
}

static const struct rate {
    double far;
    const char *what, *usual;
} rates[][2] = {
    /* by stage; second column: with LoRA */
    { { 1e-4, "training all weights", "1e-5 is usual, 1e-4 for LoRA" },
      { 1e-3, "LoRA", "1e-4 to 2e-4 is usual" } },
    { { 5e-5, "training all weights on preferences", "5e-7 is usual, 5e-6 for LoRA" },
      { 5e-5, "LoRA on preferences", "5e-6 is usual" } },
};

/* narrower than any model that is fine-tuned; such models need higher rates */
#define TINY_WIDE 512

/* The limits are for Adam on a pretrained language model. */
static bool has_usual_rate(const struct rule_context *context)
{
    const char *optim = text_of(context, "optim");

    if (context->plan->train_from_scratch || rule_is_true(context, "use_muon") ||
        (context->model && context->model->hidden_size < TINY_WIDE))
        return false;
    return !optim || strstr(optim, "adam");
}

static void rule_unusual_learning_rate(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct rate *rate =
        &rates[plan->stage >= STAGE_DPO && plan->stage != STAGE_RM][plan_adapts(plan)];

    if (!(plan->learning_rate > rate->far && plan->learning_rate <= 1) ||
        !has_usual_rate(context))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS406",
            .severity = SEVERITY_INFO,
            .message = arena_printf(
                context->arena, "learning_rate %s is far above the usual range for %s",
                scalar_print(plan->learning_rate, context->arena), rate->what),
            .note = rate->usual },
        "learning_rate");
}

static void report_warmup(struct rule_context *context, const char *key,
                          const char *message, const char *note)
{
    rule_report(context,
                &(struct finding) { .rule = "TS407",
                                    .severity = SEVERITY_WARNING,
                                    .message = message,
                                    .note = note },
                key);
}

/* Return whether warmup_steps of this transformers is a float, which takes a fraction. */
static bool takes_fraction(const struct rule_context *context)
{
    struct profile_view view;
    const struct profile_key *key;

    profile_view(TRAINER_TRANSFORMERS, context->versions, NULL, &view);
    key = view.own == PROFILE_ANY_VERSION ? NULL : profile_find(&view, "warmup_steps");
    return key && key->types & PROFILE_REAL;
}

/* A fraction in warmup_steps: 4.44 to 4.57 raise, older ones take no warmup at all. */
static void report_fraction(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    bool raises = rule_version_at_least(context, PACKAGE_TRANSFORMERS, "4.44.0.dev0"),
         old = rule_version_below(context, PACKAGE_TRANSFORMERS, "4.44.0.dev0");
    struct finding finding = {
        .rule = "TS407",
        .severity = raises ? SEVERITY_ERROR : SEVERITY_WARNING,
        .apply = APPLY_UNSAFE,
        .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
        .message = raises ? "warmup_steps below 1 is an error in transformers 4: "
                            "\"warmup_steps must be of type int\""
                   : old  ? "warmup_steps below 1 means no warmup or one step in "
                            "this transformers; it is a fraction since 5.0"
                          : "warmup_steps below 1 is a fraction of all steps here and "
                            "since transformers 5; before, it was an error or no warmup",
        .note = "warmup_ratio has the same meaning in older versions",
    };

    if (takes_fraction(context))
        return;
    if ((raises || old) && !document_find(context->document, "warmup_ratio"))
        propose_name(&to, &finding, rule_entry(context, "warmup_steps"), "warmup_ratio");
    else
        rule_report(context, &finding, "warmup_steps");
}

/* schedulefree multiplies the rates of the schedule, which has the same warmup, by its own:
 * transformers trainer_optimizer.py, _get_schedule_free. */
static void check_second_warmup(struct rule_context *context, const char *key)
{
    const struct plan *plan = context->plan;
    const char *optim = text_of(context, "optim");

    if (optim && strcmp(optim, "schedule_free_adamw") == 0 &&
        plan->schedule != SCHEDULE_CONSTANT &&
        plan->schedule != SCHEDULE_REDUCE_ON_PLATEAU)
        report_warmup(context, key,
                      "schedule_free_adamw has a warmup of its own, so this one counts "
                      "twice, and it needs no rates that decrease",
                      "set lr_scheduler_type: constant");
}

static void rule_ambiguous_warmup(struct rule_context *context)
{
    double ratio = 0, steps = 0;
    bool has_ratio =
        !rule_version_at_least(context, PACKAGE_TRANSFORMERS, "5.15.0.dev0") &&
        rule_number(context, "warmup_ratio", &ratio); /* else TS603 */

    rule_number(context, "warmup_steps", &steps);
    if (has_ratio && steps > 0)
        report_warmup(
            context, "warmup_ratio",
            "warmup_ratio and warmup_steps are both given: transformers 4 uses the "
            "steps, 5 uses the ratio, and a native run uses a ratio above 0",
            "keep one of them");
    if (ratio > 0 || steps > 0)
        check_second_warmup(context, ratio > 0 ? "warmup_ratio" : "warmup_steps");
    if (ratio == 1)
        report_warmup(context, "warmup_ratio",
                      "with warmup_ratio 1.0 the whole run is warmup: learning_rate is "
                      "reached at the last step",
                      "in warmup_steps, 1.0 would mean one step");
    if (steps > 0 && steps < 1)
        report_fraction(context);
}

/* Keys that enable it, and the key that must be on for them to count, which a native run
 * has without it. */
static const struct in_backward {
    const char *key, *needs;
} in_backward[] = {
    { "optimizer_in_bwd", NULL },
    { "galore_layerwise", "use_galore" },
    { "apollo_layerwise", "use_apollo" },
};

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* Return the setting that asks for it, or NULL. */
static const char *backward_step_setting(const struct rule_context *context)
{
    const char *optim = text_of(context, "optim");

    for (size_t i = 0; i < TS_COUNT(in_backward); i++)
        if (rule_is_true(context, in_backward[i].key) &&
            (!in_backward[i].needs ||
             (context->plan->external && rule_is_true(context, in_backward[i].needs))))
            return in_backward[i].key;
    return optim && (ends_with(optim, "_layerwise") || ends_with(optim, "lomo"))
               ? arena_printf(context->arena, "optim: %s", optim)
               : NULL;
}

static void rule_step_in_backward(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct finding finding = { .rule = "TS411", .severity = SEVERITY_ERROR };
    const char *what = backward_step_setting(context);

    if (!what)
        return;
    finding.note = "use an optimizer that steps after the backward pass";
    if (plan->gradient_accumulation_steps > 1) {
        finding.message =
            arena_printf(context->arena,
                         "%s updates each weight during the backward pass, so gradients "
                         "of %lld micro batches cannot be accumulated",
                         what, (long long)plan->gradient_accumulation_steps);
        rule_report(context, &finding, "gradient_accumulation_steps");
    }
    if (rule_entry(context, "max_grad_norm") && plan->request.max_grad_norm > 0) {
        finding.message = arena_printf(context->arena,
                                       "%s updates each weight during the backward pass, "
                                       "before the norm for clipping is known",
                                       what);
        rule_report(context, &finding, "max_grad_norm");
    }
}

/* Keys of such guards in other programs.  A native run is always guarded. */
static const char *const guards[] = {
    "check_for_nan_in_loss_and_grad", /* Megatron-LM */
    "check_grad_overflow",            /* DeepSpeed's bf16 block */
    "error_if_nonfinite",             /* torch.nn.utils.clip_grad_norm_ */
    "skip_nan_grad",                  /* NeMo */
};

static void rule_nan_guard_off(struct rule_context *context)
{
    if (rule_runs_fp16(context))
        return;
    for (size_t i = 0; i < TS_COUNT(guards); i++)
        if (rule_entry(context, guards[i]) && !rule_is_true(context, guards[i]))
            rule_propose(context,
                         &(struct finding) {
                             .rule = "TS412",
                             .severity = SEVERITY_WARNING,
                             .apply = APPLY_UNSAFE,
                             .message = arena_printf(
                                 context->arena,
                                 "%s is off, and no loss scaler skips steps that are not "
                                 "finite: one inf in a gradient makes every weight NaN",
                                 guards[i]) },
                         guards[i], "true", NULL);
}

/* Report names of AdamW in libraries that store its moments in a format that we do not. */
static void rule_adam_moments(struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "optim");
    const char *name = entry ? node_value(entry->value)->text : "sgd";
    int known = optimizer_find(name);

    if (known >= 0 && optimizer_is_exact(known))
        return;
    if (!strstr(name, "adamw") || strstr(name, "galore") || strstr(name, "apollo") ||
        strstr(name, "grok"))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS307",
                    .severity = SEVERITY_WARNING,
                    .message = arena_printf(context->arena,
                                            "%s: a native run keeps Adam's moments in "
                                            "float32, 8 bytes per trained weight; "
                                            "adamw_8bit keeps them in 8 bits",
                                            name) },
                "optim");
}

struct bound {
    const char *key, *wanted;
    double value, min, max;
    bool open_min, open_max; /* the bound itself is not allowed */
};

static bool is_inside(const struct bound *bound)
{
    if (!isfinite(bound->value))
        return false;
    if (bound->open_min ? bound->value <= bound->min : bound->value < bound->min)
        return false;
    return bound->open_max ? bound->value < bound->max : bound->value <= bound->max;
}

static void rule_optimizer_bounds(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct bound bounds[] = {
        { "learning_rate", "above 0 and at most 1", plan->learning_rate, 0, 1, true,
          false },
        { "adam_beta1", "from 0 to below 1", plan->adam_beta1, 0, 1, false, true },
        { "adam_beta2", "from 0 to below 1", plan->adam_beta2, 0, 1, false, true },
        { "weight_decay", "0 or more", plan->weight_decay, 0, INFINITY, false, true },
    };

    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (!is_inside(&bounds[i]))
            rule_report(
                context,
                &(struct finding) { .rule = "TS410",
                                    .severity = SEVERITY_ERROR,
                                    .message = arena_printf(
                                        context->arena, "%s must be %s, not %s",
                                        bounds[i].key, bounds[i].wanted,
                                        scalar_print(bounds[i].value, context->arena)) },
                bounds[i].key);
}

static const struct rule rows[] = {
    { .id = "TS307",
      .title = "Adam with 4-bit or bfloat16 moments",
      .severity = SEVERITY_WARNING,
      .run = rule_adam_moments,
      .target = RULE_NATIVE,
      .explain =
          "A native run stores Adam's moments in float32: 8 bytes per trained weight. "
          "With lora this is little. `optim: adamw_8bit` stores them in 8 bits as "
          "bitsandbytes does, 2 bytes per trained weight. If the job does not fit on a "
          "GPU, the moments of a paged optimizer are kept in host memory; `trainspool: "
          "{offload_optimizer: true}` does so for any optimizer. adamw_torch_4bit and "
          "adamw_anyprecision name formats that a native run does not have. The file "
          "stays unchanged; `plan` shows the memory.",
      .source = "train/model/optimizer.c" },
    { .id = "TS406",
      .title = "unusually high learning rate",
      .severity = SEVERITY_INFO,
      .run = rule_unusual_learning_rate,
      .explain =
          "Above 1e-4 when all weights are trained, or above 1e-3 with LoRA, Adam tends "
          "to forget what a pretrained model knows, or to diverge. The value may be "
          "intended, so it is only reported, never edited. The examples of "
          "LLaMA-Factory use 1e-5 for all weights and 1e-4 with LoRA, those of Axolotl "
          "mostly 2e-4 with LoRA. In stage dpo the limit is 5e-5: LLaMA-Factory's "
          "example uses 5e-6 with LoRA.\n\n"
          "The rule does not apply to training from scratch, to optimizers other than "
          "Adam, and to models narrower than 512, which need a higher rate.",
      .source = "the example jobs of LLaMA-Factory and Axolotl" },
    { .id = "TS407",
      .title = "ambiguous warmup",
      .severity = SEVERITY_WARNING,
      .run = rule_ambiguous_warmup,
      .explain =
          "If both keys are given, warmup_steps overrides warmup_ratio in transformers "
          "4, the ratio overrides the steps in transformers 5, and in a native run a "
          "ratio above 0 overrides the steps. A ratio of 1 makes the whole run a "
          "warmup. warmup_steps below 1 is a fraction of all steps in trainspool and in "
          "transformers 5; 4.44 to 4.57 raise an error, and older versions have no "
          "warmup, or one step of it: `--unsafe` renames the key to warmup_ratio if the "
          "version is known. And a script "
          "that moves warmup_ratio: 1.0 to warmup_steps leaves a warmup of one step. With "
          "optim: schedule_free_adamw the optimizer has the same warmup as a schedule other "
          "than constant, and the rates are multiplied.\n\n"
          "Keep one of the two keys. Only you know the intended length, so nothing else "
          "is edited.",
      .source = "transformers, training_args.py (4: get_warmup_steps, 5: "
                "__post_init__); vllm semantic-router PR #3940" },
    { .id = "TS410",
      .title = "learning rate, beta or weight decay out of range",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_optimizer_bounds,
      .explain =
          "learning_rate must be above 0 and at most 1 (full fine-tuning: about 1e-5, "
          "LoRA: about 1e-4), both betas from 0 to below 1, weight_decay 0 or more. "
          "With other values the run diverges or does not learn.",
      .source = "Kingma and Ba, Adam, 2015; Loshchilov and Hutter, 2019" },
    { .id = "TS411",
      .title = "optimizer in the backward pass with clipping or accumulation",
      .severity = SEVERITY_ERROR,
      .run = rule_step_in_backward,
      .explain =
          "optimizer_in_bwd (torchtune), layerwise GaLore and APOLLO, LOMO and AdaLOMO "
          "update each weight as soon as its gradient is computed and then free the "
          "gradient. This saves the memory of all gradients, but leaves nothing to "
          "accumulate over several micro batches, and no global norm to clip to. "
          "torchtune and LLaMA-Factory reject accumulation with it; torchtune rejects "
          "clipping, which has no effect elsewhere.\n\n"
          "Set gradient_accumulation_steps: 1 and leave max_grad_norm out, or use an "
          "optimizer that steps after the backward pass. In a native run GaLore and APOLLO "
          "always do, and the others are not supported (TS707), so the rule applies to "
          "target: external.",
      .source = "torchtune, recipes/full_finetune_single_device.py; LLaMA-Factory, "
                "train/trainer_utils.py (\"Per-layer GaLore does not support gradient "
                "accumulation\")" },
    { .id = "TS412",
      .title = "guard against inf and NaN is off",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_nan_guard_off,
      .explain =
          "In fp16 the loss scaler skips a step whose gradients are not finite. bf16 and "
          "float32 have no scaler: one inf makes the norm inf, clipping then multiplies "
          "it by 0, which is NaN, and every weight is NaN after one bad batch.\n\n"
          "A native run checks every step, in every format, and skips a step that is not "
          "finite; this cannot be turned off. Hugging Face's Trainer has no such guard. "
          "These programs have one, and a job for target: external may have their keys: "
          "Megatron-LM (check_for_nan_in_loss_and_grad), DeepSpeed's bf16 block "
          "(check_grad_overflow), PyTorch's clip_grad_norm_ (error_if_nonfinite), NeMo "
          "(skip_nan_grad). If one of them is false without fp16, `--unsafe` sets it to "
          "true.",
      .source = "torch/nn/utils/clip_grad.py; Megatron-LM, training/arguments.py; "
                "DeepSpeed, bfloat16 config; docs/precision.md" },
};

const struct rules rules_optimizer = { rows, TS_COUNT(rows) };
