/* train/run_describe.c - what the log says about a run when all of it is open. */
#include "config.h"

#include "train/run.h"

#include <inttypes.h>
#include <stdio.h>

#include "train/methods.h"

static void describe_positions(const struct run *run)
{
    if (run->plan->rope_scaling != ROPE_SCALING_NONE)
        log_line(run->options->log, LOG_INFO, "rope_scaling: %zu positions, factor %g",
                 run->config.max_positions,
                 run->config.rope.factor > 0 ? run->config.rope.factor : 1);
}

/* Log the teacher or the reference model. */
static void describe_second_model(const struct run *run)
{
    const struct plan *plan = run->plan;
    bool prefers = plan->stage >= STAGE_DPO;
    char what[512] = "none, the loss does not use one";

    if (run->teaching)
        distillation_describe(run->teaching, what, sizeof(what));
    else if (!prefers || plan->stage == STAGE_RM)
        return;
    else if (plan_has_reference(plan))
        snprintf(what, sizeof(what), "the model without its adapter");
    log_line(run->options->log, LOG_INFO, "%s: %s", prefers ? "reference" : "teacher",
             what);
}

static void describe_ranks(const struct run *run)
{
    size_t ranks = plan_ranks(run->plan);

    if (run->train && ranks > 1)
        log_line(run->options->log, LOG_INFO, "ranks: each of %zu has 1/%zu of %s", ranks,
                 ranks, plan_divides(run->plan));
}

static void describe_steps(const struct run *run)
{
    char ranks[40] = "";

    if (!run->train)
        return;
    if (plan_ranks(run->plan) > 1)
        snprintf(ranks, sizeof(ranks), " in each of %zu ranks", plan_ranks(run->plan));
    log_line(run->options->log, LOG_INFO,
             "steps: %" PRId64 " total, %" PRId64 " per epoch, each of %" PRId64
             " x %" PRId64 " samples%s",
             run->steps.total, run->steps.per_epoch,
             run->plan->gradient_accumulation_steps,
             run->plan->per_device_train_batch_size, ranks);
}

void run_describe(struct run *run)
{
    const struct plan *plan = run->plan;
    const struct dataset *data = run->train ? run->train : run->eval;
    bool prefers = plan_prefers(plan);
    char bytes[16];

    memory_text(plan->device.kind == DEVICE_CPU ? model_memory(run->model)->low
                                                : model_memory(run->model)->total,
                bytes);
    log_line(run->options->log, LOG_INFO, "device: %s", run->be->ops->describe(run->be));
    methods_describe(run);
    log_line(run->options->log, LOG_INFO, "precision: %s%s",
             run->train ? plan->precision.message : "computed in ",
             run->train ? "" : format_dtype(plan->precision.compute));
    log_line(run->options->log, LOG_INFO,
             "model: %" PRIu64 " parameters, %" PRIu64 " trainable, %s in memory",
             model_total_elements(run->model), model_trainable_elements(run->model),
             bytes);
    describe_positions(run);
    describe_second_model(run);
    log_line(run->options->log, LOG_INFO,
             "data: %zu %s, %" PRIu64 " tokens, longest %s %zu", dataset_samples(data),
             prefers ? "pairs" : "samples", dataset_tokens(data),
             prefers ? "prompt with an answer" : "sample", dataset_longest(data));
    log_line(run->options->log, LOG_INFO, "data: %s", dataset_origin(data));
    if (plan->stage != STAGE_PT && !plan->template_name)
        log_line(run->options->log, LOG_INFO, "data: template: %s",
                 template_row_name(template_guess(run->tokenizer)));
    for (size_t i = 0; dataset_note(data, i); i++)
        log_line(run->options->log, dataset_note_is_info(data, i) ? LOG_INFO : LOG_WARN,
                 "data: %s", dataset_note(data, i));
    if (run->saving.conversations_differ)
        log_line(run->options->log, LOG_WARN,
                 "data: template %s writes a conversation differently from the model's "
                 "own chat template, which is saved with the model; leave template out "
                 "of the job to train with the model's own",
                 plan->template_name);
    describe_ranks(run);
    describe_steps(run);
}
