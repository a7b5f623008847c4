/* patcher/document/document.h - a job's text with byte, line and column of every key
 * and value.  Only patcher/document knows YAML; it converts the character offsets of
 * libyaml's events to byte offsets. */
#ifndef PATCHER_DOCUMENT_DOCUMENT_H
#define PATCHER_DOCUMENT_DOCUMENT_H

#include "base/text.h"
#include "patcher/document/node.h"
#include "patcher/document/text_position.h"

/* Limits of TS009: hostile input must not cost time.  libyaml alone takes 28 s for 200 kB
 * of `[`. */
#define DOCUMENT_MAX_BYTES   ((size_t)1 << 20)
#define DOCUMENT_MAX_DEPTH   32
#define DOCUMENT_MAX_EVENTS  20000
#define DOCUMENT_MAX_ALIASES 100
#define DOCUMENT_MAX_SCALAR  4096

/* Why a text is not a job.  Each fault has its rule in the catalog. */
enum document_fault {
    DOCUMENT_OK,
    DOCUMENT_ENCODING,  /* TS001 */
    DOCUMENT_TAB,       /* TS004 */
    DOCUMENT_DUPLICATE, /* TS005: the document can still be read */
    DOCUMENT_SEVERAL,   /* TS006 */
    /* TS009: size, depth, events, aliases, scalars, empty file, not a mapping */
    DOCUMENT_LIMIT,
    DOCUMENT_SYNTAX /* also TS009: not YAML at all */
};

struct document_remark {
    enum document_fault fault;
    struct mark at;
    size_t bytes;
    char text[256];
};

struct byte_range {
    size_t at, end;
};

struct script;
struct rewriter;

struct document {
    const char *data; /* the text in the arena, NUL-terminated; "" if it is too large */
    size_t len;
    struct node *root; /* a map, or NULL after any fault except DUPLICATE */
    struct document_remark remarks[16];
    size_t remark_count;
    bool bom;              /* TS002; bytes of marks count it, columns do not */
    bool crlf, mixed_ends; /* TS003: all lines end in CRLF; lines end in different ways */
    /* has NEL, LS or PS: line ends in YAML 1.1, but not in YAML 1.2 and editors */
    bool unicode_breaks;
    size_t aliases;
    struct text_positions positions;
    /* of a Python script, whose rows script_read made; otherwise NULL and 0 */
    struct script *script;
    const struct rewriter *rewriter;   /* how rows are edited; NULL: as YAML */
    const struct byte_range *comments; /* from # to the end of the line, in order */
    size_t comment_count;
};

/*
 * Read a text.  This never fails: faults are in `remarks`.  The root has the written
 * entries in order, followed by the entries that `<<: *name` adds and that are not
 * written (from_merge).  A `<<` that merges no map stays as a key of that name.
 */
void document_read(const char *data, size_t len, struct arena *arena,
                   struct document *out);

/* Find a top-level key; the last one if it occurs twice (as programs that use libyaml
 * read it). */
const struct entry *document_find(const struct document *document, const char *key);

/* Return line and column of a byte. */
struct mark document_mark(const struct document *document, size_t byte);
/* Return the position after the line that contains `byte`, including its line end.  Line
 * ends of YAML 1.1 count here: LF, CRLF, CR, NEL, LS, PS. */
size_t document_line_end(const struct document *document, size_t byte);
size_t document_line_start(const struct document *document, size_t byte);
/* Return "\n", "\r\n" or "\r": how the line of `byte` ends, or the line before it if it
 * is the last; "\n" if neither has a line end. */
const char *document_newline(const struct document *document, size_t byte);

/* Return whether two documents have the same data except for the named top-level keys
 * (the list ends with NULL). */
bool document_same_but(const struct document *a, const struct document *b,
                       const char *const *but);

/* Find the `#` of the comment after byte `from` on its line, where `from` is outside
 * quotes.  Return false if there is none. */
bool document_comment(const struct document *document, size_t from, size_t *at);
/* Return whether `# trainspool: keep` follows a key or value on its line: it must not be
 * edited. */
bool document_line_keeps(const struct document *document, struct mark at);

#endif
