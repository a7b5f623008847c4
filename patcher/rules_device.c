/* patcher/rules_device.c - what the device cannot do, or does badly. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "precision/probe.h"

#include <string.h>

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

/* At trainspool.device, or at no line. */
static void tell_of_device(struct rule_context *context, const struct finding *base)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");

    propose_remark(&to, base,
                   block ? node_find(node_value(block->value), "device") : NULL);
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
                         "%s has no tensor cores, and fp16 is known to give NaN on "
                         "its kind",
                         context->device->name));
}

void rule_slow_fp16(struct rule_context *context)
{
    if (fp16_is_open(context) && rule_capability(context) == 61)
        propose_fp32(
            context, "TS203",
            "fp16 arithmetic runs at 1/64 of the float32 rate on compute capability "
            "6.1");
}

void rule_p100(struct rule_context *context)
{
    if (fp16_is_open(context) && rule_capability(context) == 60)
        rule_tell(context,
                  &(struct finding) { .rule = "TS204",
                                      .severity = SEVERITY_INFO,
                                      .message =
                                          "fp16 runs at twice the float32 rate on "
                                          "compute capability 6.0, without tensor cores; "
                                          "the loss scale is needed" },
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

/* bf16 is the nearest that a device without fp8 may have. */
void rule_no_fp8(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    struct finding finding = {
        .rule = "TS116",
        .severity = context->plan->external ? SEVERITY_ERROR : SEVERITY_WARNING,
        .apply = APPLY_SAFE,
        .message = "fp8 products need a GPU of compute capability 8.9 or more",
    };
    bool bf16;

    if (!request->fp8 || !context->device || device_has_fp8(context->device))
        return;
    bf16 = rule_on_gpu(context) && device_has_bf16(context->device) &&
           !request->pure_bf16 && request->bf16 == CHOICE_NO &&
           request->fp16 == CHOICE_NO && !rule_is_policy(context, POLICY_FP32);
    finding.group = bf16 ? rule_group(context) : 0;
    finding.note = bf16 ? "bf16 is the nearest it has" : NULL;
    if (rule_set(context, &finding, "fp8", "false", NULL) && bf16)
        rule_set(context, &finding, "bf16", "true", "fp8");
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
            "ranks: %lld wants as many GPUs of one kind, and this machine "
            "has %d",
            ranks, context->device->peers);
    return NULL;
}

void rule_ranks(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");
    const struct entry *entry =
        block ? node_find(node_value(block->value), "ranks") : NULL;
    const char *trouble = entry ? ranks_trouble(context) : NULL;

    if (trouble)
        propose_remark(
            &to,
            &(struct finding) {
                .rule = "TS207",
                .severity = SEVERITY_ERROR,
                .message = trouble,
                .note = "fewer ranks with more gradient_accumulation_steps make the same "
                        "steps; device: cpu has room for any number" },
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
                  .message = arena_printf(context->arena,
                                          "other programs hold about %s of the device's %s",
                                          taken, all),
                  .note = "nvidia-smi shows which; the job is planned for what is free" },
              NULL);
}
