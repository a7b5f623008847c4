/*
 * train/model/encoder_adapters.h - which linear layers of an encoder of images or sounds have
 * adapters, by their paths in transformers: "model.visual.blocks.0.attn.qkv".
 */
#ifndef TRAIN_MODEL_ENCODER_ADAPTERS_H
#define TRAIN_MODEL_ENCODER_ADAPTERS_H

#include "base/text.h"
#include "train/files/safetensors.h"
#include "train/model/encoder_list.h"
#include "train/model/lora.h"

/* Mark all that can have adapters. */
void encoder_adapters_all(const struct encoder_list *encoder, struct lora *out);
/* Mark those whose paths contain one of the names, which commas separate: as LLaMA-Factory reads
 * lora_target (patch_target_modules in model/model_utils/visual.py). */
void encoder_adapters_mark(const struct encoder_list *encoder, const char *names,
                           struct lora *out);
/* Return whether a path of the encoder contains the name. */
bool encoder_adapters_named(const struct encoder_list *encoder, const char *name,
                            size_t len);
/* Mark one; or none. */
void encoder_adapters_add(size_t index, struct lora *out);
void encoder_adapters_clear(struct lora *out);

/* Append an alternative of a regular expression for each kind of layer that has adapters, after
 * `separator`. */
void encoder_adapters_pattern(const struct encoder_list *encoder, const struct lora *lora,
                              const char *separator, struct text *out);

/* The two matrices of a layer's adapter in a file. */
struct encoder_stored {
    const struct stored_tensor *a, *b;
};

/* Find those of layer `index`, which has an adapter.  ERROR_DATA if one is missing or has another
 * shape; err may be NULL. */
bool encoder_adapters_stored(const struct safetensors *files,
                             const struct model_config *config, const struct lora *lora,
                             size_t index, struct encoder_stored *out, struct error *err);
/* Return whether a tensor of the file is one of these. */
bool encoder_adapters_reads(const struct safetensors *files,
                            const struct model_config *config, const struct lora *lora,
                            const struct stored_tensor *tensor);
/* values (rows, cols) of a layer += scale B A, a (rank, cols), b (rows, rank) */
void encoder_adapters_merge(const struct encoder_tensor *layer, const struct lora *lora,
                            const float *a, const float *b, float *values);
/* Fail for a kind of adapters that is not merged into encoders; `dir` is the adapter's. */
bool encoder_adapters_can_merge(const struct lora *lora, const char *dir,
                                struct error *err);

/* Return whether a tensor of an adapter's file is in a block of the encoder. */
bool encoder_adapters_has(const struct encoder_list *encoder, const char *name);
/* Return whether it is on a layer of the encoder whose output is not
 * read, such as the last one of LLaVA's: it has no effect. */
bool encoder_adapters_unread(const struct encoder_list *encoder, const char *name);

#endif
