/*
 * train/model/model_names.h - the architectures of published models, by their names.
 *
 * A job often names a model on a hub that is not on this machine yet.  The name alone
 * shows whether the model can be trained here, before anything is downloaded.
 */
#ifndef TRAIN_MODEL_MODEL_NAMES_H
#define TRAIN_MODEL_MODEL_NAMES_H

/* Return the model_type in the config.json of a model with this name on a hub
 * ("Qwen/Qwen3-4B"), or NULL if the name is no such name or is unknown.  Copies by other
 * owners ("unsloth/Qwen3-4B") have the same type. */
const char *model_name_type(const char *name);

/* Return that type if models of it cannot be trained here, or NULL. */
const char *model_name_unsupported(const char *name);

/* Return the unsupported format of quantized weights that the name announces ("GGUF"), or
 * NULL. */
const char *model_name_quantized(const char *name);

#endif
