/*
 * train/tower/tower_parameters.h - the parameters of an encoder and its projector: one list,
 * with the names that files give them and where a pass finds them.
 */
#ifndef TRAIN_TOWER_TOWER_PARAMETERS_H
#define TRAIN_TOWER_TOWER_PARAMETERS_H

#include "base/text.h"
#include "train/files/safetensors.h"
#include "train/tower/tower_config.h"

/* A matrix or a vector as a pass reads it: the weights, or the biases, of a layer, whose parts
 * follow each other. */
struct tower_parameter {
    enum tower_layer layer;
    size_t index; /* of the block, or of the merger of DeepStack; 0 for other layers */
    bool bias;
    size_t parts;
    size_t rows, cols;  /* of all parts; a vector has one row */
    enum format format; /* FORMAT_FP32, or that of the matmuls */
    size_t at;          /* bytes from the start of the block; TOWER_ON_HOST: not in it */
};

/* Positions, the class token and gates are on the host. */
#define TOWER_ON_HOST SIZE_MAX

struct tower_parameters {
    size_t count;
    struct tower_parameter *list;
    size_t bytes;    /* of the block */
    size_t elements; /* that files have */
};

bool tower_layer_on_host(enum tower_layer layer);

/* List the parameters of the layers that are computed, with those of the projector or not.
 * compute: the format of matmuls; alignment: of the backend. */
void tower_parameters_list(const struct tower_config *config, bool projector,
                           enum format compute, size_t alignment, struct arena *arena,
                           struct tower_parameters *out);
/* Return NULL if there is none. */
const struct tower_parameter *tower_parameters_find(const struct tower_parameters *list,
                                                    enum tower_layer layer, size_t index,
                                                    bool bias);

/* Append the name of a part, without the prefix of the tower or projector.  Return false if
 * the model has no such tensor: its elements are zero. */
bool tower_parameter_name(const struct tower_config *config,
                          const struct tower_parameter *parameter, size_t part,
                          struct text *out);
/* Set shape[5] to the dimensions that files have of each part; return how many. */
size_t tower_parameter_shape(const struct tower_config *config,
                             const struct tower_parameter *parameter, size_t *shape);
/* Return the tensor of a part, whose name has any of the prefixes that files use; NULL, with
 * ERROR_DATA, if it is missing or has another shape or no elements to compute with. */
const struct stored_tensor *
tower_parameter_stored(const struct safetensors *files, const struct tower_config *config,
                       const struct tower_parameter *parameter, size_t part,
                       struct error *err);

#endif
