/*
 * runner/output/report.h - prints errors and findings to the terminal; maps error codes
 * to exit statuses. Only this file, report_json.h, meter.h and the commands print to
 * people.
 *
 * Text from a job, a file name or a model is always shown through text_add_visible.
 */
#ifndef RUNNER_OUTPUT_REPORT_H
#define RUNNER_OUTPUT_REPORT_H

#include <stdio.h>

#include "patcher/document/diff.h"
#include "patcher/patcher.h"
#include "runner/options/options.h"

enum {
    EXIT_FINE = 0,     /* no findings to fix, or training succeeded */
    EXIT_FINDINGS = 1, /* an error finding or an edit is left, or training failed */
    EXIT_NO_JOB = 2,   /* usage, an unreadable file, or a file that is not a job */
    EXIT_SYSTEM = 3,   /* I/O, locks, a bug in trainspool */
    /* EX_TEMPFAIL of sysexits.h: another watch holds the folder, or a fault of the machine
     * ended a job of a spool */
    EXIT_AGAIN = 75,
    EXIT_NO_ROOM = 76,    /* a job of a spool waits for memory */
    EXIT_NO_MEMORY = 77,  /* of trainspool-train to its parent: an allocation failed */
    EXIT_CARD = 78,       /* the device of a job of a spool does not work */
    EXIT_OVER_LIMIT = 79, /* as EXIT_NO_MEMORY, within the job's memory_limit */
    EXIT_NOT_LOADED =
        127, /* of a shell or the dynamic loader: the program did not start */
    EXIT_INTERRUPT = 130, /* stopped by SIGINT */
    EXIT_TERMINATED = 143 /* stopped by SIGTERM */
};

/* The meaning of an exit status, for the manual's test and --help; NULL past the end. */
struct exit_row {
    int status;
    const char *meaning;
};
const struct exit_row *report_exits(size_t *count);

/* Return the exit status of a command, or of a training (where broken data is a failed
 * training). */
int report_exit(enum error_code code);
int report_training_exit(enum error_code code);
/* The same for a process whose parent tries again after a fault of the machine. */
int report_spooled_exit(enum error_code code);

struct report {
    FILE *out;
    bool terminal; /* out is a terminal */
    bool color;
    bool quiet, verbose;
    size_t width; /* columns of the terminal, or of a page if out is not a terminal */
    bool apart;   /* start the next job with a blank line */
    int least;    /* the lowest severity that counts, see --fail-on */
};

/* Set up printing to standard output, colored as the options say. */
void report_init(struct report *report, const struct options *options);

/* Print a whole text without escaping. */
void report_write(struct report *report, const struct text *text);
/* Print a unified diff of two texts, without the values of secret keys. */
bool report_diff(struct report *report, const struct text *was, const struct text *now,
                 const struct diff_options *how, struct error *err);
/* Print one line with everything in it made visible. */
void report_line(struct report *report, const char *fmt, ...) TS_PRINTF(2, 3);

/* Print "trainspool: gsm8k.yaml:14:13: sentence" on standard error. */
void report_error(const char *program, const struct error *err);
/* Call last: check that all of standard output was written. Return `status`, or
 * EXIT_SYSTEM after a message if output was lost and `status` is lower. */
int report_flush(const char *program, int status);

/* Print each finding by position: its line, the line of the job that it is about, the
 * advice. If quiet, print only the first line of findings that affect the exit status. */
void report_findings(struct report *report, const struct patch *patch);
/* Print "2 edits made, 4 findings left (0 errors); backup: ...". */
void report_summary(struct report *report, const struct patch *patch);
/* Append findings as text without color, for a log. */
void report_findings_text(const struct patch *patch, struct text *out);
/* Append a short version of a text's findings: "TS105 in line 7: sentence, and 2
 * more". */
void report_reason(const struct patch *patch, struct text *out);

/* Return 0, 1 or 2 for a job that was checked (`edits`: edits that are not made count) or
 * patched. */
int report_status(const struct patch *patch, const struct options *options, bool edits);

/* Append `string` with control characters made visible. */
void report_visible(struct text *out, const char *string);

#endif
