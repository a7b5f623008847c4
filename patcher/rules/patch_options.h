/* patcher/rules/patch_options.h - what a caller asks of a check or a patch. */
#ifndef PATCHER_RULES_PATCH_OPTIONS_H
#define PATCHER_RULES_PATCH_OPTIONS_H

#include <stdbool.h>

struct device;

struct patch_options {
    /* the name that messages use, and that paths are relative to */
    const char *job;
    const struct device *device; /* NULL: device rules are off (TS208) */
    const char *no_device;       /* why it is NULL, for TS208; or NULL */
    /* the CPU of the machine that would run the job; NULL if unknown */
    const struct device *host;
    bool unsafe; /* edits of APPLY_UNSAFE too */
    /* prefixes of rule ids ("TS1", "TS702"), NULL-terminated; NULL selects all rules; see
     * suppress_selects */
    const char *const *select;
    const char *const *ignore; /* the same, of rules to ignore; NULL: none */
    bool will_run;             /* run, watch: TS713 is an error */
    bool resume;               /* run --resume: acts as resume_from_checkpoint: true */
    /* allowed roots of paths (TS710), NULL-terminated; NULL allows any path, but a job
     * writes only below its own folder or to absolute paths */
    const char *const *roots;
    /* --set KEY=VALUE, NULL-terminated, or NULL: applied to the text first, in memory
     * only */
    const char *const *set;
};

#endif
