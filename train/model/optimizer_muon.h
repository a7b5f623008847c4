/* train/model/optimizer_muon.h - Muon: which parameters it updates, and how. */
#ifndef TRAIN_MODEL_OPTIMIZER_MUON_H
#define TRAIN_MODEL_OPTIMIZER_MUON_H

#include "train/model/optimizer_table.h"

/* Return whether a parameter gets an orthogonal update: matrices other than embeddings and
 * heads. */
bool optimizer_muon_applies(const char *name, size_t rank);
/* Return the elements of scratch that an update needs. */
size_t optimizer_muon_scratch(size_t rows, size_t cols);
/* Update a matrix: its momentum is MOMENT_1, the scratch MOMENT_3, in the format of the
 * matmuls. */
void optimizer_muon_update(struct backend *be, const struct optimizer_update *update);

#endif
