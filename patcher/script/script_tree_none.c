/* patcher/script/script_tree_none.c - a build without the grammar of Python. */
#include "config.h"

#include "patcher/script/script_tree.h"

const bool script_tree_supported = false;

enum script_fault script_tree_read(const char *data, size_t len, struct arena *arena,
                                   struct syntax_tree *out, size_t *at)
{
    *out = (struct syntax_tree) { .data = data, .len = len, .arena = arena };
    *at = 0;
    return SCRIPT_UNSUPPORTED;
}
