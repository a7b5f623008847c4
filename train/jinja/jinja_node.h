/* train/jinja/jinja_node.h - a parsed template: a tree of nodes in one arena. This file
 * alone defines the children of each kind. */
#ifndef TRAIN_JINJA_JINJA_NODE_H
#define TRAIN_JINJA_JINJA_NODE_H

#include "train/jinja/jinja_run.h"

enum jinja_op {
    /* expressions */
    OP_CONSTANT,  /* value */
    OP_NAME,      /* name */
    OP_LIST,      /* kids: items */
    OP_TUPLE,     /* kids: items */
    OP_DICT,      /* kids: key, value, key, value ... */
    OP_ATTRIBUTE, /* kids: object; name */
    OP_ITEM,      /* kids: object, key */
    OP_SLICE,     /* kids: object, from, to, step; each but the first may be NULL */
    OP_CALL,      /* kids: function; arguments */
    OP_FILTER,    /* kids: value, NULL in a block; name, builtin, arguments */
    OP_TEST,      /* kids: value; name, builtin, arguments */
    OP_NOT,       /* kids: operand */
    OP_NEGATIVE,
    OP_POSITIVE,
    OP_AND, /* kids: two operands */
    OP_OR,
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_FLOOR_DIVIDE,
    OP_MODULO,
    OP_POWER,
    OP_CONCAT,  /* kids: two or more */
    OP_COMPARE, /* kids: first, and OP_EQ ... OP_NOT_IN with one kid each */
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
    OP_CHOICE, /* kids: condition, then, else or NULL */
    OP_MEMBER, /* no kids; name, member: of a namespace, to be set */

    /* statements */
    OP_BLOCK,      /* kids: statements, in order */
    OP_DATA,       /* value: text to print */
    OP_PRINT,      /* kids: one */
    OP_IF,         /* kids: condition, block, condition, block ..., block of else */
    OP_FOR,        /* kids: target, iterable, filter or NULL, body, else or NULL */
    OP_BREAK,      /* */
    OP_CONTINUE,   /* */
    OP_SET,        /* kids: target, value */
    OP_SET_BLOCK,  /* kids: target, filters or NULL, body */
    OP_MACRO,      /* name; kids: body; parameters */
    OP_CALL_BLOCK, /* kids: the call, an OP_MACRO without a name */
    OP_FILTERED,   /* kids: filters, body */
    OP_WITH,       /* kids: target, value, target, value ..., body */
    OP_GENERATION, /* kids: body */
};

enum jinja_spread { JINJA_SINGLE, JINJA_STAR, JINJA_DOUBLE_STAR };

/* An argument of a call, or a parameter of a macro with its default. */
struct jinja_argument {
    const char *name; /* NULL: positional */
    enum jinja_spread spread;
    const struct jinja_node *value; /* NULL: a parameter without default */
};

struct jinja_node {
    enum jinja_op op;
    uint32_t line;
    const char *name, *member;
    const struct jinja_builtin *builtin;
    struct jinja_value value;
    struct jinja_node **kids;
    size_t count;
    struct jinja_argument *arguments;
    size_t argument_count;
    bool reads_varargs, reads_kwargs, reads_caller; /* used in a macro's body */
};

struct jinja {
    struct arena *arena;
    const char *name;
    const char *loop, *caller, *varargs, *kwargs; /* addresses of these names */
    const struct jinja_node *body;
    bool generation;
};

#endif
