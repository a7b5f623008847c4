/* patcher/schema/schema_json.h - the key table as a JSON Schema, for editors. */
#ifndef PATCHER_SCHEMA_SCHEMA_JSON_H
#define PATCHER_SCHEMA_SCHEMA_JSON_H

#include "base/json.h"

/*
 * Return a schema (draft 2020-12) of a whole job file.  It accepts every job that the
 * patcher reads without an error: a number may be a string that reads as one, as YAML 1.1
 * makes of 1e-4; null always means the default; and values that only a native run rejects
 * are accepted with `trainspool: {target: external}`.  Old names of a key are marked
 * deprecated.  Keys of other tools are left out, so that editors do not offer them.
 *
 * The caller calls json_decref.
 */
json_t *schema_json_new(void);

#endif
