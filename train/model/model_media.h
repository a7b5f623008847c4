/*
 * train/model/model_media.h - rows of features of images and sounds, in place of the
 * embeddings of their tokens.
 *
 * The rows of a batch are uploaded with its tokens.  After the embeddings, which they
 * replace, they are part of the residual as all rows are; the gradients of the embeddings
 * of media tokens are 0.  Model, teacher and reference each have their own.
 */
#ifndef TRAIN_MODEL_MODEL_MEDIA_H
#define TRAIN_MODEL_MODEL_MEDIA_H

#include "kernels/tensor.h"
#include "train/dataset/dataset.h"
#include "train/media/features.h"
#include "train/model/shapes.h"

struct model;
struct op_attention;
struct pass;

/* Where the rows come from, borrowed.  feature returns those of one medium of a batch, after
 * begin (or NULL) of the batch, whose draw is that of model_train; NULL: it does not train. */
struct model_media {
    bool (*feature)(const void *context, const struct media_item *item,
                    struct feature *out, struct error *err);
    const void *context;
    bool (*begin)(const void *context, const uint64_t *draw, struct error *err);
};

/* Set it before the first batch with media; the model was made with media_rows_max. */
void model_set_media(struct model *model, const struct model_media *media);

/* The gradients, in fp32, of the rows that a feature has: an array for each. */
struct model_media_gradients {
    float *rows, *deep[4];
};

/* Of a model whose encoder is trained, after model_train of a batch with it: wait for that
 * pass, and download those of one of its media. */
bool model_media_gradients(const struct model *model, const struct batch_medium *medium,
                           struct model_media_gradients *out, struct error *err);

/*
 * ---- For model*.c ----
 */

/* Of a model whose batches have media. */
struct media_state;
struct media_state *model_media_new(const struct model *model);
void model_media_free(struct media_state *state); /* NULL is allowed */

/* Check and upload the rows of a batch, and where they are. */
bool model_media_upload(const struct pass *pass, const struct batch *batch,
                        struct error *err);
/* Return the table of angles that rows turn by, `angles` in passes of text, and the buffer
 * with the row of each in it. */
enum buffer model_media_angles(const struct pass *pass, enum buffer angles);
enum buffer model_media_positions(const struct pass *pass);
/* Let rows of images see each other. */
void model_media_see(const struct pass *pass, struct op_attention *op);
/* After the upload of a prompt: remember which position follows it in its slot.  Before a
 * step of all slots: upload the positions of these rows. */
void model_media_started(const struct pass *pass, const struct batch *prompt);
void model_media_decode(const struct pass *pass, const int32_t *lengths);
/* Replace rows of the embeddings x; set the gradients of these rows to 0. */
void model_media_embed(const struct pass *pass, struct tensor x);
void model_media_embed_backward(const struct pass *pass, struct tensor dx);
/* Add what follows a layer to its rows of `delta`, which is added to the residual; and, if
 * the encoder is trained, keep the gradients of these rows. */
void model_media_add(const struct pass *pass, size_t layer, struct tensor delta);
void model_media_add_backward(const struct pass *pass, size_t layer);

#endif
