/*
 * patcher/document/document.h - a job's text with every key and value marked by byte, line and
 * column. The only file that knows YAML (libyaml events; marks turned from characters
 * into bytes).
 */
#ifndef PATCHER_DOCUMENT_DOCUMENT_H
#define PATCHER_DOCUMENT_DOCUMENT_H

#include "base/text.h"
#include "patcher/document/node.h"
#include "patcher/document/text_position.h"

/* Limits of TS009: hostile input costs nothing.  libyaml alone takes 28 s for 200 kB of
 * `[`. */
#define DOCUMENT_MAX_BYTES   ((size_t)1 << 20)
#define DOCUMENT_MAX_DEPTH   32
#define DOCUMENT_MAX_EVENTS  20000
#define DOCUMENT_MAX_ALIASES 100
#define DOCUMENT_MAX_SCALAR  4096

/* Why a text is no job: each has its rule in the catalogue. */
enum document_fault {
    DOCUMENT_OK,
    DOCUMENT_ENCODING,  /* TS001 */
    DOCUMENT_TAB,       /* TS004 */
    DOCUMENT_DUPLICATE, /* TS005: the document can still be read */
    DOCUMENT_SEVERAL,   /* TS006 */
    /* TS009: size, depth, events, aliases, scalars, empty, no mapping */
    DOCUMENT_LIMIT,
    DOCUMENT_SYNTAX /* TS009 too: not YAML at all */
};

struct document_remark {
    enum document_fault fault;
    struct mark at;
    size_t bytes;
    char text[256];
};

struct document {
    const char *data; /* the text, in the arena, NUL-ended; "" if it is too large */
    size_t len;
    struct node *root; /* a map, or NULL when a fault other than DUPLICATE stands */
    struct document_remark remarks[16];
    size_t remark_count;
    bool bom;              /* TS002; marks count it, columns do not */
    bool crlf, mixed_ends; /* TS003: all lines end in CRLF; in more than one way */
    /* NEL, LS or PS: line ends to YAML 1.1, none to YAML 1.2 and editors */
    bool odd_breaks;
    size_t aliases;
    struct text_positions positions;
};

/*
 * Never fails: what is wrong is in remarks.
 * The root's entries are those written, in order, then those that come by `<<: *name` and
 * are not written (from_merge); a `<<` that merges no map stays as a key of that name.
 */
void document_read(const char *data, size_t len, struct arena *arena,
                   struct document *out);

/* A top-level key; the last one if given twice (as libyaml's users read it). */
const struct entry *document_find(const struct document *document, const char *key);

/* Line and column of a byte. */
struct mark document_mark(const struct document *document, size_t byte);
/* The byte behind the end of the line that `byte` is on, line end included.  What YAML
 * 1.1 takes for a line end counts here: LF, CRLF, CR, NEL, LS, PS. */
size_t document_line_end(const struct document *document, size_t byte);
size_t document_line_start(const struct document *document, size_t byte);
/* "\n", "\r\n" or "\r": how the line that `byte` is on ends, or the line before it if it
 * is the last; "\n" where that says nothing. */
const char *document_newline(const struct document *document, size_t byte);

/* Are two documents the same data but for the top-level keys named (NULL-ended)? */
bool document_same_but(const struct document *a, const struct document *b,
                       const char *const *but);

/* The `#` of the comment behind byte `from` on its line, where `from` is outside of
 * quotes; false if there is none. */
bool document_comment(const struct document *document, size_t from, size_t *at);
/* `# trainspool: keep` behind the line of a key or value: it is not to be edited. */
bool document_line_keeps(const struct document *document, struct mark at);

#endif
