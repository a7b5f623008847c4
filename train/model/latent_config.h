/* train/model/latent_config.h - the sizes of multi-head latent attention in config.json. */
#ifndef TRAIN_MODEL_LATENT_CONFIG_H
#define TRAIN_MODEL_LATENT_CONFIG_H

#include <jansson.h>

#include "train/model/model_config.h"

/* Set them, and the size of the heads that attention reads, if the architecture has it;
 * otherwise return false.  The numbers of heads are set. */
bool latent_config_read(const json_t *root, const char *file, struct model_config *out,
                        struct error *err);
/* Set the factor of its scores; the rotation is set. */
void latent_config_scale(const json_t *root, const char *file, struct model_config *out,
                         struct error *err);

#endif
