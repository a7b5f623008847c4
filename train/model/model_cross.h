/*
 * train/model/model_cross.h - private to model*.c: cross-attention of the rows of a text to
 * those of its images (train/model/cross_layers.h).
 *
 * A text is divided where a group of adjacent image tokens starts.  The rows from there to
 * the next group see the rows of the group's images; the token of an image of the group
 * sees those up to that image.  Rows before the first image of a text see nothing: such a
 * layer does not change them, as in torchtune.  transformers lets their attention see all
 * rows of the batch, also of images that are not there, and only masks their MLP.
 */
#ifndef TRAIN_MODEL_MODEL_CROSS_H
#define TRAIN_MODEL_MODEL_CROSS_H

#include "train/model/model_internal.h"

/* Of a model with such layers; NULL: it has none. */
struct cross_state *model_cross_new(const struct model *model);
void model_cross_free(struct cross_state *state); /* NULL is allowed */

/* Upload which rows of images the rows of a batch see; the rows are in BUFFER_MEDIA_ROWS,
 * `used` of them. */
void model_cross_upload(const struct pass *pass, const struct batch *batch, size_t used);
/* After the upload of a prompt: remember which rows of its images the rows after it see.
 * Before a step of all slots: upload that. */
void model_cross_started(const struct pass *pass);
void model_cross_decode(const struct pass *pass);
/* Return how many sequences the last upload made of the batch; 0 without such layers. */
size_t model_cross_parts(const struct model *model);
/* Return how many rows of images it had. */
size_t model_cross_rows(const struct model *model);

/* Return whether a pass leaves a block out: one with cross-attention, if no text has an
 * image. */
static inline bool model_cross_skips(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;

    return m->blocks[layer].crosses && (pass->decoding ? !m->media : !pass->media);
}

/* Run attention, from the queries in BUFFER_QKV to BUFFER_ATT; and from the gradient of its
 * output to that of the queries in BUFFER_DQKV, and to the layers of keys and values. */
void model_cross_run(const struct pass *pass, size_t layer);
void model_cross_backward(const struct pass *pass, size_t layer, struct tensor datt);
/* After all layers: replace the rows of images by their gradients, if these are needed. */
void model_cross_rows_backward(const struct pass *pass);
/* Write the output of layer o, or down, x, times the tanh of its gate; and back: write the
 * gradient of x. */
void model_cross_gate(const struct pass *pass, size_t layer, bool o, struct tensor x,
                      struct tensor out);
void model_cross_gate_backward(const struct pass *pass, size_t layer, bool o,
                               struct tensor dout, struct tensor dx);
/* A micro-batch leaves the block out: it has no gradients. */
void model_cross_skip_backward(const struct pass *pass, size_t layer);

#endif
