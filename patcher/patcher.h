/*
 * patcher/patcher.h - entry points: a job file and a device -> findings, a plan, a new
 * file.
 *
 *   document_read -> schema_check, schema_bind -> policy_decide -> rules_run -> edits
 *
 * The new text passes the same steps and must require no further safe edit.
 */
#ifndef PATCHER_PATCHER_H
#define PATCHER_PATCHER_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"
#include "patcher/rules/patch_options.h"
#include "train/plan.h"

/* The results of a check.  Allocated from its arena. */
struct patch {
    struct arena *arena;
    const char *job;
    struct document document; /* of the original text */
    /* all findings, each with its edit; marks refer to the original text */
    struct findings findings;
    struct findings ignored; /* findings that the original text asks not to report */
    /* of the text after the safe edits; of the original text if another program reads its
     * values differently */
    struct plan plan;
    bool has_plan; /* false: the file is not a job, or too broken for a plan */
    /* false: TS001, TS004, TS006, TS009, or the file of another tool (TS706); exit
     * status 2 */
    bool is_job;
    bool changed;     /* the safe (or selected) edits change the text */
    bool rejected;    /* there is no plan, or an error remains after the edits */
    const char *text; /* the text after the edits */
    size_t len;
    char before[65], after[65]; /* SHA-256; "" if it was not read */
    const char *backup;         /* path of the backup written, or NULL */
};

/* Check a text.  The caller clears *out with patch_clear.  Fails only on internal errors
 * (a patch that does not converge) and on I/O errors. */
bool patcher_check(const char *data, size_t len, const struct patch_options *options,
                   struct patch *out, struct error *err);
/* The same for a file (at most 1 MiB, a regular file; otherwise ERROR_DATA). */
bool patcher_check_file(const struct patch_options *options, struct patch *out,
                        struct error *err);
/* Report a file that is too large to read: TS009, and no digest. */
void patcher_too_large(size_t bytes, const struct patch_options *options,
                       struct patch *out);
/*
 * Check the file and make the edits: lock, backup, replace the file, journal.  The file
 * is not touched if it is a link, hard-linked or read-only (TS011), or changed in the
 * meantime (TS010: checked again, once).  An unchanged file keeps its mode, owner and
 * times.  `set` is ignored: the settings of one run do not go into the file.
 */
bool patcher_patch_file(const struct patch_options *options, struct patch *out,
                        struct error *err);
/* Read only the plan, for the trainer; the frozen text is used unchanged. */
bool patcher_read(const struct patch_options *options, struct patch *out,
                  struct error *err);
bool patcher_read_text(const char *data, size_t len, const struct patch_options *options,
                       struct patch *out, struct error *err);
void patch_clear(struct patch *patch);

/* Return whether an error remains after the edits that were (or would be) made. */
bool patch_rejected(const struct patch *patch);

#endif
