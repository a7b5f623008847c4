/* base/json.h - jansson, with our errors.  Values are jansson's json_t. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/text.h"

/* Parse a text of one JSON value; `name` is the file named in the error, `line` the line
 * of that file the text begins on (1 for a whole file).  Double keys are refused, a byte
 * order mark is passed over, and strings may hold NULs: use json_string_length.
 * ERROR_DATA. */
json_t *json_read_text(const char *data, size_t len, const char *name, uint32_t line,
                       struct error *err);
/* The same for files of others, whose whole numbers may be larger than 64 bits
 * (model_max_length in tokenizer_config.json is 10^30): where one is, all numbers of the
 * text become reals. */
json_t *json_read_loose(const char *data, size_t len, const char *name, uint32_t line,
                        struct error *err);
json_t *json_read_file(const char *name, size_t max, struct error *err);
/* Compact, one line, keys in the order they were set; NaN and inf must have been made
 * with json_number.  Numbers have the fewest digits that read back the same.  Appends to
 * *out; false when it overflowed. */
bool json_write(const json_t *value, struct text *out);
/* indented by 2, final newline */
bool json_write_pretty(const json_t *value, struct text *out);

/* A double as JSON: "NaN", "Infinity", "-Infinity" as strings where it is not finite. */
json_t *json_number(double value);
/* A text as JSON: what is no UTF-8 is made visible first (text_add_visible). */
json_t *json_visible(const char *data, size_t len);

/* Members of an object with a default where missing or null.  A member of another type is
 * an error (ERROR_DATA naming `where` and the key); *err is set once and the default
 * returned. */
int64_t json_get_int(const json_t *object, const char *key, int64_t default_value,
                     const char *where, struct error *err);
double json_get_real(const json_t *object, const char *key, double default_value,
                     const char *where, struct error *err);
bool json_get_bool(const json_t *object, const char *key, bool default_value,
                   const char *where, struct error *err);
/* Borrowed from the object; one with a NUL inside is an error. */
const char *json_get_string(const json_t *object, const char *key,
                            const char *default_value, const char *where,
                            struct error *err);

#endif
