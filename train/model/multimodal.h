/*
 * train/model/multimodal.h - models that also read images, sound or video: a table of how
 * their folders contain the text model.
 *
 * Only the text model is loaded and trained.  The other tensors of the files, of towers and
 * projectors, are copied when the model is saved.
 */
#ifndef TRAIN_MODEL_MULTIMODAL_H
#define TRAIN_MODEL_MULTIMODAL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "train/model/architecture.h"
#include "train/model/projector_config.h"

/* Names of the text model's tensors: the prefix of those below the head, and the head.
 * wraps: matrices of blocks are in a layer of adapters, NAME.base_layer.weight. */
struct text_names {
    const char *base, *head;
    bool wraps;
};

struct multimodal {
    const char *model_type; /* of config.json: "gemma3" */
    /* model_type of text_config, if that does not say one; with fixed_text in any case */
    const char *text_type;
    bool fixed_text;
    bool flat; /* older files have the text model's keys next to model_type */
    bool tied; /* default of tie_word_embeddings */
    /* layers of cross-attention are between the others (train/model/cross_layers.h) */
    bool crosses;
    /* first, the names that modules have in transformers 5, which PEFT saves; then those of
     * files.  base NULL ends the list. */
    const struct text_names *names;
    /* prefixes of the names of all other tensors, or parts of them that begin with a dot;
     * NULL ends the list */
    const char *const *towers;
    /* the projector in files whose names are not the first; NULL: without "model." */
    const char *projector;
};

/* Return NULL if config.json describes no such model, or one that is not supported. */
const struct multimodal *multimodal_find(const char *model_type);
/* Return the row with this index, or NULL after the last. */
const struct multimodal *multimodal_at(size_t index);

/* Return the config of the text model, as a model without towers has it; NULL on an error.
 * The caller owns the reference. */
json_t *multimodal_text(const struct multimodal *row, const json_t *root,
                        const char *file, struct error *err);
/* Return the text model's architecture with the names of modules that it has here. */
const struct architecture *
multimodal_architecture(const struct multimodal *row, const struct architecture *text,
                        const struct projector_config *projector, struct arena *arena);
/* Return whether a tensor of the files belongs to a tower or projector. */
bool multimodal_is_tower(const struct multimodal *row, const char *name);
/* Return the start of the names of a projector's tensors in files whose text model has these
 * names. */
const char *multimodal_projector(const struct multimodal *row,
                                 const struct text_names *names, const char *path);

#endif
