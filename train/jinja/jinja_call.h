/*
 * train/jinja/jinja_call.h - functions of templates: the filters, tests, methods and functions
 * of the language as rows of tables, and macros; how arguments reach parameters.
 */
#ifndef TRAIN_JINJA_JINJA_CALL_H
#define TRAIN_JINJA_JINJA_CALL_H

#include "train/jinja/jinja_node.h"
#include "train/jinja/jinja_value.h"

enum { JINJA_PARAMETERS = 5 };

/* Arguments as given: `by_name` of them carry a name. */
struct jinja_given {
    struct jinja_value *values;
    const char **names; /* NULL: by its place */
    size_t count, by_place;
};

struct jinja_call {
    struct jinja_value self; /* what a filter, test or method works on */
    struct jinja_value args[JINJA_PARAMETERS]; /* ABSENT where not given */
    int how;                                   /* of the row */
    const struct jinja_given *given;           /* for those that take any */
};

typedef struct jinja_value jinja_code(struct jinja_run *run,
                                      const struct jinja_call *call);

struct jinja_builtin {
    const char *name;
    jinja_code *code;
    int how; /* a value of the enum that tells rows of the same code apart */
    const char *parameters[JINJA_PARAMETERS]; /* by their names in Python */
    size_t needed;                            /* of them must be given */
    bool any;                                 /* takes what it is given, unchecked */
};

struct jinja_function {
    const struct jinja_builtin *builtin; /* or, for a macro: */
    struct jinja_value self;
    const struct jinja_node *macro;
    struct jinja_scope *scope; /* where the macro was defined */
};

/* The tables; NULL: there is none of this name. */
const struct jinja_builtin *jinja_filter_find(const char *name, size_t len);
const struct jinja_builtin *jinja_filter_list_find(const char *name, size_t len);
const struct jinja_builtin *jinja_test_find(const char *name, size_t len);
const struct jinja_builtin *jinja_method_find(const struct jinja_value *self,
                                              const char *name, size_t len);
const struct jinja_builtin *jinja_global_find(const char *name, size_t len);
/* A row of a table whose last name is NULL. */
const struct jinja_builtin *jinja_row(const struct jinja_builtin *table, const char *name,
                                      size_t len);

bool jinja_evaluate_arguments(struct jinja_run *run, const struct jinja_node *node,
                              struct jinja_given *out);
struct jinja_value jinja_invoke(struct jinja_run *run,
                                const struct jinja_builtin *builtin,
                                const struct jinja_value *self,
                                const struct jinja_given *given);
/* caller: the macro of a {% call %} block, or NULL. */
struct jinja_value jinja_call(struct jinja_run *run, const struct jinja_value *function,
                              const struct jinja_given *given,
                              const struct jinja_value *caller);
struct jinja_value jinja_macro_new(struct jinja_run *run, const struct jinja_node *macro);

/* Arguments with their defaults; they fail where the type is another. */
bool jinja_arg_truth(const struct jinja_value *arg, bool default_value);
int64_t jinja_arg_int(struct jinja_run *run, const struct jinja_value *arg,
                      int64_t default_value);
/* Is it a string, as it must be? */
bool jinja_arg_string(struct jinja_run *run, const struct jinja_value *arg);

#endif
