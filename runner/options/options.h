/*
 * runner/options/options.h - the command line as tables: one row per option, one row per
 * command. Usage, --help and the shell completions are generated from the rows; a test
 * compares the manual with them.
 */
#ifndef RUNNER_OPTIONS_OPTIONS_H
#define RUNNER_OPTIONS_OPTIONS_H

#include "base/error.h"
#include "base/text.h"

enum option_id {
    OPTION_DEVICE,
    OPTION_TARGET,
    OPTION_VERSIONS,
    OPTION_JSON,
    OPTION_SARIF,
    OPTION_DIFF,
    OPTION_UNSAFE,
    OPTION_SELECT,
    OPTION_IGNORE,
    OPTION_FAIL_ON,
    OPTION_EXIT_ZERO,
    OPTION_ALTERNATIVES,
    OPTION_TO,
    OPTION_FORCE,
    OPTION_AS_IS,
    OPTION_NO_PATCH,
    OPTION_RESUME,
    OPTION_SET,
    OPTION_ONCE,
    OPTION_NODE,
    OPTION_SLOTS,
    OPTION_DEVICES,
    OPTION_MAX_RUNNING,
    OPTION_MAX_QUEUED,
    OPTION_GPU_HOURS,
    OPTION_ON_END,
    OPTION_MAIL,
    OPTION_NOTIFY_TIMEOUT,
    OPTION_GRACE,
    OPTION_HANG,
    OPTION_METRICS,
    OPTION_PAGE,
    OPTION_LOG,
    OPTION_KEEP_DAYS,
    OPTION_MAX_BYTES,
    OPTION_FOLLOW,
    OPTION_USER,
    OPTION_STATE,
    OPTION_DRY_RUN,
    OPTION_K8S,
    OPTION_IMAGE,
    OPTION_CLAIM,
    OPTION_MOUNT,
    OPTION_OUTPUT_FOLDER,
    OPTION_HOLD,
    OPTION_STOP_RUNNING,
    OPTION_REASON,
    OPTION_LINES,
    OPTION_RAW,
    OPTION_KNOWN,
    OPTION_OUTPUT,
    OPTION_PROBE,
    OPTION_MEASURE,
    OPTION_STEPS,
    OPTION_CALIBRATE,
    OPTION_FROZEN,
    OPTION_DIGEST,
    OPTION_ROOT,
    OPTION_SPOOLED,
    OPTION_LOCK_FD,
    OPTION_THREADS,
    OPTION_RANK,
    OPTION_ZERO_STAGE,
    OPTION_LINK_FD,
    OPTION_LEASE,
    OPTION_NO_ONEDNN,
    OPTION_NO_SANDBOX,
    OPTION_GROUP,
    OPTION_GENERATE,
    OPTION_PROMPT,
    OPTION_PROMPTS,
    OPTION_DEVICE_LOCAL,
    OPTION_RAW_PROMPT,
    OPTION_IMAGE_FILE,
    OPTION_AUDIO_FILE,
    OPTION_TEMPLATE,
    OPTION_SYSTEM,
    OPTION_MAX_NEW_TOKENS,
    OPTION_TEMPERATURE,
    OPTION_TOP_P,
    OPTION_TOP_K,
    OPTION_REPETITION_PENALTY,
    OPTION_SEED,
    OPTION_STOP,
    OPTION_BATCH,
    OPTION_SAMPLES,
    OPTION_KEEP_CORRECT,
    /* every command accepts the options from here on */
    OPTION_COLOR,
    OPTION_QUIET,
    OPTION_VERBOSE,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_IDS,
    OPTION_END = OPTION_IDS /* ends a list of options */
};

/* The options that trainspool generate accepts and passes on to trainspool-train. */
#define OPTIONS_OF_GENERATE                                                              \
    OPTION_JSON, OPTION_DEVICE_LOCAL, OPTION_OUTPUT, OPTION_NO_ONEDNN, OPTION_PROMPT,    \
        OPTION_PROMPTS, OPTION_IMAGE_FILE, OPTION_AUDIO_FILE, OPTION_RAW_PROMPT,         \
        OPTION_TEMPLATE, OPTION_SYSTEM, OPTION_MAX_NEW_TOKENS, OPTION_TEMPERATURE,       \
        OPTION_TOP_P, OPTION_TOP_K, OPTION_REPETITION_PENALTY, OPTION_SEED, OPTION_STOP, \
        OPTION_BATCH, OPTION_SAMPLES, OPTION_KEEP_CORRECT, OPTION_NO_SANDBOX

enum option_kind {
    OPTION_IS_SWITCH,
    OPTION_IS_TEXT,
    OPTION_IS_NUMBER,
    OPTION_IS_REAL,
    OPTION_IS_LIST
};

struct option_row {
    const char *name;
    char letter; /* 0: none */
    enum option_kind kind;
    const char *argument;       /* "NAME"; NULL for a switch */
    const char *const *choices; /* NULL-ended; NULL: any text */
    size_t into;                /* offsetof(struct options, ...) */
    const char *help;
};

struct options;

struct command {
    const char *name;
    const char *operands;           /* "JOB..."; "" for none */
    int min_operands, max_operands; /* max_operands -1: any number */
    /* in addition to those of every command; ends in OPTION_END; NULL: none */
    const enum option_id *options;
    bool scripts;        /* its operands may be Python scripts, too */
    const char *help;    /* one line, without a final period */
    const char *details; /* paragraphs after `help` in --help; NULL: none */
    int (*run)(const struct options *options); /* the exit status */
};

struct options {
    const char *program; /* "trainspool" */
    const struct command *command;
    const char *const *operands; /* NULL-ended, pointing into argv */
    size_t operand_count;

    const char *device, *devices, *target, *fail_on, *to, *color, *output, *digest;
    const char *const *root;
    const char *const *set; /* lists are NULL-ended; NULL: none */
    const char *const *select;
    const char *const *ignore;
    const char *const *versions;
    int64_t lock_fd, link_fd, lines; /* -1: not given */
    int64_t rank, zero_stage;
    int64_t slots, threads; /* -1: not given */
    bool json, sarif, diff, unsafe, force, as_is, no_patch, resume, once, follow, raw,
        known;
    const char *measure; /* GPUs by their bus */
    bool exit_zero, alternatives, probe, steps, calibrate, frozen, spooled, no_onednn;
    bool no_sandbox;
    const char *group;
    const char *lease;
    bool quiet, verbose, help, version;

    const char *user; /* of status */

    /* of commands that change jobs */
    const char *const *states;
    bool dry_run, hold, stop_running;
    const char *reason;

    /* of submit */
    bool k8s;
    const char *image, *claim, *mount;

    /* of watch */
    const char *on_end, *mail, *metrics, *page, *log, *max_bytes, *node;
    int64_t notify_timeout, grace, hang, keep_days; /* -1: not given */
    int64_t max_running, max_queued;                /* -1: not given */
    const char *gpu_hours;

    /* of generate */
    const char *const *prompt;
    const char *const *image_files;
    const char *const *audio_files;
    const char *const *stop;
    const char *prompts, *template_name, *system;
    int64_t max_new_tokens, top_k, seed, batch, samples; /* -1: not given */
    double temperature, top_p, repetition_penalty;       /* below 0: not given */
    bool generate, keep_correct;
};

const struct option_row *option_row(enum option_id id);
/* Return whether a command accepts an option, including those of every command. */
bool option_is_accepted(const struct command *command, enum option_id id);

/* Read argv for one command, skipping argv[0]. The lists in *out are malloc'ed: free them
 * with options_clear. ERROR_USAGE suggests the nearest valid spelling. --help and
 * --version are only recorded; then operands are not counted. */
bool options_read(int argc, char **argv, const char *program,
                  const struct command *command, struct options *out, struct error *err);
void options_clear(struct options *options);

/* Return argv for another program of ours: `program` and `first` (NULL: none), then the
 * given options that `command` accepts, then "--" and the operands. Strings and list are
 * malloc'ed. */
char **options_argv(const struct options *options, const struct command *command,
                    const char *program, const char *first);

/* Return the string of a NULL-ended list that a misspelled one is probably meant to be;
 * NULL: none is near. */
const char *options_nearest(const char *word, const char *const *words);

#endif
