/*
 * train/tower/tower.h - an encoder of sound or images, loaded from a model's folder: from what
 * media_input.h prepares to the rows that take the place of embeddings.
 *
 * Neither rows nor gradients depend on the number of threads.
 */
#ifndef TRAIN_TOWER_TOWER_H
#define TRAIN_TOWER_TOWER_H

#include "base/digest.h"
#include "kernels/backend.h"
#include "train/media/media_input.h"
#include "train/model/encoder_list.h"
#include "train/tower/tower_adapters.h"
#include "train/tower/tower_merge.h"

struct tower;

struct tower_options {
    const char *model_dir;
    struct backend *backend; /* borrowed until tower_free */
    enum format compute;     /* of matmuls, and of the rows: FP32, FP16 or BF16 */
    enum format frozen;      /* weights are rounded to it first */
    bool project;            /* return rows after the projector, not before it */
    bool trains;             /* tower_backward follows; without `project` */
    /* the rest of the encoder is frozen then; borrowed, with all that it points to; or NULL */
    const struct tower_adapters *adapters;
    struct tower_merged merged; /* an adapter, into the weights that are loaded */
    /* of a model that trains it, by the tensors of tower_trained.h, borrowed: no weights are
     * loaded, and gradients are added to these; NULL: the encoder has its own */
    const struct encoder_weights *weights;
    struct heartbeat *heartbeat; /* ticks while it loads and runs; borrowed, or NULL */
};

/* The rows of one item; a width of 0: there are none. */
struct tower_output {
    enum format format;
    size_t count, width; /* rows, columns */
    void *rows;
    size_t deep; /* of DeepStack, as many rows each; with `project` */
    void *deep_rows[TOWER_DEEP_MAX];
    size_t deep_width;
};

/* Load the weights; the first item then decides on the memory of what is computed. */
struct tower *tower_open(const struct tower_options *options, struct error *err);
void tower_free(struct tower *tower); /* NULL is allowed */
const struct tower_config *tower_config_of(const struct tower *tower);
/* Elements of the encoder, and of its projector if it is loaded. */
size_t tower_elements(const struct tower *tower);

/* Take the memory for items of up to so many rows now, so that a run which has begun does not
 * fail at the largest. */
bool tower_reserve(struct tower *tower, size_t rows, struct error *err);
/* Compute the rows of an item; *out must be empty.  ERROR_DATA if the encoder cannot read such
 * an item, or if it is too short for a row; ERROR_STOPPED. */
bool tower_run(struct tower *tower, const struct media_input *input,
               struct tower_output *out, struct error *err);
void tower_output_clear(struct tower_output *out);

/* The gradients of the rows that tower_run returns for an item, in fp32. */
struct tower_row_gradients {
    const float *rows;
    const float *deep_rows[TOWER_DEEP_MAX];
};

/* Read again what the encoder keeps of the weights of a model on the host, which have
 * changed. */
bool tower_refresh(struct tower *tower, struct error *err);
/* Compute the rows of an item again, and add the gradients of the encoder's parameters, or only
 * those of its adapters. */
bool tower_backward(struct tower *tower, const struct media_input *input,
                    const struct tower_row_gradients *gradients, struct error *err);
/* Return the gradient of a parameter, of tower_parameters_of. */
struct tensor tower_gradient(const struct tower *tower, size_t index);
const struct tower_parameters *tower_parameters_of(const struct tower *tower);

/* Return whether the files of a folder have the encoder that its config.json describes, without
 * reading its weights.  ERROR_DATA. */
bool tower_check(const char *model_dir, bool project, struct error *err);
/* The SHA-256 of the tensors of a folder's encoder, of its projector with `project`, and of what
 * is merged into it. */
bool tower_digest(const char *model_dir, bool project, const struct tower_merged *merged,
                  struct heartbeat *heartbeat, char out[DIGEST_TEXT], struct error *err);

#endif
