/*
 * patcher/script/syntax.h - the syntax tree of a Python script.
 *
 * Nodes have the names of tree-sitter's grammar of Python, reduced to those that matter
 * here.  Only script_tree.c knows the library.
 */
#ifndef PATCHER_SCRIPT_SYNTAX_H
#define PATCHER_SCRIPT_SYNTAX_H

#include "patcher/document/document.h"

enum syntax_kind {
    SYNTAX_OTHER,
    SYNTAX_ALIAS, /* `a as b` of an import */
    SYNTAX_ARGUMENTS,
    SYNTAX_AS, /* `a as b` of a with statement */
    SYNTAX_ASSIGNMENT,
    SYNTAX_ATTRIBUTE,
    SYNTAX_AUGMENTED,
    SYNTAX_BINARY,
    SYNTAX_BOOLEAN, /* and, or */
    SYNTAX_CALL,
    SYNTAX_CLASS,
    SYNTAX_COMPARISON,
    SYNTAX_CONDITIONAL, /* a if b else c */
    SYNTAX_DEFAULT,     /* a parameter with a default */
    SYNTAX_DICTIONARY,
    SYNTAX_DOTTED,
    SYNTAX_DOUBLE_STAR,
    SYNTAX_ELIF,
    SYNTAX_ELSE,
    SYNTAX_FALSE,
    SYNTAX_FLOAT,
    SYNTAX_FOR,
    SYNTAX_FUNCTION,
    SYNTAX_IF,
    SYNTAX_IMPORT,
    SYNTAX_IMPORT_FROM,
    SYNTAX_INTEGER,
    SYNTAX_KEYWORD, /* a keyword argument */
    SYNTAX_LAMBDA,
    SYNTAX_LIST,
    SYNTAX_NAME,
    SYNTAX_NONE,
    SYNTAX_NOT,
    SYNTAX_OPERATOR,
    SYNTAX_PAIR,
    SYNTAX_PARAMETERS,
    SYNTAX_PARENTHESES,
    SYNTAX_RETURN,
    SYNTAX_STAR,
    SYNTAX_STRING,
    SYNTAX_SUBSCRIPT,
    SYNTAX_TRUE,
    SYNTAX_TRY,
    SYNTAX_TUPLE,
    SYNTAX_UNARY,
    SYNTAX_WHILE,
    SYNTAX_WITH,
    SYNTAX_KINDS
};

struct syntax {
    enum syntax_kind kind;
    bool interpolated; /* a string with `{...}` */
    uint32_t number;   /* of a call, from 1 in the order of the text; 0: not counted */
    const char *field; /* its role in the parent, "left"; or NULL */
    size_t at, end;    /* bytes */
    struct syntax *parent, *first, *last, *next; /* children in order, without comments */
};

/* Limits: hostile input must not cost time or the stack. */
#define SYNTAX_MAX_NODES    400000
#define SYNTAX_MAX_DEPTH    500
#define SYNTAX_MAX_COMMENTS 20000

struct syntax_tree {
    const char *data; /* NUL-terminated */
    size_t len;
    struct arena *arena;
    struct syntax *root;
    struct byte_range *comments; /* from # to before the line end, in order */
    size_t comment_count;
};

/* Return the first child with this role, or NULL. */
struct syntax *syntax_field(const struct syntax *node, const char *field);
/* Return a node without the parentheses around it. */
const struct syntax *syntax_plain(const struct syntax *node);
/* Return whether the bytes of the node are this text. */
bool syntax_is(const struct syntax_tree *tree, const struct syntax *node,
               const char *text);
const char *syntax_text(const struct syntax_tree *tree, const struct syntax *node);
/* Return names joined by dots, as in "torch.cuda.amp", without blanks between them; NULL
 * for any other expression. */
const char *syntax_dotted(const struct syntax_tree *tree, const struct syntax *node);
/* Return the next node in the order of the text, below `top`; NULL after the last. */
const struct syntax *syntax_next(const struct syntax *node, const struct syntax *top);
/* Return the innermost node around `node` of one of two kinds, or NULL. */
const struct syntax *syntax_around(const struct syntax *node, enum syntax_kind kind,
                                   enum syntax_kind other);
bool syntax_contains(const struct syntax *outer, const struct syntax *inner);

#endif
