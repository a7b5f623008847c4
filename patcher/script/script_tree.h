/* patcher/script/script_tree.h - the text of a Python script -> its syntax tree. */
#ifndef PATCHER_SCRIPT_SCRIPT_TREE_H
#define PATCHER_SCRIPT_SCRIPT_TREE_H

#include "patcher/script/syntax.h"

enum script_fault {
    SCRIPT_OK,
    SCRIPT_UNSUPPORTED, /* this build has no grammar of Python */
    SCRIPT_SYNTAX,
    SCRIPT_LIMIT
};

/* Whether this build can read scripts. */
extern const bool script_tree_supported;

/*
 * Parse `data`, which is NUL-terminated and borrowed.  Lines of a notebook, `!pip ...`
 * and `%magic`, count as comments.  After SCRIPT_SYNTAX and SCRIPT_LIMIT, *at is the
 * position.
 */
enum script_fault script_tree_read(const char *data, size_t len, struct arena *arena,
                                   struct syntax_tree *out, size_t *at);

#endif
