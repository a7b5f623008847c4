/* patcher/setting.h - --set KEY=VALUE: replace values in a job's text, in memory. */
#ifndef PATCHER_SETTING_H
#define PATCHER_SETTING_H

#include "patcher/document/document.h"

/*
 * Apply the settings; `set` ends with NULL.  A key may belong to the block `trainspool:`,
 * with or without that prefix.  The text is allocated from the arena.  ERROR_USAGE for an
 * unknown key, an invalid value, or a value that cannot be replaced.  A text that is not
 * a job stays unchanged.
 */
bool setting_apply(const char *const *set, struct arena *arena, const char **data,
                   size_t *len, struct error *err);

#endif
