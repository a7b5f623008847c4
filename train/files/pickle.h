/*
 * train/files/pickle.h - writer of Python's pickle format, protocol 2 (Lib/pickletools.py),
 * with the opcodes that torch.load(weights_only=True) reads
 * (torch/_weights_only_unpickler.py of torch 2.4 to 2.6).
 */
#ifndef TRAIN_FILES_PICKLE_H
#define TRAIN_FILES_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

enum pickle_kind { PICKLE_DICT, PICKLE_LIST, PICKLE_TUPLE, PICKLE_KINDS };

/* A pickle is one value between begin and end.  Members of a container are the values
 * between its open and close; those of a dict are keys and values in turn. */
void pickle_begin(struct text *out);
void pickle_end(struct text *out);
void pickle_open(struct text *out, enum pickle_kind kind);
void pickle_close(struct text *out, enum pickle_kind kind);

void pickle_text(struct text *out, const char *value);
void pickle_int(struct text *out, int64_t value);
void pickle_real(struct text *out, double value);
void pickle_bool(struct text *out, bool value);
void pickle_none(struct text *out);
/* A class or function. */
void pickle_global(struct text *out, const char *module, const char *name);
/* Call the function before the last value, which is a tuple, with that tuple. */
void pickle_call(struct text *out);
/* Replace the last value by the object that the reader knows by it. */
void pickle_persistent(struct text *out);

#endif
