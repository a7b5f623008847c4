/* patcher/schema_keys.h - the rows behind schema.h's functions; for schema_*.c and tests.
 */
#ifndef PATCHER_SCHEMA_KEYS_H
#define PATCHER_SCHEMA_KEYS_H

#include "patcher/schema.h"

extern const struct key schema_key_rows[];
extern const size_t schema_key_count;
extern const struct key schema_block_rows[];
extern const size_t schema_block_count;

const struct key *schema_block_find(const char *name);
/* As schema_nearest, among other rows. */
size_t schema_nearest_of(const struct key *rows, size_t count, const char *name,
                         const char **out, size_t room, bool *exact);

#endif
