/* train/model/gguf_tokenizer.h - the tokenizer of a folder as values of GGUF, as llama.cpp's
 * convert_hf_to_gguf.py writes them: byte-level BPE (gpt2), and SentencePiece BPE with byte
 * fallback (llama). */
#ifndef TRAIN_MODEL_GGUF_TOKENIZER_H
#define TRAIN_MODEL_GGUF_TOKENIZER_H

#include "train/files/gguf_write.h"
#include "train/model/model_config.h"

/* Return whether llama.cpp splits texts as the folder's tokenizer.json says, or would say if
 * there is only tokenizer.model; otherwise ERROR_DATA. */
bool gguf_tokenizer_check(const char *dir, struct error *err);

/* Add the tokens, one for each row of the embeddings, the merges, the special tokens and
 * the chat template. */
bool gguf_tokenizer_add(const char *dir, const struct model_config *config,
                        struct gguf_values *out, struct error *err);

#endif
