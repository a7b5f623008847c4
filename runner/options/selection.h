/*
 * runner/options/selection.h - which rules --select and --ignore name: whole rules (TS102),
 * families (TS1), TS or ALL, separated by commas, in any case.
 */
#ifndef RUNNER_OPTIONS_SELECTION_H
#define RUNNER_OPTIONS_SELECTION_H

#include "base/arena.h"
#include "runner/options/options.h"

/* As patch_options wants them, see suppress_selects; NULL where the option is not
 * given. */
struct selection {
    struct arena *arena;
    const char *const *select;
    const char *const *ignore;
};

/* ERROR_USAGE for what is no rule and no family, with the one that is meant.
 * selection_clear in any case. */
bool selection_read(const struct options *options, struct selection *out,
                    struct error *err);
void selection_clear(struct selection *selection);

#endif
