/* patcher/rules/torch_setup.h - keys that determine the memory of an external job and
 * that a native job does not have: optimizer, quantization, attention, sharding. */
#ifndef PATCHER_RULES_TORCH_SETUP_H
#define PATCHER_RULES_TORCH_SETUP_H

#include "patcher/document/document.h"
#include "train/torch_memory.h"

/*
 * Fill *out; strings live in the arena.  A DeepSpeed file is read relative to `dir`, the
 * job's folder (at most 1 MiB); one that is missing or not JSON shards nothing.
 */
void torch_setup_read(const struct document *document, const char *dir,
                      struct arena *arena, struct torch_setup *out);

#endif
