/*
 * train/model/lora.h - adapters on any linear layer of the blocks, in PEFT's names and files.
 * Y = X W^T + scale (dropout(X) A^T) B^T,  A (r, in), B (out, r), scale alpha / r, or
 * alpha / sqrt(r) with rslora.  Hu et al., "LoRA", 2021; Kalajdzievski, "rsLoRA", 2023.
 */
#ifndef TRAIN_MODEL_LORA_H
#define TRAIN_MODEL_LORA_H

#include "base/text.h"
#include "train/model/architecture.h"
#include "train/plan.h"

struct lora {
    size_t rank; /* 0: no adapters */
    double alpha, dropout, scale;
    bool rslora;
    bool adapted[MODULES];
    bool saved[MODULES]; /* trained whole beside the adapters: additional_target */
    bool tied; /* of these, embedding and head are one; for lora_write_config alone */
};

/*
 * What the plan wants, or, where it goes on with an adapter (adapter_name_or_path without
 * create_new_adapter), what that adapter's adapter_config.json says.  Zero unless the
 * method is LoRA.  ERROR_JOB for a target that is no linear layer, ERROR_DATA for an
 * adapter whose kind is not supported.
 */
bool lora_read(const struct plan *plan, const struct architecture *architecture,
               struct lora *out, struct error *err);
/* The same from an adapter's folder. */
bool lora_read_config(const char *dir, const struct architecture *architecture,
                      struct lora *out, struct error *err);
/* adapter_config.json for `base`, the folder of the model it is for. */
bool lora_write_config(const struct lora *lora, const struct architecture *architecture,
                       const char *base, struct text *out);

#endif
