/* patcher/schema/schema_value.h - reads a YAML node as the value of a key of the
 * table. */
#ifndef PATCHER_SCHEMA_SCHEMA_VALUE_H
#define PATCHER_SCHEMA_SCHEMA_VALUE_H

#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

enum value_state {
    VALUE_GOOD,
    VALUE_NULL,         /* empty: the default, or key->null */
    VALUE_WRONG,        /* TS704 */
    VALUE_OUT_OF_RANGE, /* TS705: out of range, or not in the enum */
    VALUE_REFUSED,      /* TS707: in key->rejects */
    VALUE_NO_EFFECT,    /* TS708: in key->idle */
    VALUE_INTERPOLATED, /* TS008: `${...}`, which is not expanded */
};

struct value {
    enum value_state state;
    enum scalar_kind kind; /* QUOTED and YAML11 are reported even if the value is good */
    double number; /* numbers, booleans (0, 1), choices (auto is 2), times in seconds */
    int index;     /* enums: index in key->values, or -1 */
    const char *text; /* texts, paths, sizes; lists, joined by commas */
};

struct value value_read(const struct key *key, const struct node *node,
                        struct arena *arena);
/* Return what the value must be, for messages: "a whole number". */
const char *value_expected(const struct key *key, struct arena *arena);
/* The same for a wrong value: includes the upper bound if the value exceeds it. */
const char *value_expected_with_bound(const struct key *key, const struct node *node,
                                      struct arena *arena);
/* Return the map that a value is or, as Hugging Face accepts it, holds as JSON
 * ('{"min_lr": 1e-6}'); or NULL. */
const struct node *value_map(const struct node *node, struct arena *arena);
/* Return whether `word` is one of the blank-separated words; NULL has none. */
bool value_is_listed(const char *words, const char *word);
/* Return the value of the key that is closest to `word`, or NULL. */
const char *value_nearest(const struct key *key, const char *word);
/* Return whether the value changes nothing: null, false, the default, or harmless. */
bool value_is_off(const struct key *key, const struct node *node, struct arena *arena);

#endif
