/* patcher/rules/rules_memory.c - rules about memory, and the edits that make a job
 * fit. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "patcher/rules/memory_advice.h"
#include "patcher/rules/memory_case.h"
#include "patcher/rules/suppress.h"
#include "precision/memory.h"
#include "train/estimate.h"
#include "train/torch_memory.h"

static bool estimate(const struct memory_fit_case *request, struct memory_use *use)
{
    return memory_fit_estimate(request, &(struct memory_fit) { 0 }, use, NULL);
}

static const char *number_text(const struct rule_context *context, int64_t value)
{
    return arena_printf(context->arena, "%" PRId64, value);
}

/* Describe the estimate: the reason of the finding. */
static const char *estimate_text(const struct rule_context *context,
                                 const struct memory_use *use, bool evaluation)
{
    const struct plan *plan = context->plan;
    char low[16], high[16];
    const char *bounds = "";

    if (plan->external) {
        memory_text(use->low, low);
        memory_text(use->high, high);
        bounds = arena_printf(context->arena, "in PyTorch, %s to %s; ", low, high);
    }
    if (context->options->data)
        return arena_printf(
            context->arena,
            "%zu tokens in the largest batch: weights %s, gradients %s, optimizer %s, "
            "activations %s, workspace %s",
            context->options->data->rows, memory_advice_bytes(context, use->weights),
            memory_advice_bytes(context, use->gradients),
            memory_advice_bytes(context, use->optimizer),
            memory_advice_bytes(context, use->activations),
            memory_advice_bytes(context, use->workspace));
    return arena_printf(
        context->arena,
        "%s%" PRId64 " x %" PRId64
        " tokens: weights %s, gradients %s, optimizer %s, activations %s, workspace %s",
        bounds,
        evaluation ? plan->per_device_eval_batch_size : plan->per_device_train_batch_size,
        plan->cutoff_len, memory_advice_bytes(context, use->weights),
        memory_advice_bytes(context, use->gradients),
        memory_advice_bytes(context, use->optimizer),
        memory_advice_bytes(context, use->activations),
        memory_advice_bytes(context, use->workspace));
}

static const char *need_text(const struct rule_context *context,
                             const struct memory_use *use, bool evaluation)
{
    return arena_printf(context->arena, "%s needs about %s but may use %s",
                        evaluation ? "the evaluation" : "the job",
                        memory_advice_bytes(context, use->total),
                        memory_advice_bytes(context, use->limit));
}

/* The edits that make a job fit: the first finding gives the reason, the others refer
 * to it. */
struct fit_proposal {
    struct rule_context *context;
    struct finding base;
    bool has_reason;
};

static void propose(struct fit_proposal *p, const char *rule, const char *key,
                    const char *value, const char *message, const char *note)
{
    struct finding finding = p->base;

    if (p->has_reason) {
        finding.rule = rule;
        finding.through = p->base.rule;
        finding.message = message;
        finding.because = NULL;
    }
    finding.note = note;
    p->has_reason |= rule_propose(p->context, &finding, key, value,
                                  "per_device_train_batch_size") != NULL;
}

static void propose_checkpointing(struct fit_proposal *p)
{
    static const char cost[] = "each layer is computed twice, 20 to 30 % slower";
    const char *key = memory_case_checkpointing_key(p->context);

    propose(p, "TS301", key, *key == 'd' ? "false" : "true", NULL, cost);
}

static void propose_batch(struct fit_proposal *p, const struct memory_fit *fit)
{
    propose(p, "TS302", "per_device_train_batch_size",
            number_text(p->context, fit->batch),
            "a smaller micro batch is needed as well",
            "learning rate and effective batch stay unchanged");
    propose(p, "TS302", "gradient_accumulation_steps",
            number_text(p->context, fit->accumulation),
            "the effective batch stays the same", NULL);
}

static void propose_frozen(struct fit_proposal *p, const struct memory_fit_case *request)
{
    propose(p, "TS301", "model_dtype",
            format_info(request->plan->precision.compute)->torch,
            "frozen weights are cast to it at every use anyway",
            "trained weights stay float32");
}

static int count_edits(const struct memory_fit *fit)
{
    return fit->checkpointing + 2 * (fit->batch != 0) + fit->frozen +
           (fit->eval_batch != 0);
}

static void propose_fit(struct rule_context *context,
                        const struct memory_fit_case *request,
                        const struct memory_fit *fit, const struct finding *base)
{
    struct fit_proposal p = { .context = context, .base = *base };

    if (count_edits(fit) > 1)
        p.base.group = rule_group(context);
    if (fit->checkpointing)
        propose_checkpointing(&p);
    if (fit->batch)
        propose_batch(&p, fit);
    if (fit->frozen)
        propose_frozen(&p, request);
    if (fit->eval_batch)
        propose(&p, "TS302", "per_device_eval_batch_size",
                number_text(context, fit->eval_batch),
                "the evaluation does not fit either",
                "the evaluation loss is the same except for rounding");
}

/* Return whether weights, gradients and optimizer alone certainly exceed the limit. */
static bool state_exceeds(const struct rule_context *context,
                          const struct memory_use *use)
{
    return context->plan->external && !rule_lacks_defaults(context) &&
           torch_memory_knows_state(context->plan) && use->low > use->limit &&
           use->weights + use->gradients + use->optimizer > use->limit;
}

/* Report a job whose estimate may be too high: a warning without an edit.  Return false
 * for any other job. */
static bool report_doubt(struct rule_context *context,
                         const struct memory_fit_case *request,
                         const struct memory_use *use, struct finding *finding)
{
    if (state_exceeds(context, use))
        return false;
    finding->note = memory_advice_doubt(context, request);
    if (!finding->note)
        return false;
    finding->apply = APPLY_MANUAL;
    rule_report(context, finding, "per_device_train_batch_size");
    return true;
}

/* Return whether --unsafe makes the change, by an edit of TS118. */
static bool is_edited(const struct rule_context *context,
                      const struct alternative_advice *advice)
{
    const struct findings *findings = context->findings;

    for (size_t i = 0; advice->row->unsafe_edit && i < findings->count; i++)
        if (strcmp(findings->list[i].rule, "TS118") == 0 && findings->list[i].new_text)
            return true;
    return false;
}

static void report_last_resort(struct rule_context *context,
                               const struct memory_fit_case *request,
                               const struct memory_use *use, struct finding *finding)
{
    struct alternative_advice advice;
    const bool found = alternative_advise(request, &advice);

    finding->apply = APPLY_MANUAL;
    finding->note = memory_advice(context, request, use, found ? &advice : NULL);
    /* for PyTorch only the lower bound is certain */
    if ((!context->plan->external || use->low > use->limit) &&
        !(found && is_edited(context, &advice)))
        finding->severity = SEVERITY_ERROR;
    rule_report(context, finding, "per_device_train_batch_size");
}

static bool finds_batch(const struct rule_context *context,
                        const struct memory_fit_case *request, struct memory_fit *fit)
{
    return rule_is_true(context, "auto_find_batch_size") && !request->whole_batch &&
           memory_fit_split(request, fit) && fit->batch > 0;
}

/* In an external job accelerate searches: the split is only reported. */
static void report_split(struct rule_context *context, const struct memory_fit *fit)
{
    const char *note = "batch x accumulation is the effective batch: set both";

    if (fit->batch)
        note = arena_printf(context->arena,
                            "per_device_train_batch_size: %" PRId64
                            " and gradient_accumulation_steps: %" PRId64
                            " fit, with the same effective batch",
                            fit->batch, fit->accumulation);
    rule_report(context,
                &(struct finding) {
                    .rule = "TS305",
                    .severity = SEVERITY_WARNING,
                    .message = "auto_find_batch_size reduces the batch by a tenth each "
                               "time memory runs out, which changes the effective batch",
                    .note = note },
                "auto_find_batch_size");
}

static void rule_auto_batch(struct rule_context *context)
{
    struct memory_fit_case request;
    struct memory_fit fit = { 0 };
    struct memory_use use;
    const bool known = memory_case_read(context, &request);
    const bool found = known && finds_batch(context, &request, &fit);

    if (!rule_is_true(context, "auto_find_batch_size") || request.whole_batch)
        return;
    if (context->plan->external) {
        report_split(context, &fit);
        return;
    }
    if (!found || !estimate(&request, &use))
        return;
    propose_fit(context, &request, &fit,
                &(struct finding) { .rule = "TS305",
                                    .severity = SEVERITY_WARNING,
                                    .apply = APPLY_SAFE,
                                    .message = need_text(context, &use, false),
                                    .because = estimate_text(context, &use, false) });
}

/* Nothing of a job that only evaluates can be edited without changing what it measures,
 * except its batch, which the run would not reduce. */
static void report_evaluation(struct rule_context *context, const struct memory_use *use,
                              struct finding *finding)
{
    finding->apply = APPLY_MANUAL;
    finding->severity = use->low > use->limit ? SEVERITY_ERROR : SEVERITY_WARNING;
    finding->message = need_text(context, use, true);
    finding->note = "lower per_device_eval_batch_size, cutoff_len or max_new_tokens";
    rule_report(context, finding, "per_device_eval_batch_size");
}

static bool has_all_edits(const struct findings *findings, int group)
{
    for (size_t i = 0; group && i < findings->count; i++)
        if (findings->list[i].group == group && !findings->list[i].old_text)
            return false;
    return true;
}

/* Return whether --unsafe is about to edit the formats (TS103, TS104, TS118) in a way
 * that the job does not suppress: the next pass then estimates the memory. */
static bool formats_will_change(const struct rule_context *context)
{
    struct findings reported, ignored;

    if (!context->options->unsafe || rule_is_policy(context, POLICY_REPORT))
        return false;
    findings_init(&reported, context->arena);
    findings_init(&ignored, context->arena);
    for (size_t i = 0; i < context->findings->count; i++)
        findings_add(&reported, &context->findings->list[i]);
    suppress(context->document, context->options, &reported, &ignored);
    for (size_t i = 0; i < reported.count; i++) {
        const struct finding *finding = &reported.list[i];

        if (finding->rule[2] == '1' && finding->apply == APPLY_UNSAFE &&
            finding->new_text && has_all_edits(&reported, finding->group))
            return true;
    }
    return false;
}

/* Report that the counted data fit although samples of cutoff_len would not: a warning if
 * little memory is left, else an info. */
static void report_counted(struct rule_context *context,
                           const struct memory_fit_case *request,
                           const struct memory_use *use, struct finding *finding)
{
    struct memory_fit_case full = *request;
    struct memory_use most;

    full.data = NULL;
    if (!estimate(&full, &most) || most.fits)
        return;
    finding->apply = APPLY_MANUAL;
    finding->severity = memory_is_close(use) ? SEVERITY_WARNING : SEVERITY_INFO;
    finding->message = arena_printf(
        context->arena,
        "the longest sample has %zu tokens; samples of cutoff_len would need %s",
        request->data->longest, memory_advice_bytes(context, most.total));
    finding->note = arena_printf(context->arena, "the data fit: %s of %s",
                                 memory_advice_bytes(context, use->total),
                                 memory_advice_bytes(context, use->limit));
    rule_report(context, finding, "cutoff_len");
}

static void rule_memory_fit(struct rule_context *context)
{
    struct finding finding = { .rule = "TS301",
                               .severity = SEVERITY_WARNING,
                               .apply = APPLY_UNSAFE };
    struct memory_fit_case request;
    struct memory_fit fit;
    struct memory_use use;
    bool evaluation;

    if (formats_will_change(context) || !memory_case_read(context, &request) ||
        !memory_fit_estimate(&request, &(struct memory_fit) { 0 }, &use, &evaluation))
        return;
    finding.because = estimate_text(context, &use, evaluation);
    if (!use.fits && plan_only_evaluates(context->plan)) {
        report_evaluation(context, &use, &finding);
        return;
    }
    if (use.fits && request.data) {
        report_counted(context, &request, &use, &finding);
        return;
    }
    if (use.fits && memory_is_close(&use)) {
        finding.message = arena_printf(
            context->arena,
            "the job needs about %s, and up to %s if other allocations are large; it may "
            "use %s",
            memory_advice_bytes(context, use.total),
            memory_advice_bytes(context, use.high),
            memory_advice_bytes(context, use.limit));
        rule_report(context, &finding, "per_device_train_batch_size");
        return;
    }
    if (use.fits || (!context->plan->external && finds_batch(context, &request, &fit)))
        return;
    finding.message = need_text(context, &use, evaluation);
    if (report_doubt(context, &request, &use, &finding))
        return;
    if (memory_fit_find(&request, &fit))
        propose_fit(context, &request, &fit, &finding);
    else
        report_last_resort(context, &request, &use, &finding);
}

static void rule_checkpointing_unneeded(struct rule_context *context)
{
    const char *key = rule_entry(context, "gradient_checkpointing")
                          ? "gradient_checkpointing"
                          : "disable_gradient_checkpointing";
    struct memory_fit_case request;
    struct memory_use use;
    struct plan plan;

    if (!context->plan->gradient_checkpointing || !rule_entry(context, key) ||
        context->options->heal || !memory_case_read(context, &request))
        return;
    plan = *request.plan;
    plan.gradient_checkpointing = false;
    request.plan = &plan;
    if (!estimate(&request, &use) || use.high > use.limit / 2)
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS304",
            .severity = SEVERITY_INFO,
            .message = arena_printf(
                context->arena,
                "checkpointing computes each layer twice to save memory, but without it "
                "the job needs only about %s of %s",
                memory_advice_bytes(context, use.total),
                memory_advice_bytes(context, use.limit)),
            .because = estimate_text(context, &use, false),
            .note = "about 20 % faster without checkpointing" },
        key);
}

/* Return whether the stage calls LLaMA-Factory's create_ref_model. */
static bool has_reference_stage(const struct rule_context *context)
{
    static const char *const stages[] = { "dpo", "kto", "ppo" };
    const struct entry *stage = rule_entry(context, "stage");

    for (size_t i = 0; stage && i < TS_COUNT(stages); i++)
        if (text_equal(node_value(stage->value)->text, stages[i]))
            return true;
    return false;
}

/* Return the weights that a change saves, as text. */
static const char *saved_text(struct rule_context *context, const struct alternative *row)
{
    struct alternative_result before, after;
    struct memory_fit_case request;

    if (!memory_case_read(context, &request))
        return "its weights";
    alternative_try(&request, NULL, &before);
    alternative_try(&request, row, &after);
    if (!before.known || !after.known || before.use.weights <= after.use.weights)
        return "its weights";
    return memory_advice_bytes(context, before.use.weights - after.use.weights);
}

static void rule_needless_reference(struct rule_context *context)
{
    const struct alternative *row = alternative_without_reference();

    /* a quantized base, or one that pissa_init changes, is another model; without a
     * reference TS908 reports the key */
    if (!has_reference_stage(context) || !alternative_reference_is_base(context->plan) ||
        rule_is_quantized(context) || rule_is_true(context, "pissa_init") ||
        (context->plan->stage >= STAGE_DPO && !plan_has_reference(context->plan)))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS910",
                    .severity = SEVERITY_WARNING,
                    .message = arena_printf(
                        context->arena,
                        "ref_model is the trained model itself and wastes %s of memory",
                        saved_text(context, row)),
                    .note =
                        "remove ref_model: with LoRA, the model without its adapter is "
                        "the reference" },
                "ref_model");
}

static const struct rule rows[] = {
    { .id = "TS301",
      .title = "job does not fit into memory",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_memory_fit,
      .explain =
          "The estimate counts weights, 16-bit copies, gradients, both moments, "
          "activations and workspace, as the trainer allocates them, for batches full "
          "of cutoff_len tokens, and compares the sum with memory_limit (95 % of what "
          "is free). For target: external it counts what PyTorch allocates, and the "
          "expected value decides; if the upper bound may still be too much, a warning "
          "without an edit reports it.\n\n"
          "`--unsafe` makes the first of these edits that fits, and no more than "
          "necessary: checkpointing on (computes each layer twice, about 20 to 30 % "
          "slower); a smaller micro batch with more accumulation, which keeps the "
          "effective batch exactly (TS302); for LoRA in another program, frozen weights "
          "in the compute format if they would be loaded in float32. Learning rate and "
          "effective batch never change.\n\n"
          "If none fits, it is an error, and the message names the first change that "
          "does, with its memory and its cost (`trainspool plan --alternatives` tries all): "
          "bf16 or fp16 for a float32 base, 8-bit moments, pure_bf16, lora, 4 bits. If "
          "--unsafe makes that change (TS118), it is a warning. It also names the "
          "longest cutoff_len, a smaller lora_rank, lora instead of full, quantization "
          "where the other program has it, the smallest training card of `trainspool "
          "devices --known` (no laptop, no board with shared memory).\n\n"
          "It is a warning without an edit where a run may take less than the estimate: "
          "ZeRO and FSDP divide weights, gradients and optimizer among ranks, and the job "
          "does not say how many (`trainspool: {ranks: N}`); the DeepSpeed file is not "
          "here; or no run with the optimizer (GaLore, APOLLO, BAdam, Adam-mini, LOMO) or "
          "of the stage (dpo, kto, rm) was measured.\n\n"
          "Samples shorter than cutoff_len take less. Before TS301 refuses a native job, "
          "check, plan, patch, run and watch let trainspool-train count the data, and the "
          "largest batch decides: if it fits, an info reports that samples of cutoff_len "
          "tokens would not. Where the data cannot be read, full batches decide.",
      .source = "train/model/shapes.h; train/torch_memory.h and docs/memory.md; arXiv "
                "2205.05198 for activations" },
    { .id = "TS302",
      .title = "smaller micro batch with more accumulation",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .explain =
          "The patch selects the largest divisor of per_device_train_batch_size that "
          "fits and multiplies the accumulation by the same factor, so that batch times "
          "accumulation stays constant. The loss is divided by the trained tokens of "
          "all accumulated micro batches, so the result is the same except for rounding "
          "(transformers does this since 4.46). The next larger divisor would not fit. "
          "If an evaluation of another program does not fit, its "
          "per_device_eval_batch_size is reduced; a native run adapts it automatically.",
      .source =
          "transformers PR #33281: a batch that shrank by 0.9 and changed the training" },
    { .id = "TS304",
      .title = "unnecessary gradient checkpointing",
      .severity = SEVERITY_INFO,
      .run = rule_checkpointing_unneeded,
      .explain =
          "The file turns gradient checkpointing on, and the job would fit into half of "
          "the memory without it. Checkpointing discards the activations of each layer "
          "and recomputes them for the backward pass: about a fifth of the time, wasted "
          "if memory is plentiful.\n\n"
          "`gradient_checkpointing: false` turns it off; the results stay the same. "
          "Checkpointing, on or off, never solves the loss scaler's error.",
      .source = "transformers, gradient_checkpointing: about 20 % slower; "
                "train/model/shapes.h" },
    { .id = "TS305",
      .title = "auto_find_batch_size",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_auto_batch,
      .explain =
          "With auto_find_batch_size, accelerate tries: each time memory runs out, it "
          "multiplies the batch by 0.9 and restarts training. Accumulation stays "
          "constant, so the effective batch, and with it the training, changes "
          "silently.\n\n"
          "trainspool knows the memory before the start. If a job with this key does "
          "not fit, the patch selects the largest divisor of its batch that fits and "
          "multiplies the accumulation by the same factor: the effective batch is "
          "exactly the requested one. The job asks for it, so the edit is safe. For an "
          "external job the finding only reports the split that would fit, if the model "
          "is available to be measured.",
      .source = "accelerate utils/memory.py; transformers PR #33281" },
    { .id = "TS910",
      .title = "reference model that is the trained model",
      .severity = SEVERITY_WARNING,
      .run = rule_needless_reference,
      .explain =
          "With lora and no ref_model, the reference of dpo, kto and ppo is the model with "
          "its adapter turned off, which takes no memory. A ref_model that names the folder "
          "of the model loads the same weights a second time and computes the same "
          "reference: for 7 billion parameters in 16 bits, 13 GiB.\n\n"
          "Remove ref_model. The rule does not apply if the two models differ: with "
          "ref_model_adapters, with create_new_adapter and an adapter that is merged first, "
          "with pissa_init, and with quantized weights.",
      .source = "LLaMA-Factory train/trainer_utils.py: create_ref_model; "
                "train/dpo/trainer.py: compute_reference_log_probs" },
};

const struct rules rules_memory = { rows, TS_COUNT(rows) };
