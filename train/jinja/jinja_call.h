/* train/jinja/jinja_call.h - callable values of templates: the language's filters, tests,
 * methods and functions as rows of tables, and macros; binding of arguments to
 * parameters. */
#ifndef TRAIN_JINJA_JINJA_CALL_H
#define TRAIN_JINJA_JINJA_CALL_H

#include "train/jinja/jinja_node.h"
#include "train/jinja/jinja_value.h"

enum { JINJA_PARAMETERS = 5 };

/* Arguments as given: names[i] is NULL for positional arguments. */
struct jinja_arguments {
    struct jinja_value *values;
    const char **names; /* NULL: positional */
    size_t count, positional;
};

struct jinja_call {
    struct jinja_value self; /* the value that a filter, test or method is applied to */
    struct jinja_value args[JINJA_PARAMETERS]; /* ABSENT if not given */
    int variant;                               /* from the row */
    const struct jinja_arguments *given;       /* for rows with `variadic` */
};

typedef struct jinja_value jinja_code(struct jinja_run *run,
                                      const struct jinja_call *call);

struct jinja_builtin {
    const char *name;
    jinja_code *code;
    int variant; /* an enum value that distinguishes rows with the same code */
    const char *parameters[JINJA_PARAMETERS]; /* with their Python names */
    size_t required;                          /* the first ones, which must be given */
    bool variadic;                            /* takes all arguments unchecked */
};

struct jinja_function {
    const struct jinja_builtin *builtin; /* or, for a macro: */
    struct jinja_value self;
    const struct jinja_node *macro;
    struct jinja_scope *scope; /* where the macro was defined */
};

/* The tables; NULL: unknown name. */
const struct jinja_builtin *jinja_filter_find(const char *name, size_t len);
const struct jinja_builtin *jinja_filter_list_find(const char *name, size_t len);
const struct jinja_builtin *jinja_test_find(const char *name, size_t len);
const struct jinja_builtin *jinja_method_find(const struct jinja_value *self,
                                              const char *name, size_t len);
const struct jinja_builtin *jinja_global_find(const char *name, size_t len);
/* The filter `escape`: replace the characters with a meaning in HTML. */
struct jinja_value jinja_escape(struct jinja_run *run, const struct jinja_value *value);
/* Search a table, whose last name is NULL. */
const struct jinja_builtin *jinja_builtin_find(const struct jinja_builtin *table,
                                               const char *name, size_t len);

bool jinja_evaluate_arguments(struct jinja_run *run, const struct jinja_node *node,
                              struct jinja_arguments *out);
struct jinja_value jinja_invoke(struct jinja_run *run,
                                const struct jinja_builtin *builtin,
                                const struct jinja_value *self,
                                const struct jinja_arguments *given);
/* caller: the macro of a {% call %} block, or NULL. */
struct jinja_value jinja_call(struct jinja_run *run, const struct jinja_value *function,
                              const struct jinja_arguments *given,
                              const struct jinja_value *caller);
struct jinja_value jinja_macro_new(struct jinja_run *run, const struct jinja_node *macro);

/* Arguments with their defaults; fail on a wrong type. */
bool jinja_arg_truth(const struct jinja_value *arg, bool default_value);
int64_t jinja_arg_int(struct jinja_run *run, const struct jinja_value *arg,
                      int64_t default_value);
/* Return whether it is a string; fail if not. */
bool jinja_arg_string(struct jinja_run *run, const struct jinja_value *arg);

#endif
