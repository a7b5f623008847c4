/*
 * precision/policy.h - decide formats, loss scaling and clipping from a request and a
 * device, with the reason for each choice.  This code decides and gives reasons; the
 * patcher compares and edits.
 */
#ifndef PRECISION_POLICY_H
#define PRECISION_POLICY_H

#include "precision/device.h"
#include "precision/format.h"

enum policy {
    POLICY_SOUND,    /* fp32 trainables, 16-bit compute, clipping kept */
    POLICY_BF16,     /* sound, with bf16 wherever the device has it */
    POLICY_FP32,     /* everything in fp32 */
    POLICY_NOCLIP,   /* sound, clipping off */
    POLICY_NOSCALER, /* float16 trainables without a scaler: mode fp16-pure */
    POLICY_REPORT,   /* never edit */
    POLICY_COUNT
};
extern const char *const policy_names[POLICY_COUNT];

enum choice { CHOICE_NO, CHOICE_YES, CHOICE_AUTO };
enum dtype { DTYPE_AUTO, DTYPE_FLOAT32, DTYPE_FLOAT16, DTYPE_BFLOAT16 };
extern const char *const dtype_names[4]; /* auto float32 float16 bfloat16 */
enum scaling { SCALING_NONE, SCALING_STATIC, SCALING_DYNAMIC };
extern const char *const scaling_names[3];

enum mode {
    MODE_FP32,
    MODE_TF32,
    MODE_FP16_MIXED,
    MODE_BF16_MIXED,
    MODE_BF16_PURE,
    MODE_FP16_PURE,
    MODE_COUNT
};
extern const char *const mode_names[MODE_COUNT]; /* as `plan --json` says */

/* The request of a job. */
struct precision_request {
    enum choice fp16, bf16, tf32;
    bool pure_bf16;
    bool fp8;
    enum dtype model_dtype;
    enum format checkpoint; /* format of the model's files (of most of their bytes) */
    bool all_trainable;     /* finetuning_type full */
    bool has_frozen;        /* lora, freeze */
    /* AUTO: dynamic for fp16; NO: `loss_scale: none`; YES: static */
    enum choice loss_scaling;
    /* the static scale, or the initial dynamic one; 0: default */
    double loss_scale;
    double max_grad_norm; /* 0: off */
    enum policy policy;
};

/* The decision: the formats of the run. */
struct precision {
    enum mode mode;
    enum format compute; /* matmuls and stored activations */
    /* weights the optimizer updates, their gradients and moments */
    enum format trainable;
    bool has_frozen;
    enum format frozen; /* storage of frozen weights, if any */
    enum scaling scaling;
    double loss_scale;    /* initial scale; 1 without scaling */
    double max_grad_norm; /* 0: off; the norm is still logged */
    /* the blocks' linear layers multiply in 8 bits; only with bf16-mixed */
    bool fp8;
    char message[256]; /* one sentence: the choice and its reason */
};

/*
 * The device limits the request: bf16 is not chosen below 8.0, fp16 on a CPU only if the
 * job insists (fp16 CHOICE_YES).  Trainables are fp32 except with pure_bf16 and
 * POLICY_NOSCALER. Never fails: an unavailable choice is replaced with the nearest sound
 * one, explained in message.
 */
void policy_decide(const struct precision_request *request, const struct device *device,
                   struct precision *out);

#endif
