/* base/nearest.h - the edit distance of two words, for "did you mean". */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* Return the smallest number of edits that turn `left` into `right`, or limit + 1 if it
 * exceeds `limit`.  An edit inserts, deletes or replaces a character, or swaps two
 * adjacent ones; case is ignored, and characters are those of UTF-8.  Optimal string
 * alignment: Damerau, 1964. */
size_t nearest_distance(const char *left, const char *right, size_t limit);
/* Return whether the words are equal apart from case, blanks, `-` and `_`. */
bool nearest_is_same_name(const char *a, const char *b);

#endif
