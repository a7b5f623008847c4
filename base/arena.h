/* base/arena.h - memory that lives as long as a job and is freed all at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/error.h"

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *arena); /* NULL is allowed */

/* Return zeroed memory, aligned to 16 bytes.  Never fails: out of memory ends the process
 * with a message. */
void *arena_alloc(struct arena *arena, size_t bytes);
/* Allocate count * size bytes; the multiplication is checked for overflow. */
void *arena_array(struct arena *arena, size_t count, size_t size);
char *arena_copy(struct arena *arena, const char *data, size_t len); /* adds a NUL */
char *arena_strdup(struct arena *arena, const char *string);         /* NULL gives NULL */
char *arena_printf(struct arena *arena, const char *fmt, ...) TS_PRINTF(2, 3);

/* malloc family for small objects outside an arena.  Running out of memory ends the
 * process with a message.  The caller frees with free(). */
void *memory_alloc(size_t bytes); /* zeroed */
void *memory_resize(void *old, size_t count, size_t size);
char *memory_strdup(const char *string);
/* Set the status with which running out of memory ends this process; 3 unless set. */
void memory_set_status(int status);

#endif
