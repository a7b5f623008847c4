/*
 * patcher/findings/rewrite.h - the edits a rule may make, as byte spans of the document: another
 * value, another key, a new line, a line commented out.  Comments, quotes and layout
 * stay.
 *
 * Each call fills at, cut, was, now and label of *out and nothing else of it, or leaves
 * it alone and says why.  Entries are those of the top level or of a map right below it.
 */
#ifndef PATCHER_FINDINGS_REWRITE_H
#define PATCHER_FINDINGS_REWRITE_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"

enum rewrite_fault {
    REWRITE_OK,
    REWRITE_ANCHOR,        /* an anchor, an alias or a merge: TS007 */
    REWRITE_INTERPOLATION, /* `${...}`: TS008 */
    /* the key is given twice (TS005): nobody knows which one counts */
    REWRITE_TWICE,
    /* the layout leaves no sure way: `? key`, comments inside a value, line ends that
     * readers disagree about */
    REWRITE_SHAPE
};

struct rewrite {
    const struct document *document;
    struct arena *arena;
    struct finding *out;
};

/*
 * Put `value` (plain YAML, as `float32`, `0.0`) in place of the entry's value.  Quotes
 * stay as they are; a comment two or more blanks behind the value, or in a column with
 * the comment above or below, keeps its column while the gap allows, which is why the
 * span may take in blanks behind the value and `now` may end in some.
 */
enum rewrite_fault rewrite_value(const struct rewrite *rewrite, const struct entry *entry,
                                 const char *value);
/* Another name for the key; the span is the key. */
enum rewrite_fault rewrite_key(const struct rewrite *rewrite, const struct entry *entry,
                               const char *name);
/* A new line `key: value` behind the line `behind` ends on (NULL: behind the last key),
 * with its indentation and line end; in a flow mapping, behind the value. */
enum rewrite_fault rewrite_insert(const struct rewrite *rewrite,
                                  const struct entry *behind, const char *key,
                                  const char *value);
/* `# trainspool TS606 removed: fp16_opt_level: O1` */
enum rewrite_fault rewrite_remove(const struct rewrite *rewrite,
                                  const struct entry *entry, const char *rule);

#endif
