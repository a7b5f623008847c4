/*
 * base/leftovers.h - temporary files that killed processes left: .NAME.tmp-PID, which
 * become NAME when they are complete.
 */
#ifndef BASE_LEFTOVERS_H
#define BASE_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>

/* Return the name of a temporary file next to `name`, malloc'ed. */
char *leftover_name(const char *name);
/* Return whether a name without a folder is that of a temporary file whose process has
 * ended, and copy NAME; false if it does not fit. */
bool leftover_is(const char *base, char *name, size_t room);
/* Remove an own regular file that was unchanged for some seconds, below an open folder. */
bool leftover_remove(int dir, const char *base, double seconds);
/* Remove those in a folder whose files become `name`; NULL: all. Return how many. */
size_t leftovers_remove(const char *dir, const char *name);

#endif
