/*
 * runner/output/report.h - errors and findings to the terminal; codes to exit statuses.  With
 * report_json.h, progress.h and the commands the only code that speaks to people.
 *
 * What came from a job, a file name or a model is always shown through text_add_visible.
 */
#ifndef RUNNER_OUTPUT_REPORT_H
#define RUNNER_OUTPUT_REPORT_H

#include <stdio.h>

#include "patcher/document/diff.h"
#include "patcher/patcher.h"
#include "runner/options/options.h"

enum {
    EXIT_FINE = 0,     /* nothing is left to mend, the training is done */
    EXIT_FINDINGS = 1, /* an error finding or an edit is left, or the training failed */
    EXIT_NO_JOB = 2,   /* usage, an unreadable file, or a file that is no job */
    EXIT_SYSTEM = 3,   /* I/O, locks, a defect in this program */
    EXIT_SECOND = 75,  /* another watch holds the folder (EX_TEMPFAIL of sysexits.h) */
    EXIT_INTERRUPT = 130, /* stopped by SIGINT */
    EXIT_TERMINATED = 143 /* stopped by SIGTERM */
};

/* What an exit status means, for the manual's test and --help; NULL past the end. */
struct exit_row {
    int status;
    const char *meaning;
};
const struct exit_row *report_exits(size_t *count);

/* Of a command, and of a training (where broken data is a failed training). */
int report_exit(enum error_code code);
int report_training_exit(enum error_code code);

struct report {
    FILE *out;
    bool terminal; /* out is one */
    bool colour;
    bool quiet, verbose;
    size_t width; /* columns of the terminal, or of a page where out is none */
    bool apart;   /* the next job begins with a blank line */
    int least;    /* severity that counts, as --fail-on says */
};

/* Where a command speaks: standard output, coloured as the options say. */
void report_init(struct report *report, const struct options *options);

/* A whole text; nothing is escaped any more. */
void report_write(struct report *report, const struct text *text);
/* A unified diff of two texts, but for the values of secret keys. */
bool report_diff(struct report *report, const struct text *was, const struct text *now,
                 const struct diff_options *how, struct error *err);
/* One line, everything in it made visible. */
void report_line(struct report *report, const char *fmt, ...) TS_PRINTF(2, 3);

/* "trainspool: gsm8k.yaml:14:13: sentence" on standard error. */
void report_error(const char *program, const struct error *err);
/* The last that a program says: has all of standard output been written?  `status`, or
 * after a message EXIT_SYSTEM where that says more. */
int report_end(const char *program, int status);

/* Each finding by place: its line, the line of the job it is about, the advice; quietly,
 * the first of these alone, of what the exit status is about. */
void report_findings(struct report *report, const struct patch *patch);
/* "2 edits made, 4 findings left (0 errors); as it was: ..." */
void report_summary(struct report *report, const struct patch *patch);
/* Findings as text without colour, for a log. */
void report_findings_text(const struct patch *patch, struct text *out);
/* The findings that a text has, in short: "TS105 in line 7: sentence, and 2 more". */
void report_reason(const struct patch *patch, struct text *out);

/* 0, 1 or 2 for a job that was checked (`edits`: edits that are not made count) or
 * patched. */
int report_status(const struct patch *patch, const struct options *options, bool edits);

/* Add `string` as a person may see it. */
void report_visible(struct text *out, const char *string);

#endif
