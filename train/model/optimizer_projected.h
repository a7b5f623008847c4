/*
 * train/model/optimizer_projected.h - optimizers whose states are of projected gradients:
 * GaLore and APOLLO (kernels/ops_optimizers.h).
 */
#ifndef TRAIN_MODEL_OPTIMIZER_PROJECTED_H
#define TRAIN_MODEL_OPTIMIZER_PROJECTED_H

#include "train/model/optimizer_table.h"

/*
 * How the gradient of a matrix (R, C) is projected:
 *   left    the projection is (R, rank), the projected gradient p^T g (rank, C)
 *   right   it is (rank, C), and g p^T (R, rank)
 *   both    p (R, rank), then q (rank, C), and p^T g q^T (rank, rank)
 */
struct projection {
    bool left, right;
    size_t rank;       /* at most R and C */
    size_t rows, cols; /* of the projected gradient */
    size_t elements;   /* of the projection */
};

/* Return whether a layer's name, such as "model.layers.0.mlp.up_proj.weight", is one of the
 * target's. */
bool optimizer_projects_name(const struct projection_settings *settings,
                             const char *name);
struct projection optimizer_projection(const struct projection_settings *settings,
                                       size_t rows, size_t cols);
/* Return the elements of scratch that an update needs. */
size_t optimizer_projected_scratch(const struct plan *plan, size_t rows, size_t cols);
/* Update a matrix: moments as in its row of the table. */
void optimizer_projected_update(struct backend *be,
                                const struct optimizer_update *update);

#endif
