/* train/model/model_load.h - private to model_load*.c: tensors of files -> parameters. */
#ifndef TRAIN_MODEL_MODEL_LOAD_H
#define TRAIN_MODEL_MODEL_LOAD_H

#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

/* Room for a span in fp32 and in its storage format. */
struct model_loader {
    struct model *model;
    float *values;
    void *packed;
};

static inline bool model_is_adapter(const struct shape_parameter *p)
{
    return p->part >= PART_LORA_A;
}

/* Check that a stored tensor has the shape of a parameter. */
bool model_check_shape(const struct stored_tensor *t, const struct parameter *p,
                       struct error *err);
/* Read elements of a stored tensor in fp32. */
bool model_read_stored(const struct stored_tensor *t, size_t first, size_t count,
                       float *out, struct error *err);
/* Read rows of a parameter, or of an adapter's B that is stored like it, in fp32. */
bool model_read_rows(const struct matrix_layout *layout, const struct stored_tensor *t,
                     const struct model_rows *rows, struct error *err);
/* The same for the tensor of a parameter; a vector is read as a whole. */
bool model_read_parameter(const struct model *m, const struct stored_tensor *t,
                          const struct model_rows *rows, struct error *err);
/* Load a whole stored tensor into a parameter. */
bool model_load_stored(const struct model_loader *l, const struct stored_tensor *t,
                       const struct parameter *p, struct error *err);

/* model_load_adapter.c: open the adapter that is merged into the base or stays separate,
 * if the plan has one. */
bool model_open_merged(struct model *m, struct error *err);
/* Add the adapter that create_new_adapter merges into the base. */
bool model_add_merged(const struct model *m, const struct model_rows *rows,
                      struct error *err);
/* Load an adapter that is not trained and that cannot be merged into the weights. */
bool model_load_separate_adapter(const struct model_loader *l, size_t index,
                                 struct error *err);
/* Load an adapter that is trained further, over the initialized one. */
bool model_load_trained_adapter(const struct model_loader *l, struct error *err);

#endif
