/*
 * train/model/cross_layers.h - layers of cross-attention between those of a text model
 * (mllama).
 *
 * They read the rows of images. transformers skips them for text without images, so they
 * get no gradients. Jobs without images leave them out of the model: like a tower, they are
 * only kept, and the other layers keep their numbers in names.
 */
#ifndef TRAIN_MODEL_CROSS_LAYERS_H
#define TRAIN_MODEL_CROSS_LAYERS_H

#include "train/model/model_config.h"

/* Read cross_attention_layers of a text model whose architecture and sizes are known:
 * reduce the number of layers to those that remain, and give them their numbers. */
void cross_layers_read(const json_t *text, const char *file, struct arena *arena,
                       struct model_config *config, struct error *err);

/* Make them layers of the model again, for a job with images.  Nothing happens if the model has
 * none, or they are part of it.  ERROR_DATA: the first layer is one of them. */
bool cross_layers_join(struct model_config *config, struct arena *arena,
                       struct error *err);

/* Return whether the model of a config.json has some, joined or left out. */
static inline bool cross_layers_exist(const struct model_config *config)
{
    return config->crosses || config->architecture->numbers;
}

/* Return whether a tensor of the files belongs to one of them. */
bool cross_layers_has(const struct model_config *config, const char *name);

/* Return whether a tensor of the files is not part of the text model, but kept with it: of
 * a tower, a projector or one of these layers. */
bool model_config_keeps(const struct model_config *config, const char *name);

/* Return the number of a layer in names and in lists of layers, and how many have numbers. */
static inline size_t model_config_number(const struct model_config *config, size_t layer)
{
    return config->architecture->numbers ? config->architecture->numbers[layer] : layer;
}

static inline size_t model_config_numbered(const struct model_config *config)
{
    return config->architecture->numbers ? config->architecture->numbered
                                         : config->layers;
}

#endif
