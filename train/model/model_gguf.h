/* train/model/model_gguf.h - writes a model as a file for llama.cpp, as its
 * convert_hf_to_gguf.py makes it from the folder of an export. */
#ifndef TRAIN_MODEL_MODEL_GGUF_H
#define TRAIN_MODEL_MODEL_GGUF_H

#include "base/heartbeat.h"
#include "train/model/model_config.h"
#include "train/plan.h"

/* Return whether llama.cpp computes models like this one, with the tokenizer in `dir`;
 * otherwise ERROR_DATA. */
bool model_gguf_check(const struct model_config *config, const char *dir,
                      struct error *err);

struct model_gguf {
    const char *dir;  /* with config.json, the weights and the tokenizer's files */
    const char *name; /* of the model, for people */
    enum export_gguf format;
    struct heartbeat *heartbeat; /* may be NULL */
};

/* Write dir/model-F16.gguf, model-BF16.gguf or model-Q8_0.gguf. */
bool model_gguf_write(const struct model_gguf *from, struct error *err);

#endif
