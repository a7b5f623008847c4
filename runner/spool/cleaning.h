/*
 * runner/spool/cleaning.h - one pass of retention over jobs: which of their old files
 * (runner/job/old_files.h) exceed a limit, and their removal, which each job's log and
 * journal note.
 */
#ifndef RUNNER_SPOOL_CLEANING_H
#define RUNNER_SPOOL_CLEANING_H

#include "runner/job/old_files.h"
#include "runner/spool/listing.h"

struct cleaning {
    struct old_limits limits; /* of all jobs together; each may have its own, too */
    bool no_ages;             /* the clock may be wrong: nothing is old */
    bool dry_run;             /* remove nothing, and take no lock */
    /* Called for each file with a line without its newline: "removed ..." or "would remove
     * ..."; and, with `bad`, for one that could not be removed. */
    void (*report)(void *context, bool bad, const char *line);
    void *context;
    size_t removed, failed; /* counted by cleaning_run */
    int64_t bytes;
};

/* Read the limits of --keep-days and --max-bytes. */
struct options;
bool cleaning_limits_read(const struct options *options, struct old_limits *out,
                          struct error *err);

void cleaning_run(struct cleaning *cleaning, const struct listing *listing);

#endif
