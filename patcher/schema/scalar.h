/*
 * patcher/schema/scalar.h - read a scalar as the type that the schema expects.
 *
 * The key's type decides, not the implicit typing of a YAML reader: `1e-4` is a number if
 * the key is numeric, and `dataset: no` remains a string.
 */
#ifndef PATCHER_SCHEMA_SCALAR_H
#define PATCHER_SCHEMA_SCALAR_H

#include "patcher/document/document.h"

enum scalar_kind {
    SCALAR_WRONG, /* not of the expected type */
    SCALAR_GOOD,
    SCALAR_QUOTED, /* of the expected type, but in quotes: TS014 */
    SCALAR_YAML11  /* has another value in YAML 1.1 than in YAML 1.2: TS012 */
};

/* true, false in any case; yes, no, on, off, y, n are SCALAR_YAML11. */
enum scalar_kind scalar_bool(const struct node *node, bool *out);
/* Decimal numbers with or without exponent, 0x1f, .inf, .nan; 1_000, 017, 12:30 are
 * SCALAR_YAML11 with PyYAML's value (1000, 15, 750). */
enum scalar_kind scalar_number(const struct node *node, double *out);
/* A bool, or `auto`. *out: 0, 1, or 2 for auto. */
enum scalar_kind scalar_choice(const struct node *node, int *out);
/* "12GiB" or "80%": what memory_limit() takes. */
enum scalar_kind scalar_size(const struct node *node);
/* 90, 90s, 15m, 2h, 1d */
enum scalar_kind scalar_seconds(const struct node *node, double *out);
/* Return the shortest decimal form of a number: "0.1", "4". */
const char *scalar_print(double value, struct arena *arena);

#endif
