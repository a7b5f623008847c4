/*
 * patcher/findings/rewrite.h - the edits a rule may make, as byte spans of the document:
 * replace a value, rename a key, insert a line, comment out a line.  Comments, quotes and
 * layout stay.
 *
 * Each function fills only at, cut, old_text, new_text and label of *out, or leaves it
 * unchanged and returns the reason.  Entries are those of the top level or of a map
 * directly below it.
 */
#ifndef PATCHER_FINDINGS_REWRITE_H
#define PATCHER_FINDINGS_REWRITE_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"

enum rewrite_fault {
    REWRITE_OK,
    REWRITE_ANCHOR,        /* an anchor, an alias or a merge: TS007 */
    REWRITE_INTERPOLATION, /* `${...}`: TS008 */
    /* the key occurs twice (TS005), and it is unknown which one counts */
    REWRITE_TWICE,
    /* the layout does not allow a safe edit: `? key`, comments inside a value, line ends
     * that readers interpret differently */
    REWRITE_SHAPE
};

struct rewrite {
    const struct document *document;
    struct arena *arena;
    struct finding *out;
};

/* The same edits for rows that are not YAML (document.rewriter). */
struct rewriter {
    enum rewrite_fault (*value)(const struct rewrite *rewrite, const struct entry *entry,
                                const char *value);
    enum rewrite_fault (*key)(const struct rewrite *rewrite, const struct entry *entry,
                              const char *name);
    enum rewrite_fault (*insert)(const struct rewrite *rewrite, const struct entry *after,
                                 const char *key, const char *value);
    enum rewrite_fault (*remove)(const struct rewrite *rewrite, const struct entry *entry,
                                 const char *rule);
};

/*
 * Replace the entry's value with `value` (plain YAML such as `float32` or `0.0`).  Quotes
 * are kept.  A comment that is two or more blanks after the value, or aligned with the
 * comment above or below, keeps its column while the gap allows.  Therefore the span may
 * include blanks after the value, and `new_text` may end in blanks.
 */
enum rewrite_fault rewrite_value(const struct rewrite *rewrite, const struct entry *entry,
                                 const char *value);
/* Rename the key; the span is the key. */
enum rewrite_fault rewrite_key(const struct rewrite *rewrite, const struct entry *entry,
                               const char *name);
/* Insert a line `key: value` after the line where `after` ends (NULL: after the last
 * key), with the same indentation and line end; in a flow mapping, after the value. */
enum rewrite_fault rewrite_insert(const struct rewrite *rewrite,
                                  const struct entry *after, const char *key,
                                  const char *value);
/* Comment out the entry: `# trainspool TS606 removed: fp16_opt_level: O1`. */
enum rewrite_fault rewrite_remove(const struct rewrite *rewrite,
                                  const struct entry *entry, const char *rule);

#endif
