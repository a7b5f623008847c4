/* train/model/companion_files.h - the files next to the weights of a saved model: its
 * tokenizer, chat template and generation settings, and Ollama's Modelfile. */
#ifndef TRAIN_MODEL_COMPANION_FILES_H
#define TRAIN_MODEL_COMPANION_FILES_H

#include "train/chat/template_saving.h"

struct companion_files {
    const char *from;                     /* folder of the original model */
    const struct template_saving *saving; /* NULL: copy the files */
    bool adapter;   /* PEFT writes no generation_config.json next to an adapter */
    bool modelfile; /* write Ollama's Modelfile, as LLaMA-Factory's export does */
};

/* Write the files into `dir`. */
bool companion_files_write(const struct companion_files *files, const char *dir,
                           struct error *err);
/* Set eos_token_id and pad_token_id in the text of a config.json to the tokenizer's, if
 * training replaced its end-of-text token. */
bool companion_files_edit_config(const struct template_saving *saving,
                                 struct text *config, struct error *err);

/* Remove quantization_config from the text of a config.json. */
bool companion_files_drop_quantization(struct text *config, struct error *err);

#endif
