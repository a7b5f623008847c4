/* base/nearest.h - how far apart two words are, for "did you mean". */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* Changes of one letter, or of two neighbors, that make b of a; limit + 1 if there are
 * more. Case does not matter; letters are UTF-8's.  Optimal string alignment: Damerau,
 * 1964. */
size_t nearest_distance(const char *left, const char *right, size_t limit);
/* Equal but for case, blanks, `-`, `_` and leading dashes? */
bool nearest_is_same_name(const char *a, const char *b);

#endif
