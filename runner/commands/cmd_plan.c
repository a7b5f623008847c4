/*
 * runner/commands/cmd_plan.c - plan: shows what would run after the safe edits; writes
 * nothing.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "runner/commands/plan_loss.h"
#include "runner/job/cluster_trial.h"
#include "runner/job/containment.h"
#include "runner/job/forecast.h"
#include "runner/job/job_variables.h"
#include "runner/job/plan_alternatives.h"
#include "runner/job/plan_shares.h"
#include "runner/job/plan_json.h"
#include "runner/job/plan_rewards.h"
#include "runner/job/plan_slurm.h"
#include "runner/job/trial.h"
#include "runner/output/report_json.h"

static int cmd_plan(const struct options *options);

const struct command command_plan = {
    .name = "plan",
    .operands = "JOB",
    .min_operands = 1,
    .max_operands = 1,
    .options =
        (const enum option_id[]) { OPTION_DEVICE, OPTION_TARGET, OPTION_VERSIONS,
                                   OPTION_SET, OPTION_JSON, OPTION_FAIL_ON,
                                   OPTION_ALTERNATIVES, OPTION_EXIT_ZERO, OPTION_END },
    .scripts = true,
    .help = "show what would run: formats, scaling, clipping, steps, memory",
    .run = cmd_plan,
};

/* Everything the page shows. */
struct page {
    const struct inspection *inspection;
    const struct options *options;
    const struct plan *plan;
    struct forecast forecast;
};

static json_t *steps_object(const struct page *page)
{
    static const char *const names[] = { "per_epoch", "total", "tokens" };
    const struct steps *steps = &page->forecast.steps;
    int64_t values[] = { steps->per_epoch, steps->total, steps->tokens };

    if (page->plan && plan_only_evaluates(page->plan))
        return json_null();
    return page->forecast.has_steps ? plan_json_integers(names, values, 3) : json_null();
}

/* What a job without training evaluates; samples is null if they cannot be counted. */
static json_t *evaluation_object(const struct page *page)
{
    const struct forecast *forecast = &page->forecast;
    json_t *object = plan_json_evaluation(page->plan);

    if (json_is_object(object))
        json_object_set_new(object, "samples",
                            forecast->has_steps ? json_integer(forecast->steps.samples)
                                                : json_null());
    return object;
}

/* null if there is no model to count. */
static json_t *memory_object(const struct forecast *forecast)
{
    static const char *const bounds[] = { "low", "expected", "high" };
    const struct memory_range *resident = &forecast->resident;
    int64_t process[] = { (int64_t)resident->low, (int64_t)resident->expected,
                          (int64_t)resident->high };
    json_t *object;

    if (!forecast->has_memory)
        return json_null();
    object = plan_json_memory(&forecast->memory);
    json_object_set_new(object, "fits", json_boolean(forecast->memory.fits));
    json_object_set_new(object, "process",
                        forecast->has_resident ? plan_json_integers(bounds, process, 3)
                                               : json_null());
    return object;
}

static json_t *time_object(const struct forecast *forecast)
{
    const struct eta *eta = &forecast->eta;
    json_t *object;

    if (!forecast->has_time)
        return json_null();
    object = json_object();
    json_object_set_new(object, "low", json_number(forecast->time.low));
    json_object_set_new(object, "expected", json_number(forecast->time.expected));
    json_object_set_new(object, "high", json_number(forecast->time.high));
    json_object_set_new(object, "seconds_per_step", json_number(eta->step.expected));
    json_object_set_new(object, "source", report_json_string(eta->source));
    return object;
}

/* Add the parts of the plan; without a plan, each is null. */
static void add_parts(json_t *object, const struct page *page)
{
    static const char *const names[] = { "precision", "distillation", "preference",
                                         "batch",     "steps",        "evaluation",
                                         "media",     "memory",       "time",
                                         "variables", "slurm" };

    for (size_t i = 0; !page->plan && i < TS_COUNT(names); i++)
        json_object_set_new(object, names[i], json_null());
    if (!page->plan)
        return;
    json_object_set_new(object, "precision", plan_json_precision(page->plan));
    json_object_set_new(object, "distillation", plan_json_distillation(page->plan));
    json_object_set_new(object, "preference", plan_json_preference(page->plan));
    json_object_set_new(object, "reinforcement", plan_rewards_json(page->plan));
    json_object_set_new(object, "batch", plan_json_batch(page->plan));
    json_object_set_new(object, "steps", steps_object(page));
    json_object_set_new(object, "evaluation", evaluation_object(page));
    json_object_set_new(object, "media", plan_media_json(&page->forecast.media));
    json_object_set_new(object, "memory", memory_object(&page->forecast));
    json_object_set_new(object, "time", time_object(&page->forecast));
    json_object_set_new(object, "variables", job_variables_json(page->plan));
    json_object_set_new(object, "slurm",
                        plan_slurm_json(page->inspection, page->options));
}

/* Return what the memory of the plan follows from, also for data that a run would refuse;
 * NULL if nothing could be counted. */
static const struct steps *counted(const struct page *page)
{
    return page->forecast.steps.rows > 0 ? &page->forecast.steps : NULL;
}

static json_t *page_object(const struct page *page)
{
    const struct patch *patch = &page->inspection->patch;
    json_t *object = json_object();

    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "job", report_json_string(patch->job));
    json_object_set_new(object, "device", report_json_device(page->inspection->device));
    if (page->plan && page->plan->external) {
        json_object_set_new(object, "program", report_json_string(page->plan->program));
        json_object_set_new(object, "trainer", json_string(page->plan->trainer));
    }
    add_parts(object, page);
    if (page->options->alternatives)
        json_object_set_new(object, "alternatives",
                            page->plan
                                ? plan_alternatives_json(page->inspection, counted(page))
                                : json_null());
    json_object_set_new(object, "findings", report_json_findings(&patch->findings));
    return object;
}

/* Name the program that trains the job, if it is not this one. */
static void add_program(struct text *out, const struct plan *plan)
{
    if (!plan->external)
        return;
    text_adds(out, "  trained by  ");
    report_visible(out, plan->program);
    text_adds(out, "; not by trainspool\n");
}

static void add_precision(struct text *out, const struct plan *plan)
{
    const struct precision *precision = &plan->precision;

    text_addf(out, "  precision   %s", mode_names[precision->mode]);
    if (precision->message[0]) {
        text_adds(out, ": ");
        report_visible(out, precision->message);
    }
    text_addf(out, "\n  formats     compute %s, trainable weights %s",
              format_dtype(precision->compute), format_dtype(precision->trainable));
    if (precision->has_frozen)
        text_addf(out, ", frozen weights %s", format_dtype(precision->frozen));
    if (plan_is_quantized(plan))
        text_addf(out, ", linear layers in %d bits (%s%s)", (int)plan->quantization_bit,
                  plan->base_quantization ? plan->base_quantization : "nf4",
                  plan->double_quantization ? ", scales in 8" : "");
    text_addf(out, "\n  loss scale  %s", scaling_names[precision->scaling]);
    if (precision->scaling != SCALING_NONE)
        text_addf(out, ", %s %g", precision->scaling == SCALING_DYNAMIC ? "from" : "at",
                  precision->loss_scale);
    if (precision->max_grad_norm > 0)
        text_addf(out, "\n  clipping    gradient norm at most %g\n",
                  precision->max_grad_norm);
    else
        text_addf(out, "\n  clipping    off; %s\n",
                  plan->external ? "the Trainer logs no norm then"
                                 : "the norm is still logged");
}

/* Shown for a merge instead of training. */
static void add_merge(struct text *out, const struct plan *plan)
{
    if (plan->adapter_name_or_path) {
        text_adds(out, "  merge       ");
        report_visible(out, plan->adapter_name_or_path);
        text_adds(out, " into the model, written to ");
    } else {
        text_adds(out, "  export      the model, written to ");
    }
    report_visible(out, plan->export_dir);
    text_adds(out, "; nothing is trained\n");
}

/* 1,234,567 */
static void add_grouped(struct text *out, int64_t number)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" PRId64, number);

    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            text_addc(out, ',');
        text_addc(out, digits[i]);
    }
}

static void add_batch(struct text *out, const struct page *page)
{
    int64_t micro = page->plan->per_device_train_batch_size;
    int64_t windows = page->plan->gradient_accumulation_steps;
    int64_t ranks = (int64_t)plan_ranks(page->plan);
    const char *what = page->plan->stage == STAGE_DPO || page->plan->stage == STAGE_RM
                           ? "pair"
                       : page->plan->stage == STAGE_GRPO ? "answer"
                                                         : "sample";

    text_addf(out, "  batch       %" PRId64 " %s%s x %" PRId64, micro, what,
              micro == 1 ? "" : "s", windows);
    if (ranks > 1)
        text_addf(out, " x %" PRId64 " ranks", ranks);
    text_addf(out, " = %" PRId64 " per step\n", micro * windows * ranks);
}

static void add_steps(struct text *out, const struct forecast *forecast)
{
    const struct steps *steps = &forecast->steps;

    text_adds(out, "  steps       ");
    if (!forecast->has_steps) {
        text_adds(out, "unknown: ");
        report_visible(out, forecast->why_no_steps.text);
        text_addc(out, '\n');
        return;
    }
    text_addf(out, "%" PRId64 " per epoch, %" PRId64 " in total\n", steps->per_epoch,
              steps->total);
    text_addf(out, "  data        %" PRId64 " samples with ", steps->samples);
    add_grouped(out, steps->tokens);
    text_adds(out, " tokens, largest batch ");
    add_grouped(out, steps->rows);
    text_addc(out, '\n');
}

/* What a job without training evaluates. */
static void add_evaluation(struct text *out, const struct page *page)
{
    const struct plan *plan = page->plan;
    const struct forecast *forecast = &page->forecast;

    if (forecast->has_model) {
        text_adds(out, "  model       ");
        add_grouped(out, (int64_t)forecast->parameters);
        text_addf(out, " parameters, computed in %s\n",
                  format_dtype(plan->precision.compute));
    }
    if (plan->adapter_name_or_path) {
        text_adds(out, "  adapter     ");
        report_visible(out, plan->adapter_name_or_path);
        text_addc(out, '\n');
    }
    text_adds(out, "  evaluation  ");
    if (forecast->has_steps) {
        text_addf(out, "%" PRId64 " samples with ", forecast->steps.samples);
        add_grouped(out, forecast->steps.tokens);
        text_adds(out, " tokens");
    } else {
        text_adds(out, "samples unknown: ");
        report_visible(out, forecast->why_no_steps.text);
    }
    text_addf(out, "; %s%s%s; nothing is trained\n",
              plan_evaluates_loss(plan) ? "loss" : "",
              plan_evaluates_loss(plan) && plan->generation.on ? " and " : "",
              plan->generation.on ? "generated answers" : "");
}

static void add_range(struct text *out, uint64_t low, const char *between, uint64_t high)
{
    char from[16], to[16];

    memory_text(low, from);
    memory_text(high, to);
    if (strcmp(from, to) != 0)
        text_addf(out, "%s %s %s", from, between, to);
    else
        text_adds(out, to);
}

/* Append "15.8 MiB of 21.7 GiB", with the bounds if they differ by more than a tenth. */
static void add_total(struct text *out, const struct forecast *forecast)
{
    const struct memory_use *use = &forecast->memory;
    const bool exact = use->high - use->low <= use->total / 20;
    char shown[16];

    memory_text(use->total, shown);
    text_addf(out, "%s", shown);
    if (use->limit > 0) {
        memory_text(use->limit, shown);
        text_addf(out, " of %s%s", shown,
                  !use->fits             ? ": does not fit"
                  : memory_is_close(use) ? ": may not fit"
                                         : "");
    }
    if (!exact) {
        text_adds(out, "; between ");
        add_range(out, use->low, "and", use->high);
    }
    text_addc(out, '\n');
}

static void add_memory(struct text *out, const struct forecast *forecast)
{
    const struct memory_use *use = &forecast->memory;
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {
        { "weights", use->weights },     { "gradients", use->gradients },
        { "optimizer", use->optimizer }, { "activations", use->activations },
        { "workspace", use->workspace },
    };
    char shown[16];

    text_adds(out, "  memory      ");
    if (!forecast->has_memory) {
        text_adds(out, "unknown: ");
        report_visible(out, forecast->why_no_memory.text);
        text_addc(out, '\n');
        return;
    }
    add_total(out, forecast);
    text_adds(out, "             ");
    for (size_t i = 0; i < TS_COUNT(parts); i++) {
        memory_text(parts[i].bytes, shown);
        text_addf(out, " %s %s%s", parts[i].name, shown, i < 4 ? "," : "\n");
    }
    if (use->host > 0) {
        memory_text(use->host, shown);
        text_addf(out, "              the optimizer is in host memory, %s\n", shown);
    }
    if (forecast->has_resident) {
        text_adds(out, "              the process with its data ");
        add_range(out, forecast->resident.low, "to", forecast->resident.high);
        text_addc(out, '\n');
    }
}

/* "3 h 20 min", "4 min 10 s", "12 s" */
static void add_duration(struct text *out, double seconds)
{
    const int64_t whole = (int64_t)(fmin(seconds, 1e15) + 0.5), day = 86400;

    if (seconds < 1)
        text_adds(out, "under a second");
    else if (whole < 60)
        text_addf(out, "%" PRId64 " s", whole);
    else if (whole < 3600)
        text_addf(out, "%" PRId64 " min %" PRId64 " s", whole / 60, whole % 60);
    else if (whole < day)
        text_addf(out, "%" PRId64 " h %" PRId64 " min", whole / 3600, whole % 3600 / 60);
    else
        text_addf(out, "%" PRId64 " days %" PRId64 " h", whole / day, whole % day / 3600);
}

static void add_time(struct text *out, const struct forecast *forecast)
{
    text_adds(out, "  time        ");
    if (!forecast->has_time) {
        text_adds(out, "unknown");
        if (forecast->why_no_time.code) {
            text_adds(out, ": ");
            report_visible(out, forecast->why_no_time.text);
        }
        text_addc(out, '\n');
        return;
    }
    if (forecast->time.high >= 1) {
        text_adds(out, "about ");
        add_duration(out, forecast->time.expected);
        text_adds(out, ", from ");
        add_duration(out, forecast->time.low);
        text_adds(out, " to ");
    }
    add_duration(out, forecast->time.high);
    text_adds(out, ", by ");
    report_visible(out, forecast->eta.source);
    text_addc(out, '\n');
}

static void add_model(struct text *out, const struct page *page)
{
    const struct forecast *forecast = &page->forecast;
    const struct plan *plan = page->plan;

    if (!forecast->has_model)
        return;
    text_adds(out, "  model       ");
    add_grouped(out, (int64_t)forecast->parameters);
    text_adds(out, " parameters, ");
    add_grouped(out, (int64_t)forecast->trainable);
    text_addf(out, " trainable (%s", plan_method_name(plan));
    if (plan->method == METHOD_LORA)
        text_addf(out, ", rank %" PRId64, plan->lora_rank);
    if (plan->method == METHOD_OFT && plan->oft_rank > 0)
        text_addf(out, ", %" PRId64 " blocks", plan->oft_rank);
    else if (plan->method == METHOD_OFT)
        text_addf(out, ", blocks of %" PRId64, plan->oft_block_size);
    text_addf(out, ")%s\n",
              plan->gradient_checkpointing ? ", activations recomputed in each layer"
                                           : "");
}

static void add_end(struct text *out, const struct page *page)
{
    plan_media_text(out, page->plan, &page->forecast.media);
    add_memory(out, &page->forecast);
    if (page->forecast.has_memory)
        plan_shares_text(page->plan, page->forecast.trainable, out);
    if (plan_trains(page->plan) &&
        (page->forecast.has_time || !plan_slurm_is_due(page->plan)))
        add_time(out, &page->forecast);
    containment_add_line(page->plan, out);
    job_variables_add_line(page->plan, out);
    if (plan_trains(page->plan) && page->options->alternatives)
        plan_alternatives_text(page->inspection, counted(page), out);
}

static void show_page(struct report *report, const struct page *page)
{
    const struct device *device = page->inspection->device;
    struct text out;
    char capability[16];

    text_init(&out, 0);
    report_visible(&out, page->inspection->patch.job);
    if (device) {
        device_capability_text(device, capability);
        text_adds(&out, " on ");
        report_visible(&out, device->name);
        text_addf(&out, "%s%s", capability[0] ? ", compute capability " : "", capability);
    }
    text_addc(&out, '\n');
    if (page->plan && plan_merges(page->plan)) {
        add_merge(&out, page->plan);
    } else if (page->plan && plan_only_evaluates(page->plan)) {
        add_evaluation(&out, page);
    } else if (page->plan) {
        add_model(&out, page);
        forecast_add_dropout(&page->forecast, &out);
        add_program(&out, page->plan);
        add_precision(&out, page->plan);
        plan_loss_add(&out, page->plan);
        plan_rewards_text(&out, page->plan);
        add_batch(&out, page);
        add_steps(&out, &page->forecast);
    }
    if (page->plan) {
        add_end(&out, page);
        plan_slurm_text(page->inspection, page->options, &out);
    }
    report_write(report, &out);
    text_clear(&out);
    report->apart = !report->quiet;
    report_findings(report, &page->inspection->patch);
}

static int show(struct report *report, const struct options *options,
                struct inspection *inspection)
{
    const struct selection all_rules = { .arena = NULL };
    struct page page = { .inspection = inspection, .options = options };
    struct error err = { 0 };
    bool silent = false;
    int status;

    if (inspection->patch.has_plan) {
        page.plan = &inspection->patch.plan;
        forecast_make(inspection, &page.forecast);
        if (page.forecast.why_no_steps.code == ERROR_DATA)
            trial_report(&all_rules, &page.forecast.why_no_steps, &inspection->patch);
        cluster_trial_add(options, NULL, &silent, &inspection->patch);
    }
    if (options->json)
        report_json(report, page_object(&page), &err);
    else
        show_page(report, &page);
    /* the status that check would return for the patched text: findings that the edits
     * fix do not count */
    status = report_status(&inspection->patch, options, false);
    return err.code ? report_exit(err.code) : status;
}

static int cmd_plan(const struct options *options)
{
    struct inspect_options how = { .job = options->operands[0],
                                   .set = options->set,
                                   .counts = true,
                                   .place = INSPECT_NAMED };
    struct error err = { 0 };
    struct machine machine;
    struct program program = { 0 };
    struct report report;
    struct inspection inspection = { 0 };
    int status;

    report_init(&report, options);
    how.machine = &machine;
    how.program = &program;
    if (!machine_open_check(options->device, &machine, &err) ||
        !program_read(options, &program, &err)) {
        report_error(options->program, &err);
        program_clear(&program);
        return report_exit(err.code);
    }
    machine.target = options->target;
    if (inspect_job(&how, &inspection, &err)) {
        status = show(&report, options, &inspection);
    } else {
        report_json_failure(&report, options, how.job, &err);
        status = report_exit(err.code);
    }
    inspect_clear(&inspection);
    program_clear(&program);
    return status;
}
