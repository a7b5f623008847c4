/* train/model/weights.h - are a model's files those of its config.json? */
#ifndef TRAIN_MODEL_WEIGHTS_H
#define TRAIN_MODEL_WEIGHTS_H

#include "train/model/model_config.h"
#include "train/files/safetensors.h"

/* A parameter as files have it: a vector has rank 1 and 1 row. */
struct weights_expected {
    size_t rank, rows, cols;
    enum storage stored;
};

/* ERROR_DATA where a stored tensor is of a dtype or a shape that cannot be read as
 * this. */
bool weights_fit(const struct stored_tensor *t, const struct weights_expected *expected,
                 struct error *err);

/* Are files those of the model below the head, as GPT-2 was published? */
bool weights_are_bare(const struct safetensors *files, const struct model_config *config);
/* The tensor of a parameter, in such files without what stands before its name; NULL. */
const struct stored_tensor *weights_find(const struct safetensors *files, bool bare,
                                         const struct model_config *config,
                                         const char *name);

/*
 * Hold names and shapes in the headers of the files in the folder `dir` against its
 * config.json: ERROR_DATA, with the tensor, where a run would end with it.  True where
 * the files cannot be opened, of which others tell, and for weights in 4 bits, which are
 * not looked at.  What the files have besides is not looked at either.
 */
bool weights_check(const char *dir, const struct model_config *config, struct error *err);

#endif
