/* patcher/rules/memory_fit.c - try changes in order, and revert those that were not
 * required. */
#include "config.h"

#include "patcher/rules/memory_fit.h"

#include <string.h>

#include "base/text.h"
#include "precision/memory.h"
#include "train/estimate.h"
#include "train/torch_memory.h"

enum { LENGTH_STEP = 8, LENGTH_LEAST = 8 };

/* Return the plan with a change, with its precision decided for its device. */
static struct plan apply_changes(const struct memory_fit_case *request,
                                 const struct memory_fit *fit)
{
    struct plan plan = *request->plan;

    plan.device = *request->device;
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

static bool estimate_plan(const struct memory_fit_case *request, const struct plan *plan,
                          struct memory_use *use, bool *evaluation)
{
    const struct model_config *model = request->model;
    struct estimate_data data;
    struct memory_use eval;
    struct error ignored = { 0 };

    if (request->data)
        data = estimate_data_of(request->data, plan);
    if (evaluation)
        *evaluation = false;
    if (!estimate_memory(plan, model, request->data ? &data : NULL, use, &ignored))
        return false;
    if (plan->external && torch_memory_eval(plan, model, &eval, &ignored) &&
        eval.total > use->total) {
        *use = eval;
        if (evaluation)
            *evaluation = true;
    }
    return true;
}

bool memory_fit_estimate(const struct memory_fit_case *request,
                         const struct memory_fit *fit, struct memory_use *use,
                         bool *evaluation)
{
    struct plan plan = apply_changes(request, fit);

    if (!estimate_plan(request, &plan, use, evaluation))
        return false;
    memory_finish(use, request->available);
    return true;
}

static bool fits(const struct memory_fit_case *request, const struct memory_fit *fit)
{
    struct memory_use use;

    return memory_fit_estimate(request, fit, &use, NULL) && use.fits;
}

/* While fitting training, assume the smallest possible evaluation. */
static bool training_fits(const struct memory_fit_case *request,
                          const struct memory_fit *fit)
{
    struct memory_fit training = *fit;

    training.eval_batch = !request->kept.eval_batch;
    return fits(request, &training);
}

static bool keeps_batch_whole(const struct memory_fit_case *request)
{
    return request->whole_batch || request->kept.batch;
}

static bool find_batch(const struct memory_fit_case *request, struct memory_fit *fit)
{
    const int64_t batch = request->plan->per_device_train_batch_size;
    const struct memory_fit previous = *fit;

    for (int64_t b = keeps_batch_whole(request) ? 0 : batch / 2; b >= 1; b--) {
        if (batch % b != 0)
            continue;
        fit->batch = b;
        fit->accumulation = request->plan->gradient_accumulation_steps * (batch / b);
        if (training_fits(request, fit))
            return true;
    }
    *fit = previous;
    return false;
}

static bool find_eval_batch(const struct memory_fit_case *request, struct memory_fit *fit)
{
    const int64_t batch = request->plan->per_device_eval_batch_size;

    if (fits(request, fit))
        return true;
    for (int64_t b = request->kept.eval_batch ? 0 : batch - 1; b >= 1; b--) {
        fit->eval_batch = b;
        if (batch % b == 0 && fits(request, fit))
            return true;
    }
    return false;
}

/* An external LoRA job whose frozen weights are float32 and which computes in 16 bits. */
static bool can_cast(const struct memory_fit_case *request)
{
    const struct plan *plan = request->plan;

    return !request->kept.frozen && plan->external && plan_adapts(plan) &&
           plan->request.model_dtype == DTYPE_FLOAT32 &&
           plan->precision.frozen == FORMAT_FP32 &&
           (plan->precision.mode == MODE_BF16_MIXED ||
            plan->precision.mode == MODE_FP16_MIXED);
}

/* Return all possible changes.  If the job does not fit with them, no change helps. */
static struct memory_fit all_changes(const struct memory_fit_case *request)
{
    struct memory_fit all = { .checkpointing = !request->kept.checkpointing,
                              .frozen = can_cast(request),
                              .eval_batch = !request->kept.eval_batch };

    if (!keeps_batch_whole(request)) {
        all.batch = 1;
        all.accumulation = request->plan->gradient_accumulation_steps *
                           request->plan->per_device_train_batch_size;
    }
    return all;
}

struct plan memory_fit_smallest(const struct memory_fit_case *request)
{
    const struct memory_fit all = all_changes(request);

    return apply_changes(request, &all);
}

static bool find_training(const struct memory_fit_case *request, struct memory_fit *fit)
{
    const bool checkpointing =
        !request->plan->gradient_checkpointing && !request->kept.checkpointing;
    const bool cast = can_cast(request);

    *fit = (struct memory_fit) { 0 };
    if (training_fits(request, fit))
        return true;
    *fit = all_changes(request);
    if (!training_fits(request, fit))
        return false;
    for (int frozen = 0; frozen <= cast; frozen++) {
        *fit = (struct memory_fit) { .checkpointing = checkpointing, .frozen = frozen };
        if ((checkpointing || frozen) && training_fits(request, fit))
            return true;
        if (find_batch(request, fit))
            return true;
    }
    return false;
}

/* Revert each change without which the job still fits. */
static void revert_unneeded(const struct memory_fit_case *request, struct memory_fit *fit)
{
    struct memory_fit reduced = *fit;

    reduced.checkpointing = false;
    if (fit->checkpointing && training_fits(request, &reduced))
        *fit = reduced;
    reduced = *fit;
    reduced.frozen = false;
    if (fit->frozen && training_fits(request, &reduced))
        *fit = reduced;
}

bool memory_fit_find(const struct memory_fit_case *request, struct memory_fit *out)
{
    if (!find_training(request, out))
        return false;
    revert_unneeded(request, out);
    return find_eval_batch(request, out);
}

bool memory_fit_split(const struct memory_fit_case *request, struct memory_fit *out)
{
    *out = (struct memory_fit) { 0 };
    return (training_fits(request, out) || find_batch(request, out)) &&
           find_eval_batch(request, out);
}

bool memory_fit_reduce(const struct memory_fit_case *request, struct memory_fit *out)
{
    *out = (struct memory_fit) { 0 };
    if (find_batch(request, out))
        return true;
    if (request->plan->gradient_checkpointing || request->kept.checkpointing)
        return false;
    out->checkpointing = true;
    return training_fits(request, out) || find_batch(request, out);
}

/* ---- If no edit helps ---- */

static bool plan_fits(const struct memory_fit_case *request, const struct plan *plan)
{
    struct memory_use use;

    if (!estimate_plan(request, plan, &use, NULL))
        return false;
    memory_finish(&use, request->available);
    return use.fits;
}

/* Find the largest multiple of LENGTH_STEP by bisection: more tokens never take less
 * memory. */
static int64_t fitting_length(const struct memory_fit_case *request)
{
    struct plan plan = memory_fit_smallest(request);
    int64_t fit = 0, not = plan.cutoff_len / LENGTH_STEP + 1;

    while (not -fit > 1) {
        int64_t middle = fit + (not -fit) / 2;

        plan.cutoff_len = middle * LENGTH_STEP;
        if (plan_fits(request, &plan))
            fit = middle;
        else
            not = middle;
    }
    fit *= LENGTH_STEP;
    return fit >= LENGTH_LEAST && fit < request->plan->cutoff_len ? fit : 0;
}

static int64_t fitting_rank(const struct memory_fit_case *request)
{
    struct plan plan = memory_fit_smallest(request);

    for (plan.lora_rank /= 2; plan.method == METHOD_LORA && plan.lora_rank >= 1;
         plan.lora_rank /= 2)
        if (plan_fits(request, &plan))
            return plan.lora_rank;
    return 0;
}

static int fitting_bits(const struct memory_fit_case *request)
{
    struct torch_setup setup = { 0 };
    struct plan plan = memory_fit_smallest(request);

    if (plan.torch)
        setup = *plan.torch;
    if (!plan_adapts(&plan) || plan.quantization_bit || setup.quantization_bit)
        return 0;
    if (!plan.external) {
        plan.quantization_bit = 4;
        return plan_fits(request, &plan) ? 4 : 0;
    }
    plan.torch = &setup;
    for (setup.quantization_bit = 8; setup.quantization_bit >= 4;
         setup.quantization_bit -= 4)
        if (plan_fits(request, &plan))
            return setup.quantization_bit;
    return 0;
}

bool memory_fit_trainer_is(const struct plan *plan, enum trainer trainer)
{
    return plan->external && plan->trainer &&
           strcmp(plan->trainer, profile_at(trainer)->name) == 0;
}

bool memory_fit_casts(const struct plan *plan)
{
    return !plan->external || memory_fit_trainer_is(plan, TRAINER_LLAMAFACTORY);
}

static bool lora_fits(const struct memory_fit_case *request)
{
    struct plan plan = memory_fit_smallest(request);

    if (plan_adapts(&plan) || plan.train_from_scratch)
        return false;
    plan.method = METHOD_LORA;
    plan.request.all_trainable = false;
    plan.request.has_frozen = true;
    if (plan.external)
        plan.precision.trainable = FORMAT_FP32;
    if (plan.external && memory_fit_casts(&plan))
        plan.precision.frozen = plan.precision.compute;
    if (!plan.external)
        policy_decide(&plan.request, &plan.device, &plan.precision);
    return plan_fits(request, &plan);
}

static bool fits_on(const struct memory_fit_case *request, const struct device *device)
{
    struct memory_fit_case other_device = *request;
    struct error ignored = { 0 };

    other_device.device = device;
    return memory_limit(request->plan->memory_limit, device, &other_device.available,
                        &ignored) &&
           fits(&other_device, &(struct memory_fit) { 0 });
}

/* Return whether a person can buy or rent it as a card for training: neither a board nor
 * the GPU of a laptop. */
static bool is_training_card(const struct device_row *row, const struct device *device)
{
    const struct capability_row *capability = device_capability(device);

    return !(capability && capability->shared_memory) && !text_ends(row->name, " Laptop");
}

/* Find the smallest card among those with at least the capabilities of the job's
 * device. */
static const struct device_row *fitting_card(const struct memory_fit_case *request)
{
    /* largest size that was too small, without and with bf16 */
    uint64_t failed[2] = { 0 };
    const struct device_row *rows, *best = NULL;
    size_t count = request->device->kind == DEVICE_OTHER ? 0 : device_rows(&rows);

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
        if (!is_training_card(&rows[i], &device))
            continue;
        if (device.major < request->device->major || device.memory <= request->available)
            continue;
        if (device.memory <= failed[device_has_bf16(&device)])
            continue;
        if (fits_on(request, &device))
            best = &rows[i];
        else
            failed[device_has_bf16(&device)] = device.memory;
    }
    return best;
}

/* Return the memory the unchanged job takes if only its own limit is below that. */
static uint64_t fitting_limit(const struct memory_fit_case *request)
{
    struct memory_use use;
    struct error ignored = { 0 };
    uint64_t free = 0;

    if (!request->plan->memory_limit ||
        !memory_limit(NULL, request->device, &free, &ignored) ||
        !memory_fit_estimate(request, &(struct memory_fit) { 0 }, &use, NULL))
        return 0;
    if (request->device->kind == DEVICE_CPU)
        free /= plan_local_ranks(request->plan);
    return use.total <= free ? use.total : 0;
}

void memory_fit_last_resort(const struct memory_fit_case *request,
                            struct last_resort *out)
{
    struct memory_fit_case unlimited = *request;

    memset(&unlimited.kept, 0, sizeof(unlimited.kept));
    *out = (struct last_resort) {
        .cutoff_len = fitting_length(&unlimited),
        .rank = fitting_rank(&unlimited),
        .bits = fitting_bits(&unlimited),
        .lora = lora_fits(&unlimited),
        .limit = fitting_limit(&unlimited),
        .card = fitting_card(&unlimited),
    };
}
