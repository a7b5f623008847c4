/* patcher/rules/alternatives.c - the table of alternatives and the change that each makes. */
#include "config.h"

#include "patcher/rules/alternatives.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "precision/memory.h"
#include "train/model/optimizer_table.h"
#include "train/model/shapes.h"

static const char already[] = "";

/* ---- Precision ---- */

/* The precision that LLaMA-Factory gives a mode: adapters and trained weights in float32,
 * frozen weights in the compute format unless the job loads them in float32
 * (model/loader.py, model/adapter.py). */
static void decide_external(struct plan *plan, enum mode mode, enum format compute)
{
    const bool pure = mode == MODE_BF16_PURE;

    plan->precision.mode = mode;
    plan->precision.compute = compute;
    if (!memory_fit_casts(plan))
        return; /* dtype decides, not bf16 or fp16 */
    plan->precision.trainable = pure && !plan_adapts(plan) ? FORMAT_BF16 : FORMAT_FP32;
    plan->precision.frozen =
        plan->request.model_dtype == DTYPE_FLOAT32 && !pure ? FORMAT_FP32 : compute;
}

static const char *use_mode(struct alternative_trial *trial, enum mode mode,
                            enum format compute)
{
    struct plan *plan = &trial->plan;

    if (plan->precision.mode == mode)
        return already;
    if (plan->external) {
        decide_external(plan, mode, compute);
        return NULL;
    }
    plan->request.bf16 = mode == MODE_BF16_MIXED ? CHOICE_YES : CHOICE_NO;
    plan->request.fp16 = mode == MODE_FP16_MIXED ? CHOICE_YES : CHOICE_NO;
    plan->request.pure_bf16 = mode == MODE_BF16_PURE;
    plan->request.fp8 = false;
    policy_decide(&plan->request, &plan->device, &plan->precision);
    return plan->precision.mode == mode ? NULL
                                        : "the policy of the job selects another mode";
}

static const char *apply_bf16(struct alternative_trial *trial)
{
    if (!device_has_bf16(&trial->plan.device))
        return "this device has no bf16";
    return use_mode(trial, MODE_BF16_MIXED, FORMAT_BF16);
}

static const char *apply_fp16(struct alternative_trial *trial)
{
    if (trial->plan.device.kind == DEVICE_CPU)
        return "a CPU has no fp16 matmuls";
    return use_mode(trial, MODE_FP16_MIXED, FORMAT_FP16);
}

static const char *apply_fp32(struct alternative_trial *trial)
{
    return use_mode(trial, MODE_FP32, FORMAT_FP32);
}

static const char *apply_pure_bf16(struct alternative_trial *trial)
{
    if (!device_has_bf16(&trial->plan.device))
        return "this device has no bf16";
    if (!memory_fit_casts(&trial->plan))
        return "only LLaMA-Factory and trainspool know pure_bf16";
    if (trial->setup.deepspeed && trial->setup.zero_stage == 3)
        return "LLaMA-Factory refuses pure_bf16 with ZeRO 3";
    return use_mode(trial, MODE_BF16_PURE, FORMAT_BF16);
}

/* ---- Checkpointing, batch, optimizer ---- */

static const char *apply_checkpointing(struct alternative_trial *trial)
{
    if (trial->plan.gradient_checkpointing)
        return already;
    trial->plan.gradient_checkpointing = true;
    return NULL;
}

static const char *apply_no_checkpointing(struct alternative_trial *trial)
{
    if (!trial->plan.gradient_checkpointing)
        return already;
    trial->plan.gradient_checkpointing = false;
    return NULL;
}

static const char *apply_batch(struct alternative_trial *trial)
{
    struct plan *plan = &trial->plan;

    if (plan->per_device_train_batch_size <= 1)
        return already;
    if (trial->whole_batch)
        return "the loss compares the samples of a batch";
    plan->gradient_accumulation_steps *= plan->per_device_train_batch_size;
    plan->per_device_train_batch_size = 1;
    return NULL;
}

static const char *use_optimizer(struct alternative_trial *trial, const char *name)
{
    const char *optim = trial->setup.optim;

    if (trial->plan.device.kind == DEVICE_CPU)
        return "its kernels require a GPU";
    if (optim && !text_starts(optim, "adamw"))
        return "the optimizer is not AdamW";
    if (optim && text_ends(optim, "bit"))
        return already;
    if (trial->setup.deepspeed && trial->setup.offload_optimizer)
        return "DeepSpeed keeps the optimizer on the host";
    trial->setup.optim = name;
    return NULL;
}

/* A native run has its own kernels for all devices. */
static const char *use_codes(struct plan *plan)
{
    if (optimizer_has_codes(optimizer_of(plan)))
        return already;
    if (plan->optimizer != optimizer_first_name(optimizer_find("adamw_torch")))
        return "the optimizer is not AdamW";
    plan->optim = optimizer_find("adamw_8bit");
    plan->optimizer = optimizer_first_name(plan->optim);
    return NULL;
}

static const char *apply_8bit(struct alternative_trial *trial)
{
    if (!trial->plan.external)
        return use_codes(&trial->plan);
    return use_optimizer(trial, "adamw_8bit");
}

static const char *apply_paged(struct alternative_trial *trial)
{
    if (!trial->plan.external)
        return "see 8-bit optimizer, and optimizer on host";
    return use_optimizer(trial, "paged_adamw_8bit");
}

static const char *apply_offload(struct alternative_trial *trial)
{
    struct plan *plan = &trial->plan;

    if (plan->external)
        return "offload_optimizer is a setting of native runs";
    if (optimizer_of(plan)->moments == 0)
        return "the optimizer keeps no moments";
    if (plan->device.kind != DEVICE_CUDA)
        return "the moments of a job on a CPU are in host memory";
    if (plan_offloads(plan))
        return already;
    plan->offload_optimizer = CHOICE_YES;
    return NULL;
}

/* ---- Ranks ---- */

static const char *apply_zero_2(struct alternative_trial *trial)
{
    if (trial->plan.external)
        return "zero_stage is a setting of native runs";
    if (plan_ranks(&trial->plan) == 1)
        return "the job has one rank";
    if (trial->plan.zero_stage > 1)
        return already;
    if (trial->plan.method != METHOD_FULL)
        return "the gradients of a part of the weights are small";
    trial->plan.zero_stage = 2;
    return NULL;
}

static const char *apply_zero_3(struct alternative_trial *trial)
{
    if (trial->plan.external)
        return "zero_stage is a setting of native runs";
    if (plan_ranks(&trial->plan) == 1)
        return "the job has one rank";
    if (trial->plan.zero_stage > 2)
        return already;
    trial->plan.zero_stage = 3;
    return NULL;
}

/* ---- Models ---- */

/* Compare two names of folders: "m", "./m" and "m/" are the same. */
static bool same_folder(const char *a, const char *b)
{
    size_t a_len, b_len;

    a += text_starts(a, "./") ? 2 : 0;
    b += text_starts(b, "./") ? 2 : 0;
    a_len = strlen(a);
    b_len = strlen(b);
    while (a_len > 1 && a[a_len - 1] == '/')
        a_len--;
    while (b_len > 1 && b[b_len - 1] == '/')
        b_len--;
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

bool alternative_reference_is_base(const struct plan *plan)
{
    const struct preference *preference = &plan->preference;

    return plan_adapts(plan) && preference->reference && !preference->adapter &&
           plan->model_name_or_path &&
           /* the adapter would be merged first: the base of the run is another model */
           !(plan->create_new_adapter && plan->adapter_name_or_path) &&
           same_folder(preference->reference, plan->model_name_or_path);
}

static const char *apply_no_reference(struct alternative_trial *trial)
{
    if (!plan_has_second_model(&trial->plan) && !trial->setup.reference)
        return "the job has no second model";
    if (!alternative_reference_is_base(&trial->plan))
        return "the second model differs from the trained one";
    trial->plan.preference.reference = NULL;
    trial->plan.kd.config = NULL;
    trial->plan.teacher_bytes = 0;
    trial->setup.reference = false;
    return NULL;
}

static const char *apply_lora(struct alternative_trial *trial)
{
    struct plan *plan = &trial->plan;

    if (plan_adapts(plan))
        return already;
    if (plan->train_from_scratch)
        return "a model with random weights has nothing to adapt";
    plan->method = METHOD_LORA;
    plan->lora_rank = plan->lora_rank > 0 ? plan->lora_rank : 8;
    plan->lora_target = plan->lora_target ? plan->lora_target : "all";
    plan->request.all_trainable = false;
    plan->request.has_frozen = true;
    trial->setup.reference = false;
    if (plan->external) {
        plan->precision.trainable = FORMAT_FP32;
        decide_external(plan, plan->precision.mode,
                        plan->precision.mode == MODE_FP32 ? FORMAT_FP32
                                                          : plan->precision.compute);
    } else
        policy_decide(&plan->request, &plan->device, &plan->precision);
    return NULL;
}

static const char *apply_qlora(struct alternative_trial *trial)
{
    const char *why_not = apply_lora(trial);
    int64_t bits = trial->plan.external ? trial->setup.quantization_bit
                                        : trial->plan.quantization_bit;

    if (why_not && *why_not)
        return why_not;
    if (bits == 4 || trial->plan.base_quantization)
        return already;
    trial->plan.quantization_bit = trial->plan.external ? 0 : 4;
    trial->setup.quantization_bit = trial->plan.external ? 4 : 0;
    return NULL;
}

/* ---- The table ---- */

static const struct alternative rows[] = {
    { .name = "no ref_model",
      .setting = "no ref_model",
      .cost = "none: with LoRA, the model without its adapter is the reference",
      .advised = true,
      .apply = apply_no_reference },
    { .name = "ZeRO stage 2",
      .setting = "trainspool: {zero_stage: 2}",
      .cost =
          "gradients are sent in each micro-batch, not once per step; the result is the "
          "same except for rounding",
      .advised = true,
      .apply = apply_zero_2 },
    { .name = "ZeRO stage 3",
      .setting = "trainspool: {zero_stage: 3}",
      .cost = "the weights of each layer are sent twice in each micro-batch, and the "
              "gradients as in stage 2; the result is that of stage 2 to the bit",
      .advised = true,
      .apply = apply_zero_3 },
    { .name = "bf16",
      .setting = "bf16: true",
      .cost = "frozen weights are kept in 16 bits, and matmuls round to 8 bits of "
              "precision; trained weights stay float32",
      .advised = true,
      .unsafe_edit = true,
      .apply = apply_bf16 },
    { .name = "fp16 + scaler",
      .setting = "fp16: true",
      .cost =
          "activations may overflow for a model trained in bfloat16; the scaler skips "
          "the steps whose gradients do",
      .advised = true,
      .unsafe_edit = true,
      .apply = apply_fp16 },
    { .name = "checkpointing",
      .setting = "gradient_checkpointing: true",
      .cost = "computes each layer twice; the result is the same",
      .advised = true,
      .apply = apply_checkpointing },
    { .name = "smaller batch",
      .setting = "per_device_train_batch_size: 1 with more accumulation",
      .cost = "small matmuls use the device less well; the result is the same except for "
              "rounding",
      .advised = true,
      .apply = apply_batch },
    { .name = "8-bit optimizer",
      .setting = "optim: adamw_8bit",
      .cost = "both moments are quantized in blocks of 256, which changes the updates "
              "slightly; other trainers need bitsandbytes",
      .advised = true,
      .apply = apply_8bit },
    { .name = "paged optimizer",
      .setting = "optim: paged_adamw_8bit",
      .cost =
          "8-bit moments that move to the host when memory runs out, which takes time",
      .advised = true,
      .apply = apply_paged },
    { .name = "pure_bf16",
      .setting = "pure_bf16: true",
      .cost = "weights and moments are bfloat16 too: updates below 1/512 of a weight are "
              "rounded",
      .advised = true,
      .apply = apply_pure_bf16 },
    { .name = "optimizer on host",
      .setting = "trainspool: {offload_optimizer: true}",
      .cost =
          "each step reads and writes the moments over PCIe, 8 bytes for each trained "
          "weight; the result is the same",
      .advised = true,
      .apply = apply_offload },
    { .name = "LoRA",
      .setting = "finetuning_type: lora",
      .in_trl = "use_peft: true",
      .cost = "only adapters are trained, which learn less than all weights can and need "
              "a higher learning rate",
      .advised = true,
      .apply = apply_lora },
    { .name = "QLoRA",
      .setting = "finetuning_type: lora with quantization_bit: 4",
      .in_trl = "use_peft: true with load_in_4bit: true",
      .cost =
          "the frozen weights lose precision, and each matmul dequantizes them first, "
          "which the time does not include",
      .advised = true,
      .apply = apply_qlora },
    { .name = "fp32",
      .setting = "neither bf16 nor fp16",
      .cost = "nothing overflows and nothing is rounded to 16 bits, at the speed of "
              "float32",
      .apply = apply_fp32 },
    { .name = "no checkpointing",
      .setting = "gradient_checkpointing: false",
      .cost = "the activations of all layers stay in memory; the result is the same",
      .apply = apply_no_checkpointing },
};

const struct alternative *alternative_without_reference(void)
{
    return &rows[0];
}

const char *alternative_setting(const struct alternative *row, const struct plan *plan)
{
    return row->in_trl && memory_fit_trainer_is(plan, TRAINER_TRL) ? row->in_trl
                                                                   : row->setting;
}

size_t alternatives(const struct alternative **out)
{
    *out = rows;
    return TS_COUNT(rows);
}

/* ---- Trying a row ---- */

/* Matmuls of a step: forward, again with checkpointing, the gradient of the input, and of
 * the weights if they are trained (train/duration.h). */
static double passes(const struct plan *plan)
{
    return (plan->gradient_checkpointing ? 2 : 1) + 1 + (plan_adapts(plan) ? 0 : 1);
}

/* Tensor cores compute 2 (GeForce cards) to 16 times (A100) as many operations in 16 bits
 * as the same card in float32 (data sheets of NVIDIA); 2 is counted.  Without them, and on
 * a CPU, the formats count as equally fast. */
static double rate(const struct plan *plan)
{
    return format_info(plan->precision.compute)->bytes == 2 &&
                   device_has_fp16_tensor_cores(&plan->device)
               ? 2
               : 1;
}

static double arithmetic(const struct plan *plan)
{
    return passes(plan) / rate(plan);
}

static bool estimate(const struct memory_fit_case *request, const struct plan *plan,
                     struct memory_use *use)
{
    struct memory_fit_case changed = *request;

    changed.plan = plan;
    return memory_fit_estimate(&changed, &(struct memory_fit) { 0 }, use, NULL);
}

void alternative_try(const struct memory_fit_case *request, const struct alternative *row,
                     struct alternative_result *out)
{
    struct alternative_trial trial = { .plan = *request->plan,
                                       .whole_batch = request->whole_batch };

    *out = (struct alternative_result) {
        .setting = row ? alternative_setting(row, request->plan) : NULL
    };
    trial.plan.device = *request->device;
    if (trial.plan.torch)
        trial.setup = *trial.plan.torch;
    if (trial.plan.external)
        trial.plan.torch = &trial.setup;
    if (row)
        out->why_not = row->apply(&trial);
    if (out->why_not)
        return;
    out->known = estimate(request, &trial.plan, &out->use);
    out->time = arithmetic(&trial.plan) / arithmetic(request->plan);
}

static bool row_fits(const struct memory_fit_case *request, const struct alternative *row,
                     struct memory_use *use)
{
    struct alternative_result result;

    alternative_try(request, row, &result);
    *use = result.use;
    return !result.why_not && result.known && result.use.fits;
}

bool alternative_advise(const struct memory_fit_case *request,
                        struct alternative_advice *out)
{
    const struct plan smallest = memory_fit_smallest(request);
    struct memory_fit_case with_edits = *request;

    with_edits.plan = &smallest;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        *out = (struct alternative_advice) { .row = &rows[i] };
        if (!rows[i].advised)
            continue;
        if (row_fits(request, &rows[i], &out->use))
            return true;
        out->with_edits = true;
        if (row_fits(&with_edits, &rows[i], &out->use))
            return true;
    }
    return false;
}
