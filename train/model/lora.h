/*
 * train/model/lora.h - adapters on linear layers of the blocks, with PEFT's names and
 * files. Y = X W^T + scale (dropout(X) A^T) B^T, A (r, in), B (out, r), scale alpha / r,
 * or alpha / sqrt(r) with rslora. Hu et al., "LoRA", 2021; Kalajdzievski, "rsLoRA", 2023.
 */
#ifndef TRAIN_MODEL_LORA_H
#define TRAIN_MODEL_LORA_H

#include "base/text.h"
#include "train/model/architecture.h"
#include "train/model/model_config.h"
#include "train/model/rotation.h"
#include "train/plan.h"

/* Tensors of an encoder. */
enum { LORA_ENCODER_MAX = 4096 };

struct lora {
    size_t rank; /* 0: no adapters, or those that rotate */
    double alpha, dropout, scale;
    bool rslora;
    bool dora;                /* weight-decomposed: model_dora.c */
    bool pissa;               /* starts as a part of the weights: model_pissa.c */
    struct rotation rotation; /* orthogonal: model_rotation.c */
    bool adapted[MODULES];
    /* by layer of the config, whether it has adapters: those of cross-attention; NULL: all */
    const bool *only;
    size_t layers; /* in that list */
    /* adapters of experts are on the parameters that have the matrices of all of them
     * (train/model/expert_adapters.h): by block, and in all blocks with experts, a bit for
     * each of MODULE_EXPERT_GATE, which stands for gate and up, and MODULE_EXPERT_DOWN */
    bool joined;
    unsigned char joined_in[MODEL_LAYERS_MAX], joined_everywhere;
    /* trained as a whole in addition to the adapters: additional_target */
    bool saved[MODULES];
    /* on layers of the encoder, by the list of the config; and how many they are */
    bool encoder[LORA_ENCODER_MAX];
    size_t encoder_count;
    bool names_projector; /* its targets do; it has no adapters */
    /* only for lora_write_config: saved embedding and head are one matrix; no layer has the
     * module, so that its name is free */
    bool tied, absent[MODULES];
    const struct encoder_list *encoder_list; /* the same: that of the config */
    bool
        classifies; /* the same: the model is transformers' ...ForSequenceClassification */
};

#define LORA_RANK_MAX 4096

/* Return whether a module of a block has an adapter there. */
static inline bool lora_is_on(const struct lora *lora, enum module module, size_t layer)
{
    return lora->adapted[module] &&
           (!lora->only || (module_in_block(module) && lora->only[layer]));
}

/*
 * Read the plan's settings or, if it continues an adapter (adapter_name_or_path without
 * create_new_adapter), the adapter's adapter_config.json (train/model/lora_config.h).
 * Zero unless the method is LoRA.  Only architecture and layers of `config` are read.
 * ERROR_JOB for a target that is not a linear layer, ERROR_DATA for an adapter of a kind
 * that is not supported.
 */
bool lora_read(const struct plan *plan, const struct model_config *config,
               struct lora *out, struct error *err);
/* Write an adapter_config.json; `base` is the folder of the base model. */
bool lora_write_config(const struct lora *lora, const struct architecture *architecture,
                       const char *base, struct text *out);

#endif
