/* patcher/schema/schema_value.h - what a node says as the value of one key of the table. */
#ifndef PATCHER_SCHEMA_SCHEMA_VALUE_H
#define PATCHER_SCHEMA_SCHEMA_VALUE_H

#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

enum value_state {
    VALUE_GOOD,
    VALUE_NULL,         /* not given, or what key->null says */
    VALUE_WRONG,        /* TS704 */
    VALUE_OUTSIDE,      /* TS705: range or enum */
    VALUE_REFUSED,      /* TS707: of key->rejects */
    VALUE_IDLE,         /* TS708: of key->idle */
    VALUE_INTERPOLATED, /* TS008: `${...}`, which nobody expands here */
};

struct value {
    enum value_state state;
    enum scalar_kind kind; /* QUOTED and YAML11 are told though the value is good */
    double number;         /* of numbers, booleans (0, 1), choices (2 is auto), seconds */
    int index;             /* of enums: place in key->values; -1: none of them */
    const char *text;      /* of texts, paths, sizes; of lists, joined by commas */
};

struct value value_read(const struct key *key, const struct node *node,
                        struct arena *arena);
/* "a whole number": what a person should write. */
const char *value_wanted(const struct key *key, struct arena *arena);
/* The same in the place of a value that is not it: the bound that it passes is named. */
const char *value_wanted_not(const struct key *key, const struct node *node,
                             struct arena *arena);
/* The map a value is, or holds as JSON ('{"min_lr": 1e-6}', as Hugging Face takes it); or
 * NULL. */
const struct node *value_map(const struct node *node, struct arena *arena);
/* Is `word` one of the blank-separated words? NULL has none. */
bool value_listed(const char *words, const char *word);
/* The word nearest to `word` among a key's values, or NULL. */
const char *value_nearest(const struct key *key, const char *word);
/* Does the value change nothing: null, false, the default, or harmless? */
bool value_is_off(const struct key *key, const struct node *node, struct arena *arena);

#endif
