/* base/json.h - jansson with our errors.  Values are jansson's json_t. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/text.h"

/* Parse a text of one JSON value; `name` is the file named in errors, `line` the line of
 * that file the text begins on (1 for a whole file).  Duplicate keys are rejected, a byte
 * order mark is skipped, and strings may contain NULs: use json_string_length.
 * ERROR_DATA. */
json_t *json_read_text(const char *data, size_t len, const char *name, uint32_t line,
                       struct error *err);
/* The same for files of other programs, whose integers may not fit in 64 bits
 * (model_max_length in tokenizer_config.json is 10^30): if one does not, all numbers of
 * the text become reals.  Infinity, as Python writes it, becomes 1.7e308. */
json_t *json_read_loose(const char *data, size_t len, const char *name, uint32_t line,
                        struct error *err);
json_t *json_read_file(const char *name, size_t max, struct error *err);
json_t *json_read_loose_file(const char *name, size_t max, struct error *err);
/* Write compact, one line, keys in insertion order; NaN and inf must have been created
 * with json_number.  Numbers have the fewest digits that read back the same.  Appends to
 * *out; returns false on overflow. */
bool json_write(const json_t *value, struct text *out);
/* indented by 2, final newline */
bool json_write_pretty(const json_t *value, struct text *out);

/* Append one JSON value to a text without a json_t: a string of valid UTF-8; a finite
 * number, never as an integer. */
void json_add_string(struct text *out, const char *string, size_t len);
void json_add_integer(struct text *out, int64_t value);
void json_add_real(struct text *out, double value);

/* Convert a double to JSON: "NaN", "Infinity", "-Infinity" as strings if it is not
 * finite. */
json_t *json_number(double value);
/* Convert a text to a JSON string; invalid UTF-8 is escaped first (text_add_visible). */
json_t *json_visible(const char *data, size_t len);

/* Members of an object, with a default if missing or null.  A member of another type is
 * an error (ERROR_DATA naming `where` and the key); *err is set once and the default
 * returned. */
int64_t json_get_int(const json_t *object, const char *key, int64_t default_value,
                     const char *where, struct error *err);
double json_get_real(const json_t *object, const char *key, double default_value,
                     const char *where, struct error *err);
bool json_get_bool(const json_t *object, const char *key, bool default_value,
                   const char *where, struct error *err);
/* The same, but null is false, as it is in conditions of Python. */
bool json_get_flag(const json_t *object, const char *key, bool default_value,
                   const char *where, struct error *err);
/* Borrowed from the object; a string that contains a NUL is an error. */
const char *json_get_string(const json_t *object, const char *key,
                            const char *default_value, const char *where,
                            struct error *err);

#endif
