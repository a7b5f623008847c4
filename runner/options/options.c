/* runner/options/options.c - getopt_long driven by the rows, and the pages made from them. */
#include "config.h"

#include "runner/options/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "base/nearest.h"

enum { HELP_COLUMN = 24, HELP_WIDTH = 80, NEAR = 2 };

static const char *const color_words[] = { "auto", "always", "never", NULL };
static const char *const severity_words[] = { "error", "warning", "info", NULL };

#define INTO(field) .into = offsetof(struct options, field)

static const struct option_row rows[OPTION_IDS] = {
    [OPTION_DEVICE] = { "device", 0, OPTION_IS_TEXT, "NAME", NULL, INTO(device),
                        "as if on this device: \"TITAN RTX\", \"V100 32GB\", cpu, "
                        "sm_75:24GiB, or auto: what is in this machine (the default)" },
    [OPTION_JSON] = { "json", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(json),
                      "one JSON object on one line instead of text" },
    [OPTION_SARIF] = { "sarif", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(sarif),
                       "one SARIF 2.1.0 log of all jobs instead of text" },
    [OPTION_DIFF] = { "diff", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(diff),
                      "only show the edits as a unified diff, change nothing" },
    [OPTION_UNSAFE] = { "unsafe", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(unsafe),
                        "make the edits too that may change what the job means" },
    [OPTION_SELECT] = { "select", 0, OPTION_IS_LIST, "RULES", NULL, INTO(select),
                        "only these rules and families, as TS102,TS3; may be repeated" },
    [OPTION_IGNORE] = { "ignore", 0, OPTION_IS_LIST, "RULES", NULL, INTO(ignore),
                        "all but these; where both name a rule, the longer name decides" },
    [OPTION_EXIT_ZERO] = { "exit-zero", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(exit_zero),
                           "the exit status is 0 whatever is found in a job" },
    [OPTION_FAIL_ON] = { "fail-on", 0, OPTION_IS_TEXT, "SEVERITY", severity_words,
                         INTO(fail_on),
                         "the least severity that makes the exit status 1: error (the "
                         "default), warning or info" },
    [OPTION_TO] = { "to", 0, OPTION_IS_TEXT, "ID", NULL, INTO(to),
                    "put back this backup (see trainspool backups)" },
    [OPTION_FORCE] = { "force", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(force),
                       "even if the job was changed since; for submit, even if there is "
                       "a job of that name" },
    [OPTION_NO_PATCH] = { "no-patch", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(no_patch),
                          "leave the job file as it is" },
    [OPTION_RESUME] = { "resume", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(resume),
                        "go on from the last checkpoint, if there is one" },
    [OPTION_SET] = { "set", 0, OPTION_IS_LIST, "KEY=VALUE", NULL, INTO(set),
                     "a setting for this run alone, written as in the job; may be "
                     "repeated" },
    [OPTION_ONCE] = { "once", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(once),
                      "leave when no job is left to do" },
    [OPTION_FOLLOW] = { "follow", 'f', OPTION_IS_SWITCH, NULL, NULL, INTO(follow),
                        "go on showing what changes, until stopped" },
    [OPTION_LINES] = { "lines", 'n', OPTION_IS_NUMBER, "N", NULL, INTO(lines),
                       "only the last N lines" },
    [OPTION_RAW] = { "raw", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(raw),
                     "show control characters as they are" },
    [OPTION_KNOWN] = { "known", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(known),
                       "the table of known devices instead" },
    [OPTION_OUTPUT] = { "output", 'o', OPTION_IS_TEXT, "FILE", NULL, INTO(output),
                        "write to this file; import and generate overwrite none" },
    [OPTION_PROBE] = { "probe", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(probe),
                       "only say what is in this machine, one tab-separated line a "
                       "device" },
    [OPTION_STEPS] = { "steps", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(steps),
                       "only count the steps: an epoch, in all, tokens, samples" },
    [OPTION_CALIBRATE] = { "calibrate", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(calibrate),
                           "measure how fast the devices are, a few seconds each, so "
                           "that plan can tell the time of a run" },
    [OPTION_FROZEN] = { "frozen", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(frozen),
                        "follow NAME.run/job.yaml, the text frozen for this run" },
    [OPTION_SPOOLED] = { "spooled", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(spooled),
                         "a spool keeps this job: print nothing, and leave it ready to "
                         "go on when stopped" },
    [OPTION_LOCK_FD] = { "lock-fd", 0, OPTION_IS_NUMBER, "N", NULL, INTO(lock_fd),
                         "the lock of the job is already held, as descriptor N" },
    [OPTION_RANK] = { "rank", 0, OPTION_IS_NUMBER, "N", NULL, INTO(rank),
                      "be rank N of a job that has several; rank 0 starts the others" },
    [OPTION_LINK_FD] = { "link-fd", 0, OPTION_IS_NUMBER, "N", NULL, INTO(link_fd),
                         "rank 0 is at the other end of descriptor N" },
    [OPTION_NO_ONEDNN] = { "no-onednn", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(no_onednn),
                           "use the program's own matrix products on a CPU" },
    [OPTION_GENERATE] = { "generate", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(generate),
                          "complete prompts instead of training" },
    [OPTION_PROMPT] = { "prompt", 'p', OPTION_IS_LIST, "TEXT", NULL, INTO(prompt),
                        "complete this; may be repeated" },
    [OPTION_PROMPTS] = { "prompts", 0, OPTION_IS_TEXT, "FILE", NULL, INTO(prompts),
                         "the questions of this file: a data set as in a job, or .txt "
                         "with one a line; - reads lines from standard input" },
    [OPTION_DEVICE_LOCAL] = { "device", 0, OPTION_IS_TEXT, "DEVICE", NULL, INTO(device),
                              "on this device of the machine: cpu, cuda, cuda:N, or auto, "
                              "which is the default" },
    [OPTION_RAW_PROMPT] = { "raw", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(raw),
                            "no chat template around a prompt" },
    [OPTION_TEMPLATE] = { "template", 0, OPTION_IS_TEXT, "TEMPLATE", NULL,
                          INTO(template_name), "this chat template, not the model's" },
    [OPTION_SYSTEM] = { "system", 0, OPTION_IS_TEXT, "TEXT", NULL, INTO(system),
                        "the system message" },
    [OPTION_MAX_NEW_TOKENS] = { "max-new-tokens", 0, OPTION_IS_NUMBER, "N", NULL,
                                INTO(max_new_tokens),
                                "the longest completion; 256, or what a job says" },
    [OPTION_TEMPERATURE] = { "temperature", 0, OPTION_IS_REAL, "T", NULL,
                             INTO(temperature),
                             "draw tokens, from logits divided by this; 0 takes the "
                             "likeliest (the default, or what a job says)" },
    [OPTION_TOP_P] = { "top-p", 0, OPTION_IS_REAL, "P", NULL, INTO(top_p),
                       "draw from the likeliest that make up this share; 1: all" },
    [OPTION_TOP_K] = { "top-k", 0, OPTION_IS_NUMBER, "K", NULL, INTO(top_k),
                       "draw from the K likeliest; 0: all" },
    [OPTION_REPETITION_PENALTY] = { "repetition-penalty", 0, OPTION_IS_REAL, "R", NULL,
                                    INTO(repetition_penalty),
                                    "above 1, tokens that were there are less likely" },
    [OPTION_SEED] = { "seed", 0, OPTION_IS_NUMBER, "N", NULL, INTO(seed),
                      "of the draws; 42, or what a job says" },
    [OPTION_STOP] = { "stop", 0, OPTION_IS_LIST, "TEXT", NULL, INTO(stop),
                      "end a completion before this text; may be repeated" },
    [OPTION_BATCH] = { "batch", 0, OPTION_IS_NUMBER, "N", NULL, INTO(batch),
                       "completions made at once; 8, or a job's "
                       "per_device_eval_batch_size" },
    [OPTION_SAMPLES] = { "samples", 0, OPTION_IS_NUMBER, "N", NULL, INTO(samples),
                         "completions of each prompt" },
    [OPTION_KEEP_CORRECT] = { "keep-correct", 0, OPTION_IS_SWITCH, NULL, NULL,
                              INTO(keep_correct),
                              "print records of a data set: each question with its "
                              "right completions, each of them once" },
    [OPTION_COLOR] = { "color", 0, OPTION_IS_TEXT, "WHEN", color_words, INTO(color),
                       "auto (on a terminal, unless NO_COLOR is set), always or never" },
    [OPTION_QUIET] = { "quiet", 'q', OPTION_IS_SWITCH, NULL, NULL, INTO(quiet),
                       "say only what is wrong" },
    [OPTION_VERBOSE] = { "verbose", 'v', OPTION_IS_SWITCH, NULL, NULL, INTO(verbose),
                         "say more: the fact behind each finding, debug lines" },
    [OPTION_HELP] = { "help", 'h', OPTION_IS_SWITCH, NULL, NULL, INTO(help),
                      "this page" },
    [OPTION_VERSION] = { "version", 'V', OPTION_IS_SWITCH, NULL, NULL, INTO(version),
                         "the version" },
};

const struct option_row *option_row(enum option_id id)
{
    assert(id < OPTION_IDS);
    return &rows[id];
}

bool option_taken(const struct command *command, enum option_id id)
{
    if (id >= OPTION_COLOR)
        return true;
    if (!command || !command->options)
        return false;
    for (const enum option_id *at = command->options; *at != OPTION_END; at++)
        if (*at == id)
            return true;
    return false;
}

const char *options_nearest(const char *word, const char *const *words)
{
    const char *nearest = NULL;
    size_t least = NEAR + 1;

    for (; *words; words++) {
        size_t distance = nearest_distance(word, *words, NEAR);

        if (distance < least) {
            nearest = *words;
            least = distance;
        }
    }
    return nearest;
}

static bool choice_fits(const struct option_row *row, const char *value,
                        struct error *err)
{
    struct text words;
    const char *near;

    if (!row->choices)
        return true;
    text_init(&words, 0);
    for (size_t i = 0; row->choices[i]; i++) {
        if (strcmp(row->choices[i], value) == 0) {
            text_clear(&words);
            return true;
        }
        text_addf(&words, "%s%s", i ? ", " : "", row->choices[i]);
    }
    near = options_nearest(value, row->choices);
    error_set(err, ERROR_USAGE, "--%s is one of %s, not %s%s%s%s", row->name, words.data,
              value, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    text_clear(&words);
    return false;
}

static bool number_read(const struct option_row *row, const char *value, int64_t *out,
                        struct error *err)
{
    char *end;

    errno = 0;
    *out = strtoll(value, &end, 10);
    if (errno != 0 || *end || end == value || *out < 0)
        return error_set(err, ERROR_USAGE, "--%s wants a whole number from 0 on, not %s",
                         row->name, value);
    return true;
}

static bool real_read(const struct option_row *row, const char *value, double *out,
                      struct error *err)
{
    char *end;

    errno = 0;
    *out = strtod(value, &end);
    if (errno != 0 || *end || end == value || !(*out >= 0 && *out <= 1e6))
        return error_set(err, ERROR_USAGE, "--%s wants a number from 0 on, not %s",
                         row->name, value);
    return true;
}

static void list_add(const char *const **list, const char *value)
{
    size_t count = 0;
    const char **grown;

    while (*list && (*list)[count])
        count++;
    grown = memory_resize((void *)*list, count + 2, sizeof(*grown));
    grown[count] = value;
    grown[count + 1] = NULL;
    *list = grown;
}

static bool option_store(const struct option_row *row, const char *value,
                         struct options *out, struct error *err)
{
    void *field = (char *)out + row->into;

    switch (row->kind) {
    case OPTION_IS_SWITCH:
        *(bool *)field = true;
        return true;
    case OPTION_IS_TEXT:
        *(const char **)field = value;
        return choice_fits(row, value, err);
    case OPTION_IS_NUMBER:
        return number_read(row, value, field, err);
    case OPTION_IS_REAL:
        return real_read(row, value, field, err);
    case OPTION_IS_LIST:
        list_add(field, value);
        return true;
    }
    return false;
}

/* What getopt wants, made from the rows a command takes. */
struct getopt_table {
    struct option longs[OPTION_IDS + 1];
    char shorts[2 * OPTION_IDS + 2];
};

static void getopt_fill(const struct command *command, struct getopt_table *table)
{
    size_t longs = 0, shorts = 0;

    table->shorts[shorts++] = ':';
    for (int id = 0; id < OPTION_IDS; id++) {
        const struct option_row *row = &rows[id];
        bool wants = row->kind != OPTION_IS_SWITCH;

        if (!option_taken(command, (enum option_id)id))
            continue;
        table->longs[longs++] =
            (struct option) { row->name, wants ? required_argument : no_argument, NULL,
                              256 + id };
        if (row->letter) {
            table->shorts[shorts++] = row->letter;
            if (wants)
                table->shorts[shorts++] = ':';
        }
    }
    table->longs[longs] = (struct option) { 0 };
    table->shorts[shorts] = 0;
}

static const struct option_row *row_of(int got)
{
    if (got >= 256)
        return &rows[got - 256];
    for (int id = 0; id < OPTION_IDS; id++)
        if (rows[id].letter && rows[id].letter == got)
            return &rows[id];
    return NULL;
}

/* "trainspool check", or "trainspool-train" whose only command has no name. */
static void add_name(struct text *out, const char *program, const struct command *command)
{
    text_adds(out, program);
    if (command && command->name[0])
        text_addf(out, " %s", command->name);
}

static bool refuse(const char *program, const struct command *command, const char *what,
                   const char *which, struct error *err)
{
    struct text name;

    text_init(&name, 0);
    add_name(&name, program, command);
    error_set(err, ERROR_USAGE, "%s%s; %s --help tells more", what, which, name.data);
    text_clear(&name);
    return false;
}

/* The option of a command that `--word` or `--word=value` may mean. */
static const char *nearest_option(const struct command *command, const char *given)
{
    const char *names[OPTION_IDS + 1];
    char word[32];
    size_t count = 0, len = strcspn(given, "=");

    if (!text_starts(given, "--") || len >= sizeof(word))
        return NULL;
    memcpy(word, given, len);
    word[len] = 0;
    for (int id = 0; id < OPTION_IDS; id++)
        if (option_taken(command, (enum option_id)id))
            names[count++] = rows[id].name;
    names[count] = NULL;
    return options_nearest(word + 2, names);
}

static bool refuse_option(const char *program, const struct command *command,
                          const char *given, struct error *err)
{
    const char *near = nearest_option(command, given);

    if (!near)
        return refuse(program, command, "there is no option ", given, err);
    return error_set(err, ERROR_USAGE, "there is no option %s; did you mean --%s?", given,
                     near);
}

static bool count_operands(const char *program, const struct command *command,
                           struct options *out, struct error *err)
{
    struct text usage;
    bool few = out->operand_count < (size_t)command->least;

    if (!few && (command->most < 0 || out->operand_count <= (size_t)command->most))
        return true;
    text_init(&usage, 0);
    add_name(&usage, program, command);
    if (command->operands[0])
        text_addf(&usage, " %s", command->operands);
    if (few)
        error_set(err, ERROR_USAGE, "something is missing: %s", usage.data);
    else
        error_set(err, ERROR_USAGE, "%s is too much: %s", out->operands[command->most],
                  usage.data);
    text_clear(&usage);
    return false;
}

/* Numbers that 0 may be given for. */
static void not_given(struct options *out)
{
    for (int id = 0; id < OPTION_IDS; id++) {
        void *field = (char *)out + rows[id].into;

        if (rows[id].kind == OPTION_IS_NUMBER && id != OPTION_RANK)
            *(int64_t *)field = -1;
        if (rows[id].kind == OPTION_IS_REAL)
            *(double *)field = -1;
    }
}

bool options_read(int argc, char **argv, const char *program,
                  const struct command *command, struct options *out, struct error *err)
{
    struct getopt_table table;
    int got;

    *out = (struct options) { .program = program, .command = command };
    not_given(out);
    getopt_fill(command, &table);
    opterr = 0;
    optind = 0; /* glibc: begin anew */
    while ((got = getopt_long(argc, argv, table.shorts, table.longs, NULL)) != -1) {
        const struct option_row *row = row_of(got);

        if (got == ':')
            return refuse(program, command, "a value is missing behind ",
                          argv[optind - 1], err);
        if (got == '?' || !row)
            return refuse_option(program, command, argv[optind - 1], err);
        if (!option_store(row, optarg, out, err))
            return false;
    }
    out->operands = (const char *const *)(argv + optind);
    out->operand_count = (size_t)(argc - optind);
    return out->help || out->version || count_operands(program, command, out, err);
}

void options_clear(struct options *options)
{
    free((void *)options->set);
    free((void *)options->select);
    free((void *)options->ignore);
    free((void *)options->prompt);
    free((void *)options->stop);
    options->set = options->select = options->ignore = NULL;
    options->prompt = options->stop = NULL;
}

struct words {
    char **list;
    size_t count;
};

static void words_add(struct words *words, const char *word)
{
    words->list = memory_resize(words->list, words->count + 2, sizeof(*words->list));
    words->list[words->count++] = memory_strdup(word);
    words->list[words->count] = NULL;
}

static void words_pair(struct words *words, const char *name, const char *value)
{
    struct text text;

    text_init(&text, 0);
    text_addf(&text, "--%s=%s", name, value);
    words_add(words, text.data);
    text_clear(&text);
}

static void words_option(struct words *words, const struct option_row *row,
                         const struct options *options)
{
    const void *field = (const char *)options + row->into;
    char number[32];

    switch (row->kind) {
    case OPTION_IS_SWITCH:
        if (*(const bool *)field) {
            snprintf(number, sizeof(number), "--%s", row->name);
            words_add(words, number);
        }
        break;
    case OPTION_IS_TEXT:
        if (*(const char *const *)field)
            words_pair(words, row->name, *(const char *const *)field);
        break;
    case OPTION_IS_NUMBER:
        snprintf(number, sizeof(number), "%" PRId64, *(const int64_t *)field);
        if (*(const int64_t *)field >= 0)
            words_pair(words, row->name, number);
        break;
    case OPTION_IS_REAL:
        snprintf(number, sizeof(number), "%.17g", *(const double *)field);
        if (*(const double *)field >= 0)
            words_pair(words, row->name, number);
        break;
    case OPTION_IS_LIST:
        for (const char *const *at = *(const char *const *const *)field; at && *at; at++)
            words_pair(words, row->name, *at);
        break;
    }
}

char **options_words(const struct options *options, const struct command *command,
                     const char *program, const char *first)
{
    struct words words = { 0 };

    words_add(&words, program);
    if (first)
        words_add(&words, first);
    for (int id = 0; id < OPTION_IDS; id++)
        if (option_taken(command, (enum option_id)id))
            words_option(&words, &rows[id], options);
    words_add(&words, "--");
    for (size_t i = 0; i < options->operand_count; i++)
        words_add(&words, options->operands[i]);
    return words.list;
}

void options_usage(const char *program, const struct command *command, struct text *out)
{
    text_adds(out, "usage: ");
    add_name(out, program, command);
    text_adds(out, " [options]");
    if (command->operands[0])
        text_addf(out, " %s", command->operands);
    text_addc(out, '\n');
}

void options_wrap(const char *text, size_t indent, size_t width, struct text *out)
{
    size_t column = 0;

    while (*text) {
        size_t word = strcspn(text, " \n");

        if (column > 0 && column + 1 + word > width) {
            text_addc(out, '\n');
            column = 0;
        }
        if (word > 0) {
            text_addf(out, "%*s", column ? 1 : (int)indent, "");
            text_add(out, text, word);
            column += word + (column ? 1 : indent);
        }
        text += word;
        if (*text == '\n') {
            text_addc(out, '\n');
            column = 0;
        }
        text += *text != 0;
    }
    if (column > 0)
        text_addc(out, '\n');
}

static void help_row(const struct option_row *row, struct text *out)
{
    struct text wrapped;
    size_t start = out->len, used;

    text_addf(out, row->letter ? "  -%c, " : "      ", row->letter);
    text_addf(out, "--%s", row->name);
    if (row->argument)
        text_addf(out, " %s", row->argument);
    used = out->len - start;
    text_init(&wrapped, 0);
    options_wrap(row->help, HELP_COLUMN, HELP_WIDTH, &wrapped);
    if (used + 1 < HELP_COLUMN) /* the first line goes on behind the name */
        text_addf(out, "%*s%s", (int)(HELP_COLUMN - used), "",
                  wrapped.data + HELP_COLUMN);
    else
        text_addf(out, "\n%s", wrapped.data);
    text_clear(&wrapped);
}

void options_help(const char *program, const struct command *command, struct text *out)
{
    struct text first;

    options_usage(program, command, out);
    text_addc(out, '\n');
    text_init(&first, 0);
    text_addf(&first, "%c%s.", toupper((unsigned char)command->help[0]),
              command->help + 1);
    options_wrap(first.data, 0, HELP_WIDTH, out);
    text_clear(&first);
    if (command->more) {
        text_addc(out, '\n');
        options_wrap(command->more, 0, HELP_WIDTH, out);
    }
    text_adds(out, "\noptions:\n");
    for (int id = 0; id < OPTION_IDS; id++)
        if (option_taken(command, (enum option_id)id))
            help_row(&rows[id], out);
}
