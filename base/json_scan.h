/*
 * base/json_scan.h - reads a large JSON text from its start to its end, without a tree of
 * its values: the reader asks for what it expects, and skips the rest. It takes no memory,
 * and time in proportion to the text.
 *
 *     json_scan_init(&scan, data, len);
 *     if (json_scan_open(&scan, '{'))
 *         while (json_scan_key(&scan, &name))
 *             json_scan_skip(&scan);
 *     if (!json_scan_end(&scan, file, err)) ...
 *
 * After an error every function returns false, and json_scan_end says which it was.
 */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include "base/error.h"

struct json_scan {
    char *data, *at, *end;
    bool first;      /* no element of the innermost list or object has been read */
    const char *why; /* an error, or NULL */
};

/* The text is the caller's, and is overwritten: strings are decoded in place. */
void json_scan_init(struct json_scan *scan, char *data, size_t len);

/* Each reads the next value if it has that kind, and otherwise reads nothing. */
bool json_scan_open(struct json_scan *scan, char bracket); /* '{' or '[' */
/* NUL-terminated, valid until the text is freed; a string with a NUL is an error. */
bool json_scan_string(struct json_scan *scan, const char **out);
/* A whole number from 0 to 2^64 - 1, without fraction or exponent. */
bool json_scan_count(struct json_scan *scan, uint64_t *out);
/* Any value. */
bool json_scan_skip(struct json_scan *scan);

/* Move to the next element of the list; false: it ends here. */
bool json_scan_item(struct json_scan *scan);
/* Move to the next value of the object, and read its key; false: it ends here. */
bool json_scan_key(struct json_scan *scan, const char **out);

/* Return true if all was valid and nothing follows. Otherwise set *err, ERROR_DATA. */
bool json_scan_end(struct json_scan *scan, const char *file, struct error *err);

#endif
