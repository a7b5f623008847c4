/*
 * runner/options/selection.h - the rules that --select and --ignore name: whole rules
 * (TS102), families (TS1), TS or ALL, separated by commas, in any case.
 */
#ifndef RUNNER_OPTIONS_SELECTION_H
#define RUNNER_OPTIONS_SELECTION_H

#include "base/arena.h"
#include "runner/options/options.h"

/* In the form of patch_options, see suppress_selects; NULL if the option is not given. */
struct selection {
    struct arena *arena;
    const char *const *select;
    const char *const *ignore;
};

/* Parse the options. ERROR_USAGE for what is neither a rule nor a family, with the
 * nearest name. Call selection_clear in any case. */
bool selection_read(const struct options *options, struct selection *out,
                    struct error *err);
void selection_clear(struct selection *selection);

#endif
