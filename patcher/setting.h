/* patcher/setting.h - --set KEY=VALUE: a job's text with other values, in memory. */
#ifndef PATCHER_SETTING_H
#define PATCHER_SETTING_H

#include "patcher/document/document.h"

/*
 * `set` is NULL-ended; a key may be one of the block `trainspool:`, with that prefix or
 * without.  The text is in the arena.  ERROR_USAGE for what is no key, no value of it, or
 * cannot be replaced.  A text that is no job stays as it is.
 */
bool setting_apply(const char *const *set, struct arena *arena, const char **data,
                   size_t *len, struct error *err);

#endif
