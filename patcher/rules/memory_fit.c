/* patcher/rules/memory_fit.c - tries changes in their order, and takes back what was not needed. */
#include "config.h"

#include "patcher/rules/memory_fit.h"

#include <string.h>

#include "precision/memory.h"
#include "train/estimate.h"
#include "train/torch_memory.h"

enum { LENGTH_STEP = 8, LENGTH_LEAST = 8 };

/* The job with a change, decided for its device. */
static struct plan changed(const struct memory_fit_case *the,
                           const struct memory_fit *fit)
{
    struct plan plan = *the->plan;

    plan.device = *the->device;
    plan.gradient_checkpointing |= fit->checkpointing;
    if (fit->batch) {
        plan.per_device_train_batch_size = fit->batch;
        plan.gradient_accumulation_steps = fit->accumulation;
    }
    if (fit->eval_batch)
        plan.per_device_eval_batch_size = fit->eval_batch;
    if (!plan.external)
        policy_decide(&plan.request, &plan.device, &plan.precision);
    else if (fit->frozen)
        plan.precision.frozen = plan.precision.compute;
    return plan;
}

static bool estimate_plan(const struct plan *plan, const struct model_config *model,
                          struct memory_use *use, bool *evaluation)
{
    struct memory_use eval;
    struct error ignored = { 0 };

    if (evaluation)
        *evaluation = false;
    if (!estimate_memory(plan, model, NULL, use, &ignored))
        return false;
    if (plan->external && torch_memory_eval(plan, model, &eval, &ignored) &&
        eval.total > use->total) {
        *use = eval;
        if (evaluation)
            *evaluation = true;
    }
    return true;
}

bool memory_fit_estimate(const struct memory_fit_case *the, const struct memory_fit *fit,
                         struct memory_use *use, bool *evaluation)
{
    struct plan plan = changed(the, fit);

    if (!estimate_plan(&plan, the->model, use, evaluation))
        return false;
    memory_finish(use, the->available);
    return true;
}

static bool fits(const struct memory_fit_case *the, const struct memory_fit *fit)
{
    struct memory_use use;

    return memory_fit_estimate(the, fit, &use, NULL) && use.fits;
}

/* While training is looked at, an evaluation is as small as it can be. */
static bool training_fits(const struct memory_fit_case *the, const struct memory_fit *fit)
{
    struct memory_fit alone = *fit;

    alone.eval_batch = !the->kept.eval_batch;
    return fits(the, &alone);
}

static bool is_whole(const struct memory_fit_case *the)
{
    return the->whole_batch || the->kept.batch;
}

static bool find_batch(const struct memory_fit_case *the, struct memory_fit *fit)
{
    const int64_t batch = the->plan->per_device_train_batch_size;
    const struct memory_fit was = *fit;

    for (int64_t b = is_whole(the) ? 0 : batch / 2; b >= 1; b--) {
        if (batch % b != 0)
            continue;
        fit->batch = b;
        fit->accumulation = the->plan->gradient_accumulation_steps * (batch / b);
        if (training_fits(the, fit))
            return true;
    }
    *fit = was;
    return false;
}

static bool find_eval_batch(const struct memory_fit_case *the, struct memory_fit *fit)
{
    const int64_t batch = the->plan->per_device_eval_batch_size;

    if (fits(the, fit))
        return true;
    for (int64_t b = the->kept.eval_batch ? 0 : batch - 1; b >= 1; b--) {
        fit->eval_batch = b;
        if (batch % b == 0 && fits(the, fit))
            return true;
    }
    return false;
}

/* An external LoRA job that says its frozen weights are float32 and computes in 16
 * bits. */
static bool can_cast(const struct memory_fit_case *the)
{
    const struct plan *plan = the->plan;

    return !the->kept.frozen && plan->external && plan->method == METHOD_LORA &&
           plan->request.model_dtype == DTYPE_FLOAT32 &&
           plan->precision.frozen == FORMAT_FP32 &&
           (plan->precision.mode == MODE_BF16_MIXED ||
            plan->precision.mode == MODE_FP16_MIXED);
}

/* All that can be changed; what does not fit then never will. */
static struct memory_fit everything(const struct memory_fit_case *the)
{
    struct memory_fit all = { .checkpointing = !the->kept.checkpointing,
                              .frozen = can_cast(the),
                              .eval_batch = !the->kept.eval_batch };

    if (!is_whole(the)) {
        all.batch = 1;
        all.accumulation = the->plan->gradient_accumulation_steps *
                           the->plan->per_device_train_batch_size;
    }
    return all;
}

static struct plan smallest(const struct memory_fit_case *the)
{
    const struct memory_fit all = everything(the);

    return changed(the, &all);
}

static bool find_training(const struct memory_fit_case *the, struct memory_fit *fit)
{
    const bool checkpointing =
        !the->plan->gradient_checkpointing && !the->kept.checkpointing;
    const bool cast = can_cast(the);

    *fit = (struct memory_fit) { 0 };
    if (training_fits(the, fit))
        return true;
    *fit = everything(the);
    if (!training_fits(the, fit))
        return false;
    for (int frozen = 0; frozen <= cast; frozen++) {
        *fit = (struct memory_fit) { .checkpointing = checkpointing, .frozen = frozen };
        if ((checkpointing || frozen) && training_fits(the, fit))
            return true;
        if (find_batch(the, fit))
            return true;
    }
    return false;
}

/* What it fits without was not needed. */
static void take_back(const struct memory_fit_case *the, struct memory_fit *fit)
{
    struct memory_fit less = *fit;

    less.checkpointing = false;
    if (fit->checkpointing && training_fits(the, &less))
        *fit = less;
    less = *fit;
    less.frozen = false;
    if (fit->frozen && training_fits(the, &less))
        *fit = less;
}

bool memory_fit_find(const struct memory_fit_case *the, struct memory_fit *out)
{
    if (!find_training(the, out))
        return false;
    take_back(the, out);
    return find_eval_batch(the, out);
}

bool memory_fit_split(const struct memory_fit_case *the, struct memory_fit *out)
{
    *out = (struct memory_fit) { 0 };
    return (training_fits(the, out) || find_batch(the, out)) && find_eval_batch(the, out);
}

/* ---- Where no edit helps ---- */

static bool plan_fits(const struct memory_fit_case *the, const struct plan *plan)
{
    struct memory_use use;

    if (!estimate_plan(plan, the->model, &use, NULL))
        return false;
    memory_finish(&use, the->available);
    return use.fits;
}

/* The largest multiple of LENGTH_STEP, by halves: more tokens never take less. */
static int64_t fitting_length(const struct memory_fit_case *the)
{
    struct plan plan = smallest(the);
    int64_t fit = 0, not = plan.cutoff_len / LENGTH_STEP + 1;

    while (not -fit > 1) {
        int64_t middle = fit + (not -fit) / 2;

        plan.cutoff_len = middle * LENGTH_STEP;
        if (plan_fits(the, &plan))
            fit = middle;
        else
            not = middle;
    }
    fit *= LENGTH_STEP;
    return fit >= LENGTH_LEAST && fit < the->plan->cutoff_len ? fit : 0;
}

static int64_t fitting_rank(const struct memory_fit_case *the)
{
    struct plan plan = smallest(the);

    for (plan.lora_rank /= 2; plan.method == METHOD_LORA && plan.lora_rank >= 1;
         plan.lora_rank /= 2)
        if (plan_fits(the, &plan))
            return plan.lora_rank;
    return 0;
}

static int fitting_bits(const struct memory_fit_case *the)
{
    struct torch_setup setup = { 0 };
    struct plan plan = smallest(the);

    if (plan.torch)
        setup = *plan.torch;
    if (plan.method != METHOD_LORA || plan.quantization_bit || setup.quantization_bit)
        return 0;
    if (!plan.external) {
        plan.quantization_bit = 4;
        return plan_fits(the, &plan) ? 4 : 0;
    }
    plan.torch = &setup;
    for (setup.quantization_bit = 8; setup.quantization_bit >= 4;
         setup.quantization_bit -= 4)
        if (plan_fits(the, &plan))
            return setup.quantization_bit;
    return 0;
}

static bool lora_fits(const struct memory_fit_case *the)
{
    struct plan plan = smallest(the);

    if (plan.method == METHOD_LORA || plan.train_from_scratch)
        return false;
    plan.method = METHOD_LORA;
    plan.request.all_trainable = false;
    plan.request.has_frozen = true;
    if (plan.external)
        plan.precision.frozen = plan.precision.compute;
    else
        policy_decide(&plan.request, &plan.device, &plan.precision);
    return plan_fits(the, &plan);
}

static bool fits_on(const struct memory_fit_case *the, const struct device *device)
{
    struct memory_fit_case there = *the;
    struct error ignored = { 0 };

    there.device = device;
    return memory_limit(the->plan->memory_limit, device, &there.available, &ignored) &&
           fits(&there, &(struct memory_fit) { 0 });
}

/* Of those that can do as much as the device at hand. */
static const struct device_row *fitting_card(const struct memory_fit_case *the)
{
    uint64_t failed[2] = { 0 }; /* the largest that did not do, without bf16 and with */
    const struct device_row *rows, *best = NULL;
    size_t count = device_rows(&rows);

    for (size_t i = 0; i < count; i++) {
        struct device device = { .kind = DEVICE_CUDA,
                                 .major = rows[i].major,
                                 .minor = rows[i].minor,
                                 .no_tensor_cores = rows[i].no_tensor_cores,
                                 .memory = (uint64_t)rows[i].gib << 30,
                                 .ordinal = -1 };

        device.available = device.memory;
        if (best && rows[i].gib >= best->gib)
            continue;
        if (device.major < the->device->major || device.memory <= the->available)
            continue;
        if (device.memory <= failed[device_has_bf16(&device)])
            continue;
        if (fits_on(the, &device))
            best = &rows[i];
        else
            failed[device_has_bf16(&device)] = device.memory;
    }
    return best;
}

/* What the job takes as it is, where only its own limit is below that. */
static uint64_t fitting_limit(const struct memory_fit_case *the)
{
    struct memory_use use;
    struct error ignored = { 0 };
    uint64_t free = 0;

    if (!the->plan->memory_limit || !memory_limit(NULL, the->device, &free, &ignored) ||
        !memory_fit_estimate(the, &(struct memory_fit) { 0 }, &use, NULL))
        return 0;
    if (the->device->kind == DEVICE_CPU)
        free /= plan_ranks(the->plan);
    return use.total <= free ? use.total : 0;
}

void memory_fit_last_resort(const struct memory_fit_case *the, struct last_resort *out)
{
    struct memory_fit_case open = *the;

    memset(&open.kept, 0, sizeof(open.kept));
    *out = (struct last_resort) {
        .cutoff_len = fitting_length(&open),
        .rank = fitting_rank(&open),
        .bits = fitting_bits(&open),
        .lora = lora_fits(&open),
        .limit = fitting_limit(&open),
        .card = fitting_card(&open),
    };
}
