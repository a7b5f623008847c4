/* patcher/rules/rules_loop.c - training loops written by hand in a Python script: the
 * order of scaling, unscaling, clipping and stepping.  script_loop.c finds them. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "patcher/script/script.h"

/* The finding for each kind of fault; %s in the note is the scaler or the module. */
static const struct loop_rule {
    const char *rule;
    enum severity severity;
    enum apply apply;
    const char *key;
    const char *message, *note;
} loop_rules[LOOP_FAULTS] = {
    [LOOP_CLIPS_SCALED] = { "TS128", SEVERITY_ERROR, APPLY_UNSAFE, "clip_grad_norm_",
                            "gradients are clipped before they are unscaled, so every "
                            "step is far too small",
                            "%s unscales them first" },
    [LOOP_NO_SCALER] = { "TS129", SEVERITY_WARNING, APPLY_MANUAL, "autocast",
                         "autocast computes in float16 without a loss scaler: small "
                         "gradients underflow to zero",
                         "use torch.amp.GradScaler, or dtype=torch.bfloat16 on a GPU with "
                         "compute capability 8.0 or higher" },
    [LOOP_NO_UPDATE] = { "TS130", SEVERITY_ERROR, APPLY_UNSAFE, "step",
                         "the scaler steps but is never updated: the next unscale_ "
                         "raises RuntimeError, and the scale never adapts",
                         "%s.update() follows each step" },
    [LOOP_UNSCALES_TWICE] = { "TS130", SEVERITY_ERROR, APPLY_MANUAL, "unscale_",
                              "the gradients of an optimizer are unscaled twice in one "
                              "step, which raises RuntimeError",
                              "call %s.unscale_ once per step" },
    [LOOP_STEPS_SCALED] = { "TS130", SEVERITY_ERROR, APPLY_MANUAL, "step",
                            "the optimizer steps with gradients that were not unscaled",
                            "call scaler.step(%s) and scaler.update() instead" },
    [LOOP_FURTHER] = { "TS131", SEVERITY_INFO, APPLY_MANUAL, "Trainer",
                       "the script trains again here, with other arguments, which are "
                       "not checked",
                       "the findings are about the first training" },
    [LOOP_HALF_MODULE] = { "TS902", SEVERITY_ERROR, APPLY_SAFE, "dtype",
                           "the optimizer also trains a module stored in float16, whose "
                           "gradients the loss scaler cannot unscale",
                           "%s is trained in float32; autocast still computes in "
                           "float16" },
};

static void report_fault(struct rule_context *context,
                         const struct script_fault_at *fault)
{
    const struct loop_rule *row = &loop_rules[fault->kind];
    struct finding finding = {
        .rule = row->rule,
        .severity = row->severity,
        .apply = APPLY_MANUAL,
        .key = row->key,
        .at = document_mark(context->document, fault->at),
        .cut = fault->bytes,
        .message = row->message,
        .note = arena_printf(context->arena, row->note, fault->name ? fault->name : ""),
    };
    struct mark line = document_mark(context->document, fault->edit_at);

    if (rule_is_policy(context, POLICY_NOSCALER) && fault->kind == LOOP_HALF_MODULE)
        finding.severity = SEVERITY_WARNING;
    else if (fault->edit && document_line_keeps(context->document, finding.at))
        finding.note = "the script keeps this line";
    else if (fault->edit) {
        finding.apply = row->apply;
        finding.at = line;
        finding.cut = fault->edit_cut;
        finding.old_text = arena_copy(
            context->arena, context->document->data + fault->edit_at, fault->edit_cut);
        finding.new_text = fault->edit;
    }
    findings_add(context->findings, &finding);
}

static void report_faults(struct rule_context *context, const char *rule)
{
    const struct script_facts *facts = script_facts_of(context->document);

    for (size_t i = 0; i < facts->fault_count; i++)
        if (strcmp(loop_rules[facts->faults[i].kind].rule, rule) == 0)
            report_fault(context, &facts->faults[i]);
}

static void rule_clips_scaled(struct rule_context *context)
{
    report_faults(context, "TS128");
    report_faults(context, "TS902");
}

static void rule_autocast_unscaled(struct rule_context *context)
{
    report_faults(context, "TS129");
}

static void rule_scaler_order(struct rule_context *context)
{
    report_faults(context, "TS130");
}

static void rule_further_training(struct rule_context *context)
{
    report_faults(context, "TS131");
}

static const struct rule rows[] = {
    { .id = "TS128",
      .title = "scaled gradients are clipped",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_clips_scaled,
      .explain =
          "Between scaler.scale(loss).backward() and scaler.unscale_(optimizer) every "
          "gradient is multiplied by the loss scale, 65536 at the start. "
          "clip_grad_norm_ then sees a norm that is 65536 times too large and cuts the "
          "gradients to max_norm / 65536 of their meaning: the model barely learns, and "
          "no error is raised.\n\n"
          "patch --unsafe adds scaler.unscale_(optimizer) before the call; a safe edit "
          "changes arguments only. scaler.step notices the call and does not unscale "
          "again. In a script of Accelerate, call accelerator.clip_grad_norm_, which "
          "unscales.",
      .source = "PyTorch, notes/amp_examples, Gradient clipping; waifu-diffusion#64" },
    { .id = "TS129",
      .title = "float16 autocast without a loss scaler",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_autocast_unscaled,
      .explain =
          "In float16 a gradient below 6e-8 is zero. torch.autocast on CUDA computes in "
          "float16 unless dtype says otherwise, and a loop without GradScaler loses "
          "these gradients without an error. bfloat16 has the range of float32 and "
          "needs no scaler.\n\n"
          "Nothing is edited: a scaler changes several lines of the loop.",
      .source = "torch/amp/autocast_mode.py; PyTorch, notes/amp_examples" },
    { .id = "TS130",
      .title = "steps of the loss scaler out of order",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_scaler_order,
      .explain =
          "A scaler expects scale(loss).backward(), unscale_(optimizer) at most once, "
          "step(optimizer), update(). Without update the optimizer stays marked as "
          "unscaled, the next unscale_ raises RuntimeError, and the scale never adapts. "
          "Two calls of unscale_ raise RuntimeError. optimizer.step() instead of "
          "scaler.step(optimizer) applies gradients that are 65536 times too large, and "
          "steps with inf and NaN.\n\n"
          "patch --unsafe adds a missing scaler.update(); the other two are left to you.",
      .source = "torch/amp/grad_scaler.py; LVSM#19" },
    { .id = "TS131",
      .title = "another training in the script",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_further_training,
      .explain =
          "A script is checked as one job: the model and the arguments of its first "
          "Trainer. A second Trainer with other arguments is another job, about which "
          "nothing is reported.\n\n"
          "Check it in a script of its own.",
      .source = "trainspool(1), PYTHON SCRIPTS" },
};

const struct rules rules_loop = { rows, TS_COUNT(rows) };
