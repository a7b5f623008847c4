/* patcher/rules_limits.c - checkpointing, clipping, optimizer and learning rate. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <math.h>
#include <string.h>

#include "patcher/schema/scalar.h"
#include "train/model/optimizer_table.h"

/* ---- Checkpointing: two keys for one thing ---- */

static bool read_bool(const struct rule_context *context, const char *key, bool *value)
{
    const struct entry *entry = rule_entry(context, key);

    return entry && scalar_bool(entry->value, value) != SCALAR_WRONG;
}

void rule_checkpointing(struct rule_context *context)
{
    bool on, off;

    if (!read_bool(context, "gradient_checkpointing", &on) ||
        !read_bool(context, "disable_gradient_checkpointing", &off) || on != off)
        return;
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS303",
            .severity = SEVERITY_ERROR,
            .message = arena_printf(context->arena,
                                    "gradient_checkpointing and "
                                    "disable_gradient_checkpointing are both %s: one of "
                                    "them is wrong",
                                    on ? "true" : "false"),
            .note = "keep one; without either, checkpointing is on" },
        "disable_gradient_checkpointing");
}

/* ---- Clipping ---- */

static bool is_null(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_line(context, key);

    return entry && node_is_null(entry->value);
}

void rule_null_clip(struct rule_context *context)
{
    bool deepspeed = context->plan->external && rule_entry(context, "deepspeed");

    if (!is_null(context, "max_grad_norm"))
        return;
    rule_set(
        context,
        &(struct finding) {
            .rule = "TS401",
            .severity = deepspeed ? SEVERITY_ERROR : SEVERITY_WARNING,
            .apply = APPLY_SAFE,
            .message = "an empty max_grad_norm turns clipping off here, means 1.0 in "
                       "Axolotl, and stops DeepSpeed",
            .note =
                "0.0 says off everywhere; it is no cure for the loss scaler's error" },
        "max_grad_norm", "0.0", NULL);
}

void rule_no_clip(struct rule_context *context)
{
    if (context->plan->external &&
        (rule_is_fused(context) || rule_is_on(context, "deepspeed")))
        return; /* the optimizer, or DeepSpeed, unscales by itself: TS408 */
    if (!rule_entry(context, "max_grad_norm") ||
        context->plan->request.max_grad_norm != 0 || !rule_wants_fp16(context) ||
        rule_is_policy(context, POLICY_NOCLIP))
        return;
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS402",
            .severity = SEVERITY_WARNING,
            .message = "clipping is off with fp16: gradients are unscaled all the same, "
                       "so this avoids no error of the loss scaler",
            .note =
                context->plan->external
                    ? "max_grad_norm: 1.0 is the preset; without clipping the Trainer "
                      "logs no grad_norm"
                    : "max_grad_norm: 1.0 is the preset; grad_norm is logged either way" },
        "max_grad_norm");
}

void rule_negative_clip(struct rule_context *context)
{
    const double norm = context->plan->request.max_grad_norm;

    if (!(norm < 0) && !isnan(norm))
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS403",
                  .severity = SEVERITY_ERROR,
                  .message = isnan(norm) ? "max_grad_norm is no number: every gradient "
                                           "would become NaN"
                                         : "a negative max_grad_norm reverses every "
                                           "gradient: the loss would rise",
                  .note = "0.0 turns clipping off, 1.0 is the preset" },
              "max_grad_norm");
}

void rule_policy_noclip(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS404",
        .severity = SEVERITY_WARNING,
        .apply = APPLY_SAFE,
        .message =
            "policy noclip: a large gradient is stepped as it is; a float16 weight "
            "raises the loss scaler's error with and without clipping",
        .note = "unless optim is a fused AdamW of torch, which then steps in float16",
    };

    if (!rule_is_policy(context, POLICY_NOCLIP) || is_null(context, "max_grad_norm"))
        return; /* TS401 writes a zero first */
    if (context->plan->request.max_grad_norm == 0)
        rule_tell(context, &finding, "max_grad_norm");
    else
        rule_set(context, &finding, "max_grad_norm", "0.0", "fp16");
}

/* ---- Optimizer ---- */

/* Names of AdamW in libraries that store its moments differently. */
void rule_optimizer(struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "optim");
    const char *name = entry ? node_value(entry->value)->text : "sgd";
    int known = optimizer_find(name);

    if (known >= 0 && optimizer_is_exact(known))
        return;
    if (!strstr(name, "adamw") || strstr(name, "galore") || strstr(name, "apollo") ||
        strstr(name, "grok"))
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS307",
                  .severity = SEVERITY_WARNING,
                  .message = arena_printf(context->arena,
                                          "%s: Adam keeps its moments in float32 here, "
                                          "8 bytes a trained weight",
                                          name) },
              "optim");
}

struct rate {
    const char *key, *wanted;
    double value, min, max;
    bool open_min, open_max; /* the bound itself is outside */
};

static bool is_inside(const struct rate *rate)
{
    if (!isfinite(rate->value))
        return false;
    if (rate->open_min ? rate->value <= rate->min : rate->value < rate->min)
        return false;
    return rate->open_max ? rate->value < rate->max : rate->value <= rate->max;
}

void rule_rates(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct rate rates[] = {
        { "learning_rate", "above 0 and at most 1", plan->learning_rate, 0, 1, true,
          false },
        { "adam_beta1", "from 0 to below 1", plan->adam_beta1, 0, 1, false, true },
        { "adam_beta2", "from 0 to below 1", plan->adam_beta2, 0, 1, false, true },
        { "weight_decay", "0 or more", plan->weight_decay, 0, INFINITY, false, true },
    };

    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        if (!is_inside(&rates[i]))
            rule_tell(
                context,
                &(struct finding) { .rule = "TS410",
                                    .severity = SEVERITY_ERROR,
                                    .message = arena_printf(
                                        context->arena, "%s must be %s, not %s",
                                        rates[i].key, rates[i].wanted,
                                        scalar_print(rates[i].value, context->arena)) },
                rates[i].key);
}
