/* patcher/rules_device.c - what the device cannot do, or does badly. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#include "base/size.h"
#include "precision/probe.h"

/* fp16 is asked for, and it is not noscaler's or fp32's own business. */
static bool fp16_is_open(const struct rule_context *context)
{
    return context->plan->request.fp16 == CHOICE_YES &&
           context->plan->request.bf16 != CHOICE_YES &&
           !rule_is_policy(context, POLICY_FP32);
}

static void propose_fp32(struct rule_context *context, const char *rule,
                         const char *message)
{
    rule_set(
        context,
        &(struct finding) { .rule = rule,
                            .severity = SEVERITY_WARNING,
                            .apply = APPLY_UNSAFE,
                            .message = message,
                            .note = "float32: as fast here, and twice the activations" },
        "fp16", "false", NULL);
}

/* At trainspool.device, ranks or target, or at no line. */
static void tell_of_device(struct rule_context *context, const struct finding *base)
{
    static const char *const positions[] = { "device", "ranks", "target" };
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = NULL;

    for (size_t i = 0; i < TS_COUNT(positions) && !entry; i++)
        entry = rule_block_entry(context, positions[i]);
    propose_remark(&to, base, entry);
}

void rule_no_code(struct rule_context *context)
{
    const struct device *device = context->device;
    const struct capability_row *row = device ? device_capability(device) : NULL;
    struct arena *arena = context->arena;
    struct finding finding = { .rule = "TS201", .because = rule_device(context) };

    if (!device || context->plan->external)
        return;
    if (device->passed_over[0]) {
        finding.severity = SEVERITY_WARNING;
        finding.message =
            arena_printf(arena, "this build has no code for %s: the job runs on the CPU",
                         device->passed_over);
    } else if (rule_on_gpu(context) && device->here && !device->runnable) {
        finding.severity = SEVERITY_ERROR;
        finding.message =
            arena_printf(arena,
                         "this build has no code for %s: configure "
                         "--with-cuda-archs=%d%s, or say device: cpu",
                         device->name, rule_capability(context),
                         row && row->cuda13 ? "" : " with a toolkit of CUDA 12");
    } else {
        return;
    }
    tell_of_device(context, &finding);
}

void rule_no_tensor_cores(struct rule_context *context)
{
    if (fp16_is_open(context) && rule_on_gpu(context) && context->device->no_tensor_cores)
        propose_fp32(
            context, "TS202",
            arena_printf(context->arena,
                         "%s has no tensor cores, and fp16 is known to give NaN on its "
                         "kind",
                         context->device->name));
}

void rule_slow_fp16(struct rule_context *context)
{
    if (fp16_is_open(context) && rule_capability(context) == 61)
        propose_fp32(
            context, "TS203",
            "fp16 arithmetic runs at 1/64 of the float32 rate on compute capability 6.1");
}

void rule_p100(struct rule_context *context)
{
    if (fp16_is_open(context) && rule_capability(context) == 60)
        rule_tell(context,
                  &(struct finding) { .rule = "TS204",
                                      .severity = SEVERITY_INFO,
                                      .message =
                                          "fp16 runs at twice the float32 rate "
                                          "on compute capability 6.0, without "
                                          "tensor cores; the loss scale is needed" },
                  "fp16");
}

void rule_fp16_on_cpu(struct rule_context *context)
{
    if (!fp16_is_open(context) || !rule_on_cpu(context) ||
        (rule_is_policy(context, POLICY_NOSCALER) && rule_half_trainables(context)))
        return;
    rule_set(context,
             &(struct finding) {
                 .rule = "TS114",
                 .severity = context->plan->external ? SEVERITY_ERROR : SEVERITY_WARNING,
                 .apply = APPLY_SAFE,
                 .message = context->plan->external
                                ? "fp16 needs a GPU: Accelerate refuses it on a CPU"
                                : "fp16 on a CPU saves memory only and costs speed",
                 .note = context->plan->external
                             ? "--device names the card where it is for another machine"
                             : "trainspool.keep: [fp16] keeps it" },
             "fp16", "false", NULL);
}

void rule_no_tf32(struct rule_context *context)
{
    if (context->plan->request.tf32 != CHOICE_YES || !context->device ||
        (rule_on_gpu(context) && device_has_tf32(context->device)))
        return;
    rule_set(context,
             &(struct finding) {
                 .rule = "TS115",
                 .severity = context->plan->external ? SEVERITY_ERROR : SEVERITY_WARNING,
                 .apply = APPLY_SAFE,
                 .message = "tf32 needs a GPU of compute capability 8.0 or more",
                 .note = "float32 products, as before" },
             "tf32", "false", NULL);
}

/* ---- 8 bits ---- */

static void fp8_and_quantised(struct rule_context *context)
{
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS116",
                  .severity = SEVERITY_ERROR,
                  .message = "fp8 and quantised weights exclude each other: fp8 "
                             "products round 16-bit weights, which are not there",
                  .note = rule_has_4_bits(context)
                              ? "drop fp8: the files of the model have 4 bits"
                              : "drop fp8, or quantization_bit" },
              "fp8");
}

/* The nearest 16-bit format that the device has and the job has not chosen; NULL. */
static const char *instead_of_fp8(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (request->pure_bf16 || request->bf16 != CHOICE_NO || request->fp16 != CHOICE_NO)
        return NULL;
    if (!rule_on_gpu(context) || !rule_has_tensor_cores(context))
        return NULL;
    return rule_lacks_bf16(context) ? "fp16" : "bf16";
}

void rule_no_fp8(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS116",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message = "fp8 products need a GPU of compute capability 8.9 or more",
    };
    const char *key;

    if (!context->plan->request.fp8 || rule_is_policy(context, POLICY_FP32))
        return;
    if (!context->device || device_has_fp8(context->device)) {
        if (rule_is_quantised(context))
            fp8_and_quantised(context);
        return;
    }
    key = instead_of_fp8(context);
    if (key) {
        finding.group = rule_group(context);
        finding.note =
            arena_printf(context->arena, "%s is the nearest this device has", key);
    }
    if (rule_set(context, &finding, "fp8", "false", NULL) && key)
        rule_set(context, &finding, key, "true", "fp8");
}

/* ---- Attention ---- */

static const struct kernel {
    const char *name, *words;
    int capability;
} kernels[] = {
    { "fa2", "FlashAttention 2", 80 },
    { "flash_attention_2", "FlashAttention 2", 80 },
    { "fa3", "FlashAttention 3", 90 },
    { "flash_attention_3", "FlashAttention 3", 90 },
};

void rule_flash_attention(struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "flash_attn");
    const char *name = entry ? node_value(entry->value)->text : "";

    for (size_t i = 0; i < TS_COUNT(kernels); i++)
        if (strcmp(name, kernels[i].name) == 0 && rule_on_gpu(context) &&
            rule_capability(context) < kernels[i].capability)
            rule_set(
                context,
                &(struct finding) { .rule = "TS205",
                                    .severity = SEVERITY_ERROR,
                                    .apply = APPLY_SAFE,
                                    .message = arena_printf(
                                        context->arena,
                                        "%s has kernels from compute capability %d.%d on",
                                        kernels[i].words, kernels[i].capability / 10,
                                        kernels[i].capability % 10),
                                    .note = "auto takes the best there is" },
                "flash_attn", "auto", NULL);
}

/* ---- Placement ---- */

static bool is_distributed(const struct rule_context *context)
{
    return plan_ranks(context->plan) > 1 || rule_entry(context, "deepspeed") ||
           (rule_entry(context, "fsdp") &&
            *node_value(rule_entry(context, "fsdp")->value)->text);
}

static void idle_map(struct rule_context *context)
{
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS206",
                  .severity = SEVERITY_INFO,
                  .message =
                      "device_map has no effect here: the model lies on the device it "
                      "trains on",
                  .note = "it is neither cause nor cure of the loss scaler's error" },
              "device_map");
}

static void refused_map(struct rule_context *context, const char *key, bool distributed)
{
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS206",
            .severity = SEVERITY_ERROR,
            .message =
                distributed
                    ? arena_printf(context->arena,
                                   "%s does not go with distributed training: each "
                                   "process holds the model on a GPU of its own",
                                   key)
                    : arena_printf(context->arena,
                                   "%s does not go with training on quantised weights, "
                                   "which must lie on the GPU that trains",
                                   key),
            .note = "leave the key out; it is no cure for the loss scaler's error" },
        key);
}

/* A native run places the model itself; another program may refuse to start. */
void rule_device_map(struct rule_context *context)
{
    bool distributed = is_distributed(context), quantised = rule_is_quantised(context);

    if (!context->plan->external) {
        if (rule_entry(context, "device_map"))
            idle_map(context);
        return;
    }
    if ((distributed || quantised) && rule_entry(context, "device_map"))
        refused_map(context, "device_map", distributed);
    if (quantised && rule_entry(context, "quantization_device_map"))
        refused_map(context, "quantization_device_map", false);
}

/* ---- Which device, and how many ---- */

void rule_no_device(struct rule_context *context)
{
    const char *why = context->options->no_device;
    struct finding finding = { .rule = "TS208", .severity = SEVERITY_WARNING };

    if (context->device || rule_on_cpu(context))
        return;
    if (!why)
        why = context->plan->external ? "another program may run this job elsewhere"
                                      : "no device is named";
    finding.message = arena_printf(
        context->arena, "what depends on the device is not looked at: %s", why);
    finding.note = context->plan->external
                       ? "name the card: trainspool: {device: T4}, or --device T4"
                       : "--device T4 looks at the job for a card that is not here";
    tell_of_device(context, &finding);
}

void rule_unequal(struct rule_context *context)
{
    const struct device *device = context->device;
    char memory[16], capability[16];

    if (!rule_on_gpu(context) || !device->unlike[0])
        return;
    memory_text(device->memory, memory);
    device_capability_text(device, capability);
    tell_of_device(
        context,
        &(struct finding) {
            .rule = "TS209",
            .severity = SEVERITY_WARNING,
            .because = arena_printf(context->arena, "%s beside %s", device->name,
                                    device->unlike),
            .message = arena_printf(context->arena,
                                    "the GPUs of this job are not alike: the least of "
                                    "them counts, compute capability %s and %s",
                                    capability, memory),
            .note = "the slowest sets the pace; device: cuda:N,M names equal ones" });
}

static const char *ranks_trouble(const struct rule_context *context)
{
    const struct plan *plan = context->plan;
    long long ranks = plan->ranks;
    size_t named = probe_named(plan->device_wanted);

    if (named > 0 && (int64_t)named != plan->ranks)
        return arena_printf(context->arena, "ranks: %lld, but device: %s names %zu",
                            ranks, plan->device_wanted, named);
    if (rule_on_gpu(context) && context->device->peers > 0 &&
        context->device->peers < plan->ranks)
        return arena_printf(
            context->arena,
            "ranks: %lld wants as many GPUs of one kind, and this machine has %d", ranks,
            context->device->peers);
    return NULL;
}

void rule_ranks(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "ranks");
    const char *trouble = entry ? ranks_trouble(context) : NULL;

    if (trouble)
        propose_remark(
            &to,
            &(struct finding) {
                .rule = "TS207",
                .severity = SEVERITY_ERROR,
                .message = trouble,
                .note = "fewer ranks with more gradient_accumulation_steps make the "
                        "same steps; device: cpu has room for any number" },
            entry);
}

/* ---- TS210: what others hold ---- */

void rule_taken(struct rule_context *context)
{
    const struct device *device = context->device;
    uint64_t held, own = MEMORY_CUDA_CONTEXT + MEMORY_CUDA_CONTEXT_SPREAD;
    char taken[16], all[16];

    if (!rule_on_gpu(context) || !device->here || device->available > device->memory)
        return;
    held = device->memory - device->available;
    if (held <= own || held - own <= device->memory / 10)
        return;
    memory_text(held - own, taken);
    memory_text(device->memory, all);
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS210",
                  .severity = SEVERITY_WARNING,
                  .message = arena_printf(
                      context->arena, "other programs hold about %s of the device's %s",
                      taken, all),
                  .note = "nvidia-smi shows which; the job is planned for what is free" },
              NULL);
}
