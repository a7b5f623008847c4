/*
 * train/media_rows.h - rows of features of a run's sounds and images, computed by the
 * encoder of its model and kept in the run's folder.
 *
 * The encoder is frozen, so the rows are constants of a job: they are computed once, before the
 * model is loaded, and the encoder's memory is free when training begins.  A later attempt of
 * the same job, or a job with other data and the same encoder, computes only what is missing.
 */
#ifndef TRAIN_MEDIA_ROWS_H
#define TRAIN_MEDIA_ROWS_H

#include "base/digest.h"
#include "kernels/backend.h"
#include "train/dataset/dataset.h"
#include "train/media/features.h"

enum { MEDIA_ROWS_DATA_MAX = 3 };

struct media_rows_options {
    const struct plan *plan;
    const struct model_config *config; /* of the model */
    struct backend *backend;
    const struct backend_group *group; /* rank 0 computes; the others wait */
    struct log *log;
    struct heartbeat *heartbeat;
    bool project; /* rows after the projector, not before it */
    const struct dataset *data[MEDIA_ROWS_DATA_MAX]; /* each may be NULL */
};

/* Compute the rows that are missing, and open all.  ERROR_DATA for a file that cannot be read or
 * has changed since the data were, ERROR_STOPPED. */
struct features *media_rows_open(const struct media_rows_options *options,
                                 struct error *err);
/* The key of an item in these features. */
void media_rows_key(const struct media_item *item, char key[DIGEST_TEXT]);

#endif
