/* patcher/rules/python_value.h - the value that the program of an external job reads: a
 * Python object, by the rules of its YAML reader instead of the type of the key. */
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
    double number;           /* of a number or a boolean */
    const char *text;        /* as written; "" for lists and maps */
    const struct node *node; /* NULL: a default */
};

/* Return how the program of an external job reads its file. */
enum python_reader python_reader_of(const struct rule_context *context);
/* Return the object for the value of `key`, a key of the job or any other name. */
struct python_value python_value_read(const char *key, const struct node *node,
                                      enum python_reader reader);
/* Return whether `if value:` takes the branch. */
bool python_value_is_true(const struct python_value *value);
/* Return whether the program reads a string where the key requires a boolean or a number,
 * which trainspool reads from the same text. */
bool python_reads_string(const struct rule_context *context, const char *key,
                         const struct node *node);

#endif
