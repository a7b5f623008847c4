/* train/tower/tower_load.h - the weights of an encoder, from its files to a backend. */
#ifndef TRAIN_TOWER_TOWER_LOAD_H
#define TRAIN_TOWER_TOWER_LOAD_H

#include "base/heartbeat.h"
#include "kernels/backend.h"
#include "train/tower/tower_merge.h"
#include "train/tower/tower_parameters.h"

struct tower_load {
    const struct safetensors *files;
    const struct tower_config *config;
    const struct tower_parameters *parameters;
    struct backend *backend;
    char *block;                     /* of the parameters, in the backend's memory */
    enum format frozen;              /* elements are rounded to it first */
    const struct tower_merge *merge; /* NULL: nothing is merged */
    bool gated; /* the pass multiplies by the gates of blocks; else weights have them */
    struct heartbeat *heartbeat;
};

/* Upload all parameters that are not TOWER_ON_HOST, and wait for it. */
bool tower_load_block(const struct tower_load *load, struct error *err);
/* Return a parameter in fp32, malloc'ed; NULL on an error. */
float *tower_load_values(const struct tower_load *load,
                         const struct tower_parameter *parameter, struct error *err);

#endif
