/*
 * patcher/patcher.h - the door: a job file and a device -> findings, a plan, a new file.
 *
 *   document_read -> schema_check, schema_bind -> policy_decide -> rules_run -> edits
 * The new text goes the same way again and must need no further safe edit.
 */
#ifndef PATCHER_PATCHER_H
#define PATCHER_PATCHER_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"
#include "patcher/rules/patch_options.h"
#include "train/plan.h"

/* What is known of one job after a check.  Lives in its arena. */
struct patch {
    struct arena *arena;
    const char *job;
    struct document document; /* of the text as it was */
    /* all, each with its edit; marks are of the text as it was */
    struct findings findings;
    struct findings ignored; /* what the text as it was asks not to be told */
    struct plan plan;        /* of the text after the safe edits */
    bool has_plan;           /* false: the file is no job, or too broken for one */
    bool is_job;             /* false: TS001, TS004, TS006, TS009: exit status 2 */
    bool changed;            /* the safe (or chosen) edits change something */
    bool rejected;           /* has no plan, or an error is left after the edits */
    const char *text;        /* the text after the edits */
    size_t len;
    char before[65], after[65]; /* SHA-256; "" of what was not read */
    const char *backup;         /* path of the backup written, or NULL */
};

/* Check a text.  *out must be given back with patch_clear.  False only for internal
 * errors (a patch that is no fixed point) and I/O. */
bool patcher_check(const char *data, size_t len, const struct patch_options *options,
                   struct patch *out, struct error *err);
/* The same for a file (at most 1 MiB, a regular file; otherwise ERROR_DATA). */
bool patcher_check_file(const struct patch_options *options, struct patch *out,
                        struct error *err);
/* What a file has that is too large to be read: TS009, and no digest. */
void patcher_too_large(size_t bytes, const struct patch_options *options,
                       struct patch *out);
/*
 * Check, and where edits are to be made: lock, backup, replace the file, journal.  The
 * file is never touched if it is a link, hard-linked or read-only (TS011), or changed
 * meanwhile (TS010: checked again, once).  mode, owner and times of an unchanged file
 * stay.  `set` has no part in it: the file does not take on what one run was told.
 */
bool patcher_patch_file(const struct patch_options *options, struct patch *out,
                        struct error *err);
/* Only the plan, for the trainer: the frozen text is read as it is. */
bool patcher_read(const struct patch_options *options, struct patch *out,
                  struct error *err);
bool patcher_read_text(const char *data, size_t len, const struct patch_options *options,
                       struct patch *out, struct error *err);
void patch_clear(struct patch *patch);

/* Left over after the edits that were (or would be) made: an error finding not fixed. */
bool patch_rejected(const struct patch *patch);

#endif
