/* base/arena.h - memory that lives as long as a job and is given back at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/error.h"

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *arena); /* NULL is allowed */

/* Zeroed, aligned to 16 bytes.  Never fails: ends the process with a message. */
void *arena_alloc(struct arena *arena, size_t bytes);
/* count * size with the product checked. */
void *arena_array(struct arena *arena, size_t count, size_t size);
char *arena_copy(struct arena *arena, const char *data, size_t len); /* adds a NUL */
char *arena_strdup(struct arena *arena, const char *string);         /* NULL gives NULL */
char *arena_printf(struct arena *arena, const char *fmt, ...) TS_PRINTF(2, 3);

/* malloc family that ends the process with a message when memory is out; for small things
 * that do not belong to an arena.  The caller frees with free(). */
void *memory_alloc(size_t bytes); /* zeroed */
void *memory_resize(void *old, size_t count, size_t size);
char *memory_strdup(const char *string);

#endif
