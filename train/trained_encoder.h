/*
 * train/trained_encoder.h - the encoder that a run trains: the rows of a batch's sounds and
 * images are computed with its current weights, which are parameters of the model.
 *
 * Media are read again for each batch.  After the model's backward pass, each medium passes
 * through the encoder once more, for the gradients of its weights, so that memory is needed for
 * the activations of one medium, not of a batch.
 */
#ifndef TRAIN_TRAINED_ENCODER_H
#define TRAIN_TRAINED_ENCODER_H

#include "base/heartbeat.h"
#include "kernels/backend.h"
#include "train/dataset/dataset.h"
#include "train/model/model.h"
#include "train/model/model_media.h"
#include "train/plan.h"

struct trained_encoder;

struct trained_encoder_options {
    const struct plan *plan;
    const struct model_config *config;
    struct model *model; /* whose weights have been loaded; borrowed, as all others */
    struct heartbeat *heartbeat;
    enum media_kind kind;
    size_t rows; /* of the medium that has the most */
};

struct trained_encoder *
trained_encoder_open(const struct trained_encoder_options *options, struct error *err);
size_t trained_encoder_elements(const struct trained_encoder *encoder);
void trained_encoder_close(struct trained_encoder *encoder); /* NULL is allowed */

/* A new batch begins, maybe with other weights: forget the rows of the last one.  draw: its
 * index in the run, which selects the masks of dropout; NULL: it does not train. */
bool trained_encoder_begin(struct trained_encoder *encoder, const uint64_t *draw,
                           struct error *err);
/* Return the rows of a medium of the batch.  ERROR_DATA for a file that cannot be read or has
 * changed, ERROR_STOPPED. */
bool trained_encoder_rows(struct trained_encoder *encoder, const struct media_item *item,
                          struct feature *out, struct error *err);
/* After model_train of a batch: add the gradients of the encoder. */
bool trained_encoder_backward(struct trained_encoder *encoder, const struct batch *batch,
                              struct error *err);

#endif
