/* patcher/schema/schema_json.h - the table of keys as a JSON Schema, for editors. */
#ifndef PATCHER_SCHEMA_SCHEMA_JSON_H
#define PATCHER_SCHEMA_SCHEMA_JSON_H

#include "base/json.h"

/*
 * A schema of draft 2020-12 of a whole job file.  It complains of nothing that the
 * patcher takes without an error: types are the key's (a number may be a text that reads
 * as one, as YAML 1.1 makes of 1e-4), null is always "not given", and what only target
 * native refuses is taken with `trainspool: {target: external}`.  Other names of a key
 * are marked deprecated; other tools' words are left out, so that they are not offered.
 *
 * The caller gives it back.
 */
json_t *schema_json_new(void);

#endif
