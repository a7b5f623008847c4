/* train/model/weights.h - checks whether a model's files match its config.json. */
#ifndef TRAIN_MODEL_WEIGHTS_H
#define TRAIN_MODEL_WEIGHTS_H

#include "train/model/model_config.h"
#include "train/files/safetensors.h"

/* A parameter as files store it: a vector has rank 1 and 1 row. */
struct weights_expected {
    size_t rank, rows, cols;
    enum storage stored;
};

/* ERROR_DATA if a stored tensor has a dtype or a shape that does not match. */
bool weights_fit(const struct stored_tensor *t, const struct weights_expected *expected,
                 struct error *err);

/* Return whether the files contain the model without its head, as GPT-2 was published:
 * then tensor names lack architecture->base. */
bool weights_are_bare(const struct safetensors *files, const struct model_config *config);
/* Return the tensor of a parameter, or NULL.  bare: look for its name without
 * architecture->base. */
const struct stored_tensor *weights_find(const struct safetensors *files, bool bare,
                                         const struct model_config *config,
                                         const char *name);

/*
 * Compare the names and shapes in the headers of the files in folder `dir` with its
 * config.json: ERROR_DATA, naming the tensor, if a run would fail. Returns true if the
 * files cannot be opened, which the code that opens them reports, and for 4-bit weights,
 * which are not checked. Additional tensors are not checked either.
 */
bool weights_check(const char *dir, const struct model_config *config, struct error *err);

#endif
