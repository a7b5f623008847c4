/*
 * patcher/document.h - a job's text with every key and value marked by byte, line and column.
 * The only file that knows YAML (libyaml events; marks turned from characters into bytes).
 */
#ifndef PATCHER_DOCUMENT_H
#define PATCHER_DOCUMENT_H

#include "base/arena.h"
#include "base/text.h"

/* Limits of TS009: hostile input costs nothing.  libyaml alone takes 28 s for 200 kB of `[`. */
#define DOCUMENT_MAX_BYTES ((size_t)1 << 20)
#define DOCUMENT_MAX_DEPTH 32
#define DOCUMENT_MAX_EVENTS 20000
#define DOCUMENT_MAX_ALIASES 100
#define DOCUMENT_MAX_SCALAR 4096

enum node_kind { NODE_SCALAR, NODE_MAP, NODE_LIST, NODE_ALIAS };
enum node_style { STYLE_PLAIN, STYLE_SINGLE, STYLE_DOUBLE, STYLE_LITERAL, STYLE_FOLDED };

struct node {
    enum node_kind kind;
    enum node_style style; /* of a scalar */
    struct mark at;        /* first byte, quotes and anchors included */
    size_t bytes;          /* to the last byte of the value itself, without trailing blanks,
                              comments or line end; 0 for an empty value */
    const char *text;      /* of a scalar: its value, NUL-ended; "" when empty */
    size_t len;
    const char *tag;       /* explicit tag, or NULL */
    const char *anchor;    /* anchor it defines, or the alias's name, or NULL */
    struct entry *entries; /* of a map, in order */
    struct node **items;   /* of a list */
    size_t count;
};

struct entry {
    struct node *key, *value;
    bool from_merge;       /* came by `<<` */
};

/* Why a text is no job: each has its rule in the catalogue. */
enum document_fault {
    DOCUMENT_OK,
    DOCUMENT_ENCODING,   /* TS001 */
    DOCUMENT_TAB,        /* TS004 */
    DOCUMENT_DUPLICATE,  /* TS005: the document can still be read */
    DOCUMENT_SEVERAL,    /* TS006 */
    DOCUMENT_LIMIT,      /* TS009: size, depth, events, aliases, scalars, empty, no mapping */
    DOCUMENT_SYNTAX      /* TS009 too: not YAML at all */
};

struct document_remark {
    enum document_fault fault;
    struct mark at;
    size_t bytes;
    char text[256];
};

struct document {
    const char *data; /* the text, in the arena, NUL-ended */
    size_t len;
    struct node *root; /* a map, or NULL when a fault other than DUPLICATE stands */
    struct document_remark remarks[16];
    size_t remark_count;
    bool bom;          /* TS002; marks count it, columns do not */
    bool crlf, mixed_ends; /* TS003 */
    size_t aliases;
};

/* Never fails: what is wrong is in remarks. */
void document_read(const char *data, size_t len, struct arena *arena, struct document *out);

/* A top-level key; the last one if given twice (as libyaml's users read it). */
const struct entry *document_find(const struct document *document, const char *key);
const struct entry *node_find(const struct node *map, const char *key);

/* Line and column of a byte. */
struct mark document_mark(const struct document *document, size_t byte);
/* The byte behind the end of the line that `byte` is on, line end included. */
size_t document_line_end(const struct document *document, size_t byte);
size_t document_line_start(const struct document *document, size_t byte);
/* "\n" or "\r\n": how the line that `byte` is on ends, or the line before it if it is the last. */
const char *document_newline(const struct document *document, size_t byte);

/* YAML's null: empty, ~, null, Null, NULL, when plain. */
bool node_is_null(const struct node *node);

/* Are two documents the same data but for the top-level keys named (NULL-ended)? */
bool document_same_but(const struct document *a, const struct document *b,
                       const char *const *but);

/* `# trainspool: keep` or `# trainspool: ignore[TS104,TS118]` behind a value's line. */
bool document_line_keeps(const struct document *document, struct mark at);

#endif
