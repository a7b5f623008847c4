/* patcher/rules/rules_formats.c - formats and kernels that the device lacks or runs
 * slowly: fp16, tf32, fp8, FlashAttention. */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"

#include <string.h>

#include "base/size.h"

/* fp16 is on, and no other rule or policy replaces it. */
static bool applies_to_fp16(const struct rule_context *context)
{
    return context->plan->request.fp16 == CHOICE_YES &&
           context->plan->request.bf16 != CHOICE_YES &&
           !rule_is_policy(context, POLICY_FP32);
}

/* Turning fp16 off helps only where the program then computes in float32. */
static void propose_fp32(struct rule_context *context, const char *rule,
                         const char *message)
{
    struct finding finding = { .rule = rule,
                               .severity = SEVERITY_WARNING,
                               .message = message };

    if (!stored_weights_reach_float32(context, &finding.note)) {
        rule_report(context, &finding, "fp16");
        return;
    }
    finding.apply = APPLY_UNSAFE;
    finding.note = "float32 is as fast here and doubles the activations";
    rule_propose(context, &finding, "fp16", "false", NULL);
}

static void rule_no_tensor_cores(struct rule_context *context)
{
    if (applies_to_fp16(context) && rule_on_gpu(context) &&
        context->device->no_tensor_cores)
        propose_fp32(
            context, "TS202",
            arena_printf(context->arena,
                         "%s has no tensor cores, and fp16 is known to produce NaN on "
                         "such cards",
                         context->device->name));
}

static void rule_slow_fp16(struct rule_context *context)
{
    if (applies_to_fp16(context) && rule_capability(context) == 61)
        propose_fp32(
            context, "TS203",
            "fp16 arithmetic runs at 1/64 of the float32 rate on compute capability 6.1");
}

static void rule_fp16_on_p100(struct rule_context *context)
{
    if (applies_to_fp16(context) && rule_capability(context) == 60)
        rule_report(context,
                    &(struct finding) { .rule = "TS204",
                                        .severity = SEVERITY_INFO,
                                        .message =
                                            "fp16 runs at twice the float32 rate on "
                                            "compute capability 6.0, without tensor "
                                            "cores; it requires the loss scale" },
                    "fp16");
}

static void rule_fp16_on_cpu(struct rule_context *context)
{
    if (!applies_to_fp16(context) || !rule_on_cpu(context) ||
        (rule_is_policy(context, POLICY_NOSCALER) && rule_trains_float16(context)))
        return;
    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS114",
            .severity = context->plan->external ? SEVERITY_ERROR : SEVERITY_WARNING,
            .apply = APPLY_SAFE,
            .message = context->plan->external
                           ? "fp16 requires a GPU: Accelerate rejects it on a CPU"
                           : "fp16 on a CPU saves only memory and is slower",
            .note = context->plan->external
                        ? "if the job is for another machine, name its card with --device"
                        : "trainspool.keep: [fp16] keeps it" },
        "fp16", "false", NULL);
}

static void rule_tf32_unsupported(struct rule_context *context)
{
    if (context->plan->request.tf32 != CHOICE_YES || !context->device ||
        rule_accelerator(context) ||
        (rule_on_gpu(context) && device_has_tf32(context->device)))
        return;
    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS115",
            .severity = context->plan->external ? SEVERITY_ERROR : SEVERITY_WARNING,
            .apply = APPLY_SAFE,
            .message = "tf32 requires a GPU of compute capability 8.0 or higher",
            .note = "float32 matmuls, as before" },
        "tf32", "false", NULL);
}

static void report_fp8_with_quantization(struct rule_context *context)
{
    rule_report(context,
                &(struct finding) {
                    .rule = "TS116",
                    .severity = SEVERITY_ERROR,
                    .message = "fp8 cannot be combined with quantized weights: fp8 "
                               "matmuls round 16-bit weights",
                    .note = rule_model_is_prequantized(context)
                                ? "remove fp8: the files of the model are quantized"
                                : "remove fp8, or quantization_bit" },
                "fp8");
}

/* Return the 16-bit format of the device that replaces fp8, or NULL if the job already
 * sets it. */
static const char *fp8_replacement(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (request->pure_bf16 || request->bf16 != CHOICE_NO || request->fp16 != CHOICE_NO)
        return NULL;
    if (!rule_on_gpu(context) || !rule_has_tensor_cores(context))
        return NULL;
    if (!rule_lacks_bf16(context))
        return "bf16";
    return rule_surely_takes_fp16(context) ? "fp16" : NULL;
}

static void rule_fp8_unsupported(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS116",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message = "fp8 matmuls require a GPU of compute capability 8.9 or higher",
    };
    const char *key;

    if (!context->plan->request.fp8 || rule_is_policy(context, POLICY_FP32))
        return;
    if (!context->device || rule_accelerator(context) ||
        device_has_fp8(context->device)) {
        if (rule_is_quantized(context))
            report_fp8_with_quantization(context);
        return;
    }
    key = fp8_replacement(context);
    if (key) {
        finding.group = rule_group(context);
        finding.note =
            arena_printf(context->arena, "%s is the nearest format of this device", key);
    }
    if (rule_propose(context, &finding, "fp8", "false", NULL) && key)
        rule_propose(context, &finding, key, "true", "fp8");
}

static const struct kernel {
    const char *name, *title;
    int capability;
} kernels[] = {
    { "fa2", "FlashAttention 2", 80 },
    { "flash_attention_2", "FlashAttention 2", 80 },
    { "fa3", "FlashAttention 3", 90 },
    { "flash_attention_3", "FlashAttention 3", 90 },
    { "kernels-community/flash-attn2", "FlashAttention 2", 80 },
    { "kernels-community/flash-attn3", "FlashAttention 3", 90 },
    { "kernels-community/vllm-flash-attn3", "FlashAttention 3", 90 },
};

/* The keys that select one, and the value that is right on any card. */
static const struct attention_key {
    const char *key, *always;
} attention_keys[] = {
    { "flash_attn", "auto" },
    { "attn_implementation", "sdpa" }, /* from_pretrained; TRL, Axolotl */
};

static void check_attention(struct rule_context *context,
                            const struct attention_key *attention)
{
    const struct entry *entry = rule_entry(context, attention->key);
    const char *name = entry ? node_value(entry->value)->text : "";

    for (size_t i = 0; i < TS_COUNT(kernels); i++)
        if (strcmp(name, kernels[i].name) == 0 && rule_on_gpu(context) &&
            rule_capability(context) < kernels[i].capability)
            rule_propose(
                context,
                &(struct finding) {
                    .rule = "TS205",
                    .severity = SEVERITY_ERROR,
                    .apply = APPLY_SAFE,
                    .message = arena_printf(
                        context->arena, "%s requires compute capability %d.%d or higher",
                        kernels[i].title, kernels[i].capability / 10,
                        kernels[i].capability % 10),
                    .note = arena_printf(context->arena,
                                         "%s selects the best available implementation",
                                         attention->always) },
                attention->key, attention->always, NULL);
}

static void rule_flash_attention(struct rule_context *context)
{
    for (size_t i = 0; i < TS_COUNT(attention_keys); i++)
        if (i == 0 || context->plan->external)
            check_attention(context, &attention_keys[i]);
}

static const struct rule rows[] = {
    { .id = "TS114",
      .title = "fp16 without a GPU",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_fp16_on_cpu,
      .explain =
          "A CPU converts float16 and computes in float32. fp16 there saves memory for "
          "activations and takes longer. Accelerate rejects it (an error for target: "
          "external). The patch sets fp16 to false; trainspool.keep: [fp16] keeps it, "
          "for example to try a job before it moves to a GPU.",
      .source = "accelerate, Accelerator.__init__" },
    { .id = "TS115",
      .title = "tf32 on a device without tf32",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_tf32_unsupported,
      .explain =
          "tf32 is a mode of the tensor cores from compute capability 8.0 on: float32 "
          "in memory, 10 bits of mantissa in matmuls. On other devices Hugging Face "
          "raises an error; in a native run it would have no effect. The patch sets "
          "tf32 to false.",
      .source =
          "NVIDIA CUDA GPUs (compute capabilities); TransformerEngine support matrix; "
          "docs/precision.md" },
    { .id = "TS116",
      .title = "fp8 on a device without fp8, or with quantized weights",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_fp8_unsupported,
      .explain =
          "fp8: true rounds both operands of the matmuls of a layer to 8 bits (e4m3, "
          "gradients e5m2, one scale per matrix). It is combined with bf16; head, "
          "adapters, norms and attention keep their format. Tensor cores multiply 8-bit "
          "values from compute capability 8.9 on. A device without them would be "
          "slower, not faster: the patch sets fp8 to false and, if the job asks for no "
          "16-bit format, enables the nearest one that the device has.\n\n"
          "Quantized weights cannot be rounded to 8 bits again, and LLaMA-Factory "
          "rejects the combination. Nothing is edited, since only you know which of the "
          "two you meant.",
      .source = "Micikevicius et al., FP8 Formats for Deep Learning, 2022; support "
                "matrix of TransformerEngine; LLaMA-Factory, hparams/parser.py" },
    { .id = "TS202",
      .title = "fp16 on a GTX 16xx",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_no_tensor_cores,
      .explain =
          "These cards have compute capability 7.5 but no tensor cores, and fp16 is "
          "reported to produce NaN on them. float32 is as fast. The edit requires "
          "`--unsafe`, since fp16 halves the activations on a card with 4 or 6 GB. "
          "Nothing is edited where the program would compute in emulated bf16 instead of "
          "float32, as LLaMA-Factory does for adapters.",
      .source = "pytorch#58123, #77955; kohya_ss#436" },
    { .id = "TS203",
      .title = "fp16 at 1/64 of the float32 rate",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_slow_fp16,
      .explain =
          "GTX 10xx, P40 and P4 (compute capability 6.1) have one fp16 unit for every "
          "64 float32 units. fp16 is useful there only to store frozen weights. "
          "`--unsafe` turns fp16 off, except where the program would then compute in "
          "emulated bf16 instead of float32, as LLaMA-Factory does for adapters.",
      .source = "CUDA C++ Programming Guide, arithmetic throughput" },
    { .id = "TS204",
      .title = "fp16 on a P100",
      .severity = SEVERITY_INFO,
      .run = rule_fp16_on_p100,
      .explain =
          "Compute capability 6.0 runs fp16 at twice the float32 rate (21.2 versus 10.6 "
          "TFLOPS), without tensor cores. fp16 with a loss scale is worthwhile, mostly "
          "for its memory. Prebuilt PyTorch no longer has code for this card; check the "
          "device before you start the job.",
      .source = "CUDA C++ Programming Guide; kaggle-cli#1151" },
    { .id = "TS205",
      .title = "FlashAttention version without kernels for the device",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_flash_attention,
      .explain =
          "FlashAttention 2 requires compute capability 8.0 or higher, FlashAttention 3 "
          "requires 9.0 or higher. On an older card a script that insists on it fails "
          "with `only supports Ampere GPUs or newer`. The patch sets flash_attn to "
          "auto, which lets the program select the best available implementation; it is "
          "nearly as fast and saves as much memory.\n\n"
          "A native run has its own kernels on every device. There the edit makes the "
          "file usable for other programs and changes nothing else.",
      .source = "Dao-AILab/flash-attention#762; LLaMA-Factory#3508" },
};

const struct rules rules_formats = { rows, TS_COUNT(rows) };
