/*
 * patcher/rules/stored_weights.h - the format in which a run stores each part of its
 * weights, and the consequences for the loss scaler and the optimizer.  All rules, the plan
 * and the memory estimate use it.
 */
#ifndef PATCHER_RULES_STORED_WEIGHTS_H
#define PATCHER_RULES_STORED_WEIGHTS_H

#include "patcher/rules/rules.h"

enum weights_part {
    WEIGHTS_ALL,      /* every weight, or some layers of the model: full, freeze */
    WEIGHTS_ADAPTERS, /* LoRA */
    WEIGHTS_WHOLE,    /* modules trained whole next to adapters: modules_to_save */
    WEIGHTS_PARTS
};

struct stored_weights {
    /* FORMAT_FP16, FORMAT_BF16, or FORMAT_FP32: no autocast */
    enum format autocast;
    bool scaler; /* the loss is scaled, and the scaler checks each gradient */
    /* FSDP1's scaler accepts float16 gradients (torch/distributed/fsdp/
     * sharded_grad_scaler.py) */
    bool scaler_allows_float16;
    /* of the matmuls: the format of autocast, else of the weights */
    enum format compute;
    enum format base; /* as loaded; in a quantized model, of the other weights */
    /* what the optimizer updates; FORMAT_COUNT: the run does not train this part */
    enum format parts[WEIGHTS_PARTS];
    enum format trained; /* the narrowest part */
    /* false: an unknown version or unknown files decide, and the formats of the trained parts
     * or of the base are those of the newest version */
    bool known, base_known;
    /* the reasons for the formats, as phrases */
    const char *autocast_source, *base_source, *trained_source;
    const char *whole_key; /* the key that names WEIGHTS_WHOLE, or NULL */
};

/* Decide the formats for this request.  It may differ from the request of the job, to find the
 * result of an edit. */
struct stored_weights stored_weights_of(const struct rule_context *context,
                                        const struct precision_request *request);
/* The same for the request of the job. */
struct stored_weights stored_weights_now(const struct rule_context *context);
/* Return whether the scaler raises an error at the first step because of this part. */
bool stored_weights_stop_scaler(const struct stored_weights *weights,
                                enum weights_part part);
/* The same for any part. */
bool stored_weights_stop_any_scaler(const struct stored_weights *weights);
/* Return whether the scaler raises an error for gradients of this format. */
bool stored_weights_refuse(const struct stored_weights *weights, enum format format);
/* Return whether a format has 16 bits. */
bool stored_weights_narrow(enum format format);
/* Return whether the job computes in float32 with fp16 and bf16 off; true if that is unknown.
 * If false, *why names the format in which it computes. */
bool stored_weights_reach_float32(const struct rule_context *context, const char **why);
/* Return the mode that `plan` reports. */
enum mode stored_weights_mode(const struct rule_context *context,
                              const struct stored_weights *weights);
/* Return a clause about weights of this format that the scaler refuses. */
const char *stored_weights_refusal(enum format format);

#endif
