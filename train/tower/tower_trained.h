/*
 * train/tower/tower_trained.h - the tensors of an encoder that a model trains with its own
 * parameters.
 */
#ifndef TRAIN_TOWER_TOWER_TRAINED_H
#define TRAIN_TOWER_TOWER_TRAINED_H

#include "train/model/model_config.h"
#include "train/tower/tower_adapters.h"

/* Set config->encoder of a model whose config.json was read from a folder.  Names are those of
 * its files, if it has files.  Without an encoder that can be trained the list is empty. */
void tower_trained_list(const char *model_dir, struct arena *arena,
                        struct model_config *config);

/* Return why an encoder cannot be trained; NULL: it can. */
const char *tower_trained_not(const struct tower_config *config);

/* Set out, of all parts of all parameters of an encoder (tower_adapters.h), to the adapters of
 * the tensors of the list. */
void tower_trained_adapters(const struct tower_config *config,
                            const struct tower_parameters *parameters,
                            const struct encoder_adapter *adapters,
                            struct tower_adapter *out);

/* Append the path of a part's linear layer, as struct encoder_tensor has it; false: it has no
 * adapter. */
bool tower_trained_path(const struct tower_config *config,
                        const struct tower_parameter *parameter, size_t part,
                        struct text *out);

/* Return how many tensors of the list make a parameter: its parts, but for biases that do not
 * exist. */
size_t tower_trained_parts(const struct tower_config *config,
                           const struct tower_parameter *parameter);

#endif
