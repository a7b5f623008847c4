/* train/model/model_growth.h - rows of embeddings and head that the files do not have; for
 * model*.c only. */
#ifndef TRAIN_MODEL_MODEL_GROWTH_H
#define TRAIN_MODEL_MODEL_GROWTH_H

#include "train/model/model_load.h"

/* Return whether rows of a parameter are for new tokens, or not in the files. */
bool model_grows(const struct model *m, const struct parameter *p);
/* Read rows of such a parameter, whose tensor in the files is given, with the new ones. */
bool model_read_grown(const struct model *m, const struct stored_tensor *t,
                      const struct model_rows *rows, struct error *err);

#endif
