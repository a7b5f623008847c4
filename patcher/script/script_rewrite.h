/* patcher/script/script_rewrite.h - the edits of findings/rewrite.h, for a script. */
#ifndef PATCHER_SCRIPT_SCRIPT_REWRITE_H
#define PATCHER_SCRIPT_SCRIPT_REWRITE_H

#include "patcher/findings/rewrite.h"

extern const struct rewriter script_rewriter;

#endif
