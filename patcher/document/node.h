/* patcher/document/node.h - one value of a job's text with its position. */
#ifndef PATCHER_DOCUMENT_NODE_H
#define PATCHER_DOCUMENT_NODE_H

#include "base/error.h"

enum node_kind { NODE_SCALAR, NODE_MAP, NODE_LIST, NODE_ALIAS };
enum node_style { STYLE_PLAIN, STYLE_SINGLE, STYLE_DOUBLE, STYLE_LITERAL, STYLE_FOLDED };

/* Whether an edit may replace a value of a script.  YAML has only literals. */
enum node_edit {
    NODE_LITERAL,
    NODE_COMPUTED, /* an expression: only with --unsafe */
    NODE_FIXED     /* what a call implies: never */
};

struct node {
    enum node_kind kind;
    enum node_style style; /* of a scalar */
    enum node_edit edit;
    bool flow;      /* a map in braces, a list in brackets */
    struct mark at; /* first byte, including quotes, tags and anchors */
    /* through the last byte of the value, without trailing blanks, comments or line end;
     * 0 if empty */
    size_t bytes;
    /* value of a scalar, or of the scalar that an alias refers to, NUL-terminated; "" if
     * empty and for maps and lists */
    const char *text;
    size_t len;
    const char *tag; /* explicit tag, or NULL */
    /* the anchor it defines, the anchor an alias names, or NULL */
    const char *anchor;
    const struct node *target; /* the node that an alias refers to, never an alias */
    struct entry *entries;     /* of a map, in order */
    struct node **items;       /* of a list */
    size_t count;
};

struct entry {
    struct node *key, *value;
    /* added by `<<` at the top level; its position is in the merged map */
    bool from_merge;
};

/* Find a key of a map: the last one if it occurs twice; a merged one only if none is
 * written. */
const struct entry *node_find(const struct node *map, const char *key);
/* As node_find; NULL if the key is given several times with different values, so that
 * it is unknown which one is meant (TS005). */
const struct entry *node_find_clear(const struct node *map, const char *key);

/* Return the target of an alias, otherwise the node. */
const struct node *node_value(const struct node *node);

/* Return whether it is YAML's null: plain empty, ~, null, Null or NULL, or an alias to
 * one. */
bool node_is_null(const struct node *node);

/* Return whether both are the same data.  Quotes matter only if they change what a reader
 * sees. */
bool node_same(const struct node *a, const struct node *b);

#endif
