/*
 * train/files/torch_file.h - writer of the files of torch.save: a zip archive with a
 * pickle, data.pkl, and the storage of each tensor, data/N.
 * Source: torch/serialization.py, _save and _load, torch 2.4 to 2.6.
 */
#ifndef TRAIN_FILES_TORCH_FILE_H
#define TRAIN_FILES_TORCH_FILE_H

#include "train/files/pickle.h"
#include "train/files/safetensors.h"

struct torch_file;

struct torch_file *torch_file_new(void);
void torch_file_free(struct torch_file *file);
/* Return the pickle, which has begun: the caller adds one value. */
struct text *torch_file_pickle(struct torch_file *file);
/* Add a tensor to the pickle.  Its data, in fp32, fp16 or bf16, is read when the file is
 * written; its name is not used. */
void torch_file_add_tensor(struct torch_file *file, const struct tensor_source *source);
/* Create `name`, which must not exist (fsynced).  Removes the file on failure. */
bool torch_file_write(struct torch_file *file, const char *name, struct error *err);

#endif
