/* train/model/model_pissa.h - adapters that start as the principal part of their weights
 * (PiSSA); for model*.c only. */
#ifndef TRAIN_MODEL_MODEL_PISSA_H
#define TRAIN_MODEL_MODEL_PISSA_H

#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

/* The initial adapter of a layer: a (r, in), b (out, r), in the model's arena. */
struct pissa {
    float *a, *b;
};

/*
 * Return that of a matrix of the base, computed from its files at the first call; NULL if
 * that failed.  merged: for the adapter that is merged into the base, instead of that which
 * is trained.
 */
const struct pissa *model_pissa(const struct model *m, const struct parameter *p,
                                bool merged, struct error *err);
/* Return whether such an adapter changes the parameter of the base. */
bool model_pissa_changes(const struct model *m, const struct parameter *p, bool merged);
/* Subtract what the initial adapter adds to rows of a parameter, if there is one. */
bool model_pissa_subtract(const struct model *m, const struct model_rows *rows,
                          bool merged, struct error *err);
/* Return the initial adapter of the layer that a parameter belongs to, which has been
 * computed. */
const struct pissa *model_pissa_start(const struct model *m, size_t index);

#endif
