/*
 * train/model/expert_adapters.h - adapters on the parameters that have the matrices of all
 * experts of a block: PEFT's target_parameters (ParamWrapper in tuners/lora/layer.py).
 *
 * transformers 5 has two of them, gate_up_proj and down_proj.  Of E matrices (out, in), the
 * adapter is
 *
 *     A (E r, in)    B (out, E r)    expert e: W_e + scale B_e A_e
 *
 * where A_e is rows e r to (e + 1) r - 1 of A, and column j of B_e is column j E + e of B.
 * Gate and up are rows of one matrix, so they share A_e.  The model has A as it is, and B as
 * (E out, r): the rows of B_0, then those of B_1.  Both are stacks for a grouped matmul.
 *
 * PEFT takes the matrices of Llama 4, which are (in, out), for (out, in).  There, B_e A_e is
 * the transpose of what it is elsewhere, and the input is multiplied by B_e first.
 */
#ifndef TRAIN_MODEL_EXPERT_ADAPTERS_H
#define TRAIN_MODEL_EXPERT_ADAPTERS_H

#include <jansson.h>

#include "base/text.h"
#include "train/model/lora.h"
#include "train/model/model_config.h"
#include "train/model/shapes.h"

/* A or B, as the model has it: a matrix for each expert. */
struct expert_adapter {
    size_t rows, cols;   /* of all matrices, one after another */
    size_t outer;        /* of one, the side that is not the rank */
    bool reads;          /* multiplies the input of the experts' layer */
    bool transposed;     /* the matrices are [in][out] */
    enum storage stored; /* how files have it */
};

/* `module` is MODULE_EXPERT_GATE, which stands for gate and up, or MODULE_EXPERT_DOWN. */
struct expert_adapter expert_adapter_of(const struct model_config *config,
                                        const struct lora *lora, enum module module,
                                        enum part part);
/* Return whether the experts of a block have it. */
bool expert_adapters_in(const struct lora *lora, enum module module, size_t layer);

/* Append the name of the parameter, "model.layers.0.mlp.experts.gate_up_proj", and of the
 * layer that PEFT makes of it, "model.layers.0.mlp.experts.base_layer". */
void expert_adapters_parameter(const struct architecture *architecture,
                               enum module module, size_t layer, struct text *out);
void expert_adapters_layer(const struct architecture *architecture,
                           const struct lora *lora, enum module module, size_t layer,
                           struct text *out);

/* Where names of parameters are from, for messages. */
struct expert_targets {
    const struct model_config *config;
    const char *key; /* "lora_target_parameters" */
    enum error_code code;
};

/* Mark the parameters with these names, or ends of names, separated by commas. */
bool expert_adapters_mark(const struct expert_targets *targets, const char *names,
                          struct lora *out, struct error *err);
/* Return them as names for target_parameters, or null. */
json_t *expert_adapters_names(const struct architecture *architecture,
                              const struct lora *lora);

#endif
