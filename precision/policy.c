/* precision/policy.c - decide the precision of a run from the request and the device. */
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

/* As in `plan --json`. */
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
    [MODE_TF32] = { FORMAT_TF32, FORMAT_FP32, "fp32, tf32 matmuls" },
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
    /* why it differs from the request, or what auto found; "" if neither */
    const char *why;
};

/* Return the best mode of a device without bf16: fp16 mixed or fp32. */
static struct decision decide_without_bf16(const struct device *device)
{
    if (device->kind == DEVICE_CUDA && device_has_fp16_tensor_cores(device))
        return (struct decision) { MODE_FP16_MIXED,
                                   "compute capability below 8.0 has no bf16; fp16 uses "
                                   "its tensor cores" };
    if (device->kind == DEVICE_OTHER)
        return (struct decision) { MODE_FP32,
                                   "bf16 is not known to work on this device" };
    return (struct decision) { MODE_FP32,
                               "this device has neither bf16 nor fp16 tensor cores" };
}

static struct decision decide_fp32(const struct precision_request *request,
                                   const struct device *device, const char *why)
{
    bool tf32 = request->tf32 == CHOICE_YES && device_has_tf32(device);

    return (struct decision) { tf32 ? MODE_TF32 : MODE_FP32, why };
}

/* Handle bf16: auto or fp16: auto with no explicit request. */
static struct decision decide_auto(const struct precision_request *request,
                                   const struct device *device)
{
    if (device->kind == DEVICE_CPU)
        return decide_fp32(request, device,
                           "auto selects fp32 on a CPU; set bf16: true for bf16");
    if (request->bf16 == CHOICE_AUTO && device_has_bf16(device))
        return (struct decision) { MODE_BF16_MIXED, "auto: this device has bf16" };
    struct decision found = decide_without_bf16(device);

    if (found.mode == MODE_FP32)
        return decide_fp32(request, device, found.why);
    return found;
}

/* Return whether the job insists on float16 weights for the optimizer to update. */
static bool has_fp16_trainables(const struct precision_request *request)
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
        return decide_fp32(request, device, "policy fp32");
    if (has_fp16_trainables(request))
        return (struct decision) { MODE_FP16_PURE, "policy noscaler: float16 loses "
                                                   "updates below half an ulp" };
    if (request->pure_bf16 && bf16)
        return (struct decision) { MODE_BF16_PURE, "pure_bf16 saves memory" };
    if (request->pure_bf16)
        return decide_without_bf16(device);
    if (request->bf16 == CHOICE_YES && bf16)
        return (struct decision) { MODE_BF16_MIXED, "" };
    if (request->fp16 == CHOICE_YES)
        return (struct decision) { MODE_FP16_MIXED, "" };
    if (request->fp8 && device_has_fp8(device))
        return (struct decision) { MODE_BF16_MIXED, "fp8: true" };
    if (request->bf16 == CHOICE_YES)
        return decide_without_bf16(device);
    if (request->bf16 == CHOICE_AUTO || request->fp16 == CHOICE_AUTO)
        return decide_auto(request, device);
    return decide_fp32(request, device, "");
}

static void set_scaling(const struct precision_request *request, struct precision *out)
{
    out->scaling = SCALING_NONE;
    out->loss_scale = 1;
    if (out->mode != MODE_FP16_MIXED || request->loss_scaling == CHOICE_NO)
        return;
    out->scaling = request->loss_scaling == CHOICE_YES ? SCALING_STATIC : SCALING_DYNAMIC;
    out->loss_scale = request->loss_scale > 0 ? request->loss_scale : SCALER_START;
}

static void write_message(const char *why, struct precision *out)
{
    char scaling[64] = "", clipping[48];

    if (out->scaling != SCALING_NONE)
        snprintf(scaling, sizeof(scaling), ", %s loss scale%s %g",
                 scaling_names[out->scaling],
                 out->scaling == SCALING_DYNAMIC ? " starting at" : "", out->loss_scale);
    if (out->max_grad_norm > 0)
        snprintf(clipping, sizeof(clipping), ", gradients clipped to norm %g",
                 out->max_grad_norm);
    else
        snprintf(clipping, sizeof(clipping), ", no clipping");
    snprintf(out->message, sizeof(out->message), "%s%s%s%s%s%s%s", modes[out->mode].words,
             out->fp8 ? ", fp8 matmuls" : "", scaling, clipping, *why ? " (" : "", why,
             *why ? ")" : "");
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
    /* A frozen weight is only ever a matmul operand, so it is stored in the matmul
     * format: casting it once at the start has the same effect as autocast's cast at each
     * use. */
    out->frozen = out->compute == FORMAT_TF32 ? FORMAT_FP32 : out->compute;
    out->fp8 = request->fp8 && out->mode == MODE_BF16_MIXED && device_has_fp8(device);
    set_scaling(request, out);
    write_message(decision.why, out);
}
