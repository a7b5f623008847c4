/* train/model/architecture_fit.h - the row of an architecture as a config.json has it. */
#ifndef TRAIN_MODEL_ARCHITECTURE_FIT_H
#define TRAIN_MODEL_ARCHITECTURE_FIT_H

#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"
#include "train/model/architecture.h"

/* Return the row, or, if keys of config.json decide which modules there are, a copy in the
 * arena without those that it turns off, and with the numbers of the blocks that are
 * kept. */
const struct architecture *architecture_fit(const struct architecture *row,
                                            const json_t *root, const char *file,
                                            struct arena *arena, struct error *err);

#endif
