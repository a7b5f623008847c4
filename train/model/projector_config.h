/*
 * train/model/projector_config.h - the layers between an encoder and the language model: a
 * norm, a layer that merges patches, and one linear layer or two with an activation between
 * them, or with a norm, an activation and a gated layer.
 */
#ifndef TRAIN_MODEL_PROJECTOR_CONFIG_H
#define TRAIN_MODEL_PROJECTOR_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "kernels/ops.h"
#include "train/model/architecture.h"

struct projector_config {
    const char *path; /* "model.multi_modal_projector"; NULL: it cannot be trained */
    /* names of its layers below that; NULL: it has none.  There is always a last one, and
     * "" is the projector itself */
    const char *norm, *merge, *first, *middle_norm, *gate, *up, *last;
    size_t in;        /* elements of the encoder's output that make a row */
    size_t norm_size; /* of these, a norm's; a divisor of in */
    size_t patches;   /* of these, the patches that a row has; files have the columns of
                       * `merge` by channel, then by patch (torch's unfold) */
    size_t merged;    /* columns after `merge` */
    size_t inner;     /* columns after the first linear layer */
    size_t gated;     /* columns of the gated layer */
    enum norm_kind norm_kind;
    double norm_eps;
    /* transformers' Trainer recognizes it as a norm neither by its class nor by its name */
    bool norm_decays;
    enum activation activation, gate_activation;
    bool biased;       /* first and last */
    bool follows_text; /* in named_parameters() of torch */
    bool bare; /* the last is a parameter of the projector, [in][out], not a layer */
};

/* Read it from the config.json of a whole model, whose language model has `hidden`
 * columns. */
void projector_config_read(const char *model_type, const json_t *root, size_t hidden,
                           const char *file, struct projector_config *out,
                           struct error *err);

/* Return the last part of the path of a projector, which names it in additional_target. */
const char *projector_config_leaf(const char *path);
/* Return the path of a module of a projector, which exists, in `out`; NULL: the projector
 * has no such module. */
const char *projector_config_name(const struct projector_config *config,
                                  enum module module);

#endif
