/* patcher/rules/torch_setup.h - what an external job says of memory, in keys that a native job
 * has not: optimizer, quantisation, attention, sharding. */
#ifndef PATCHER_RULES_TORCH_SETUP_H
#define PATCHER_RULES_TORCH_SETUP_H

#include "patcher/document/document.h"
#include "train/torch_memory.h"

/*
 * Fills *out; strings live in the arena.  `dir` is the job's folder, from where a
 * DeepSpeed file is read (1 MiB at most); one that is not there or is no JSON shards
 * nothing.
 */
void torch_setup_read(const struct document *document, const char *dir,
                      struct arena *arena, struct torch_setup *out);

#endif
