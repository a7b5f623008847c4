/*
 * runner/options/options.h - the command line by table: one row an option, one row a command.
 * Usage,
 * --help and the shells' completion are made from the rows; the manual is held against
 * them.
 */
#ifndef RUNNER_OPTIONS_OPTIONS_H
#define RUNNER_OPTIONS_OPTIONS_H

#include "base/error.h"
#include "base/text.h"

enum option_id {
    OPTION_DEVICE,
    OPTION_JSON,
    OPTION_SARIF,
    OPTION_DIFF,
    OPTION_UNSAFE,
    OPTION_SELECT,
    OPTION_IGNORE,
    OPTION_FAIL_ON,
    OPTION_EXIT_ZERO,
    OPTION_TO,
    OPTION_FORCE,
    OPTION_NO_PATCH,
    OPTION_RESUME,
    OPTION_SET,
    OPTION_ONCE,
    OPTION_FOLLOW,
    OPTION_LINES,
    OPTION_RAW,
    OPTION_KNOWN,
    OPTION_OUTPUT,
    OPTION_PROBE,
    OPTION_STEPS,
    OPTION_CALIBRATE,
    OPTION_FROZEN,
    OPTION_SPOOLED,
    OPTION_LOCK_FD,
    OPTION_RANK,
    OPTION_LINK_FD,
    OPTION_NO_ONEDNN,
    OPTION_GENERATE,
    OPTION_PROMPT,
    OPTION_PROMPTS,
    OPTION_DEVICE_LOCAL,
    OPTION_RAW_PROMPT,
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
    /* every command takes those from here on */
    OPTION_COLOR,
    OPTION_QUIET,
    OPTION_VERBOSE,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_IDS,
    OPTION_END = OPTION_IDS /* ends a list of options */
};

/* What trainspool generate accepts and passes on to trainspool-train. */
#define OPTIONS_OF_GENERATE                                                           \
    OPTION_JSON, OPTION_DEVICE_LOCAL, OPTION_OUTPUT, OPTION_NO_ONEDNN, OPTION_PROMPT, \
        OPTION_PROMPTS, OPTION_RAW_PROMPT, OPTION_TEMPLATE, OPTION_SYSTEM,            \
        OPTION_MAX_NEW_TOKENS, OPTION_TEMPERATURE, OPTION_TOP_P, OPTION_TOP_K,        \
        OPTION_REPETITION_PENALTY, OPTION_SEED, OPTION_STOP, OPTION_BATCH,            \
        OPTION_SAMPLES, OPTION_KEEP_CORRECT

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
    const char *operands; /* "JOB..."; "" for none */
    int least, most;      /* operands; most -1: any number */
    /* beyond those of every command; ends in OPTION_END; NULL: none */
    const enum option_id *options;
    const char *help;                          /* one line, without a final stop */
    const char *more;                          /* paragraphs behind it in --help */
    int (*run)(const struct options *options); /* the exit status */
};

struct options {
    const char *program; /* "trainspool" */
    const struct command *command;
    const char *const *operands; /* NULL-ended, point into argv */
    size_t operand_count;

    const char *device, *fail_on, *to, *color, *output;
    const char *const *set; /* lists are NULL-ended; NULL: none */
    const char *const *select;
    const char *const *ignore;
    int64_t lock_fd, link_fd, lines; /* -1: not given */
    int64_t rank;
    bool json, sarif, diff, unsafe, force, no_patch, resume, once, follow, raw, known;
    bool exit_zero, probe, steps, calibrate, frozen, spooled, no_onednn;
    bool quiet, verbose, help, version;

    /* of generate */
    const char *const *prompt;
    const char *const *stop;
    const char *prompts, *template_name, *system;
    int64_t max_new_tokens, top_k, seed, batch, samples; /* -1: not given */
    double temperature, top_p, repetition_penalty;       /* below 0: not given */
    bool generate, keep_correct;
};

const struct option_row *option_row(enum option_id id);
/* Does a command take an option?  Those of every command too. */
bool option_taken(const struct command *command, enum option_id id);

/*
 * Read argv (argv[0] is passed over) for one command.  The lists in *out are malloc'ed:
 * give them back with options_clear.  ERROR_USAGE with the nearest right thing to type.
 * --help and --version are only noted; then operands are not counted.
 */
bool options_read(int argc, char **argv, const char *program,
                  const struct command *command, struct options *out, struct error *err);
void options_clear(struct options *options);

/* The options that were given and `command` takes, as words for another program of ours,
 * and the operands behind "--"; `program` and `first` (NULL: none) come before.  Words
 * and list are malloc'ed. */
char **options_words(const struct options *options, const struct command *command,
                     const char *program, const char *first);

/* The word of a NULL-ended list that a misspelt one may mean; NULL: none is near. */
const char *options_nearest(const char *word, const char *const *words);

/* "trainspool check [options] JOB..." and a newline. */
void options_usage(const char *program, const struct command *command, struct text *out);
/* The whole page of --help for one command. */
void options_help(const char *program, const struct command *command, struct text *out);

/* Lines of `text` broken at blanks so that none passes `width` columns; each begins with
 * `indent` blanks. */
void options_wrap(const char *text, size_t indent, size_t width, struct text *out);

#endif
