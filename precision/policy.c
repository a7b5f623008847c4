/* precision/policy.c - what was asked + a device -> what will run. */
#include "config.h"

#include "precision/policy.h"

#include <stdio.h>

#include "precision/scaler.h"

const char *const policy_names[POLICY_COUNT] = {
    [POLICY_SOUND] = "sound",       [POLICY_BF16] = "bf16",
    [POLICY_FP32] = "fp32",         [POLICY_NOCLIP] = "noclip",
    [POLICY_NOSCALER] = "noscaler", [POLICY_REPORT] = "report",
};
const char *const dtype_names[4] = { "auto", "float32", "float16", "bfloat16" };
const char *const scaling_names[3] = { "none", "static", "dynamic" };

/* As `plan --json` says. */
const char *const mode_names[MODE_COUNT] = {
    [MODE_FP32] = "fp32",
    [MODE_TF32] = "tf32",
    [MODE_FP16_MIXED] = "fp16-mixed",
    [MODE_BF16_MIXED] = "bf16-mixed",
    [MODE_BF16_PURE] = "bf16-pure",
    [MODE_FP16_PURE] = "fp16-pure",
};

static const struct {
    enum format compute, trainable;
    const char *words;
} modes[MODE_COUNT] = {
    [MODE_FP32] = { FORMAT_FP32, FORMAT_FP32, "everything in fp32" },
    [MODE_TF32] = { FORMAT_TF32, FORMAT_FP32, "fp32, products in tf32" },
    [MODE_FP16_MIXED] = { FORMAT_FP16, FORMAT_FP32,
                          "fp16 compute, fp32 trainable weights" },
    [MODE_BF16_MIXED] = { FORMAT_BF16, FORMAT_FP32,
                          "bf16 compute, fp32 trainable weights" },
    [MODE_BF16_PURE] = { FORMAT_BF16, FORMAT_BF16,
                         "weights, gradients and moments in bf16" },
    [MODE_FP16_PURE] = { FORMAT_FP16, FORMAT_FP16, "weights and moments in fp16" },
};

struct decision {
    enum mode mode;
    /* why it is not what was asked, or what auto found; "" where it is */
    const char *why;
};

/* The best a GPU without bf16 has, or fp32. */
static struct decision without_bf16(const struct device *device)
{
    if (device->kind == DEVICE_CUDA && device_has_fp16_tensor_cores(device))
        return (struct decision) { MODE_FP16_MIXED,
                                   "no bf16 below compute capability 8.0, but fp16 "
                                   "tensor cores" };
    return (struct decision) { MODE_FP32,
                               "no bf16 and no fp16 tensor cores on this device" };
}

static struct decision in_fp32(const struct precision_request *request,
                               const struct device *device, const char *why)
{
    bool tf32 = request->tf32 == CHOICE_YES && device_has_tf32(device);

    return (struct decision) { tf32 ? MODE_TF32 : MODE_FP32, why };
}

/* bf16: auto, fp16: auto and nothing else asked for. */
static struct decision automatic(const struct precision_request *request,
                                 const struct device *device)
{
    if (device->kind == DEVICE_CPU)
        return in_fp32(request, device, "auto on a CPU; bf16: true asks for bf16");
    if (request->bf16 == CHOICE_AUTO && device_has_bf16(device))
        return (struct decision) { MODE_BF16_MIXED, "auto: this device has bf16" };
    struct decision found = without_bf16(device);

    if (found.mode == MODE_FP32)
        return in_fp32(request, device, found.why);
    return found;
}

/* Weights that the optimizer steps would be float16, and the job wants them so. */
static bool wants_fp16_trainables(const struct precision_request *request)
{
    bool half =
        request->model_dtype == DTYPE_FLOAT16 ||
        (request->model_dtype == DTYPE_AUTO && request->checkpoint == FORMAT_FP16);

    return request->policy == POLICY_NOSCALER && request->all_trainable && half;
}

static struct decision decide(const struct precision_request *request,
                              const struct device *device)
{
    bool bf16 = device_has_bf16(device);

    if (request->policy == POLICY_FP32)
        return in_fp32(request, device, "policy fp32");
    if (wants_fp16_trainables(request))
        return (struct decision) { MODE_FP16_PURE, "policy noscaler: steps below half "
                                                   "an ulp of float16 are lost" };
    if (request->pure_bf16 && bf16)
        return (struct decision) { MODE_BF16_PURE, "pure_bf16: a memory mode" };
    if (request->pure_bf16)
        return without_bf16(device);
    if (request->bf16 == CHOICE_YES && bf16)
        return (struct decision) { MODE_BF16_MIXED, "" };
    if (request->fp16 == CHOICE_YES)
        return (struct decision) { MODE_FP16_MIXED, "" };
    if (request->fp8 && device_has_fp8(device))
        return (struct decision) { MODE_BF16_MIXED, "fp8: true" };
    if (request->bf16 == CHOICE_YES)
        return without_bf16(device);
    if (request->bf16 == CHOICE_AUTO || request->fp16 == CHOICE_AUTO)
        return automatic(request, device);
    return in_fp32(request, device, "");
}

static void scale(const struct precision_request *request, struct precision *out)
{
    out->scaling = SCALING_NONE;
    out->loss_scale = 1;
    if (out->mode != MODE_FP16_MIXED || request->loss_scaling == CHOICE_NO)
        return;
    out->scaling = request->loss_scaling == CHOICE_YES ? SCALING_STATIC : SCALING_DYNAMIC;
    out->loss_scale = request->loss_scale > 0 ? request->loss_scale : SCALER_START;
}

static void explain(const char *why, struct precision *out)
{
    char scaling[64] = "", clipping[48];

    if (out->scaling != SCALING_NONE)
        snprintf(scaling, sizeof scaling, ", %s loss scale%s %g",
                 scaling_names[out->scaling],
                 out->scaling == SCALING_DYNAMIC ? " from" : "", out->loss_scale);
    if (out->max_grad_norm > 0)
        snprintf(clipping, sizeof clipping, ", gradients clipped to norm %g",
                 out->max_grad_norm);
    else
        snprintf(clipping, sizeof clipping, ", no clipping");
    snprintf(out->message, sizeof out->message, "%s%s%s%s%s%s%s", modes[out->mode].words,
             out->fp8 ? ", with fp8 products" : "", scaling, clipping, *why ? " (" : "",
             why, *why ? ")" : "");
}

void policy_decide(const struct precision_request *request, const struct device *device,
                   struct precision *out)
{
    struct decision decision = decide(request, device);

    *out = (struct precision) {
        .mode = decision.mode,
        .compute = modes[decision.mode].compute,
        .trainable = modes[decision.mode].trainable,
        .has_frozen = request->has_frozen,
        .max_grad_norm = request->policy == POLICY_NOCLIP ? 0 : request->max_grad_norm,
    };
    /* A frozen weight is only ever an operand of a product, so it is kept as products
     * want it: casting it once at the start is what autocast does at each use. */
    out->frozen = out->compute == FORMAT_TF32 ? FORMAT_FP32 : out->compute;
    out->fp8 = request->fp8 && out->mode == MODE_BF16_MIXED && device_has_fp8(device);
    scale(request, out);
    explain(decision.why, out);
}
