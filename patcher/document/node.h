/* patcher/document/node.h - one value of a job's text: what it says and the bytes it stands on. */
#ifndef PATCHER_DOCUMENT_NODE_H
#define PATCHER_DOCUMENT_NODE_H

#include "base/error.h"

enum node_kind { NODE_SCALAR, NODE_MAP, NODE_LIST, NODE_ALIAS };
enum node_style { STYLE_PLAIN, STYLE_SINGLE, STYLE_DOUBLE, STYLE_LITERAL, STYLE_FOLDED };

struct node {
    enum node_kind kind;
    enum node_style style; /* of a scalar */
    bool flow;             /* a map in braces, a list in brackets */
    struct mark at;        /* first byte, quotes, tags and anchors included */
    /* to the last byte of the value itself, without trailing blanks, comments or line
     * end; 0 for an empty value */
    size_t bytes;
    /* value of a scalar, or of the scalar an alias stands for, NUL-ended; "" when
     * empty, and for maps and lists */
    const char *text;
    size_t len;
    const char *tag;           /* explicit tag, or NULL */
    const char *anchor;        /* anchor it defines, or the alias's name, or NULL */
    const struct node *target; /* of an alias: what it stands for, never an alias */
    struct entry *entries;     /* of a map, in order */
    struct node **items;       /* of a list */
    size_t count;
};

struct entry {
    struct node *key, *value;
    /* of the top level only: came by `<<`; its place is in the map merged */
    bool from_merge;
};

/* A key of a map; the last one if given twice; one from a merge only if none is
 * written. */
const struct entry *node_find(const struct node *map, const char *key);

/* What a value stands for: the target of an alias, else itself. */
const struct node *node_value(const struct node *node);

/* YAML's null: empty, ~, null, Null, NULL, when plain; an alias to one too. */
bool node_is_null(const struct node *node);

/* The same data?  Quotes count as far as they change what a reader sees. */
bool node_same(const struct node *a, const struct node *b);

#endif
