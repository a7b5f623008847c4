/* train/run_media.h - where the rows of features of a run's images and sounds are. */
#ifndef TRAIN_RUN_MEDIA_H
#define TRAIN_RUN_MEDIA_H

#include "base/heartbeat.h"
#include "train/dataset/dataset.h"
#include "train/media_rows.h"
#include "train/model/model_media.h"

/* The data of a run; each may be NULL. */
struct run_media_data {
    const struct dataset *train, *eval, *whole;
};

struct run_media {
    struct run_media_data data;
    bool computed;             /* by the model's own encoder, not from the user's file */
    struct features *features; /* NULL: the data are text, or they are not computed yet */
    struct trained_encoder *encoder; /* NULL: it is frozen, or not open yet */
    struct heartbeat unstopped; /* of the encoder, if other ranks wait for its step */
    struct model_media rows;    /* of them, for model_set_media */
};

/* Check that the job can use the images and sounds of its data, and that the user's file of
 * features, if there is one, is for such a model. */
bool run_media_check(const struct plan *plan, const struct model_config *config,
                     const struct run_media_data *data, struct error *err);
/* Open that file.  out->rows refers to *out. */
bool run_media_open(const struct plan *plan, const struct run_media_data *data,
                    struct run_media *out, struct error *err);
/* Without such a file, before the model takes its memory: compute the features, or find those
 * of an earlier attempt.  `how` names plan, backend and the like. */
bool run_media_compute(struct run_media *media, const struct model_config *config,
                       struct media_rows_options how, struct error *err);
/* The same for a run, once it has its backend.  All ranks call it. */
struct run;
bool run_media_encode(struct run *run, struct error *err);
/* Of a job that trains the encoder, once the model has its weights: open it. */
bool run_media_train(struct run *run, struct error *err);
/* After model_train of a batch: add the gradients of the encoder, if it is trained. */
bool run_media_backward(struct run *run, const struct batch *batch, struct error *err);
void run_media_close(struct run_media *media);

#endif
