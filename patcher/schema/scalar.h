/*
 * patcher/schema/scalar.h - reads a scalar as the type that its key requires.
 *
 * The key decides the type, never a YAML parser: `1e-4` is a number if the key takes a
 * number, and `dataset: no` remains a string.
 */
#ifndef PATCHER_SCHEMA_SCALAR_H
#define PATCHER_SCHEMA_SCALAR_H

#include "patcher/document/document.h"

enum scalar_kind {
    SCALAR_WRONG, /* not of the required type */
    SCALAR_GOOD,
    SCALAR_QUOTED, /* of the required type, but quoted: TS014 */
    SCALAR_YAML11  /* read as in YAML 1.1; other parsers read another value: TS012 */
};

/* Accept true and false in any case; yes, no, on, off, y and n are SCALAR_YAML11. */
enum scalar_kind scalar_bool(const struct node *node, bool *out);
/* Accept decimal numbers with or without exponent, 0x1f, .inf and .nan; 1_000, 017 and
 * 12:30 are SCALAR_YAML11 with PyYAML's value (1000, 15, 750). */
enum scalar_kind scalar_number(const struct node *node, double *out);
/* Accept a boolean or the word auto.  *out is 0, 1, or 2 for auto. */
enum scalar_kind scalar_choice(const struct node *node, int *out);
/* Accept "12GiB" or "80%", as memory_limit() does. */
enum scalar_kind scalar_size(const struct node *node);
/* Accept 90, 90s, 15m, 2h, 1d. */
enum scalar_kind scalar_seconds(const struct node *node, double *out);
/* Return the number with the fewest digits that read back the same: "0.1", "4". */
const char *scalar_print(double value, struct arena *arena);

#endif
