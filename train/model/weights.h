/* train/model/weights.h - checks whether a model's files match its config.json. */
#ifndef TRAIN_MODEL_WEIGHTS_H
#define TRAIN_MODEL_WEIGHTS_H

#include "train/model/model_config.h"
#include "train/files/safetensors.h"

/* A parameter as files store it: a vector has rank 1 and 1 row. */
struct weights_expected {
    size_t rank, rows, cols;
    enum storage stored;
    size_t matrices;                     /* of a stack; 0: it is no stack */
    const struct encoder_tensor *tensor; /* of an encoder: its shape; or NULL */
};

/* Set shape[5] to the dimensions that files have. */
void weights_shape(const struct weights_expected *expected, size_t *shape);

/* ERROR_DATA if a stored tensor has a dtype or a shape that does not match. */
bool weights_fit(const struct stored_tensor *t, const struct weights_expected *expected,
                 struct error *err);

/* Return how the files name tensors.  Without a base they contain the model without its
 * head, as GPT-2 was published. */
struct text_names weights_names(const struct safetensors *files,
                                const struct model_config *config);
/* Set *out to the name in files of a parameter, or of a tensor whose name begins with a
 * parameter's. */
void weights_name(const struct model_config *config, const struct text_names *names,
                  const char *name, struct text *out);
/* Return the tensor of a parameter, or NULL. */
const struct stored_tensor *weights_find(const struct safetensors *files,
                                         const struct text_names *names,
                                         const struct model_config *config,
                                         const char *name);
/* Return a tensor of an adapter by the name that PEFT gives it now; the file may name the
 * modules of a model with towers as transformers 4 did.  NULL: there is none. */
const struct stored_tensor *weights_find_adapter(const struct safetensors *files,
                                                 const struct model_config *config,
                                                 const char *name);

/* Return whether a tensor in files belongs to keys or values that the model does not use
 * (shared_keys.h). */
bool weights_are_unused_keys(const struct model_config *config,
                             const struct text_names *names, const char *name);

/* Return whether config.json excludes a parameter from the layers in 4 bits, by any of its
 * names. */
bool weights_skip_quantization(const struct model_config *config, const char *name);

/*
 * Compare the names and shapes in the headers of the files in folder `dir` with its
 * config.json: ERROR_DATA, naming the tensor, if a run would fail. Returns true if the
 * files cannot be opened, which the code that opens them reports, and for weights in 4 bits
 * of bitsandbytes, which are not checked. Additional tensors are not checked either.
 */
bool weights_check(const char *dir, const struct model_config *config, struct error *err);

/* Return whether the files in a folder have a layer for each expert although those of its
 * architecture have tensors of all: "experts.down_projs.0.weight". */
bool weights_have_expert_layers(const char *dir, const struct model_config *config);

/* How files have the matrices of experts: in tensors of all experts of a block, and then
 * each transposed. */
struct expert_files {
    bool fused, transposed;
};

/* Replace weights in few bits by the matrices that they stand for, and tensors of a set
 * that hold the matrices of all experts of a block by these, with the names of parameters;
 * *found (or NULL): how the set has them. */
bool weights_split_experts(struct safetensors *files, const struct model_config *config,
                           struct expert_files *found, struct error *err);

#endif
