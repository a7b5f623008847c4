/* patcher/rules/python_value.h - the Python object that the program of an external job reads
 * for a value: its YAML reader decides the type, not the key. */
#ifndef PATCHER_RULES_PYTHON_VALUE_H
#define PATCHER_RULES_PYTHON_VALUE_H

#include "patcher/rules/rules.h"

/* How the program turns the text of a value into an object. */
enum python_reader {
    PYTHON_PYYAML,    /* yaml.safe_load; a quoted value and 1e-4 are strings */
    PYTHON_OMEGACONF, /* OmegaConf.load: the same, but 1e-4 is a number */
    /* yaml.safe_load, then argparse converts strings to the type of the argument */
    PYTHON_ARGPARSE
};

enum python_kind {
    PYTHON_NONE,
    PYTHON_BOOL,
    PYTHON_NUMBER,
    PYTHON_TEXT,
    PYTHON_LIST,
    PYTHON_MAP
};

struct python_value {
    enum python_kind kind;
    double number;    /* of a number or a boolean */
    const char *text; /* as written; "" for lists and maps */
    const struct node *node;
};

/* Return how the program of an external job reads its file. */
enum python_reader python_reader_of(const struct rule_context *context);
/* Return the object for the value of `key`, which may be any name. */
struct python_value python_value_read(const char *key, const struct node *node,
                                      enum python_reader reader);
/* Return whether `if value:` takes the branch. */
bool python_value_is_true(const struct python_value *value);
/* Return whether the program reads a string from a text that trainspool reads as the boolean
 * or number that the key requires. */
bool python_reads_string(const struct rule_context *context, const char *key,
                         const struct node *node);

#endif
