/*
 * train/model/model_mixers.h - private to model*.c: what blocks have in place of attention,
 * and the gate of attention.
 */
#ifndef TRAIN_MODEL_MODEL_MIXERS_H
#define TRAIN_MODEL_MODEL_MIXERS_H

#include "train/model/model_internal.h"

/* Return the rows of a cache, `each` of them for a sequence, that this pass continues or
 * begins; absent: it has none. */
struct tensor model_cached_rows(const struct pass *pass, enum buffer buffer, size_t layer,
                                size_t each);
/* model_delta.c.  Run linear attention, from BUFFER_QKV to BUFFER_ATT. */
void model_run_delta(const struct pass *pass, size_t layer);
/* What the output of attention is multiplied by, or its gradient. */
struct gate_of {
    struct tensor gate;
    enum activation kind;
};
struct gate_of model_gate_of(const struct pass *pass, size_t layer, enum buffer buffer);
/* Return the output of attention as the next layer reads it: normalized and multiplied by
 * its gate, if it has one. */
struct tensor model_gate_attention(const struct pass *pass, size_t layer);
/* Back through that: return the gradient of the output of attention, or, of linear
 * attention, of its normalized output.  What the next layer read overwrites datt if that
 * layer is trained. */
struct tensor model_gate_backward(const struct pass *pass, size_t layer,
                                  struct tensor datt);
/* Back through linear attention and its norm, in place, to BUFFER_DQKV. */
void model_delta_backward(const struct pass *pass, size_t layer, struct tensor dout);
/* model_conv.c.  Run a short convolution, from BUFFER_QKV to BUFFER_ATT; and from the
 * gradient of its output to BUFFER_DQKV. */
void model_run_conv(const struct pass *pass, size_t layer);
void model_conv_backward(const struct pass *pass, size_t layer, struct tensor dout);
/* model_scan.c.  Run a state space model, from BUFFER_QKV to BUFFER_SCAN.  Return what its
 * last layer reads, in BUFFER_GATED; from the gradient of that, which is overwritten, to
 * BUFFER_DQKV. */
void model_run_scan(const struct pass *pass, size_t layer);
struct tensor model_scan_output(const struct pass *pass, size_t layer);
void model_scan_backward(const struct pass *pass, size_t layer, struct tensor dout);
/* Multiply the columns of the first layers' output, or of its gradient, by their factors. */
void model_scale_inputs(const struct pass *pass, struct tensor x);

#endif
